//! Sends a request, follows redirects, and returns the first answer that is not one.

use std::time::SystemTime;

use carton_format::url::ShownUrl;
use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap};

use super::content_range::inclusive;
use super::redirect::{Redirects, location};
use super::{CredentialsSent, HttpStatus, Network, NetworkError, Part, Reply, Request, Version, failure, retry_after};

impl Network {
    /// Sends a request once and waits for the head of the answer; the caller retries. Redirects are followed.
    ///
    /// # Errors
    /// [`NetworkError::Offline`]; no connection, or no answer in time; a redirect that may not be followed; a status other than success;
    /// an answer for another part or version than was requested.
    pub async fn send(&self, request: &Request<'_>) -> Result<Reply, NetworkError> {
        let options = self.options();
        let mut redirects = Redirects::new(&request.url.clone().without_user(), options.max_redirects);
        let authorization = options.credentials.find(request.url, || self.machines());
        // The library would take user and password from the URL, and we could then not control to which hop they are sent.
        let mut url = request.url.clone().without_user();
        let mut hops = Vec::new();
        let mut answered_challenge = false;
        loop {
            let shown = url.shown();
            let hop = self.client(&url)?.get(url.expose().clone()).headers(headers(request)?);
            let login = self.registry.as_ref().filter(|login| login.is_for(&url));
            let sent = login.and_then(|login| login.header());
            let (hop, credentials) = match login {
                Some(login) => login.add(hop),
                None => authorization.add(&url, hop)?,
            };
            let response = match tokio::time::timeout(options.idle_timeout, hop.send()).await {
                Err(_) => return Err(NetworkError::Stalled { url: shown, after: options.idle_timeout, found: 0 }),
                Ok(Err(error)) => return Err(failure::of_request(shown, error)),
                Ok(Ok(response)) => response,
            };
            hops.push((url.clone(), response.remote_addr()));
            if let Some(location) = location(response.status(), response.headers()) {
                url = redirects.follow(location.as_bytes())?;
                tracing::debug!("`{shown}` leads to `{}`", url.shown());
                continue;
            }
            match response.status() {
                StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED => {
                    let reply = Reply::new(shown, response, request, options)?;
                    self.note_answer(&hops);
                    return Ok(reply);
                }
                StatusCode::UNAUTHORIZED
                    if !answered_challenge
                        && let Some(login) = login
                        && login.answer(self, &url, response.headers(), sent).await? =>
                {
                    answered_challenge = true;
                }
                StatusCode::RANGE_NOT_SATISFIABLE => return Reply::of_nothing(shown, response, request, options),
                status => return Err(refusal(shown, status, response.headers(), credentials)),
            }
        }
    }
}

/// The error of an answer whose status is not a success.
pub(super) fn refusal(
    url: ShownUrl,
    status: StatusCode,
    headers: &HeaderMap,
    credentials: CredentialsSent,
) -> NetworkError {
    let retry_after = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.and_then(|text| retry_after::parse(text, SystemTime::now()));
    NetworkError::Status { url, status: HttpStatus::of_answer(status), retry_after, credentials }
}

fn headers(request: &Request<'_>) -> Result<HeaderMap, NetworkError> {
    let mut headers = HeaderMap::new();
    let mut set = |name, value: &str| {
        // A stored validator may hold any text: whatever was in a server's header, or was damaged on a disk since.
        let value = value.parse().map_err(|_| NetworkError::internal(format!("`{name}` cannot be {value:?}")))?;
        headers.insert(name, value);
        Ok::<_, NetworkError>(())
    };
    match &request.part {
        Part::Whole => {}
        Part::Suffix(length) => set(header::RANGE, &format!("bytes=-{length}"))?,
        Part::Range(range) if range.is_empty() => return Err(NetworkError::internal("a request for no bytes")),
        Part::Range(range) => set(header::RANGE, &format!("bytes={}", inclusive(range)))?,
    }
    let encodings =
        if request.accept_encoded { "identity, zstd;q=0.9, gzip;q=0.8, br;q=0.7, deflate;q=0.6" } else { "identity" };
    set(header::ACCEPT_ENCODING, encodings)?;
    if let (Some(validator), true) = (request.version.and_then(Version::if_range), request.part != Part::Whole) {
        set(header::IF_RANGE, validator)?;
    }
    if let Some(known) = request.known {
        if let Some(etag) = &known.etag {
            set(header::IF_NONE_MATCH, etag)?;
        } else if let Some(date) = &known.last_modified {
            set(header::IF_MODIFIED_SINCE, date)?;
        }
    }
    Ok(headers)
}
