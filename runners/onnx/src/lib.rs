//! Runs ONNX models: with the pure-Rust engine `rten` that is built in, or with ONNX Runtime where its library is
//! installed.
//!
//! A model is a `.onnx` file with whatever external data it names. Its file is read by this crate first
//! (`model_file`), so that its signature is known exactly as declared and no engine sees a hostile file unchecked; then
//! one of the engines (`engine`) loads it. [`Onnx`] joins the two behind the runner trait.

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

/// The name of this runner, as `runner_name` of a carton names it.
pub const RUNNER_NAME: &str = "onnx";

/// The ONNX release this runner implements.
///
/// ONNX Runtime 1.31, the release that the bindings used here are made for, supports operator sets up to 26 and refuses
/// later ones; `rten` 0.27 has operators up to the same one. Operator set 26 came with ONNX 1.21.
pub const FRAMEWORK_VERSION: &str = "1.21.0";

/// The compatibility version of this runner: what a carton may assume of options and file layout.
pub const COMPAT_VERSION: u64 = 1;

/// The newest operator set of [`FRAMEWORK_VERSION`].
const NEWEST_OPERATOR_SET: u64 = 26;

/// Since 1.31 ONNX Runtime writes an identifier of the machine below the user's home and sends usage data to its maker,
/// unless this variable is set before it is loaded. What runs somebody's model tells nobody of it.
const DISABLE_TELEMETRY: &str = "ORT_DISABLE_TELEMETRY";

/// Runs this runner over standard input until the host is gone, or checks a library if the last arguments of the process
/// say so (see [`onnx_runtime_library::CHECK_ARGUMENT`]).
pub fn run() -> ExitCode {
    // SAFETY: `runner_main` calls this first in `main`: there is no other thread that could read the environment.
    unsafe { std::env::set_var(DISABLE_TELEMETRY, "1") };
    let mut last = std::env::args_os().rev();
    if let (Some(path), Some(flag)) = (last.next(), last.next())
        && flag == onnx_runtime_library::CHECK_ARGUMENT
    {
        return onnx_runtime_library::check(Path::new(&path));
    }
    carton_runner_interface::runner::run::<Onnx>()
}
