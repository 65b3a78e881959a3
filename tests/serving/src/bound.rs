//! The bounds: bare servers on the libraries that `carton serve` uses, which read a request, write the right answer and run no model.
//!
//! With JSON they parse and write every number. Of binary tensors they read the bytes and write as many as a model would. The bound of the
//! comparison keeps no byte, so that it copies none; another one keeps the body in one piece, as a program does that has something to do with
//! it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tonic::{Request, Status};

use crate::Result;
use crate::case::{self, AnswerJson, Encoding, HEADER_LENGTH, HttpMessage, RequestJson};
use crate::protocol::grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer};
use crate::protocol::*;

/// Serves HTTP until the process ends, and prints the address as `carton serve` does. Bodies with binary tensors are read piece by piece, or
/// as a whole if they are `kept`.
pub(crate) async fn serve_http(kept: bool) -> Result<()> {
    let answers = Answers {
        kept,
        json: serde_json::from_slice(&case::digits(Encoding::Json)?.http_answer()?.body)?,
        binary: HashMap::from([
            ("digits", case::digits(Encoding::Binary)?.http_answer()?),
            ("pixels", case::pixels(Encoding::Binary).http_answer()?),
        ]),
    };
    let router = Router::new().route("/v2/models/{model}/infer", post(infer)).with_state(Arc::new(answers));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    // Without it headers and body in two packets wait for each other.
    let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
    Ok(axum::serve(listener, router).await?)
}

struct Answers {
    kept: bool,
    json: AnswerJson,
    binary: HashMap<&'static str, HttpMessage>,
}

async fn infer(
    State(answers): State<Arc<Answers>>,
    Path(model): Path<String>,
    headers: HeaderMap,
    mut body: Body,
) -> Response {
    if !headers.contains_key(HEADER_LENGTH) {
        let answer = match axum::body::to_bytes(body, usize::MAX).await {
            Ok(body) => answer_json(&answers.json, &body),
            Err(error) => Err(error.into()),
        };
        return answer.unwrap_or_else(|error| (StatusCode::BAD_REQUEST, error.to_string()).into_response());
    }
    let n_read = if answers.kept {
        axum::body::to_bytes(body, usize::MAX).await.map(|body| body.len())
    } else {
        pass_by(&mut body).await
    };
    let Ok(n_read) = n_read else { return StatusCode::BAD_REQUEST.into_response() };
    match answers.binary.get(model.as_str()) {
        Some(HttpMessage { header_length: Some(length), body }) if n_read > *length => {
            let headers =
                [("content-type", "application/octet-stream".to_owned()), (HEADER_LENGTH, length.to_string())];
            (headers, body.clone()).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Reads a body of which every byte passes by, and none is copied. Returns the number of bytes.
async fn pass_by(body: &mut Body) -> Result<usize, axum::Error> {
    let mut n_read = 0;
    while let Some(frame) = body.frame().await {
        n_read += frame?.data_ref().map_or(0, bytes::Bytes::len);
    }
    Ok(n_read)
}

fn answer_json(answer: &AnswerJson, body: &[u8]) -> Result<Response> {
    let request: RequestJson = serde_json::from_slice(body)?;
    for tensor in &request.inputs {
        if tensor.data.as_ref().map(Vec::len) != Some(tensor.shape.iter().product()) {
            return Err("the shape does not fit the elements".into());
        }
    }
    Ok(([("content-type", "application/json")], serde_json::to_vec(answer)?).into_response())
}

/// Serves gRPC until the process ends, and prints the address as `carton serve` does.
pub(crate) async fn serve_grpc() -> Result<()> {
    let mut answers = HashMap::new();
    for case in [case::digits(Encoding::Grpc)?, case::pixels(Encoding::Grpc)] {
        answers.insert(case.model, case.grpc_answer());
    }
    let service = GrpcInferenceServiceServer::new(Echo { answers });
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address: SocketAddr = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let incoming =
        tonic::transport::server::TcpIncoming::from(TcpListener::from_std(listener)?).with_nodelay(Some(true));
    eprintln!("listening on grpc://{address}");
    Ok(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await?)
}

struct Echo {
    answers: HashMap<&'static str, ModelInferResponse>,
}

type Answer<T> = Result<tonic::Response<T>, Status>;

/// Implements the service: all calls but inference are refused. The whole of it, because `async_trait` sees no macros in what it is given.
macro_rules! only_infer {
    ($($call:ident: $request:ident -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl GrpcInferenceService for Echo {
            type ModelStreamInferStream = tonic::codegen::BoxStream<ModelStreamInferResponse>;

            async fn model_infer(&self, request: Request<ModelInferRequest>) -> Answer<ModelInferResponse> {
                self.answer(request.get_ref())
            }

            async fn model_stream_infer(
                &self,
                _: Request<tonic::Streaming<ModelInferRequest>>,
            ) -> Answer<Self::ModelStreamInferStream> {
                Err(Status::unimplemented("a bound only infers"))
            }

            $(async fn $call(&self, _: Request<$request>) -> Answer<$response> {
                Err(Status::unimplemented("a bound only infers"))
            })*
        }
    };
}

only_infer! {
    server_live: ServerLiveRequest -> ServerLiveResponse;
    server_ready: ServerReadyRequest -> ServerReadyResponse;
    model_ready: ModelReadyRequest -> ModelReadyResponse;
    server_metadata: ServerMetadataRequest -> ServerMetadataResponse;
    model_metadata: ModelMetadataRequest -> ModelMetadataResponse;
    model_config: ModelConfigRequest -> ModelConfigResponse;
    model_statistics: ModelStatisticsRequest -> ModelStatisticsResponse;
    repository_index: RepositoryIndexRequest -> RepositoryIndexResponse;
    repository_model_load: RepositoryModelLoadRequest -> RepositoryModelLoadResponse;
    repository_model_unload: RepositoryModelUnloadRequest -> RepositoryModelUnloadResponse;
}

impl Echo {
    fn answer(&self, request: &ModelInferRequest) -> Answer<ModelInferResponse> {
        match self.answers.get(request.model_name.as_str()) {
            Some(answer) => Ok(tonic::Response::new(answer.clone())),
            None => Err(Status::not_found("no such model")),
        }
    }
}
