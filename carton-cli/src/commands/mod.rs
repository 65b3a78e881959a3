//! One command a file: arguments in, one call of the library, one result out.

mod completions;
mod runner;

use crate::args::{Cli, Command, RunnerCommand};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs the command and says with which code the process ends.
///
/// # Errors
/// Whatever kept the command from having a result.
pub(crate) fn run(cli: Cli, output: &Output) -> Result<Exit, Failure> {
    let global = cli.global;
    match cli.command {
        Command::Completions { shell } => completions::run(shell, output),
        Command::Runner(RunnerCommand::Ls) => runner::list(&global, output),
        Command::Runner(RunnerCommand::Install { name }) => runner::install(&name, &global, output),
        _ => Err(Failure::new("not built yet")),
    }
}
