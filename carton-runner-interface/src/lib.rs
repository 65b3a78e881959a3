//! The protocol between Carton and its runners (spec/runner-protocol.md).

#[cfg(feature = "host")]
pub mod host;
mod message;
mod protocol_error;
pub mod runner;
mod transport;

pub use protocol_error::ProtocolError;
pub use runner::{Options, TensorSpec, Tensors};
pub use transport::Transport;
