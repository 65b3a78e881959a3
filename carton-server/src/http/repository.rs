//! The model repository: which models there are, and loading and unloading them, if the operator allows that.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_ENCODING;
use axum::http::{HeaderMap, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::answer::json;
use super::path::ModelPath;
use crate::app::App;
use crate::body::BodyReader;
use crate::encoding::Encoding;
use crate::failure::Failure;
use crate::limits::{Limits, MAX_PLAIN_BODY};
use crate::listing;
use crate::model::admission::Share;
use crate::protocol::parameter::{self, Parameters};
use crate::work::on_task;

#[derive(Default, Deserialize)]
struct IndexRequest {
    #[serde(default)]
    ready: bool,
}

/// The empty object that answers a change.
#[derive(Serialize)]
struct Done {}

/// `POST /v2/repository/index`. Clients send `{"ready": true}`, an empty object, or nothing.
pub(super) async fn index(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, Failure> {
    app.check_repository_api()?;
    let asked: IndexRequest = read(&app, &headers, body).await?;
    json(&listing::index(&app, asked.ready))
}

#[derive(Default, Deserialize)]
struct LoadRequest {
    #[serde(default)]
    parameters: Parameters,
}

/// `POST /v2/repository/models/NAME/load`
pub(super) async fn load(
    State(app): State<Arc<App>>,
    path: ModelPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, Failure> {
    app.check_repository_api()?;
    let asked: LoadRequest = read(&app, &headers, body).await?;
    parameter::check_load(asked.parameters.keys())?;
    // Goes on if the client leaves.
    on_task(async move { app.repository.load(&path.model).await }).await?;
    json(&Done {})
}

/// Reads a request, which may be empty.
async fn read<T: DeserializeOwned + Default>(app: &App, headers: &HeaderMap, body: Body) -> Result<T, Failure> {
    let limits = Limits { body_bytes: app.limits.body_bytes.min(MAX_PLAIN_BODY), ..app.limits };
    let mut body = BodyReader::new(body, None, &limits, Share::of_bytes(&app.bytes))?;
    if let Some(encoding) = Encoding::of(headers, &CONTENT_ENCODING)? {
        body.decode(encoding).await?;
    }
    let text = body.rest().await?;
    match text.trim_ascii().is_empty() {
        true => Ok(T::default()),
        false => serde_json::from_slice(&text)
            .map_err(|error| Failure::invalid(format!("the request is not valid: {error}"))),
    }
}

/// `POST /v2/repository/models/NAME/unload`
pub(super) async fn unload(State(app): State<Arc<App>>, path: ModelPath) -> Result<Response<Body>, Failure> {
    app.check_repository_api()?;
    app.repository.unload(&path.model).await?;
    json(&Done {})
}
