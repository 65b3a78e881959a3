//! Tests of the `carton` command from the outside: its output, the files that it leaves, and its exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cache;
mod completion;
mod datasets;
mod errors;
mod examples;
mod help;
mod interruption;
mod mistakes;
mod onnx_runtime;
mod other_writers;
mod pack_check;
mod pack_refused;
mod package;
mod python_environments;
mod python_runner;
mod real_runners;
mod remote;
mod rows;
mod runner_index;
mod runners;
mod running;
mod sandbox;
mod shrinking;
mod signing;
mod tensors;
