//! `carton`: packs models into cartons, inspects and verifies them, and runs them.
//!
//! This binary owns arguments, output and exit codes, and leaves everything else to `carton_core`. It contains the runners `onnx` and
//! `noop` and starts itself again as their process. It also contains the package of the runner `python`, which it installs.
//!
//! Data goes to standard output, everything else to standard error. With `--json`, standard output holds exactly one object, also when
//! the command fails (`{"error": …}`).
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `args`: the command line's arguments, parsed and nothing else.
//! - `text`: numbers, words of a shell and text of others, as they are printed.
//! - `progress`, `hints`, `failure`: what is printed while work goes on; advice about an error in terms of commands and options, which
//!   the library does not know; exit codes.
//! - `tensor_failure`: exit codes and advice for errors of tensor files.
//! - `output`: what goes to standard output and standard error.
//! - `interrupt`: signals, and whether one arrives before the output gets its name or too late.
//! - `python`: the package of the python runner, and the interpreter that it is installed for.
//! - `build_info`, `completion`: what was built in; the suggestions that shells offer.
//! - `tensors`: JSON, `.npy` files and text for people, from and to tensors.
//! - `orphans`, `commands`: children that a process 1 must reap; one verb a file: arguments in, one call of the library, one result
//!   out.
//! - `logging`: log records on standard error.

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
mod progress;
mod python;
mod tensor_failure;
mod tensors;
mod text;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use carton_core::runner::EmbeddedRunner;
use clap::{CommandFactory, FromArgMatches};

use crate::args::Cli;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::text::without_logins;

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
