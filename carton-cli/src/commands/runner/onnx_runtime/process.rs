//! Runs a program that may take long, say much, or hang.

use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at a process.
const PAUSE: Duration = Duration::from_millis(20);
/// As much of what a process says is kept, from its end.
const MAX_OUTPUT: usize = 16 << 10;

/// How a process ended.
pub(super) enum Ended {
    Exited { status: ExitStatus, stdout: String, stderr: String },
    TimedOut,
    Interrupted,
}

/// Runs `command` to its end with nothing to read.
pub(super) fn run(command: &mut Command, timeout: Option<Duration>, is_wanted: &dyn Fn() -> bool) -> io::Result<Ended> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let started = Instant::now();
    thread::scope(|scope| {
        let stdout = scope.spawn(|| end_of(stdout));
        let stderr = scope.spawn(|| end_of(stderr));
        loop {
            let early = if timeout.is_some_and(|timeout| started.elapsed() > timeout) {
                Some(Ended::TimedOut)
            } else if !is_wanted() {
                Some(Ended::Interrupted)
            } else {
                None
            };
            if let Some(early) = early {
                child.kill()?;
                child.wait()?;
                return Ok(early);
            }
            if let Some(status) = child.try_wait()? {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
                let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
                return Ok(Ended::Exited { status, stdout: text(stdout), stderr: text(stderr) });
            }
            thread::sleep(PAUSE);
        }
    })
}

/// The last of what comes out of a pipe.
fn end_of(pipe: Option<impl Read>) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    let Some(mut pipe) = pipe else { return kept };
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return kept,
            Ok(n) => {
                kept.extend_from_slice(buffer.get(..n).unwrap_or_default());
                if kept.len() > 2 * MAX_OUTPUT {
                    kept.drain(..kept.len() - MAX_OUTPUT);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return kept,
        }
    }
}
