//! Opening what the tensors come from, and what all commands do with it.

use carton_core::{ErrorKind, Location, Open, Place};
use carton_tensor_files::{TensorFilesError, TensorLocation, TensorSource};

use super::super::{Context, open, set};
use crate::args::{DenseArgs, DigestsArgs, OnlyArgs, SourceArgs};
use crate::failure::Failure;
use crate::interrupt;
use crate::text::one_line;

/// Opens the source of the tensors.
pub(super) async fn open_source(source: SourceArgs, context: &Context<'_>) -> Result<TensorSource, Failure> {
    Ok(try_open_source(source, context).await??)
}

/// As [`open_source`]. Returns the error of the source itself apart, for callers that look at it.
pub(super) async fn try_open_source(
    source: SourceArgs,
    context: &Context<'_>,
) -> Result<Result<TensorSource, TensorFilesError>, Failure> {
    let location = TensorLocation::from(source.source.as_path());
    let progress = open::progress(context);
    let opening = carton_tensor_files::open(location.clone())
        .config(context.config.clone())
        .follow_links(source.links.into())
        .cancel_token(interrupt::token())
        .opening(move |open| set(open, progress.clone(), Open::progress));
    match (opening.await, location) {
        (Err(TensorFilesError::Carton(error)), TensorLocation::Carton(place, _)) => {
            Err(open::unopened(error, place.as_ref()))
        }
        (Err(TensorFilesError::Carton(error)), TensorLocation::Url(..))
            if context.config.offline && error.kind() == ErrorKind::Network =>
        {
            let hint =
                "tensor files are not kept in the cache: leave out --offline, and `offline` in the configuration";
            Err(Failure::from(error).hint(hint))
        }
        // What was used of a file is not in the cache, but a repository has a carton.
        (Err(TensorFilesError::Carton(error)), TensorLocation::Url(url, _))
            if !Location::from(url.as_str()).place().is_ok_and(Place::names_a_file) =>
        {
            Err(open::unopened(error, url.as_ref()))
        }
        (opened, _) => Ok(opened),
    }
}

/// As [`open_source`], with only the requested tensors.
pub(super) async fn open_some(
    source: SourceArgs,
    only: OnlyArgs,
    dense: DenseArgs,
    context: &Context<'_>,
) -> Result<TensorSource, Failure> {
    let mut source = open_source(source, context).await?.with_max_dense(dense.max_dense);
    source.keep_matching(&only.only)?;
    Ok(source)
}

/// Lets the source compare digests, unless the user does not want that, and says which it cannot compare.
pub(super) fn with_digests(source: TensorSource, digests: DigestsArgs, context: &Context<'_>) -> TensorSource {
    if !digests.no_digests
        && let Some(note) = source.unknown_digests("not compared")
    {
        context.output.note(&one_line(&note));
    }
    source.verifying(!digests.no_digests)
}
