//! Writes datasets and reads them back with the `safetensors` library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batches;
mod columns;
mod commits;
mod commits_again;
mod extension_types;
mod faults;
mod key_value;
mod merging;
mod properties;
mod python;
mod replacing;
mod support;
