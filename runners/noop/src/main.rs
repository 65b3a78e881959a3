//! The no-op runner as a separate program.

fn main() -> std::process::ExitCode {
    carton_runner_noop::run()
}
