//! Who may send a request, and what is recorded of it.

mod hosts;
mod log;
mod log_writer;
mod origins;
mod tokens;
mod trace;

pub(crate) use hosts::Hosts;
pub use log::{AccessLog, AccessLogError};
pub(crate) use log::{GrpcStatus, Record, now};
pub(crate) use origins::Origins;
pub(crate) use tokens::{Scope, Tokens};
pub(crate) use trace::TraceContext;
