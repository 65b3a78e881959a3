//! The model repository: which models there are, and loading and unloading them, if the operator allows that.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;

use super::framing::{Incoming, one};
use super::proto;
use crate::app::App;
use crate::failure::Failure;
use crate::listing::{self, IndexLine};
use crate::protocol::parameter;
use crate::work::on_task;

pub(super) async fn index(app: &App, incoming: Incoming) -> Result<Response<Body>, Failure> {
    app.check_repository_api()?;
    let asked: proto::RepositoryIndexRequest = incoming.only().await?;
    let models = listing::index(app, asked.ready).into_iter().map(|line| {
        let IndexLine { name, version, state, reason } = line;
        proto::repository_index_response::ModelIndex { name, version, state: state.to_owned(), reason }
    });
    let models = models.collect();
    one(&proto::RepositoryIndexResponse { models })
}

pub(super) async fn load(app: Arc<App>, incoming: Incoming) -> Result<Response<Body>, Failure> {
    app.check_repository_api()?;
    let proto::RepositoryModelLoadRequest { model_name, parameters, .. } = incoming.only().await?;
    parameter::check_load(parameters.keys())?;
    // Goes on if the client leaves.
    on_task(async move { app.repository.load(&model_name).await }).await?;
    one(&proto::RepositoryModelLoadResponse {})
}

pub(super) async fn unload(app: &App, incoming: Incoming) -> Result<Response<Body>, Failure> {
    app.check_repository_api()?;
    let proto::RepositoryModelUnloadRequest { model_name, .. } = incoming.only().await?;
    app.repository.unload(&model_name).await?;
    one(&proto::RepositoryModelUnloadResponse {})
}
