//! The runners of the end-to-end tests: real ones, and ones that misbehave.

use std::process::ExitCode;

use carton_core::runner::{EmbeddedRunner, ModelFilesMode};

const RUNNERS: &[EmbeddedRunner] = &[
    EmbeddedRunner::new("noop", "1.0.0", carton_noop_runner::run).files(ModelFilesMode::Directory),
    carton_runner_onnx::RUNNER,
];

fn main() -> ExitCode {
    carton_core::runner_main(RUNNERS);
    if std::env::args().nth(1).as_deref() == Some("raw-echo") {
        return raw_echo();
    }
    eprintln!("start this as `__carton-runner NAME`");
    ExitCode::from(2)
}

/// The lower bound that benchmarks compare with: sends every byte from standard input, a socket, back.
fn raw_echo() -> ExitCode {
    let mut buffer = [0_u8; 1 << 16];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Ok(0) => return ExitCode::SUCCESS,
            Ok(n_bytes) => {
                let mut rest = &buffer[..n_bytes];
                while !rest.is_empty() {
                    match rustix::io::write(rustix::stdio::stdin(), rest) {
                        Ok(written) => rest = &rest[written..],
                        Err(_) => return ExitCode::FAILURE,
                    }
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return ExitCode::FAILURE,
        }
    }
}
