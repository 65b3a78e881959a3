//! `carton tensor …`: works on the tensors in files and cartons.

mod cat;
mod convert;
mod groups;
mod ls;
mod plot;
mod quantize;
mod quantize_report;
mod source;
mod stats;
mod validate;
mod verify;

use source::{numbers, open_some, open_source, try_open_source, with_digests};

use super::Context;
use crate::args::TensorCommand;
use crate::failure::{Exit, Failure};

pub(super) async fn run(command: TensorCommand, context: &Context<'_>) -> Result<Exit, Failure> {
    match command {
        TensorCommand::Ls(arguments) => ls::run(arguments, context).await,
        TensorCommand::Stats(arguments) => stats::run(arguments, context).await,
        TensorCommand::Cat(arguments) => cat::run(arguments, context).await,
        TensorCommand::Convert(arguments) => convert::run(arguments, context).await,
        TensorCommand::Verify(arguments) => verify::run(arguments, context).await,
        TensorCommand::Validate(arguments) => validate::run(arguments, context).await,
        TensorCommand::Quantize(arguments) => quantize::run(arguments, context).await,
    }
}
