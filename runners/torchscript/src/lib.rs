//! Runs TorchScript models with libtorch.
//!
//! [`libtorch`] is the framework behind safe Rust, by a small shim in C++ (`shim/`) that `build.rs` compiles and links: any libtorch
//! from 1.13 on. What decides (`binding`: which argument an input is; `convert`: what a tensor becomes for an argument) is apart from
//! what does it ([`libtorch`]), and [`TorchScript`] joins the two behind the runner trait.

#![deny(unsafe_code)]

mod archive;
mod binding;
mod convert;
mod device;
mod error;
#[allow(unsafe_code, reason = "libtorch is C++")]
pub mod libtorch;
mod model_location;
mod options;
mod pack;
mod runner;

pub use runner::TorchScript;

/// The name of this runner, as `runner_name` of a carton names it.
pub const RUNNER_NAME: &str = "torchscript";

/// The version of libtorch that this runner was built with.
pub const LIBTORCH_VERSION: &str = env!("CARTON_LIBTORCH_VERSION");

/// Runs this runner over standard input until the host is gone.
#[must_use]
pub fn run() -> std::process::ExitCode {
    carton_runner_interface::runner::run::<TorchScript>()
}
