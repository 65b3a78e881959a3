//! An answer: its contents, and how its bytes are sent.

use std::io::{self, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::{Content, Request};

/// The number of bytes that are written at once, unless an answer is slower.
const CHUNK: u64 = 64 << 10;

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum Body {
    /// A range of bytes of a content.
    Part(Content, Range<u64>),
    /// These bytes, repeated until the client hangs up.
    Endless(Arc<[u8]>),
}

/// An answer. Each method changes one property of a correct answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    /// The `Content-Length` to send instead of the body's length; `Some(None)` to send none.
    claimed_length: Option<Option<u64>>,
    chunked: bool,
    cut_after: Option<u64>,
    stall_after: Option<u64>,
    pace: Option<(u64, Duration)>,
    delay: Duration,
    /// In place of the status line and the headers.
    raw_head: Option<String>,
}

impl Answer {
    /// An answer without a body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::body(status, Body::Part(Vec::new().into(), 0..0))
    }

    /// An answer with a range of bytes of a content.
    #[must_use]
    pub fn content(status: u16, content: impl Into<Content>, range: Range<u64>) -> Self {
        Self::body(status, Body::Part(content.into(), range))
    }

    /// An answer with these bytes.
    #[must_use]
    pub fn bytes(status: u16, bytes: impl Into<Vec<u8>>) -> Self {
        let content = Content::from(bytes);
        let length = content.length();
        Self::content(status, content, 0..length)
    }

    /// An answer whose body repeats `pattern` for ever. Without [`chunked`](Self::chunked) or
    /// [`claiming`](Self::claiming) only the end of the connection ends the body.
    #[must_use]
    pub fn endless(status: u16, pattern: impl Into<Arc<[u8]>>) -> Self {
        Self::body(status, Body::Endless(pattern.into()))
    }

    /// This text without any HTTP; then the connection ends.
    #[must_use]
    pub fn raw(text: impl Into<String>) -> Self {
        Self::status(0).with_raw_head(text)
    }

    /// A redirect to `location`.
    #[must_use]
    pub fn redirect(status: u16, location: impl Into<String>) -> Self {
        Self::status(status).header("Location", location)
    }

    fn body(status: u16, body: Body) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
            claimed_length: None,
            chunked: false,
            cut_after: None,
            stall_after: None,
            pace: None,
            delay: Duration::ZERO,
            raw_head: None,
        }
    }

    /// Sets a header; replaces one of the same name.
    #[must_use]
    pub fn header(self, name: &str, value: impl Into<String>) -> Self {
        let mut answer = self.without_header(name);
        answer.headers.push((name.to_owned(), value.into()));
        answer
    }

    /// Removes a header.
    #[must_use]
    pub fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Sends this text in place of the status line and the headers; the connection ends after the body.
    #[must_use]
    pub fn with_raw_head(self, text: impl Into<String>) -> Self {
        Self { raw_head: Some(text.into()), ..self }
    }

    /// Sends this `Content-Length`, whatever the length of the body; then the connection ends.
    #[must_use]
    pub fn claiming(self, length: u64) -> Self {
        Self { claimed_length: Some(Some(length)), ..self }
    }

    /// Sends no `Content-Length`: the end of the connection ends the body.
    #[must_use]
    pub fn without_length(self) -> Self {
        Self { claimed_length: Some(None), ..self }
    }

    /// Replaces the body by zeros.
    #[must_use]
    pub fn with_zeros(mut self) -> Self {
        if let Body::Part(_, range) = &self.body {
            let length = usize::try_from(range.end - range.start).unwrap();
            self.body = Body::Part(vec![0; length].into(), 0..length as u64);
        }
        self
    }

    /// Makes the body endless, and sends no `Content-Length`.
    #[must_use]
    pub fn endlessly(self) -> Self {
        Self { body: Body::Endless((*b"and so on, ").into()), ..self }.without_length()
    }

    /// Sends the body in chunks of HTTP/1.1, without a `Content-Length`.
    #[must_use]
    pub fn chunked(self) -> Self {
        Self { chunked: true, ..self }
    }

    /// Ends the connection after `n_bytes` of the body.
    #[must_use]
    pub fn cut_after(self, n_bytes: u64) -> Self {
        Self { cut_after: Some(n_bytes), ..self }
    }

    /// Sends nothing after `n_bytes` of the body, but keeps the connection open.
    #[must_use]
    pub fn stall_after(self, n_bytes: u64) -> Self {
        Self { stall_after: Some(n_bytes), ..self }
    }

    /// Sends `n_bytes` of the body at a time, with a pause after each part.
    #[must_use]
    pub fn paced(self, n_bytes: u64, pause: Duration) -> Self {
        Self { pace: Some((n_bytes, pause)), ..self }
    }

    /// Delays the head by this time.
    #[must_use]
    pub fn delayed(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Sends the answer. Returns whether the connection can be used again.
    pub(super) fn send(&self, request: &Request, connection: &TcpStream, written: &dyn Fn(u64)) -> bool {
        std::thread::sleep(self.delay);
        self.try_send(request, connection, written).unwrap_or(false)
    }

    fn try_send(&self, request: &Request, mut connection: &TcpStream, written: &dyn Fn(u64)) -> io::Result<bool> {
        let length = match &self.body {
            Body::Part(_, range) => Some(range.end - range.start),
            Body::Endless(_) => None,
        };
        let claimed = if self.chunked { None } else { self.claimed_length.unwrap_or(length) };
        let keep = self.raw_head.is_none() && (self.chunked || (claimed.is_some() && claimed == length));
        let head = self.raw_head.clone().unwrap_or_else(|| self.head(claimed, keep));
        connection.write_all(head.as_bytes())?;
        if request.method == "HEAD" || self.status == 304 {
            return Ok(keep);
        }
        let mut sent = 0;
        let mut buffer = Vec::new();
        let (step, pause) = self.pace.unwrap_or((CHUNK, Duration::ZERO));
        loop {
            if self.stall_after.is_some_and(|limit| sent >= limit) {
                wait_for_hang_up(connection);
                return Ok(false);
            }
            if self.cut_after.is_some_and(|limit| sent >= limit) {
                return Ok(false);
            }
            let limits = [length, self.stall_after, self.cut_after].into_iter().flatten();
            let n_bytes = limits.fold(step, |least, limit| least.min(limit.saturating_sub(sent)));
            if n_bytes == 0 {
                break;
            }
            buffer.resize(usize::try_from(n_bytes).unwrap(), 0);
            match &self.body {
                Body::Part(content, range) => content.read_at(&mut buffer, range.start + sent),
                Body::Endless(pattern) => repeat(pattern, sent, &mut buffer),
            }
            if self.chunked {
                connection.write_all(format!("{n_bytes:x}\r\n").as_bytes())?;
            }
            connection.write_all(&buffer)?;
            if self.chunked {
                connection.write_all(b"\r\n")?;
            }
            sent += n_bytes;
            written(n_bytes);
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
        }
        if self.chunked {
            connection.write_all(b"0\r\n\r\n")?;
        }
        Ok(keep)
    }

    fn head(&self, length: Option<u64>, keep: bool) -> String {
        let mut head = format!("HTTP/1.1 {} Status\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if let Some(length) = length.filter(|_| self.status != 304) {
            head += &format!("Content-Length: {length}\r\n");
        }
        if self.chunked {
            head += "Transfer-Encoding: chunked\r\n";
        }
        if !keep {
            head += "Connection: close\r\n";
        }
        head + "\r\n"
    }
}

fn repeat(pattern: &[u8], offset: u64, buffer: &mut [u8]) {
    let start = usize::try_from(offset % pattern.len() as u64).unwrap();
    for (byte, value) in buffer.iter_mut().zip(pattern.iter().cycle().skip(start)) {
        *byte = *value;
    }
}

/// Waits until the client closes the connection, and ignores what it sends until then.
pub(super) fn wait_for_hang_up(mut connection: &TcpStream) {
    let _ = io::copy(&mut connection, &mut io::sink());
}
