//! Probes and metrics.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use super::answer::json;
use super::path::ModelPath;
use crate::app::App;
use crate::failure::{Failure, Reason};
use crate::metrics;

#[derive(Serialize)]
struct Live {
    live: bool,
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
}

/// `GET /v2/health/live`: the process answers.
pub(super) async fn live() -> Result<Response<Body>, Failure> {
    json(&Live { live: true })
}

/// `GET /v2/health/ready`: all models are ready, and the server is not about to end.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Response<Body>, Failure> {
    readiness(app.is_ready())
}

/// `GET /v2/models/NAME/ready`
pub(super) async fn model_ready(State(app): State<Arc<App>>, path: ModelPath) -> Result<Response<Body>, Failure> {
    match app.repository.find(&path.model, path.version.as_deref()) {
        Ok(served) => readiness(served.is_ready()),
        Err(failure) if failure.reason == Reason::Unavailable => readiness(false),
        Err(failure) => Err(failure),
    }
}

fn readiness(ready: bool) -> Result<Response<Body>, Failure> {
    let mut response = json(&Ready { ready })?;
    if !ready {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

/// `GET /metrics`
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response<Body> {
    let ready = app.repository.index().into_iter();
    let ready = ready.map(|entry| (entry.name, entry.version, entry.state.is_ready()));
    let mut response = Response::new(app.metrics.text(app.bytes.used(), ready).into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::TEXT_FORMAT));
    response
}
