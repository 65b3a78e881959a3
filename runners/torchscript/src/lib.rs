//! Runs TorchScript models with libtorch.
//!
//! `tch` finds and links libtorch, and sets its threads and devices. What it lacks is in a small shim in C++ (`shim/`,
//! declared in `shim.rs` and made safe in `module.rs`): a module is loaded from the memory that its file is mapped to, the
//! schema of its forward is read, libtorch's alias analysis is asked whether forward may write to its inputs, and tensors
//! are built over the host's shared memory.
//!
//! What decides (`binding`: which argument an input is; `convert`: what a tensor becomes for an argument) is apart from what
//! does it (`module`), and [`TorchScript`] joins the two behind the runner trait.

mod archive;
mod binding;
mod convert;
mod device;
mod error;
mod model_location;
mod module;
mod options;
mod pack;
mod runner;
mod shim;

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
