//! Datasets as they are written, read back with the `safetensors` library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batches;
mod columns;
mod commits;
mod faults;
mod key_value;
mod properties;
mod python;
mod support;
