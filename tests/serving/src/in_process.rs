//! A server that runs one model in its own process, as a program does that is written for this model alone. What `carton serve` takes
//! beyond it is the price of a process for the framework, and of all that is checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use clap::Args;
use ort::session::Session;
use ort::value::TensorRef;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use crate::Result;
use crate::case::{self, Case, Encoding, HEADER_LENGTH, RequestJson};

#[derive(Args)]
pub(crate) struct Options {
    /// The library of ONNX Runtime
    #[arg(long)]
    library: PathBuf,
    /// The ONNX file of the pictures
    #[arg(long)]
    model: PathBuf,
}

/// Serves HTTP until the process ends, and prints the address as `carton serve` does.
pub(crate) async fn serve(options: Options) -> Result<()> {
    let model = Arc::new(Model::load(&options.library, &options.model)?);
    let router = Router::new().route("/v2/models/pixels/infer", post(infer)).with_state(model);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
    Ok(axum::serve(listener, router).await?)
}

struct Model {
    case: Case,
    session: Mutex<Session>,
}

async fn infer(State(model): State<Arc<Model>>, headers: HeaderMap, body: Bytes) -> Response {
    model.answer(&headers, &body).unwrap_or_else(|error| (StatusCode::BAD_REQUEST, error.to_string()).into_response())
}

impl Model {
    /// Loads the model with one thread, as all servers of the comparison do.
    fn load(library: &Path, model: &Path) -> Result<Self> {
        let environment = ort::init_from(library)?.with_telemetry(false).build()?;
        let builder = Session::builder(&environment)?.with_intra_threads(1).map_err(|error| error.to_string())?;
        let session = { builder }.commit_from_file(model).map_err(|error| error.to_string())?;
        Ok(Self { case: case::pixels(Encoding::Binary), session: Mutex::new(session) })
    }

    fn answer(&self, headers: &HeaderMap, body: &[u8]) -> Result<Response> {
        let length = headers.get(HEADER_LENGTH).ok_or("the tensors are not binary")?.to_str()?.parse()?;
        let (json, binary) = body.split_at_checked(length).ok_or("the body is shorter than its header says")?;
        let request: RequestJson = serde_json::from_slice(json)?;
        let [input] = &request.inputs[..] else { return Err("not one input".into()) };
        let (chunks, _) = binary.as_chunks();
        let elements: Vec<f32> = chunks.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect();
        let tensor = TensorRef::from_array_view((input.shape.clone(), &elements[..]))?;
        let found = {
            let mut session = self.session.lock();
            let outputs = session.run(ort::inputs![input.name.as_str() => tensor])?;
            outputs[0].try_extract_tensor::<f32>()?.1.to_vec()
        };
        let answer = self.case.answer_of(found)?;
        let length = answer.header_length.unwrap_or_default().to_string();
        let headers = [("content-type", "application/octet-stream".to_owned()), (HEADER_LENGTH, length)];
        Ok((headers, answer.body).into_response())
    }
}
