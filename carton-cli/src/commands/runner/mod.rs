//! `carton runner`: lists, installs, packages and removes runners.

mod consent;
mod install;
mod installed;
mod installer;
mod job;
mod library;
mod list;
mod offer;
mod onnx_runtime;
mod package;
mod package_index;
mod package_manager;
mod prune;
mod remove;
mod uv;

pub(super) use list::why_not;

use installer::{index_place, parse_place, place, with_installer};

use super::Context;
use crate::args::RunnerCommand;
use crate::failure::{Exit, Failure};

pub(super) async fn run(command: RunnerCommand, context: &Context<'_>) -> Result<Exit, Failure> {
    match command {
        RunnerCommand::Ls(arguments) if arguments.available => offer::run(arguments, context).await,
        RunnerCommand::Ls(_) => list::run(context),
        RunnerCommand::Install(arguments) => install::run(arguments, context).await,
        RunnerCommand::Rm(arguments) => remove::run(&arguments, context),
        RunnerCommand::Prune(arguments) => prune::run(arguments, context).await,
        RunnerCommand::Package(arguments) => package::run(arguments, context).await,
    }
}
