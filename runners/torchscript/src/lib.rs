//! Runs TorchScript models with libtorch.
//!
//! [`libtorch`] wraps the framework, any libtorch from 1.13 on, in safe Rust, through a small shim in C++ (`shim/`) that `build.rs`
//! compiles and links. Decisions (`leaves` says what tensors a type takes, `binding` matches inputs with arguments, `outputs` names what is
//! returned, `convert` converts tensors) are separate from their execution ([`libtorch`]). `libraries` loads the operators of other packages.
//! [`TorchScript`] joins them behind the runner trait.

#![deny(unsafe_code)]

mod archive;
mod binding;
mod convert;
mod device;
mod error;
mod identity;
mod leaves;
mod libraries;
#[allow(unsafe_code, reason = "libtorch is C++")]
pub mod libtorch;
mod load_module;
mod model_location;
mod options;
mod outputs;
mod pack;
mod runner;

pub use identity::{LIBTORCH_VERSION, RUNNER_NAME};
pub use runner::TorchScript;

/// Serves the protocol over standard input until the host is gone.
#[must_use]
pub fn run() -> std::process::ExitCode {
    carton_runner_interface::runner::run::<TorchScript>()
}
