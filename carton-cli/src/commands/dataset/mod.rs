//! `carton dataset …`: folders of many safetensors files.

mod cat;
mod committed;
mod error;
mod ls;
mod merge;
mod row_types;
pub(super) mod rows;
mod verify;
mod write;

use committed::{committed, contents, index_layout, warnings_of_ignored};
pub(super) use error::failure;

use super::Context;
use crate::args::DatasetCommand;
use crate::failure::{Exit, Failure};

pub(super) async fn run(command: DatasetCommand, context: &Context<'_>) -> Result<Exit, Failure> {
    match command {
        DatasetCommand::Write(arguments) => write::run(*arguments, context).await,
        DatasetCommand::Merge(arguments) => merge::run(arguments, context).await,
        DatasetCommand::Ls(arguments) => ls::run(arguments, context).await,
        DatasetCommand::Verify(arguments) => verify::run(arguments, context).await,
        DatasetCommand::Cat(arguments) => cat::run(arguments, context).await,
    }
}
