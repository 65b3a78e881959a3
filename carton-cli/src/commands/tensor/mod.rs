//! `carton tensor …`: works on the tensors in files and cartons.

mod cat;
mod convert;
mod diff;
mod ls;
mod merge;
mod plot;
mod quantize;
mod quantize_report;
mod source;
mod stats;
mod validate;
mod verify;

use std::sync::Arc;

use carton_tensor_files::{Temporary, WriteOptions};

use source::{open_some, open_source, try_open_source, with_digests};

use super::Context;
use crate::args::{SinkArgs, TensorCommand};
use crate::failure::{Exit, Failure};
use crate::interrupt::Leftover;

pub(super) async fn run(command: TensorCommand, context: &Context<'_>) -> Result<Exit, Failure> {
    match command {
        TensorCommand::Ls(arguments) => ls::run(arguments, context).await,
        TensorCommand::Stats(arguments) => stats::run(arguments, context).await,
        TensorCommand::Diff(arguments) => diff::run(arguments, context).await,
        TensorCommand::Cat(arguments) => cat::run(arguments, context).await,
        TensorCommand::Convert(arguments) => convert::run(arguments, context).await,
        TensorCommand::Merge(arguments) => merge::run(arguments, context).await,
        TensorCommand::Verify(arguments) => verify::run(arguments, context).await,
        TensorCommand::Validate(arguments) => validate::run(arguments, context).await,
        TensorCommand::Quantize(arguments) => quantize::run(arguments, context).await,
    }
}

/// How tensors are stored, as the user asks.
fn write_options(arguments: &SinkArgs) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.zstd = arguments.zstd;
    options.digest = arguments.digest.map(Into::into);
    options.version = arguments.version.map(Into::into);
    options.sparse_below = arguments.sparse_below;
    options.on_temporary = Some(Arc::new(|path| Box::new(Leftover::new(path.to_path_buf())) as Temporary));
    options
}
