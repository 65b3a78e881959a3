//! The no-op runner as a separate program.

fn main() -> std::process::ExitCode {
    carton_noop_runner::run()
}
