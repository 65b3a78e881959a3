//! Probes: those of the protocol, and gRPC's health protocol, which Kubernetes calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Response;
use futures_util::stream::unfold;
use tokio::sync::watch;

use super::framing::{Incoming, one, plain, streamed};
use super::proto;
use super::proto::health::health_check_response::ServingStatus;
use super::proto::health::{HealthCheckRequest, HealthCheckResponse};
use crate::app::App;
use crate::failure::{Failure, Reason, quoted};
use crate::work::within;

/// How often the readiness is looked at for a client that watches it.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn live(incoming: Incoming) -> Result<Response<Body>, Failure> {
    incoming.only::<proto::ServerLiveRequest>().await?;
    one(&proto::ServerLiveResponse { live: true })
}

pub(super) async fn ready(app: &App, incoming: Incoming) -> Result<Response<Body>, Failure> {
    incoming.only::<proto::ServerReadyRequest>().await?;
    one(&proto::ServerReadyResponse { ready: app.is_ready() })
}

pub(super) async fn model_ready(app: &App, incoming: Incoming) -> Result<Response<Body>, Failure> {
    let proto::ModelReadyRequest { name, version } = incoming.only().await?;
    let ready = match app.repository.find(&name, Some(&version)) {
        Ok(served) => served.is_ready(),
        Err(failure) if failure.reason == Reason::Unavailable => false,
        Err(failure) => return Err(failure),
    };
    one(&proto::ModelReadyResponse { ready })
}

/// `Check`. The server as a whole, and its service, are serving when all models are ready. `liveness` is always serving, for a probe that
/// restarts the server.
pub(super) async fn check(app: &App, incoming: Incoming) -> Result<Response<Body>, Failure> {
    let HealthCheckRequest { service } = incoming.only().await?;
    match status(app, &service) {
        ServingStatus::ServiceUnknown => {
            Err(Failure::new(Reason::NotFound, format!("there is no service {}", quoted(&service))))
        }
        status => one(&HealthCheckResponse { status: status.into() }),
    }
}

/// `Watch`: the status at once, and whenever it changes, until the server ends.
pub(super) async fn watch(
    app: Arc<App>,
    stopping: watch::Receiver<bool>,
    incoming: Incoming,
    deadline: Option<Instant>,
) -> Result<Response<Body>, Failure> {
    let HealthCheckRequest { service } = within(deadline, incoming.only()).await??;
    let changes = unfold((app, stopping, None), move |(app, mut stopping, told)| {
        let service = service.clone();
        async move {
            let changed = async {
                loop {
                    let status = status(&app, &service);
                    if Some(status) != told {
                        return Some(status);
                    }
                    tokio::select! {
                        () = tokio::time::sleep(WATCH_INTERVAL) => {}
                        _ = stopping.wait_for(|stopping| *stopping) => return None,
                    }
                }
            };
            let message = match within(deadline, changed).await {
                Ok(None) => return None,
                Ok(Some(status)) => {
                    let message = plain(&HealthCheckResponse { status: status.into() });
                    return Some((message.map(|message| vec![message]), (app, stopping, Some(status))));
                }
                Err(failure) => Err(failure),
            };
            Some((message, (app, stopping, told)))
        }
    });
    Ok(streamed(changes, None))
}

fn status(app: &App, service: &str) -> ServingStatus {
    match service {
        "liveness" => ServingStatus::Serving,
        "" | "readiness" | "inference.GRPCInferenceService" if app.is_ready() => ServingStatus::Serving,
        "" | "readiness" | "inference.GRPCInferenceService" => ServingStatus::NotServing,
        _ => ServingStatus::ServiceUnknown,
    }
}
