//! The installer of runners with the settings of the command, and the index that it uses.

use std::sync::Arc;

use carton_core::runner::{Installer, Place};
use carton_core::{CancelToken, Config, PlaceError, ShownUrl};

use super::super::{Context, open, set};
use crate::failure::Failure;
use crate::interrupt;

/// The given place of an index or archive is neither a URL nor a path.
#[derive(Debug, thiserror::Error)]
#[error("cannot use `{text}`")]
pub(super) struct UnusablePlace {
    text: ShownUrl,
    source: PlaceError,
}

/// Parses the place of an index or archive.
pub(super) fn parse_place(text: &str) -> Result<Place, UnusablePlace> {
    Place::parse(text).map_err(|source| UnusablePlace { text: ShownUrl::of_text(text), source })
}

/// Parses a place on the command line.
pub(super) fn place(text: &str) -> Result<Place, Failure> {
    parse_place(text).map_err(Failure::usage)
}

/// Returns the index from the command line, or else from the configuration.
pub(super) fn index_place(asked: Option<&str>, config: &Config) -> Result<Option<Place>, Failure> {
    match (asked, config.runner_index.as_deref()) {
        (Some(text), _) => place(text).map(Some),
        (None, Some(text)) => parse_place(text).map_err(Failure::new).map(Some),
        (None, None) => Ok(None),
    }
}

/// Runs `work` with an installer for this context, and the token that cancels the installer, on another thread.
pub(super) async fn with_installer<T: Send + 'static>(
    context: &Context<'_>,
    work: impl FnOnce(&Installer<'_>, &CancelToken) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let config = context.config.clone();
    let progress = open::progress(context);
    let display = Arc::clone(context.output.progress());
    let result = interrupt::blocking(move |cancel_token| {
        let installer = Installer::new(&config).cancel_token(cancel_token.clone());
        work(&set(installer, progress, Installer::progress), cancel_token)
    })
    .await;
    display.finish();
    result
}
