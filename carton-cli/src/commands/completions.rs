//! `carton completions`: a completion script.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(super) fn run(shell: Shell, output: &Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "carton", &mut script);
    output.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
