//! What the fuzz targets need of this module's parsers. Callers get at them only by a request, which is too slow for fuzzing and
//! needs a server. `cargo fuzz` alone sets `cfg(fuzzing)`, so that this is no part of the API.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::{Credentials, NetrcFile, NetworkError, NetworkOptions, Reply, Request, address, retry_after as wait};

/// The answer to `request` with this head and no body. Headers that HTTP cannot have are left out, as no server's answer has them.
///
/// # Errors
/// The answer is not one to this request.
pub fn reply(status: u16, headers: &[(String, Vec<u8>)], request: &Request<'_>) -> Result<Reply, NetworkError> {
    let headers: HeaderMap = headers
        .iter()
        .filter_map(|(name, value)| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
        })
        .collect();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    Reply::of_head(address(request.url), status, &headers, request, &NetworkOptions::default())
}

/// How long a `Retry-After` asks to wait from `now` on.
pub fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    wait::parse(text, now)
}

/// The number of logins in the netrc file at `path`.
pub fn netrc(path: PathBuf) -> usize {
    Credentials { netrc: Some(NetrcFile { path, named: true }), ..Credentials::default() }.machines().len()
}
