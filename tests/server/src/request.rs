//! A received request.

use std::io::{self, BufRead};
use std::sync::atomic::{AtomicU64, Ordering};

/// A request for a path.
#[derive(Clone, Debug)]
pub struct Request {
    /// The number of earlier requests for this path.
    pub number: usize,
    /// `GET`.
    pub method: String,
    /// Path and query as they were sent.
    pub target: String,
    /// Names (in lower case) and values.
    pub headers: Vec<(String, String)>,
    /// Distinguishes requests of this process.
    pub(super) id: u64,
}

impl Request {
    /// Reads a request; `None` if the client hung up instead.
    pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Self { number: 0, method, target, headers, id }))
    }

    /// The path without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// A header by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns the same request with another value of a header, whose name is given in lower case.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The range of a file of `length` bytes that `Range` requests: from the first byte to one past the last.
    #[must_use]
    pub fn range(&self, length: u64) -> Option<std::ops::Range<u64>> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        if first.is_empty() {
            return Some(length.saturating_sub(last.parse().ok()?)..length);
        }
        let first: u64 = first.parse().ok()?;
        let end = if last.is_empty() { length } else { last.parse::<u64>().ok()?.checked_add(1)?.min(length) };
        (first < end).then_some(first..end)
    }

    /// Whether `Range` requests bytes counted from the end.
    #[must_use]
    pub fn is_suffix(&self) -> bool {
        self.header("range").is_some_and(|range| range.starts_with("bytes=-"))
    }
}
