//! The model that a path names.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
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

impl<S: Send + Sync> FromRequestParts<S> for ModelPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let path: Result<Path<Self>, PathRejection> = Path::from_request_parts(parts, state).await;
        let invalid =
            |_| Failure::invalid(format!("the path {} names no model: it is not UTF-8", quoted(parts.uri.path())));
        path.map(|Path(path)| path).map_err(invalid)
    }
}
