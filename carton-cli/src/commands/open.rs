//! Opening the carton that a command is about.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use carton_core::archive::Archive;
use carton_core::contents::Work;
use carton_core::package::Package;
use carton_core::source::FileSource;
use carton_core::{Carton, OpenOptions, ProgressCallback, ProgressEvent, Stage};

use super::Context;
use crate::args::ModelArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt::Wanted;
use crate::progress::ProgressDisplay;

/// Opens a carton without starting a runner.
pub(super) async fn open(model: &ModelArgs, context: &Context<'_>) -> Result<Package, Failure> {
    let options = OpenOptions {
        expect: model.expect,
        allow_file_links: model.allow_file_links,
        config: Some(context.config.clone()),
        progress: progress(context),
    };
    Carton::open(model.location(), options).await.map_err(|error| explained(error, &model.path))
}

/// Adds what to do when the file is no carton at all, rather than a damaged one.
pub(super) fn explained(error: carton_core::Error, path: &Path) -> Failure {
    let failure = Failure::from(error);
    if failure.exit() == Exit::Integrity && failure.advice().is_none() && looks_bare(path) {
        return failure.hint(
            "it does not look like a carton; `carton pack` makes one of a model, and `carton run` runs a bare model \
             when it is told which --runner to use",
        );
    }
    failure
}

/// Whether a path looks like a model that is in no carton, or like something else. What has the name or the parts of a
/// carton is one, so that its errors are told.
pub(super) fn looks_bare(path: &Path) -> bool {
    if path.extension().is_some_and(|extension| extension == "carton") {
        return false;
    }
    if path.is_dir() {
        return !path.join("carton.toml").is_file();
    }
    // Frameworks use zip files too, so one is a carton only if it has the parts of one.
    path.is_file() && !has_the_parts_of_a_carton(path)
}

fn has_the_parts_of_a_carton(path: &Path) -> bool {
    let Ok(source) = FileSource::open(path) else { return false };
    let archive = Archive::open(Arc::new(source));
    archive.is_ok_and(|archive| archive.get("MANIFEST").is_some() && archive.get("carton.toml").is_some())
}

/// Shows what the library reports; `None` when nobody would see it.
pub(super) fn progress(context: &Context<'_>) -> Option<ProgressCallback> {
    let display = Arc::clone(context.output.progress());
    display.is_shown().then(|| {
        Arc::new(move |event: &ProgressEvent| {
            let is_bytes = event.unit == "bytes";
            display.update_kept(&event.stage.to_string(), event.done, event.kept, event.total, is_bytes);
        }) as ProgressCallback
    })
}

/// Shows the progress of work on the contents of a carton, and stops it when it is no longer wanted.
pub(super) fn on_bytes<'a>(
    stage: &'a str,
    display: &'a ProgressDisplay,
    wanted: &'a Wanted,
) -> impl Fn(carton_core::contents::Progress) -> ControlFlow<()> + 'a {
    let fetching = Stage::Fetch.to_string();
    move |progress| {
        let stage = match progress.work {
            Work::Fetch => fetching.as_str(),
            Work::Read => stage,
        };
        display.update_kept(stage, progress.bytes_done, progress.bytes_kept, Some(progress.bytes_total), true);
        wanted.control()
    }
}
