//! One request and its answer.

use std::ops::Range;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderName};

use super::{NetworkError, NetworkOptions, Part, Request, Version, address};

/// Which part of the file an answer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it, although a part may have been asked for: the server knows no ranges.
    Whole,
    /// These bytes of so many.
    Part {
        /// Which bytes.
        range: Range<u64>,
        /// How many bytes the file has.
        total: u64,
    },
    /// None: the version that is known is still the server's.
    NotModified,
}

/// The answer to a request: its head, and the body as it comes.
#[derive(Debug)]
pub struct Reply {
    url: String,
    response: reqwest::Response,
    idle_timeout: Duration,
    extent: Extent,
    version: Version,
    encodings: Vec<String>,
    /// How many bytes of the body are still to come, where that is known.
    remaining: Option<u64>,
    received: u64,
}

pub(super) fn client(options: &NetworkOptions) -> Result<reqwest::Client, NetworkError> {
    let failed = |error: &dyn std::fmt::Display| NetworkError::internal(format!("cannot set up TLS: {error}"));
    // Fails when the program chose a provider before us, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent(concat!("carton/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(options.idle_timeout)
        .redirect(reqwest::redirect::Policy::limited(options.max_redirects))
        .build()
        .map_err(|error| failed(&error))
}

pub(super) async fn send(
    client: &reqwest::Client,
    options: &NetworkOptions,
    request: &Request<'_>,
) -> Result<Reply, NetworkError> {
    let url = address(request.url);
    let mut builder = client.get(request.url.clone());
    builder = match &request.part {
        Part::Whole => builder,
        Part::Suffix(length) => builder.header(header::RANGE, format!("bytes=-{length}")),
        Part::Range(range) => {
            builder.header(header::RANGE, format!("bytes={}-{}", range.start, range.end.saturating_sub(1)))
        }
    };
    builder = builder.header(
        header::ACCEPT_ENCODING,
        if request.accept_encoded { "identity, zstd;q=0.9, gzip;q=0.8, br;q=0.7, deflate;q=0.6" } else { "identity" },
    );
    if let (Some(validator), true) = (request.version.and_then(Version::if_range), request.part != Part::Whole) {
        builder = builder.header(header::IF_RANGE, validator);
    }
    if let Some(known) = request.known {
        if let Some(etag) = &known.etag {
            builder = builder.header(header::IF_NONE_MATCH, etag);
        } else if let Some(date) = &known.last_modified {
            builder = builder.header(header::IF_MODIFIED_SINCE, date);
        }
    }
    let sent = tokio::time::timeout(options.idle_timeout, builder.send()).await;
    let response = match sent {
        Err(_) => return Err(NetworkError::Stalled { url, after: options.idle_timeout }),
        Ok(Err(error)) if error.is_redirect() => {
            return Err(NetworkError::Redirects { url, limit: options.max_redirects });
        }
        Ok(Err(error)) => {
            return Err(NetworkError::Connection { action: "connect to", url, source: Box::new(error.without_url()) });
        }
        Ok(Ok(response)) => response,
    };
    let headers = response.headers();
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let content_range = text(header::CONTENT_RANGE);
    let extent = match response.status() {
        StatusCode::NOT_MODIFIED => Extent::NotModified,
        StatusCode::PARTIAL_CONTENT => match content_range.as_deref().and_then(parse_content_range) {
            Some((range, total)) => Extent::Part { range, total },
            None => {
                let found = content_range.unwrap_or_else(|| "none".to_owned());
                return Err(NetworkError::Answer { url, expected: "a Content-Range with a length".to_owned(), found });
            }
        },
        StatusCode::OK => Extent::Whole,
        status => {
            let retry_after = text(header::RETRY_AFTER).and_then(|text| text.parse().ok()).map(Duration::from_secs);
            return Err(NetworkError::Status { url, status, retry_after });
        }
    };
    let content_length = text(header::CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
    let encodings = encodings(headers);
    let version = Version {
        etag: text(header::ETAG),
        last_modified: text(header::LAST_MODIFIED),
        length: match &extent {
            Extent::Part { total, .. } => Some(*total),
            _ => content_length,
        },
    };
    let remaining = match &extent {
        Extent::Part { range, .. } => Some(range.end - range.start),
        _ => content_length,
    };
    let reply =
        Reply { url, idle_timeout: options.idle_timeout, extent, version, encodings, remaining, received: 0, response };
    reply.check(request)?;
    Ok(reply)
}

impl Reply {
    /// Which part of the file it has.
    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// The version of the file.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The content encodings of the body, in the order they were applied; none if it is as it is.
    pub fn encodings(&self) -> &[String] {
        &self.encodings
    }

    /// How many bytes of the body are still to come, where that is known.
    pub fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    /// The next piece of the body; none at its end. More bytes than announced are never returned.
    ///
    /// # Errors
    /// The connection breaks, the server stalls, the body ends early.
    pub async fn chunk(&mut self) -> Result<Option<bytes::Bytes>, NetworkError> {
        if self.remaining == Some(0) {
            return Ok(None);
        }
        let url = || self.url.clone();
        let mut chunk = match tokio::time::timeout(self.idle_timeout, self.response.chunk()).await {
            Err(_) => return Err(NetworkError::Stalled { url: url(), after: self.idle_timeout }),
            Ok(Err(error)) => {
                let source = Box::new(error.without_url());
                return Err(NetworkError::Connection { action: "read", url: url(), source });
            }
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => {
                return match self.remaining {
                    Some(remaining) => {
                        let expected = self.received + remaining;
                        Err(NetworkError::Cut { url: url(), expected, found: self.received })
                    }
                    None => Ok(None),
                };
            }
        };
        if let Some(remaining) = &mut self.remaining {
            chunk.truncate(usize::try_from(*remaining).unwrap_or(usize::MAX));
            *remaining -= chunk.len() as u64;
        }
        self.received += chunk.len() as u64;
        Ok(Some(chunk))
    }

    /// Compares the answer with what was asked for.
    fn check(&self, request: &Request<'_>) -> Result<(), NetworkError> {
        let answer = |expected: String, found: String| NetworkError::Answer { url: self.url.clone(), expected, found };
        if !self.encodings.is_empty() && !request.accept_encoded {
            return Err(answer("no content encoding".to_owned(), self.encodings.join(", ")));
        }
        if let Some(expected) = request.version.filter(|expected| expected.differs(&self.version)) {
            let (expected, found) = (expected.to_string(), self.version.to_string());
            return Err(NetworkError::Changed { url: self.url.clone(), expected, found });
        }
        match (&self.extent, &request.part) {
            (Extent::Part { range, total }, Part::Range(asked)) if *range != *asked => Err(answer(
                format!("bytes {}-{}", asked.start, asked.end),
                format!("{}-{} of {total}", range.start, range.end),
            )),
            (Extent::Part { range, total }, Part::Suffix(length))
                if *range != (total.saturating_sub(*length)..*total) =>
            {
                Err(answer(format!("the last {length} bytes"), format!("{}-{} of {total}", range.start, range.end)))
            }
            (Extent::Part { range, .. }, Part::Whole) => {
                Err(answer("the whole file".to_owned(), format!("bytes {}-{}", range.start, range.end)))
            }
            _ => Ok(()),
        }
    }
}

fn encodings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| !name.is_empty() && name != "identity").collect()
}

/// `bytes 0-99/200`: the range, its end behind the last byte, and the length of the file.
fn parse_content_range(text: &str) -> Option<(Range<u64>, u64)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let total: u64 = total.parse().ok()?;
    let range = first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?;
    (range.start < range.end && range.end <= total).then_some((range, total))
}
