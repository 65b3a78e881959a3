//! The protocol between Carton and its runners (spec/runner-protocol.md), for both sides.
//!
//! A runner is another process that holds a machine-learning framework. It implements [`runner::Runner`] and needs
//! nothing else of Carton. The host's side is the module `host`, behind the feature of that name.
//!
//! The modules from the wire up: [`version`] (which versions and features), `frame` (bytes to frames), `message` (frames
//! to messages; knows no transport), `transport` (what carries frames), `shared_memory` (pools, and the peer's regions),
//! `tensor_encoding` (tensors to messages and back), `link` (what both sides share). [`signature`] compares declared inputs
//! and outputs with a model's, for runners that read them from it.

#![cfg_attr(not(feature = "host"), allow(dead_code, reason = "what only hosts use of the parts both sides share"))]

mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(feature = "host")]
pub mod host;
mod housekeeper;
mod link;
mod message;
mod model;
mod protocol_error;
pub mod runner;
mod shared_memory;
pub mod signature;
mod spin;
mod tensor_encoding;
mod transport;
pub mod version;

pub use message::{LogLevel, code};
pub use model::{OptionValue, Options, TensorSpec, Tensors};
pub use protocol_error::ProtocolError;
pub use transport::Transport;
