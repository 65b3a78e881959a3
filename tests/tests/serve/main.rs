//! The server: calls over real connections, real runners, hostile clients (spec/serving.md).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod batches;
mod calls;
mod connections;
mod grpc;
mod hostile;
mod multiplexed;
mod operation;
mod runners;
mod setting;
