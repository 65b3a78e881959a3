//! The model that a path names.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::Method;
use axum::http::request::Parts;
use serde::Deserialize;

use crate::failure::{Failure, quoted};

/// The model that a path names.
#[derive(Debug, Deserialize)]
pub(super) struct ModelPath {
    pub(super) model: String,
    #[serde(default)]
    pub(super) version: Option<String>,
}

impl ModelPath {
    /// The model that a request calls. `None` for other requests, and where the path is encoded: the router finds out what those are.
    pub(super) fn of_call(request: &Request) -> Option<Self> {
        let path = request.uri().path();
        if request.method() != Method::POST || path.contains('%') {
            return None;
        }
        let named = path.strip_prefix("/v2/models/")?.strip_suffix("/infer")?;
        let (model, version) = match named.split_once("/versions/") {
            Some((model, version)) => (model, Some(version)),
            None => (named, None),
        };
        let is_segment = |text: &str| !text.is_empty() && !text.contains('/');
        let is_call = is_segment(model) && version.is_none_or(is_segment);
        is_call.then(|| Self { model: model.to_owned(), version: version.map(str::to_owned) })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ModelPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let path: Result<Path<Self>, PathRejection> = Path::from_request_parts(parts, state).await;
        let invalid =
            |_| Failure::invalid(format!("the path {} names no model: it is not UTF-8", quoted(parts.uri.path())));
        path.map(|Path(path)| path).map_err(invalid)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::body::Body;

    use super::*;

    #[test]
    fn calls_are_known_by_their_path() {
        let of_call = |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            ModelPath::of_call(&request).map(|path| (path.model, path.version))
        };
        let post = |path: &str| of_call(Method::POST, path);
        assert_eq!(post("/v2/models/digits/infer"), Some(("digits".to_owned(), None)));
        assert_eq!(post("/v2/models/digits/infer?x=1"), Some(("digits".to_owned(), None)));
        assert_eq!(post("/v2/models/a/versions/2/infer"), Some(("a".to_owned(), Some("2".to_owned()))));
        assert_eq!(post("/v2/models/infer/infer"), Some(("infer".to_owned(), None)));
        for path in [
            "/v2/models/infer",
            "/v2/models//infer",
            "/v2/models/a/b/infer",
            "/v2/models/a/versions//infer",
            "/v2/models/a/versions/1/2/infer",
            "/v2/models/versions/1/infer",
            "/v2/models/a/versions/1/versions/2/infer",
            "/v2/models/a/infer/",
            "/v2/models/%61/infer",
            "/v2/models/a/ready",
            "/infer",
        ] {
            assert_eq!(post(path), None, "{path}");
        }
        assert_eq!(of_call(Method::GET, "/v2/models/digits/infer"), None);
    }
}
