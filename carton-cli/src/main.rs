//! `carton`: packs models into cartons, inspects and verifies them, and runs them.
//!
//! This binary owns arguments, output and exit codes, and leaves everything else to `carton_core`. It contains the runners `onnx` and
//! `noop` and starts itself again as their process. It also contains the package of the runner `python`, which it installs.
//!
//! Data goes to standard output, everything else to standard error. With `--json`, standard output holds exactly one object, also when
//! the command fails (`{"error": …}`).

mod args;
mod build_info;
mod commands;
mod completion;
mod failure;
mod hints;
mod interrupt;
mod logging;
#[cfg(feature = "server")]
mod orphans;
mod output;
mod process;
mod progress;
mod python;
mod tensor_files;
mod tensors;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use carton_core::runner::EmbeddedRunner;
use clap::{CommandFactory, FromArgMatches};

use crate::args::Cli;
use crate::failure::{Exit, Failure};
use crate::output::{Output, without_logins};

/// The runners in this binary. `carton runner install` makes them available to other programs.
static EMBEDDED_RUNNERS: &[EmbeddedRunner] = &[carton_runner_onnx::RUNNER, carton_noop_runner::RUNNER];

fn main() -> ExitCode {
    carton_core::runner_main(EMBEDDED_RUNNERS);
    completion::answer();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match parse(&arguments) {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let output = Output::new(&cli.global);
    logging::start(&cli.global, &output);
    let exit = commands::run(cli, &output).unwrap_or_else(|failure| {
        output.failure(&failure);
        failure.exit()
    });
    exit.into()
}

/// Parses the arguments. Prints help, the version and usage errors itself, and then returns the exit code.
fn parse(arguments: &[OsString]) -> Result<Cli, Exit> {
    let command = Cli::command().color(args::color_asked(arguments).into());
    let error = match command.try_get_matches_from(arguments) {
        Ok(matches) => match Cli::from_arg_matches(&matches) {
            Ok(cli) => return Ok(cli),
            Err(error) => error,
        },
        Err(error) => error,
    };
    if error.kind() == clap::error::ErrorKind::DisplayVersion {
        match build_info::print_if_asked(arguments) {
            Ok(true) => return Err(Exit::Ok),
            Ok(false) => {}
            Err(failure) => {
                Output::plain().failure(&failure);
                return Err(failure.exit());
            }
        }
    }
    if !error.use_stderr() {
        // Help and version are data. A failure to print them, because the reader is gone, is ignored.
        let _ = error.print();
        return Err(Exit::Ok);
    }
    if arguments.iter().any(|argument| argument == "--json") {
        Output::json_only().failure(&Failure::from_usage_error(&error));
    } else {
        print_usage_error(&error);
    }
    Err(Exit::Usage)
}

/// Prints a usage error, in color on a terminal. An error that quotes a URL with a password is printed without the password and colors.
fn print_usage_error(error: &clap::Error) {
    let text = error.to_string();
    let shown = without_logins(&text);
    // A failure to print, because the reader is gone, is ignored.
    let _ = match shown == text {
        true => error.print(),
        false => std::io::stderr().write_all(shown.as_bytes()),
    };
}
