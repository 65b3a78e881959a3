//! `carton tensor …`: works on the tensors in files and cartons.

mod cat;
mod convert;
mod groups;
mod ls;
mod plot;
mod quantize;
mod quantize_report;
mod stats;
mod validate;
mod verify;

use carton_core::CancelToken;
use carton_tensor::files::RawTensor;

use super::{Context, open};
use crate::args::{DenseArgs, ModelArgs, OnlyArgs, SourceArgs, TensorCommand};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::tensor_files::{Source, SourceLocation, TensorFileError, Value};

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

/// Opens the source of the tensors.
async fn open_source(source: SourceArgs, context: &Context<'_>) -> Result<Source, Failure> {
    match SourceLocation::parse(&source.source) {
        SourceLocation::File(path, only) => {
            interrupt::blocking(move |_| Ok(Source::open(&path, only.as_deref())?)).await
        }
        SourceLocation::Carton(path, only) => {
            let model = ModelArgs { path: path.clone(), expect: None, allow_file_links: false };
            let package = open::open(&model, context).await?;
            interrupt::blocking(move |_| Ok(Source::carton(package, &path, only.as_deref())?)).await
        }
    }
}

/// As [`open_source`], with only the requested tensors.
async fn open_some(
    source: SourceArgs,
    only: OnlyArgs,
    dense: DenseArgs,
    context: &Context<'_>,
) -> Result<Source, Failure> {
    let mut source = open_source(source, context).await?.with_max_dense(dense.max_dense);
    source.keep_matching(&only.only)?;
    Ok(source)
}

/// Returns an error if the work was cancelled.
fn check_cancelled(cancel_token: &CancelToken) -> Result<(), TensorFileError> {
    if cancel_token.is_cancelled() { Err(TensorFileError::Interrupted) } else { Ok(()) }
}

/// Returns a numeric tensor; `None` for strings and lists.
fn numbers(value: Value) -> Option<RawTensor> {
    match value {
        Value::Numbers(tensor) => Some(tensor),
        Value::Strings(_) | Value::Nested(_) => None,
    }
}
