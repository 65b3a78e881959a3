//! A host in a process of its own: this test's executable, started again. It can be killed, it can have a terminal, and a stack that
//! overflows ends nothing but it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::setting::{Confinement, Setting};

/// Says what the host does, as JSON.
const TASK: &str = "CARTON_TEST_SANDBOX_HOST";
/// The test that is the host.
const TEST: &str = "host::is_the_host_of_another_test";

/// What the host does when the model has made all attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Drops the model, and ends.
    Drops,
    /// Lives until it is killed.
    Waits,
    /// Drops the model, reads what was typed into its terminal, and ends.
    ReadsTerminal,
}

/// Returns the command that starts a host, whose model makes `attempts`.
pub(crate) fn command(confinement: Confinement, attempts: &[(&str, Value)], end: End) -> Command {
    let task = json!({"confinement": format!("{confinement:?}"), "attempts": attempts, "end": format!("{end:?}")});
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", TEST, "--nocapture", "--test-threads=1"]).env(TASK, task.to_string());
    command
}

/// A running host.
pub(crate) struct Host {
    process: Child,
    output: BufReader<ChildStdout>,
    /// The answers to the attempts.
    pub(crate) answers: Vec<String>,
    /// Where the model's process was.
    pub(crate) places: Value,
    /// The temporary folder of the host.
    pub(crate) folder: PathBuf,
}

impl Host {
    /// Starts a host, and waits until its model has made all attempts.
    pub(crate) fn start(confinement: Confinement, attempts: &[(&str, Value)], end: End) -> Self {
        let mut process = command(confinement, attempts, end).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut host = Self { process, output, answers: Vec::new(), places: Value::Null, folder: PathBuf::new() };
        let mut line = String::new();
        while host.output.read_line(&mut line).unwrap() > 0 {
            // The first line follows a part of libtest's own.
            let (kind, text) = parse(&line);
            match kind {
                "places" => host.places = serde_json::from_str(text).unwrap(),
                "folder" => host.folder = text.into(),
                "answer" => host.answers.push(text.to_owned()),
                "ready" => break,
                _ => {}
            }
            line.clear();
        }
        assert!(host.places.is_object(), "the host has not started");
        host
    }

    /// The scratch folder of the model's process.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.places["scratch"].as_str().unwrap().into()
    }

    /// Kills the host, and nothing else.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits until the host has ended. Returns whether it ended without an error.
    pub(crate) fn wait(&mut self) -> bool {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        self.process.wait().unwrap().success()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        remove(&self.folder);
    }
}

/// Deletes a folder however deep it is, and whatever its modes are.
pub(crate) fn remove(path: &Path) {
    for (program, arguments) in [("chmod", ["-R", "u+rwx"].as_slice()), ("rm", ["-rf"].as_slice())] {
        let _ = Command::new(program).args(arguments).arg(path).stderr(Stdio::null()).status();
    }
}

/// Splits a line of a host, which begins with `host: ` and a word.
pub(crate) fn parse(line: &str) -> (&str, &str) {
    let Some((_, text)) = line.trim_end().split_once("host: ") else { return ("", "") };
    text.split_once(' ').unwrap_or((text, ""))
}

/// Waits until `condition` holds. Returns whether it does.
pub(crate) fn holds_soon(condition: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Does nothing, unless another test has started this executable as a host.
#[tokio::test]
async fn is_the_host_of_another_test() {
    let Ok(task) = std::env::var(TASK) else { return };
    let task: Value = serde_json::from_str(&task).unwrap();
    let confinement = Confinement::named(task["confinement"].as_str().unwrap()).unwrap();
    // What most systems give a process. Children inherit it.
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let some = rustix::process::Rlimit { current: Some(1024), ..descriptors };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, some).unwrap();
    let setting = Setting::of(confinement).await.unwrap();
    println!("host: folder {}", setting.place.path().display());
    let model = setting.load(confinement.mode()).await;
    println!("host: places {}", model.places);
    for attempt in task["attempts"].as_array().unwrap() {
        let answer = model.call(attempt[0].as_str().unwrap(), &attempt[1]).await;
        println!("host: answer {}", answer.unwrap_or_else(|error| format!("broken: {error}")));
    }
    println!("host: ready");
    let end = task["end"].as_str().unwrap();
    if end == "Waits" {
        std::thread::sleep(Duration::from_secs(100));
    }
    drop(model);
    if end == "ReadsTerminal" {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits().cast_signed();
        let mut terminal = std::fs::OpenOptions::new().read(true).custom_flags(flags).open("/dev/tty").unwrap();
        // The end of the input that `script` passes on is read as nothing.
        for _ in 0..4 {
            let mut typed = [0; 100];
            let n_bytes = terminal.read(&mut typed).unwrap_or(0);
            println!("host: typed {}", String::from_utf8_lossy(&typed[..n_bytes]));
        }
    }
    // The supervisor deletes the scratch folder on a thread of its own.
    carton_core::runner::end_all(Duration::from_secs(60));
    // What an unconfined model leaves there may be too deep to be deleted here.
    std::mem::forget(setting);
}
