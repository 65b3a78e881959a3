//! The standard output and standard error of a runner: read without blocking and logged line by line. The last lines are kept.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::sync::watch;

/// The number of last lines of standard error that are kept for the error of a runner that died.
const TAIL_LINES: usize = 20;

/// The longest line in bytes. Longer lines are split.
const MAX_LINE_BYTES: usize = 4096;

/// The number of bytes that are read from one stream before the supervisor checks everything else again.
const MAX_BYTES_AT_ONCE: usize = 1 << 20;

/// The two output streams of one runner.
pub(super) struct Output {
    /// Told when the launcher has started the runner. Until then, standard error is the launcher's, which says what the system does not
    /// enforce.
    launching: Option<watch::Sender<bool>>,
    runner: String,
    streams: Vec<Stream>,
    tail: Tail,
}

struct Stream {
    name: &'static str,
    descriptor: OwnedFd,
    line: Vec<u8>,
}

/// The last lines of standard error.
#[derive(Default)]
pub(super) struct Tail(VecDeque<String>);

impl Tail {
    fn push(&mut self, line: String) {
        if self.0.len() == TAIL_LINES {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.0.into()
    }
}

impl Output {
    pub(super) fn new(
        runner: &str,
        launching: Option<watch::Sender<bool>>,
        stdout: OwnedFd,
        stderr: OwnedFd,
    ) -> io::Result<Self> {
        let mut streams = Vec::new();
        for (name, descriptor) in [("stdout", stdout), ("stderr", stderr)] {
            let flags = rustix::fs::fcntl_getfl(&descriptor)?;
            rustix::fs::fcntl_setfl(&descriptor, flags | rustix::fs::OFlags::NONBLOCK)?;
            streams.push(Stream { name, descriptor, line: Vec::new() });
        }
        Ok(Self { launching, runner: runner.to_owned(), streams, tail: Tail::default() })
    }

    pub(super) fn runner(&self) -> &str {
        &self.runner
    }

    /// Returns the streams that have not ended.
    pub(super) fn open(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.streams.iter().map(|stream| stream.descriptor.as_fd())
    }

    /// Reads the available output, logs complete lines, and drops streams that have ended.
    pub(super) fn read(&mut self) {
        let (runner, tail, launching) = (&self.runner, &mut self.tail, &mut self.launching);
        self.streams.retain_mut(|stream| stream.read(runner, tail, launching));
    }

    /// Logs the last, unterminated lines. Returns the last lines of standard error, and whether all of it is the launcher's.
    pub(super) fn into_tail(mut self) -> (Tail, bool) {
        for stream in &mut self.streams {
            stream.end_line(&self.runner, &mut self.tail, &mut self.launching);
        }
        (self.tail, self.launching.is_some())
    }
}

impl Stream {
    /// Reads the available output. Returns `false` if the stream has ended.
    fn read(&mut self, runner: &str, tail: &mut Tail, launching: &mut Option<watch::Sender<bool>>) -> bool {
        let mut buffer = [0_u8; 8192];
        let mut budget = MAX_BYTES_AT_ONCE;
        while budget > 0 {
            match rustix::io::read(&self.descriptor, &mut buffer) {
                Ok(0) => {
                    self.end_line(runner, tail, launching);
                    return false;
                }
                Ok(n_bytes) => {
                    budget = budget.saturating_sub(n_bytes);
                    for &byte in &buffer[..n_bytes] {
                        if byte == b'\n' || self.line.len() == MAX_LINE_BYTES {
                            self.end_line(runner, tail, launching);
                        }
                        if byte != b'\n' {
                            self.line.push(byte);
                        }
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    fn end_line(&mut self, runner: &str, tail: &mut Tail, launching: &mut Option<watch::Sender<bool>>) {
        if self.line.is_empty() {
            return;
        }
        // Control characters could manipulate a terminal that shows the log.
        let line: String = String::from_utf8_lossy(&self.line)
            .trim_end()
            .chars()
            .map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c })
            .collect();
        self.line.clear();
        if self.name == "stderr"
            && let Some(started) = launching
        {
            if line == carton_sandbox::STARTED {
                started.send_replace(true);
                *launching = None;
                return;
            }
            if let Some(message) = line.strip_prefix(carton_sandbox::MESSAGE_PREFIX) {
                tracing::warn!(target: "carton::sandbox", runner, "sandbox: {message}");
            }
        }
        tracing::info!(target: "carton::runner", runner, stream = self.name, "{line}");
        if self.name == "stderr" {
            tail.push(line);
        }
    }
}
