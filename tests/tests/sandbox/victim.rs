//! A process of the same user that models try to reach (`tests/python/victim.py`).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use serde_json::Value;

use crate::sources::Sources;

/// The variable of its environment that holds the secret.
pub(crate) const SECRET_VARIABLE: &str = "CARTON_TEST_SECRET";

/// A running victim. It ends when this is dropped.
pub(crate) struct Victim {
    process: Child,
    pipes: Mutex<(Option<ChildStdin>, BufReader<ChildStdout>)>,
    /// Where its secrets and its sockets are.
    pub(crate) places: Value,
}

impl Victim {
    /// Starts one in `folder`.
    pub(crate) fn start(sources: &Sources, folder: &Path, secret: &str) -> Self {
        let mut process = Command::new(&sources.python)
            .args(["-IB".as_ref(), sources.victim.as_os_str(), folder.as_os_str(), secret.as_ref()])
            .env(SECRET_VARIABLE, secret)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let places = serde_json::from_str(&line).unwrap();
        Self { process, pipes: Mutex::new((input, output)), places }
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns what has reached it until now, and what was done to it.
    pub(crate) fn state(&self) -> Value {
        let mut pipes = self.pipes.lock().unwrap();
        let input = pipes.0.as_mut().unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
        let mut line = String::new();
        pipes.1.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.pipes.lock().unwrap().0 = None;
        let _ = self.process.wait();
    }
}
