//! The runners of the end-to-end tests: the real ones, and ones that misbehave.

use std::process::ExitCode;

use carton_core::runner::{EmbeddedRunner, ModelFilesMode};

const RUNNERS: &[EmbeddedRunner] = &[
    EmbeddedRunner {
        name: "noop",
        framework_version: "1.0.0",
        compat_version: 1,
        files: ModelFilesMode::Directory,
        run: carton_runner_noop::run,
    },
    EmbeddedRunner {
        name: "onnx",
        framework_version: carton_runner_onnx::FRAMEWORK_VERSION,
        compat_version: 1,
        files: ModelFilesMode::Ranges,
        run: carton_runner_onnx::run,
    },
];

fn main() -> ExitCode {
    carton_core::runner_main(RUNNERS);
    eprintln!("start this as `__carton-runner NAME`");
    ExitCode::from(2)
}
