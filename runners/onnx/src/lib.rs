//! Runs ONNX models with the built-in pure-Rust engine `rten`, or with ONNX Runtime where its library is installed.
//!
//! A model is a `.onnx` file with the external data that it names. This crate reads the file first (`model_file`), so that
//! the signature is known exactly as declared and no engine sees an unchecked hostile file. Then one of the engines
//! (`engine`) loads it. [`Onnx`] joins the two behind the runner trait.

mod element_type;
mod engine;
mod model_file;
mod model_location;
mod model_source;
mod onnx_release;
pub mod onnx_runtime_library;
mod options;
mod pack;
mod protobuf;
mod runner;
mod signature;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;

pub use onnx_release::recommended_requirement;
pub use runner::Onnx;

/// The name of this runner, for `runner_name` of a carton.
pub const RUNNER_NAME: &str = "onnx";

/// The ONNX release this runner implements.
///
/// ONNX Runtime 1.31, the release that these bindings are made for, supports operator sets up to 26 and refuses
/// later ones; `rten` 0.27 has operators up to the same set. Operator set 26 came with ONNX 1.21.
pub const FRAMEWORK_VERSION: &str = "1.21.0";

/// The compatibility version of this runner: the version of the options and of the layout of `model/`.
pub const COMPAT_VERSION: u64 = 1;

/// The newest operator set of [`FRAMEWORK_VERSION`].
const NEWEST_OPERATOR_SET: u64 = 26;

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
