//! Tests of zTensor files through the public API: round trips, comparison with other implementations, and files that must be refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "ztensor/builders.rs"]
mod builders;
#[path = "ztensor/container.rs"]
mod container;
#[path = "ztensor/findings.rs"]
mod findings;
#[path = "ztensor/formats.rs"]
mod formats;
#[path = "ztensor/peers.rs"]
mod peers;
#[path = "ztensor/properties.rs"]
mod properties;
#[path = "ztensor/reject.rs"]
mod reject;
#[path = "ztensor/shared.rs"]
mod shared;
