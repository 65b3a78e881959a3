//! Opening the carton that a command is about.

use std::ops::ControlFlow;
use std::sync::Arc;

use carton_core::package::Package;
use carton_core::{Carton, OpenOptions, ProgressCallback, ProgressEvent};

use super::Context;
use crate::args::ModelArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt::Wanted;
use crate::progress::ProgressDisplay;

/// A carton that only a network has.
#[derive(Debug, thiserror::Error)]
#[error("`{location}` is remote, and --offline was given")]
struct Offline {
    location: String,
}

/// Opens a carton without starting a runner.
pub(super) async fn open(model: &ModelArgs, context: &Context<'_>) -> Result<Package, Failure> {
    refuse_offline(&model.location, context)?;
    let options = OpenOptions { expect: model.expect, config: Some(context.config.clone()) };
    Ok(Carton::open(model.location.as_str(), options).await?)
}

/// With `--offline` a URL is an error before anybody tries to reach it.
pub(super) fn refuse_offline(location: &str, context: &Context<'_>) -> Result<(), Failure> {
    let scheme = location.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    if context.global.offline && matches!(scheme.as_deref(), Some("http" | "https")) {
        return Err(Failure::with_exit(Exit::Network, Offline { location: location.to_owned() }));
    }
    Ok(())
}

/// Shows what the library reports; `None` when nobody would see it.
pub(super) fn progress(context: &Context<'_>) -> Option<ProgressCallback> {
    let display = Arc::clone(context.output.progress());
    display.is_shown().then(|| {
        Arc::new(move |event: &ProgressEvent| {
            display.update(&event.stage.to_string(), event.done, event.total, event.unit == "bytes");
        }) as ProgressCallback
    })
}

/// Shows the progress of work on the contents of a carton, and stops it when it is no longer wanted.
pub(super) fn on_bytes<'a>(
    stage: &'a str,
    display: &'a ProgressDisplay,
    wanted: &'a Wanted,
) -> impl Fn(carton_core::contents::Progress) -> ControlFlow<()> + 'a {
    move |progress| {
        display.update(stage, progress.bytes_done, Some(progress.bytes_total), true);
        wanted.control()
    }
}
