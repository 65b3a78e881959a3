//! Runs ONNX models with ONNX Runtime, whose library it loads from where it was installed.
//!
//! A model is a `.onnx` file with the external data that it names. This crate reads the file first (`model_file`), so that
//! the signature is known exactly as declared and ONNX Runtime sees no unchecked hostile file. Then `onnx_runtime` loads it.
//! [`Onnx`] joins the two behind the runner trait.

mod binding;
mod element_type;
mod identity;
mod library;
mod model_file;
mod model_location;
mod model_source;
mod onnx_runtime;
pub mod onnx_runtime_library;
mod operator_libraries;
mod options;
mod pack;
mod runner;
mod runtime_release;
mod signature;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;

use carton_runner_interface::runner::EmbeddedRunner;

pub use identity::{COMPAT_VERSION, LIBRARY_VARIABLES, RUNNER_NAME};
pub use runner::Onnx;

/// This runner, for programs that it is linked into.
pub const RUNNER: EmbeddedRunner = EmbeddedRunner::new(RUNNER_NAME, onnx_runtime_library::VERSION, run)
    .find_framework_version(|runner_data_dir| Some(onnx_runtime_library::version(runner_data_dir)))
    .compat_version(COMPAT_VERSION)
    .data(identity::DATA_FOLDERS)
    .read_variables(LIBRARY_VARIABLES);

/// Since 1.31 ONNX Runtime writes an identifier of the machine below the user's home and sends usage data to its vendor,
/// unless this variable is set before it is loaded. A runner must not report the use of a model to anybody.
const DISABLE_TELEMETRY: &str = "ORT_DISABLE_TELEMETRY";

/// Serves the protocol over standard input until the host is gone, or checks a library if the last arguments of the process
/// request that (see [`onnx_runtime_library::CHECK_ARGUMENT`]).
pub fn run() -> ExitCode {
    // SAFETY: `runner_main` calls this first in `main`: no other thread exists that could read the environment.
    unsafe { std::env::set_var(DISABLE_TELEMETRY, "1") };
    let mut last = std::env::args_os().rev();
    if let (Some(path), Some(flag)) = (last.next(), last.next())
        && flag == onnx_runtime_library::CHECK_ARGUMENT
    {
        return onnx_runtime_library::check(Path::new(&path));
    }
    carton_runner_interface::runner::run::<Onnx>()
}
