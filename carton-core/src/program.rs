//! Runs a program that may take long, print much, hang, or leave processes behind that keep its output open.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use carton_tensor::context::CancelToken;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

/// The longest interval between two checks of a process. Processes that end soon are checked more often.
const MAX_PAUSE: Duration = Duration::from_millis(20);
/// How long to wait for the output of a process that has ended: another process that it left behind may keep the pipe open.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The number of bytes that are kept from the end of a process's output.
const MAX_OUTPUT: usize = 16 << 10;

/// How a process ended.
#[derive(Debug)]
pub enum Ended {
    /// It ended by itself. Contains the end of its output, without surrounding white space.
    Exited { status: ExitStatus, stdout: String, stderr: String },
    /// It was killed after the timeout.
    TimedOut,
    /// It was killed because the work was cancelled.
    Interrupted,
}

/// Runs `command` to its end, with empty standard input.
///
/// # Errors
/// The process cannot be started, or cannot be waited for.
pub fn run(command: &mut Command, timeout: Option<Duration>, cancel_token: &CancelToken) -> io::Result<Ended> {
    // In a group of its own, so that what it starts can be ended with it.
    command.process_group(0);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (Output::of(child.stdout.take()), Output::of(child.stderr.take()));
    let started = Instant::now();
    loop {
        let early = if timeout.is_some_and(|timeout| started.elapsed() > timeout) {
            Some(Ended::TimedOut)
        } else if cancel_token.is_cancelled() {
            Some(Ended::Interrupted)
        } else {
            None
        };
        if let Some(early) = early {
            kill_group(&child)?;
            child.wait()?;
            return Ok(early);
        }
        if let Some(status) = child.try_wait()? {
            let until = Instant::now() + LAST_WORDS;
            return Ok(Ended::Exited { status, stdout: stdout.end(until), stderr: stderr.end(until) });
        }
        thread::sleep((started.elapsed() / 16).clamp(Duration::from_millis(1), MAX_PAUSE));
    }
}

/// Kills a process that has not been waited for, and those of its group.
fn kill_group(child: &Child) -> io::Result<()> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let group = group.ok_or_else(|| io::Error::other("the process has no number"))?;
    match kill_process_group(group, Signal::KILL) {
        // None of them has a process any more.
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The end of a pipe's output, read on a separate thread: a full pipe must not block the program, and a pipe that is never closed must
/// not block the caller.
struct Output {
    kept: Arc<Mutex<Vec<u8>>>,
    /// Gets a message, or is closed, when the pipe is closed.
    is_over: Receiver<()>,
}

impl Output {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (sender, is_over) = mpsc::channel();
        if let Some(pipe) = pipe {
            let kept = Arc::clone(&kept);
            thread::spawn(move || {
                keep_end(pipe, &kept);
                let _ = sender.send(());
            });
        }
        Self { kept, is_over }
    }

    fn end(self, until: Instant) -> String {
        let _ = self.is_over.recv_timeout(until.saturating_duration_since(Instant::now()));
        let kept = self.kept.lock();
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}

fn keep_end(mut pipe: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => {
                let mut kept = kept.lock();
                kept.extend_from_slice(buffer.get(..n).unwrap_or_default());
                if kept.len() > 2 * MAX_OUTPUT {
                    let excess = kept.len() - MAX_OUTPUT;
                    kept.drain(..excess);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used)]

    use super::*;

    /// Runs a shell script. Returns how it ended, and whether that was soon.
    fn sh(script: &str, timeout: Option<Duration>, cancel_token: &CancelToken) -> (Ended, bool) {
        let started = Instant::now();
        let ended = run(Command::new("sh").args(["-c", script]), timeout, cancel_token).unwrap();
        (ended, started.elapsed() < Duration::from_secs(10))
    }

    #[test]
    fn the_end_of_what_a_program_says_is_kept() {
        let (ended, _) =
            sh("yes line | head -n 100000; echo last; echo error >&2; exit 3", None, &CancelToken::default());
        let Ended::Exited { status, stdout, stderr } = ended else { panic!("{ended:?}") };
        assert_eq!((status.code(), stderr.as_str()), (Some(3), "error"));
        assert!(stdout.ends_with("line\nlast") && stdout.len() <= 2 * MAX_OUTPUT, "{} bytes", stdout.len());
    }

    #[test]
    fn nobody_waits_for_what_a_program_leaves_behind() {
        let (ended, is_soon) = sh("sleep 30 & echo done", None, &CancelToken::default());
        assert!(matches!(ended, Ended::Exited { ref stdout, .. } if stdout == "done") && is_soon, "{ended:?}");
        let cancel_token = CancelToken::default();
        let canceller = cancel_token.clone();
        let cancelling = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            canceller.cancel();
        });
        let folder = tempfile::tempdir().unwrap();
        let script = format!("sleep 30 & echo $! > {}/child; wait", folder.path().display());
        let (ended, is_soon) = sh(&script, None, &cancel_token);
        cancelling.join().unwrap();
        assert!(matches!(ended, Ended::Interrupted) && is_soon, "{ended:?}");
        // Killed too. Its number is free, or it waits for its new parent. It ends when the system lets it run again.
        let child = std::fs::read_to_string(folder.path().join("child")).unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        let is_over = |stat: &str| stat.is_empty() || stat.contains(") Z ");
        let since = Instant::now();
        while !is_over(&stat()) && since.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(is_over(&stat()), "{}", stat());
        let (ended, is_soon) = sh("sleep 30 & wait", Some(Duration::from_millis(300)), &CancelToken::default());
        assert!(matches!(ended, Ended::TimedOut) && is_soon, "{ended:?}");
    }
}
