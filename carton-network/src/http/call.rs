//! Requests with any method and body, and their answers with any status: those of a registry's protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use carton_format::url::Url;
pub(crate) use reqwest::Method;
use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::read::decoded;
use super::redirect::{Redirects, location};
use super::registry::time_to_store;
use super::reply::{LEAST_BYTES, encodings};
use super::{CredentialsSent, HttpStatus, Network, NetworkError, failure, send};

/// One request of a registry's protocol.
pub(crate) struct Call<'a> {
    /// The method.
    pub method: Method,
    /// The address.
    pub url: &'a Url,
    /// Names in lower case.
    pub headers: &'a [(&'static str, &'a str)],
    /// The body.
    pub body: CallBody,
    /// Whether the call goes without credentials, because it is not known yet whether the connection is to be encrypted.
    pub is_anonymous: bool,
    /// The largest answer that is read, in bytes.
    pub limit: u64,
}

/// The body of a call.
pub(crate) enum CallBody {
    /// These bytes.
    Bytes(Bytes),
    /// This many bytes, which arrive in pieces. Such a call is sent once: a refusal is not answered with a login.
    Stream {
        /// The number of bytes in all pieces.
        length: u64,
        /// The pieces, in order.
        pieces: tokio::sync::mpsc::Receiver<std::io::Result<Bytes>>,
    },
}

/// The answer to a call, whatever its status.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The status of the answer.
    pub status: HttpStatus,
    /// The body of the answer.
    pub body: Vec<u8>,
    url: Url,
    headers: HeaderMap,
    credentials: CredentialsSent,
}

impl Answered {
    /// The value of a header, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The URL that `Location` leads to.
    pub(crate) fn location(&self) -> Option<Url> {
        self.url.join(self.header("location")?).ok()
    }

    /// The URL of the next page of a list, in a `Link` header (RFC 8288); `None` after the last page.
    ///
    /// # Errors
    /// The next page is at another server.
    pub(crate) fn next_page(&self) -> Result<Option<Url>, NetworkError> {
        let links = self.headers.get_all(header::LINK).iter().filter_map(|link| link.to_str().ok());
        let Some(next) = links.filter_map(next_page).next() else { return Ok(None) };
        match self.url.join(next).ok().filter(|next| next.origin() == self.url.origin() && *next != self.url) {
            Some(next) => Ok(Some(next.without_user())),
            None => Err(NetworkError::Answer {
                url: self.url.shown(),
                expected: "the next page at the same server".to_owned(),
                found: "a page elsewhere".to_owned(),
            }),
        }
    }

    /// The error that the status means.
    pub(crate) fn refusal(&self) -> NetworkError {
        let status = StatusCode::from_u16(self.status.code()).unwrap_or_default();
        send::refusal(self.url.shown(), status, &self.headers, self.credentials.clone())
    }
}

/// The URL in a `Link` header that leads to the next page.
fn next_page(header: &str) -> Option<&str> {
    let mut rest = header;
    while let Some((url, after)) = rest.split_once('<')?.1.split_once('>') {
        let parameters = after.split('<').next().unwrap_or_default();
        let mut relations = parameters.split([';', ',']).filter_map(|parameter| parameter.trim().strip_prefix("rel="));
        if relations.any(|names| names.trim_matches('"').split(' ').any(|name| name.eq_ignore_ascii_case("next"))) {
            return Some(url);
        }
        rest = after;
    }
    None
}

impl Network {
    /// Reads an answer once, whatever its status; the caller retries.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub(crate) async fn get(
        &self,
        url: &Url,
        headers: &[(&'static str, &str)],
        limit: u64,
    ) -> Result<Answered, NetworkError> {
        let body = CallBody::Bytes(Bytes::new());
        self.call(Call { method: Method::GET, url, headers, body, is_anonymous: false, limit }).await
    }

    /// Makes a call once; the caller retries. Redirects of a GET are followed. A registry's challenge is answered.
    ///
    /// A network with the login of a registry sends no credentials to other servers: a registry chooses the URLs of uploads and of further
    /// pages, and must not choose who gets the user's logins.
    ///
    /// # Errors
    /// [`NetworkError::Offline`]; no connection, or no answer in time; a redirect that may not be followed; an answer beyond the limit. A
    /// status is no error.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Answered, NetworkError> {
        let (bytes, mut stream) = match call.body {
            CallBody::Bytes(bytes) => (bytes, None),
            CallBody::Stream { length, pieces } => (Bytes::new(), Some((length, pieces))),
        };
        // reqwest turns a user in the URL into an `Authorization` header.
        let mut url = call.url.clone().without_user();
        let mut redirects = Redirects::new(&url, self.options().max_redirects);
        let usual = self.options().credentials.find(call.url, || self.machines());
        let mut answered_challenge = stream.is_some();
        let mut hops = Vec::new();
        loop {
            let request = self.client(&url)?.request(call.method.clone(), url.expose().clone());
            let request = request.headers(headers(call.headers)?);
            let login = self.registry.as_ref().filter(|login| login.is_for(&url));
            let sent = login.and_then(|login| login.header());
            let (request, credentials) = match (login, &self.registry) {
                (Some(login), _) => login.add(request),
                (None, Some(_)) => (request, CredentialsSent::Redirected),
                (None, None) if call.is_anonymous => (request, CredentialsSent::None),
                (None, None) => usual.add(&url, request)?,
            };
            let response = match stream.take() {
                Some((length, pieces)) => self.stream(&url, request, length, pieces).await?,
                None => {
                    let has_body = matches!(call.method, Method::POST | Method::PUT);
                    let request = if has_body { request.body(bytes.clone()) } else { request };
                    self.in_time(&url, request.send()).await?
                }
            };
            hops.push((url.clone(), response.remote_addr()));
            if response.status() == StatusCode::UNAUTHORIZED
                && !answered_challenge
                && let Some(login) = login
                && login.answer(self, &url, response.headers(), sent).await?
            {
                answered_challenge = true;
                continue;
            }
            if call.method == Method::GET
                && let Some(location) = location(response.status(), response.headers())
            {
                url = redirects.follow(location.as_bytes())?;
                continue;
            }
            if response.status().is_success() {
                self.note_answer(&hops);
            }
            // The headers of an answer to HEAD speak of a body that does not come.
            let limit = (call.method != Method::HEAD).then_some(call.limit);
            return self.read_answer(&url, response, credentials, limit).await;
        }
    }

    /// Sends a request with a body that arrives in pieces, and waits as long as it goes on.
    async fn stream(
        &self,
        url: &Url,
        request: reqwest::RequestBuilder,
        length: u64,
        pieces: tokio::sync::mpsc::Receiver<std::io::Result<Bytes>>,
    ) -> Result<reqwest::Response, NetworkError> {
        let sent = Arc::new(AtomicU64::new(0));
        let body = reqwest::Body::wrap(Pieces { pieces, left: length, sent: Arc::clone(&sent) });
        let request = request.header(header::CONTENT_LENGTH, length).body(body).send();
        tokio::pin!(request);
        let timeout = self.options().idle_timeout;
        let (mut before, mut since) = (0, tokio::time::Instant::now());
        loop {
            match tokio::time::timeout(timeout.min(Duration::from_secs(1)), &mut request).await {
                Ok(result) => return result.map_err(|error| failure::of_request(url.shown(), error)),
                Err(_) => {
                    let now = sent.load(Ordering::Relaxed);
                    let patience = if now == length { time_to_store(timeout, length) } else { timeout };
                    match now > before {
                        true => (before, since) = (now, tokio::time::Instant::now()),
                        false if since.elapsed() < patience => {}
                        false => return Err(NetworkError::Stalled { url: url.shown(), after: patience, found: 0 }),
                    }
                }
            }
        }
    }

    async fn in_time(
        &self,
        url: &Url,
        request: impl Future<Output = Result<reqwest::Response, reqwest::Error>>,
    ) -> Result<reqwest::Response, NetworkError> {
        let after = self.options().idle_timeout;
        match tokio::time::timeout(after, request).await {
            Err(_) => Err(NetworkError::Stalled { url: url.shown(), after, found: 0 }),
            Ok(result) => result.map_err(|error| failure::of_request(url.shown(), error)),
        }
    }

    /// Reads the body of an answer; none where there is no limit.
    async fn read_answer(
        &self,
        url: &Url,
        mut response: reqwest::Response,
        credentials: CredentialsSent,
        limit: Option<u64>,
    ) -> Result<Answered, NetworkError> {
        let (status, headers) = (HttpStatus::of_answer(response.status()), response.headers().clone());
        let Some(limit) = limit else {
            return Ok(Answered { status, body: Vec::new(), url: url.clone(), headers, credentials });
        };
        let too_large = || NetworkError::TooLarge { url: url.shown(), limit };
        let is_refusal = !response.status().is_success();
        if !is_refusal && response.content_length().is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        let after = self.options().idle_timeout;
        // A server that sends a byte now and then has stalled, too.
        let (mut since, mut before) = (tokio::time::Instant::now(), 0);
        loop {
            let found = body.len() as u64;
            if found - before >= LEAST_BYTES {
                (since, before) = (tokio::time::Instant::now(), found);
            }
            let chunk = tokio::time::timeout_at(since + after, response.chunk()).await;
            let chunk = chunk.map_err(|_| NetworkError::Stalled { url: url.shown(), after, found: found - before })?;
            let Some(chunk) = chunk.map_err(|error| failure::of_body(url.shown(), error, None, found))? else { break };
            if found + chunk.len() as u64 > limit {
                // Keeps only the part of a refusal's body that is within the limit.
                if is_refusal {
                    break;
                }
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        // The body of a refusal may have been cut off.
        let body = if is_refusal { body } else { decoded(url, body, &encodings(&headers), limit)? };
        Ok(Answered { status, body, url: url.clone(), headers, credentials })
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> Result<HeaderMap, NetworkError> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let value = HeaderValue::from_str(value);
        let value = value.map_err(|_| NetworkError::internal(format!("`{name}` cannot have that value")))?;
        headers.append(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

/// A body of known length whose pieces another thread sends.
struct Pieces {
    pieces: tokio::sync::mpsc::Receiver<std::io::Result<Bytes>>,
    left: u64,
    /// The number of bytes that were passed on so far.
    sent: Arc<AtomicU64>,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        use std::task::Poll;
        if self.left == 0 {
            return Poll::Ready(None);
        }
        match std::task::ready!(self.pieces.poll_recv(context)) {
            Some(Ok(piece)) => {
                self.left = self.left.saturating_sub(piece.len() as u64);
                self.sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
                Poll::Ready(Some(Ok(http_body::Frame::data(piece))))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            // The reader of the file has stopped. It reports the reason itself.
            None => Poll::Ready(Some(Err(std::io::ErrorKind::UnexpectedEof.into()))),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found() {
        assert_eq!(next_page("</v2/a/tags/list?last=x&n=2>; rel=\"next\""), Some("/v2/a/tags/list?last=x&n=2"));
        assert_eq!(next_page("</v2/a>; rel=prev, </v2/b>; rel=next"), Some("/v2/b"));
        assert_eq!(next_page("</v2/a>; title=x; rel=\"prev next\""), Some("/v2/a"));
        assert_eq!(next_page("</v2/a>; rel=prev"), None);
        assert_eq!(next_page("</v2/a>; rel=nextish; title=\"rel=next\""), None);
        assert_eq!(next_page("/v2/a"), None);
    }
}
