//! `carton completions`: prints a completion script.

use clap_complete::Shell;

use crate::completion;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(super) fn run(shell: Shell, output: &Output) -> Result<Exit, Failure> {
    let script = completion::script(shell).map_err(Failure::new)?;
    output.text(&script)?;
    Ok(Exit::Ok)
}
