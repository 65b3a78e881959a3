//! Entry points for the fuzz targets of this module's parsers. Other callers reach them only through a request, which needs a server and
//! is too slow for fuzzing. Only `cargo fuzz` sets `cfg(fuzzing)`, so this is not part of the API.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::{Credentials, NetrcFile, NetworkError, NetworkOptions, Reply, Request, retry_after as wait};

/// Parses the answer to `request` with this head and no body. Leaves out headers that HTTP does not allow, because no server's answer can
/// have them.
///
/// # Errors
/// The answer does not fit the request.
pub fn reply(status: u16, headers: &[(String, Vec<u8>)], request: &Request<'_>) -> Result<Reply, NetworkError> {
    let headers: HeaderMap = headers
        .iter()
        .filter_map(|(name, value)| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
        })
        .collect();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    Reply::of_head(request.url.shown(), status, &headers, request, &NetworkOptions::default())
}

/// The waiting time from `now` on that a `Retry-After` asks for.
pub fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    wait::parse(text, now)
}

/// Whether the bytes are a file of logins at registries. Looks for one in it, but asks no program.
pub fn logins(bytes: &[u8]) -> bool {
    super::credentials::find_in_file(bytes, "host", "a/b").is_some()
}

/// Reads a challenge of a registry.
pub fn challenge(bytes: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(bytes) {
        super::registry::challenge(value);
    }
}

/// The number of logins in the netrc file at `path`.
pub fn netrc(path: PathBuf) -> usize {
    Credentials { netrc: Some(NetrcFile::new(path)), ..Credentials::default() }.machines().len()
}
