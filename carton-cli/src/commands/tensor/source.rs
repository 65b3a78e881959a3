//! Opening what the tensors come from, and what all commands do with it.

use carton_core::{Location, file_bytes};
use carton_tensor::files::RawTensor;

use super::super::{Context, open};
use crate::args::{DenseArgs, DigestsArgs, ModelArgs, OnlyArgs, SourceArgs};
use crate::failure::Failure;
use crate::interrupt;
use crate::tensor_files::{Source, SourceLocation, TensorFileError, Value};
use crate::text::one_line;

/// Opens the source of the tensors.
pub(super) async fn open_source(source: SourceArgs, context: &Context<'_>) -> Result<Source, Failure> {
    Ok(try_open_source(source, context).await??)
}

/// As [`open_source`]. Returns the error of the source itself apart, for callers that look at it.
pub(super) async fn try_open_source(
    source: SourceArgs,
    context: &Context<'_>,
) -> Result<Result<Source, TensorFileError>, Failure> {
    match SourceLocation::parse(&source.source) {
        SourceLocation::File(path, only) => {
            interrupt::blocking(move |_| Ok(Source::open(&path, only.as_deref()))).await
        }
        SourceLocation::Unknown(url, only) => open_url(url, only, context).await,
        SourceLocation::Carton(path, only) => {
            let model = ModelArgs { path: path.clone(), ..ModelArgs::default() };
            let package = open::open(&model, context).await?;
            interrupt::blocking(move |_| Ok(Source::carton(package, &path, only.as_deref()))).await
        }
    }
}

/// Opens a tensor file at a URL, of which only what is needed is fetched, or the carton that is there.
async fn open_url(
    url: String,
    only: Option<String>,
    context: &Context<'_>,
) -> Result<Result<Source, TensorFileError>, Failure> {
    /// What a zip file begins with: a carton, or an archive of NumPy's.
    const ZIP: &[u8] = b"PK";
    let location = Location::from(url.as_str());
    // A name without a file is that of a repository, which has a carton.
    let is_file = location.place().is_ok_and(|place| place.names_a_file());
    if is_file {
        let bytes = file_bytes(location.clone()).config(context.config.clone()).await?;
        let shown = location.to_string();
        let is_carton =
            bytes.len() >= 2 && bytes.read(0..2).is_ok_and(|start| *start == *ZIP) && !shown.ends_with(".npz");
        if !is_carton {
            return interrupt::blocking(move |_| Ok(Source::of_bytes(bytes, &shown, only.as_deref()))).await;
        }
    }
    let model = ModelArgs { path: url.clone().into(), ..ModelArgs::default() };
    let package = open::open(&model, context).await?;
    interrupt::blocking(move |_| Ok(Source::carton(package, url.as_ref(), only.as_deref()))).await
}

/// As [`open_source`], with only the requested tensors.
pub(super) async fn open_some(
    source: SourceArgs,
    only: OnlyArgs,
    dense: DenseArgs,
    context: &Context<'_>,
) -> Result<Source, Failure> {
    let mut source = open_source(source, context).await?.with_max_dense(dense.max_dense);
    source.keep_matching(&only.only)?;
    Ok(source)
}

/// Lets the source compare digests, unless the user does not want that, and says which it cannot compare.
pub(super) fn with_digests(source: Source, digests: DigestsArgs, context: &Context<'_>) -> Source {
    if !digests.no_digests
        && let Some(note) = source.unknown_digests("not compared")
    {
        context.output.note(&one_line(&note));
    }
    source.verifying(!digests.no_digests)
}

/// Returns a numeric tensor; `None` for strings and lists.
pub(super) fn numbers(value: Value) -> Option<RawTensor> {
    match value {
        Value::Numbers(tensor) => Some(tensor),
        Value::Strings(_) | Value::Nested(_) => None,
    }
}
