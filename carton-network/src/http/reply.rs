//! One answer: its head, compared with the request, and its body as it arrives.

use std::fmt;
use std::time::{Duration, Instant};

use carton_format::url::ShownUrl;
use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderName};

use super::content_range::{ContentRange, inclusive, number};
use super::{CredentialsSent, Extent, NetworkError, NetworkOptions, Part, Request, Version, failure, send};

/// A body that sends fewer bytes than this per idle timeout has stalled. If one byte were enough, a server could keep the client waiting
/// for as many timeouts as the file has bytes.
pub(super) const LEAST_BYTES: u64 = 1 << 10;

/// A longer header counts as missing, because its value is stored and shown. The HTTP library limits all headers together.
const MAX_HEADER: usize = 1 << 10;

/// The answer to a request: its head, and its body as it arrives.
pub struct Reply {
    url: ShownUrl,
    /// `None` if there is no body to read.
    response: Option<reqwest::Response>,
    idle_timeout: Duration,
    extent: Extent,
    version: Version,
    encodings: Vec<String>,
    /// Whether the server states that it supports ranges, even if this answer is not one.
    pub(super) accepts_ranges: bool,
    /// The number of bytes of the body still to come, if known.
    remaining: Option<u64>,
    received: u64,
    pace: Pace,
}

/// The speed of the body. Only time spent waiting counts, not the time that the caller takes to process bytes.
#[derive(Debug, Default)]
struct Pace {
    waited: Duration,
    n_bytes: u64,
}

impl Reply {
    pub(super) fn new(
        url: ShownUrl,
        response: reqwest::Response,
        request: &Request<'_>,
        options: &NetworkOptions,
    ) -> Result<Reply, NetworkError> {
        let reply = Self::of_head(url, response.status(), response.headers(), request, options)?;
        Ok(Reply { response: Some(response), ..reply })
    }

    /// An answer whose body cannot be read.
    pub(super) fn of_head(
        url: ShownUrl,
        status: StatusCode,
        headers: &HeaderMap,
        request: &Request<'_>,
        options: &NetworkOptions,
    ) -> Result<Reply, NetworkError> {
        let content_length = text(headers, header::CONTENT_LENGTH).as_deref().and_then(number);
        let extent = match status {
            StatusCode::PARTIAL_CONTENT => part(&url, headers)?,
            StatusCode::NOT_MODIFIED => Extent::NotModified,
            _ => Extent::Whole,
        };
        let (version, remaining) = match &extent {
            Extent::Whole => (version(headers, content_length), content_length),
            Extent::Part { range, total } => (version(headers, Some(*total)), Some(range.end - range.start)),
            Extent::NotModified => (version(headers, None).or(request.known), Some(0)),
        };
        let reply = Reply {
            extent,
            version,
            encodings: encodings(headers),
            accepts_ranges: text(headers, header::ACCEPT_RANGES)
                .is_some_and(|units| units.eq_ignore_ascii_case("bytes")),
            remaining,
            ..Reply::without_body(url, options)
        };
        reply.check(request, content_length)?;
        Ok(reply)
    }

    /// The answer 416, "range not satisfiable", which is right if the file is empty.
    pub(super) fn of_nothing(
        url: ShownUrl,
        response: reqwest::Response,
        request: &Request<'_>,
        options: &NetworkOptions,
    ) -> Result<Reply, NetworkError> {
        let headers = response.headers();
        let total = match text(headers, header::CONTENT_RANGE).as_deref().and_then(ContentRange::parse) {
            Some(ContentRange::Unsatisfied { total }) => total,
            _ => return Err(send::refusal(url, response.status(), headers, CredentialsSent::None)),
        };
        let reply = Reply {
            extent: Extent::Part { range: 0..0, total },
            version: version(headers, Some(total)),
            remaining: Some(0),
            ..Reply::without_body(url, options)
        };
        reply.check_version(request)?;
        match &request.part {
            Part::Suffix(_) if total == 0 => Ok(reply),
            Part::Range(asked) if asked.start == 0 && total == 0 => Ok(reply),
            Part::Range(asked) if asked.start >= total => {
                Err(reply.answer(format!("bytes {}", inclusive(asked)), format!("a file of {total} bytes")))
            }
            _ => Err(send::refusal(reply.url, response.status(), headers, CredentialsSent::None)),
        }
    }

    fn without_body(url: ShownUrl, options: &NetworkOptions) -> Reply {
        Reply {
            url,
            response: None,
            idle_timeout: options.idle_timeout,
            extent: Extent::Whole,
            version: Version { etag: None, last_modified: None, length: None },
            encodings: Vec::new(),
            accepts_ranges: false,
            remaining: None,
            received: 0,
            pace: Pace::default(),
        }
    }

    /// The part of the file that the answer holds.
    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// The version of the file.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The content encodings of the body, in the order they were applied; empty if there are none. Some servers store files compressed
    /// and send them so, whatever the request says.
    pub fn encodings(&self) -> &[String] {
        &self.encodings
    }

    /// The number of bytes of the body still to come, if known.
    pub fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    /// The next piece of the body; `None` at its end. Never returns more bytes than the server announced.
    ///
    /// # Errors
    /// The connection breaks, the server stalls, the body ends early.
    pub async fn chunk(&mut self) -> Result<Option<bytes::Bytes>, NetworkError> {
        let Some(response) = self.response.as_mut().filter(|_| self.remaining != Some(0)) else { return Ok(None) };
        let expected = self.remaining.map(|remaining| remaining.saturating_add(self.received));
        let begin = Instant::now();
        let next = tokio::time::timeout(self.idle_timeout.saturating_sub(self.pace.waited), response.chunk()).await;
        let mut chunk = match next {
            Err(_) => {
                let (url, after) = (self.url.clone(), self.idle_timeout);
                return Err(NetworkError::Stalled { url, after, found: self.pace.n_bytes });
            }
            Ok(Err(error)) => return Err(failure::of_body(self.url.clone(), error, expected, self.received)),
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => {
                return match expected {
                    Some(expected) => Err(NetworkError::Cut { url: self.url.clone(), expected, found: self.received }),
                    None => Ok(None),
                };
            }
        };
        if let Some(remaining) = &mut self.remaining {
            chunk.truncate(usize::try_from(*remaining).unwrap_or(usize::MAX));
            *remaining -= chunk.len() as u64;
        }
        self.received += chunk.len() as u64;
        self.pace.waited += begin.elapsed();
        self.pace.n_bytes += chunk.len() as u64;
        if self.pace.n_bytes >= LEAST_BYTES {
            self.pace = Pace::default();
        }
        Ok(Some(chunk))
    }

    /// Compares the answer with the request.
    fn check(&self, request: &Request<'_>, content_length: Option<u64>) -> Result<(), NetworkError> {
        if self.extent == Extent::NotModified {
            return match request.known {
                Some(_) => Ok(()),
                None => Err(self.answer("the file".to_owned(), "that it was not modified".to_owned())),
            };
        }
        self.check_version(request)?;
        if !self.encodings.is_empty() && !request.accept_encoded && request.part != Part::Whole {
            let found = format!("the file encoded as {}, which has other bytes", self.encodings.join(", "));
            return Err(self.answer("bytes of the file as it is".to_owned(), found));
        }
        let Extent::Part { range, total } = &self.extent else { return Ok(()) };
        let asked = match &request.part {
            Part::Range(asked) => asked.start..asked.end.min(*total),
            Part::Suffix(length) => total.saturating_sub(*length)..*total,
            Part::Whole => return Err(self.answer("the whole file".to_owned(), format!("bytes {}", inclusive(range)))),
        };
        if *range != asked {
            let found = format!("bytes {} of {total}", inclusive(range));
            return Err(self.answer(format!("bytes {}", inclusive(&asked)), found));
        }
        match content_length.filter(|length| *length != range.end - range.start) {
            Some(length) => Err(self.answer(
                format!("{} bytes for bytes {}", range.end - range.start, inclusive(range)),
                format!("a Content-Length of {length}"),
            )),
            None => Ok(()),
        }
    }

    fn check_version(&self, request: &Request<'_>) -> Result<(), NetworkError> {
        match request.version.filter(|expected| expected.differs(&self.version)) {
            Some(expected) => {
                let (expected, found) = (expected.to_string(), self.version.to_string());
                Err(NetworkError::Changed { url: self.url.clone(), expected, found })
            }
            None => Ok(()),
        }
    }

    fn answer(&self, expected: String, found: String) -> NetworkError {
        NetworkError::Answer { url: self.url.clone(), expected, found }
    }
}

impl fmt::Debug for Reply {
    /// Leaves out the response, whose `Debug` form shows its URL.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Reply")
            .field("url", &self.url)
            .field("extent", &self.extent)
            .field("version", &self.version)
            .field("encodings", &self.encodings)
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

/// The part that an answer 206 holds.
fn part(url: &ShownUrl, headers: &HeaderMap) -> Result<Extent, NetworkError> {
    let answer =
        |expected: &str, found| NetworkError::Answer { url: url.clone(), expected: expected.to_owned(), found };
    let media_type = text(headers, header::CONTENT_TYPE).unwrap_or_default();
    if media_type.to_ascii_lowercase().starts_with("multipart/byteranges") {
        return Err(answer("one range", "several, as multipart/byteranges".to_owned()));
    }
    match text(headers, header::CONTENT_RANGE) {
        None => Err(answer("a Content-Range", "none".to_owned())),
        Some(found) => match ContentRange::parse(&found) {
            Some(ContentRange::Part { range, total }) => Ok(Extent::Part { range, total }),
            _ => Err(answer("a Content-Range with bytes and a length", format!("`{found}`"))),
        },
    }
}

fn version(headers: &HeaderMap, length: Option<u64>) -> Version {
    Version { etag: text(headers, header::ETAG), last_modified: text(headers, header::LAST_MODIFIED), length }
}

/// The value of a header, if it is text of acceptable length.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .filter(|text| (1..=MAX_HEADER).contains(&text.len()))
        .map(str::to_owned)
}

/// The content encodings that an answer states, in the order they were applied, in lower case.
pub(super) fn encodings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| !name.is_empty() && name != "identity").collect()
}
