//! The runner as a program, as Carton starts it. With `--version` it only prints its name and the version of libtorch.

use std::process::ExitCode;

use carton_runner_torchscript::{LIBTORCH_VERSION, RUNNER_NAME};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--version") {
        println!("{RUNNER_NAME} {LIBTORCH_VERSION}");
        return ExitCode::SUCCESS;
    }
    carton_runner_torchscript::run()
}
