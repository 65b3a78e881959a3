//! The standard output and standard error of a runner: read without blocking and logged line by line. The last lines are kept.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
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
    tail: Arc<Mutex<Tail>>,
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

    pub(super) fn lines(&self) -> Vec<String> {
        self.0.iter().cloned().collect()
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
        Ok(Self { launching, runner: runner.to_owned(), streams, tail: Arc::default() })
    }

    pub(super) fn runner(&self) -> &str {
        &self.runner
    }

    /// The last lines of standard error, which change while output is read.
    pub(super) fn tail(&self) -> Arc<Mutex<Tail>> {
        Arc::clone(&self.tail)
    }

    /// Returns the streams that have not ended.
    pub(super) fn open(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.streams.iter().map(|stream| stream.descriptor.as_fd())
    }

    /// Reads the available output, logs complete lines, and drops streams that have ended.
    pub(super) fn read(&mut self) {
        let (runner, tail, launching) = (&self.runner, &*self.tail, &mut self.launching);
        self.streams.retain_mut(|stream| stream.read(runner, tail, launching));
    }

    /// Logs the last, unterminated lines. Returns the last lines of standard error, and whether all of it is the launcher's.
    pub(super) fn into_tail(mut self) -> (Vec<String>, bool) {
        for stream in &mut self.streams {
            stream.end_line(&self.runner, &self.tail, &mut self.launching);
        }
        (self.tail.lock().lines(), self.launching.is_some())
    }
}

impl Stream {
    /// Reads the available output. Returns `false` if the stream has ended.
    fn read(&mut self, runner: &str, tail: &Mutex<Tail>, launching: &mut Option<watch::Sender<bool>>) -> bool {
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

    fn end_line(&mut self, runner: &str, tail: &Mutex<Tail>, launching: &mut Option<watch::Sender<bool>>) {
        if self.line.is_empty() {
            return;
        }
        let line = shown(String::from_utf8_lossy(&self.line).trim_end());
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
            tail.lock().push(line);
        }
    }
}

/// Escapes the characters that could manipulate a terminal which shows the log, or show the line as another one: control and format characters.
fn shown(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for c in line.chars() {
        if c != '\t' && (c.is_control() || is_format(c)) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a character is invisible and changes how others are shown: the general category `Cf` of Unicode 17, and the separators of lines and
/// paragraphs.
fn is_format(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2064}'
            | '\u{2066}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0001}'
            | '\u{e0020}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_show_what_they_are() {
        let check = |line: &str, expected: &str| assert_eq!(shown(line), expected);
        check("grüße, 世界\t🙂", "grüße, 世界\t🙂");
        check("\u{1b}[2J", "\\u{1b}[2J");
        check("a\rb", "a\\u{d}b");
        check("no\u{202e}txt.exe", "no\\u{202e}txt.exe");
        check("\u{2066}a\u{2069}\u{200b}\u{feff}", "\\u{2066}a\\u{2069}\\u{200b}\\u{feff}");
        // Read by people who see no tags, and by programs that do.
        check("a\u{e0041}", "a\\u{e0041}");
    }
}
