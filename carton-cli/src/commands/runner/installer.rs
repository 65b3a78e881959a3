//! The installer of runners with the settings of the command, and the index that it uses.

use std::sync::Arc;

use carton_core::Config;
use carton_core::ShownUrl;
use carton_core::errors::InstallError;
use carton_core::runner::{Installer, Place};

use super::super::{Context, open};
use crate::failure::Failure;
use crate::interrupt;

pub(super) fn failure(error: InstallError) -> Failure {
    carton_core::Error::from(error).into()
}

/// Returns the index from the command line, or else from the configuration.
pub(super) fn index_place(asked: Option<&str>, config: &Config) -> Result<Option<Place>, Failure> {
    let Some(text) = asked.or(config.runner_index.as_deref()) else { return Ok(None) };
    let place =
        Place::parse(text).map_err(|source| failure(InstallError::Place { text: ShownUrl::of_text(text), source }))?;
    Ok(Some(place))
}

/// Runs `work` with an installer for this context, on another thread.
pub(super) async fn with_installer<T: Send + 'static>(
    context: &Context<'_>,
    work: impl FnOnce(&Installer<'_>) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let config = context.config.clone();
    let progress = open::progress(context);
    let display = Arc::clone(context.output.progress());
    let result = interrupt::blocking(move |cancel_token| {
        let installer = Installer::new(&config).cancel_token(cancel_token.clone());
        work(&match progress {
            Some(progress) => installer.progress(progress),
            None => installer,
        })
    })
    .await;
    display.finish();
    result
}
