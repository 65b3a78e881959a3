//! Serves cartons over HTTP and gRPC, by the Open Inference Protocol, version 2 (spec/serving.md).
//!
//! ```no_run
//! use carton_server::{ModelSpec, Server};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let digits = ModelSpec::new("digits", "digits.carton").instances(2.try_into()?).self_test(true);
//! let server = Server::builder().model(digits).http("127.0.0.1:8080".parse()?).bind().await?;
//! server.run(async { drop(tokio::signal::ctrl_c().await) }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A model is a queue, a batcher and runners. A request is admitted by what the server holds already, its tensors are read into memory
//! that a runner shares, and calls that come together are run together where the carton declares a batch dimension.
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `failure`, `access`, `limits`, `metrics`, `work`: one error for both faces, whose text may leave the server; tokens, allowed
//!   origins and hosts, the access log, trace contexts; limits; metrics; long work on other threads.
//! - `model`: `repository` finds models by name, and loads and swaps them. `served` is one of them: `admission` counts its calls and
//!   their bytes, `queue` lets a call wait, `run` runs what came together by `batch` (pure), `instance` is one runner, and `health`
//!   (pure) decides when a model pauses.
//! - `app`: what the requests of a server share.
//! - `encoding`, `body`: gzip, deflate and zstd; bodies of requests, read within the limits, straight into the memory that a runner
//!   shares.
//! - `connection`: listeners, TLS, and the limits of connections; `watchdog` finds clients that do not read.
//! - `protocol`: the Open Inference Protocol, bytes in and tensors out, and back. Pure, for both faces.
//! - `inputs`, `listing`, `counted_chunks`, `observe`: what a call gives, as its model takes it; what both faces say of all models; answers
//!   whose bytes are counted; what is recorded of each request.
//! - `grpc`, `http`: the faces, which use nothing of each other.
//! - `server`, `config`: built, bound, run and drained; `serve.toml`.
//! - `fuzzing`: what fuzz targets call.

mod access;
mod app;
mod body;
mod config;
mod connection;
mod counted_chunks;
mod encoding;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod grpc;
mod http;
mod inputs;
mod limits;
mod listing;
mod metrics;
mod model;
mod observe;
mod protocol;
mod server;
mod work;

pub use access::{AccessLog, AccessLogError};
pub use config::{ConfigError, ModelConfig, ServeConfig};
pub use connection::{Address, AddressError, TlsError, TlsFiles};
pub use limits::Limits;
pub use model::ModelSpec;
pub use model::served::LoadError;
pub use server::{Server, ServerBuilder, ServerError, ServerHandle};
