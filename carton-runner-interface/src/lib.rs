//! The protocol between Carton and its runners (spec/runner-protocol.md), for both sides.
//!
//! A runner is a process that holds a machine-learning framework. It implements [`runner::Runner`] and needs nothing else of
//! Carton: this program is a whole runner, for models that return their inputs.
//!
//! ```no_run
//! use carton_runner_interface::Tensors;
//! use carton_runner_interface::runner::{self, Call, Description, LoadRequest, Runner, RunnerError};
//!
//! struct Echo;
//!
//! impl Runner for Echo {
//!     fn describe() -> Description {
//!         Description { name: "echo".to_owned(), framework_version: "1.0.0".to_owned() }
//!     }
//!     fn load(_: LoadRequest, _: &Call) -> Result<Self, RunnerError> {
//!         Ok(Self)
//!     }
//!     fn infer(&self, inputs: Tensors, _: &Call) -> Result<Tensors, RunnerError> {
//!         Ok(inputs)
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     runner::run::<Echo>()
//! }
//! ```
//!
//! Public modules:
//! - [`runner`]: the trait, and the loop that serves it;
//! - `host`, behind the feature of that name: a connection to a runner, used by any number of tasks at once;
//! - [`signature`]: compares declared inputs and outputs with those of a model, for runners that can read them from it;
//! - [`structure`]: tuples, dictionaries and lists of tensors, by the names of their leaves, for runners of models that have them;
//! - [`version`]: the versions and features of the protocol.
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `protocol_error`, `model`: what a peer did wrong; what is said about a model: load and pack requests, declared tensors.
//! - `dtypes`: the dtypes that a peer takes.
//! - `frame`, `message`: bytes to frames to messages. `message` knows no transport, `frame` knows no message.
//! - `shared_memory`: regions (memfd with seals), the pool that hands out pieces of them, the maps of the peer's regions.
//! - `tensor_encoding`: tensors to messages and back.
//! - `fuzzing`: what fuzz targets call.
//! - `housekeeper`, `transport`: the thread for work that can wait; a Unix socket that passes descriptors, or a pair of pipes inside
//!   one process for tests.
//! - `link`, `version`, `spin`: what both sides share; the versions and features of the protocol; the moment in which a waiting side
//!   yields its core before it sleeps.
//! - `runner`: the trait of a runner, and the loop that serves it.
//! - `host`: behind the feature of that name: `Connection`, used by any number of tasks at once; `turn` is a call that may be sent now,
//!   `exchange` sends it and waits for its answer, and `reading` decides who reads it.
//! - `private_bytes`: a runner's memory, shown so that writing to it copies it.
//! - `signature`: declared inputs and outputs compared with those of a model, for runners that can read them. Pure.
//! - `structure`: values that are more than a tensor, as tensors by name and back. Pure.

#![cfg_attr(not(feature = "host"), allow(dead_code, reason = "what only hosts use of the parts both sides share"))]

mod dtypes;
mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(feature = "host")]
pub mod host;
mod housekeeper;
mod link;
mod message;
mod model;
mod private_bytes;
mod protocol_error;
pub mod runner;
mod shared_memory;
pub mod signature;
mod spin;
pub mod structure;
mod tensor_encoding;
mod transport;
pub mod version;

pub use carton_tensor::Tensors;
pub use dtypes::NotTaken;
pub use message::{LogLevel, code};
pub use model::{DeclaredTensor, LoadRequest, OptionValue, Options, PackRequest, PackResponse, Prepared, Statement};
pub use private_bytes::PrivateBytes;
pub use protocol_error::ProtocolError;
pub use transport::Transport;

/// Compiles the example of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/runner.md")]
struct WriteARunner;
