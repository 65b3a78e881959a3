//! Decides where a redirect leads, and whether it may be followed. Pure.

use carton_format::url::Url;
use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderValue};

use super::NetworkError;

/// The place that an answer leads to; `None` if it is no redirect, or does not say where.
pub(super) fn location(status: StatusCode, headers: &HeaderMap) -> Option<&HeaderValue> {
    let is_redirect = matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    headers.get(header::LOCATION).filter(|_| is_redirect)
}

/// The hops of one request so far.
#[derive(Debug)]
pub(super) struct Redirects {
    seen: Vec<Url>,
    limit: usize,
}

impl Redirects {
    pub(super) fn new(first: &Url, limit: usize) -> Redirects {
        Redirects { seen: vec![first.clone()], limit }
    }

    /// The URL to which `location` leads, which is in the answer of the latest hop. Removes user and password from it: credentials come
    /// from the user, not from a server.
    ///
    /// # Errors
    /// It is not a URL, leads in a circle, from an encrypted connection to an unencrypted one, or to something other than HTTP; or the
    /// limit of redirects is reached.
    pub(super) fn follow(&mut self, location: &[u8]) -> Result<Url, NetworkError> {
        let (Some(first), Some(latest)) = (self.seen.first(), self.seen.last()) else {
            return Err(NetworkError::internal("a redirect without a request"));
        };
        let refuse = |to: String, reason: &'static str| NetworkError::Redirect { url: latest.shown(), to, reason };
        let next = match std::str::from_utf8(location).ok().and_then(|location| latest.join(location.trim()).ok()) {
            Some(next) => next,
            None => return Err(refuse("…".to_owned(), "which is not a URL")),
        };
        match (latest.scheme(), next.scheme()) {
            (_, "https") | ("http", "http") => {}
            ("https", "http") => return Err(refuse(next.to_string(), "which is not encrypted as `https` is")),
            (_, scheme) => return Err(refuse(format!("{scheme}:"), "which is neither `http` nor `https`")),
        }
        let next = next.without_user().without_fragment();
        if self.seen.contains(&next) {
            return Err(refuse(next.to_string(), "which led there: a circle"));
        }
        if self.seen.len() > self.limit {
            return Err(NetworkError::Redirects { url: first.shown(), limit: self.limit });
        }
        self.seen.push(next.clone());
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn follow(from: &str, to: &str) -> Result<String, String> {
        let mut redirects = Redirects::new(&Url::parse(from).unwrap(), 3);
        redirects.follow(to.as_bytes()).map(|url| url.expose_str().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_redirect_never_gives_up_encryption_or_http() {
        let check = |from, to, expected: &str| assert_eq!(follow(from, to).as_deref(), Ok(expected), "{from} {to}");
        check("http://a/x/y", "z", "http://a/x/z");
        check("http://a/x", "https://a/x", "https://a/x");
        check("https://a/x?q=1", "//b:8443/y?r=2", "https://b:8443/y?r=2");
        check("https://a/x", "https://me:secret@b/y#part", "https://b/y");
        let refuse = |from, to, expected: &str| assert_eq!(follow(from, to).unwrap_err(), expected, "{from} {to}");
        refuse(
            "https://a/x?token=secret",
            "http://b/y?token=secret",
            "`https://a/x?…` leads to `http://b/y?…`, which is not encrypted as `https` is",
        );
        refuse(
            "http://a/x",
            "file:///etc/passwd",
            "`http://a/x` leads to `file:`, which is neither `http` nor `https`",
        );
        refuse("http://a/x", "data:secret", "`http://a/x` leads to `data:`, which is neither `http` nor `https`");
        refuse("http://a/x", "http://[", "`http://a/x` leads to `…`, which is not a URL");
    }

    #[test]
    fn circles_and_long_ways_end() {
        let mut redirects = Redirects::new(&Url::parse("http://a/0").unwrap(), 3);
        redirects.follow(b"/1").unwrap();
        let circle = redirects.follow(b"/0#again").unwrap_err();
        assert_eq!(circle.to_string(), "`http://a/1` leads to `http://a/0`, which led there: a circle");
        redirects.follow(b"/2").unwrap();
        redirects.follow(b"/3").unwrap();
        assert!(matches!(redirects.follow(b"/4"), Err(NetworkError::Redirects { limit: 3, .. })));
    }
}
