//! The server over gRPC: the Open Inference Protocol with the extensions that clients call, and gRPC's health protocol
//! (spec/serving.md §5).
//!
//! | module | what it has |
//! |---|---|
//! | `method` | the methods by their paths, and what each asks for |
//! | `framing` | messages in the body of a request, within its limits, and in that of an answer |
//! | `compression` | the headers with the encodings of messages |
//! | `proto` | the messages of the protocol |
//! | `status` | status codes, and failures as answers |
//! | `wire` | the fields of a protobuf message; pure |
//! | `request`, `contents` | an inference request and its tensors; pure |
//! | `response` | an answer to an inference as bytes; pure |
//! | `call`, `infer`, `stream` | a call, of `ModelInfer` and of `ModelStreamInfer` |
//! | `describe`, `repository`, `health` | the other methods |
//!
//! The framing of gRPC is written here, on the reader of bodies that HTTP has, because a library would allocate what a client announces,
//! decompress and decode it before this server could compare it with the memory that is left, and copy each answer.

mod call;
mod compression;
mod contents;
mod describe;
mod framing;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod health;
mod infer;
mod method;
mod proto;
mod repository;
mod request;
mod response;
mod status;
mod stream;
mod wire;

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, Method as Verb, Response, StatusCode, Version};
use tokio::sync::watch;

use self::framing::Incoming;
use self::method::Method;
use crate::app::App;
use crate::connection::{Client, Service};
use crate::failure::{Failure, Reason, quoted};
use crate::observe::observe;
use crate::work::within;

/// What all calls over gRPC share.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    app: Arc<App>,
    /// True when connections are to end: a stream ends after the request that it is at.
    stopping: watch::Receiver<bool>,
}

impl Face {
    pub(crate) fn new(app: &Arc<App>, stopping: watch::Receiver<bool>) -> Self {
        Self { app: Arc::clone(app), stopping }
    }
}

impl Service for Face {
    async fn answer(&self, request: Request, client: &Client) -> Response<Body> {
        observe(&self.app, request, client, |request| answer(self.clone(), request)).await
    }
}

async fn answer(face: Face, request: Request) -> Response<Body> {
    // What is not gRPC gets a status of HTTP, as gRPC's protocol says.
    let no_grpc = |status| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        response
    };
    if request.version() != Version::HTTP_2 {
        return no_grpc(StatusCode::HTTP_VERSION_NOT_SUPPORTED);
    }
    if request.method() != Verb::POST {
        return no_grpc(StatusCode::METHOD_NOT_ALLOWED);
    }
    if !is_grpc(request.headers()) {
        return no_grpc(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    if let Err(failure) = face.app.limits.check_headers(request.headers()) {
        return status::refusal(&failure);
    }
    let answered = match status::timeout(request.headers()) {
        Ok(timeout) => {
            let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            dispatch(face, request, deadline).await
        }
        Err(failure) => Err(failure),
    };
    answered.unwrap_or_else(|failure| status::refusal(&failure))
}

/// Whether the body is gRPC with protobuf, which is the default.
fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let rest = content_type.and_then(|content_type| content_type.strip_prefix("application/grpc"));
    rest.is_some_and(|rest| rest.is_empty() || rest == "+proto" || rest.starts_with(';'))
}

async fn dispatch(face: Face, request: Request, deadline: Option<Instant>) -> Result<Response<Body>, Failure> {
    let path = request.uri().path();
    let unknown = || Failure::new(Reason::WrongMethod, format!("the server has no method {}", quoted(path)));
    let method = Method::parse(path).ok_or_else(unknown)?;
    if let Some(scope) = method.scope() {
        face.app.tokens.check(scope, request.headers().get(AUTHORIZATION).map(|value| value.as_bytes()))?;
    }
    let Face { app, stopping } = face;
    let incoming = Incoming::new(&app, request)?;
    match method {
        Method::ModelInfer => infer::infer(&app, incoming, deadline).await,
        Method::ModelStreamInfer => Ok(stream::infer(app, stopping, incoming, deadline)),
        Method::HealthWatch => health::watch(app, stopping, incoming, deadline).await,
        method => within(deadline, describe(method, app, incoming)).await?,
    }
}

/// Answers the methods that run no model.
async fn describe(method: Method, app: Arc<App>, incoming: Incoming) -> Result<Response<Body>, Failure> {
    match method {
        Method::ServerLive => health::live(incoming).await,
        Method::ServerReady => health::ready(&app, incoming).await,
        Method::ModelReady => health::model_ready(&app, incoming).await,
        Method::HealthCheck => health::check(&app, incoming).await,
        Method::ServerMetadata => describe::server(incoming).await,
        Method::ModelMetadata => describe::model(&app, incoming).await,
        Method::ModelConfig => describe::config(&app, incoming).await,
        Method::ModelStatistics => describe::statistics(&app, incoming).await,
        Method::RepositoryIndex => repository::index(&app, incoming).await,
        Method::RepositoryModelLoad => repository::load(app, incoming).await,
        Method::RepositoryModelUnload => repository::unload(&app, incoming).await,
        Method::ModelInfer | Method::ModelStreamInfer | Method::HealthWatch => {
            Err(Failure::new(Reason::Internal, "the method is answered elsewhere"))
        }
    }
}
