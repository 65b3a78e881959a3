//! The no-op runner as a program of its own.

fn main() -> std::process::ExitCode {
    carton_runner_noop::run()
}
