//! What the server says of itself and of its models.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde::Serialize;

use super::answer::json;
use super::path::ModelPath;
use crate::app::{App, EXTENSIONS, SERVER_NAME, SERVER_VERSION};
use crate::failure::Failure;
use crate::listing::{self, ModelStatistics};
use crate::protocol::description::{ModelConfig, ModelMetadata};

#[derive(Serialize)]
struct ServerMetadata {
    name: &'static str,
    version: &'static str,
    extensions: [&'static str; EXTENSIONS.len()],
}

/// `GET /v2`
pub(super) async fn server() -> Result<Response<Body>, Failure> {
    json(&ServerMetadata { name: SERVER_NAME, version: SERVER_VERSION, extensions: EXTENSIONS })
}

/// `GET /v2/models/NAME`
pub(super) async fn model(State(app): State<Arc<App>>, path: ModelPath) -> Result<Response<Body>, Failure> {
    let served = app.repository.find(&path.model, path.version.as_deref())?;
    json(&ModelMetadata::new(&served.name, app.repository.versions(&served.name), served.package().metadata()))
}

/// `GET /v2/models/NAME/config`: Triton's configuration, which load generators ask for.
pub(super) async fn config(State(app): State<Arc<App>>, path: ModelPath) -> Result<Response<Body>, Failure> {
    let served = app.repository.find(&path.model, path.version.as_deref())?;
    json(&ModelConfig::new(&served.name, served.max_batch(), served.package().metadata()))
}

#[derive(Serialize)]
struct Statistics {
    model_stats: Vec<ModelStatistics>,
}

/// `GET /v2/models/NAME/stats`
pub(super) async fn statistics(State(app): State<Arc<App>>, path: ModelPath) -> Result<Response<Body>, Failure> {
    let served = app.repository.find(&path.model, path.version.as_deref())?;
    json(&Statistics { model_stats: vec![ModelStatistics::new(&served)] })
}

/// `GET /v2/models/stats`
pub(super) async fn all_statistics(State(app): State<Arc<App>>) -> Result<Response<Body>, Failure> {
    json(&Statistics { model_stats: listing::statistics(&app) })
}
