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
//! | module | what it has |
//! |---|---|
//! | `server` | [`Server`]: built, bound, run and drained |
//! | `config` | [`ServeConfig`]: all of it as data, and as a file |
//! | `model` | [`ModelSpec`]; the models by name, their queues, runners and states |
//! | `protocol` | the protocol's messages, as bytes and as tensors; pure |
//! | `http` | the REST side, metrics and probes |
//! | `grpc` | the gRPC side, and probes by gRPC's health protocol |
//! | `connection` | listeners, TLS, and the limits of connections |
//! | `body`, `encoding` | the bodies of requests, read within the limits; gzip, deflate and zstd |
//! | `access`, `observe` | tokens, the access log, and trace contexts; what is recorded of each request |
//! | `listing` | what both faces say of all models |

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
