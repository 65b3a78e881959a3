//! Tests of files of zTensor 2 through the public API: files of the library of the format, files that must be refused, and damaged ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "ztensor2/builders.rs"]
mod builders;
#[path = "ztensor2/damaged.rs"]
mod damaged;
#[path = "ztensor2/fixtures.rs"]
mod fixtures;
#[path = "ztensor2/peers.rs"]
mod peers;
#[path = "ztensor2/reject.rs"]
mod reject;
#[path = "ztensor2/writer.rs"]
mod writer;
