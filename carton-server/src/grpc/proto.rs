//! The messages of the protocol, made by `build.rs` from `proto`.

// Some messages are only read field by field, and written by tests.
#![allow(missing_docs, unreachable_pub, dead_code, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/inference.rs"));

/// The health protocol.
pub(crate) mod health {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
}
