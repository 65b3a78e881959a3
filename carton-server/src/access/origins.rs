//! The pages that may call the server from a browser (CORS).

use std::time::Duration;

use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};
use url::Url;

/// The origins whose pages may call the server, beside its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    all: bool,
    listed: Vec<HeaderValue>,
}

/// The text that stands for every origin.
const ALL: &str = "*";
/// How long a browser remembers what it was told.
const MAX_AGE: Duration = Duration::from_secs(600);

impl Origins {
    /// # Errors
    /// A text is neither an origin, as browsers write it, nor `*`.
    pub(crate) fn parse(texts: &[String]) -> Result<Self, String> {
        let mut origins = Self::default();
        for text in texts {
            if text == ALL {
                origins.all = true;
                continue;
            }
            let written = Url::parse(text).ok().map(|url| url.origin().ascii_serialization());
            let is_origin = written.as_ref() == Some(text) && !text.contains(ALL);
            let value = HeaderValue::from_str(text).ok().filter(|_| is_origin);
            let invalid = || {
                format!(
                    "allowed origins: expected one as browsers write it (`https://app.example.com`: no path, no capitals, no port \
                     that is the default), or `*` for all; found `{}`",
                    text.escape_debug()
                )
            };
            origins.listed.push(value.ok_or_else(invalid)?);
        }
        Ok(origins)
    }

    pub(crate) fn is_allowed(&self, origin: &HeaderValue) -> bool {
        self.all || self.listed.contains(origin)
    }

    /// What answers browsers that ask whether a page may call the server. `None` if no page may.
    pub(crate) fn layer(&self) -> Option<CorsLayer> {
        let origin = match (self.all, self.listed.is_empty()) {
            (true, _) => AllowOrigin::from(Any),
            (false, false) => AllowOrigin::list(self.listed.clone()),
            (false, true) => return None,
        };
        let json_length = HeaderName::from_static("inference-header-content-length");
        let own = ["x-request-timeout-ms", "traceparent", "tracestate"].map(HeaderName::from_static);
        let asked = [ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, json_length.clone()];
        let layer = CorsLayer::new().allow_origin(origin).allow_methods([Method::GET, Method::POST]).max_age(MAX_AGE);
        let asked: Vec<HeaderName> = asked.into_iter().chain(own).collect();
        Some(layer.allow_headers(asked).expose_headers([json_length, RETRY_AFTER]))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn origins_as_browsers_write_them() {
        let parse = |text: &str| Origins::parse(&[text.to_owned()]);
        let origins = parse("https://app.example.com:8443").unwrap();
        assert!(origins.is_allowed(&HeaderValue::from_static("https://app.example.com:8443")));
        assert!(!origins.is_allowed(&HeaderValue::from_static("https://app.example.com")));
        assert!(parse("*").unwrap().is_allowed(&HeaderValue::from_static("null")));
        for text in ["", "app.example.com", "https://app.example.com/", "https://App.example.com", "null", "file:///x"]
            .into_iter()
            .chain(["https://*.example.com", "http://x:80"])
        {
            let error = parse(text).unwrap_err();
            assert!(error.contains("allowed origins: expected"), "{text}: {error}");
        }
    }
}
