//! Opens the carton that a command is about.

use std::path::Path;

use carton_core::{Carton, Open, Package, ProgressEvent};

use super::trust::{is_looked_for, with_trust};
use super::{Context, set};
use crate::args::ModelArgs;
use crate::failure::{Exit, Failure};

/// Opens a carton without starting a runner.
pub(super) async fn open(model: &ModelArgs, context: &Context<'_>) -> Result<Package, Failure> {
    as_asked(model, context)?.await.map_err(|error| unopened(error, &model.path))
}

/// As [`open`], and looks for the carton's signing bundle where somebody is trusted, where that costs no request, or where it
/// `is_worth_a_request`.
pub(super) async fn open_with_signing(
    model: &ModelArgs,
    is_worth_a_request: bool,
    context: &Context<'_>,
) -> Result<Package, Failure> {
    let open = as_asked(model, context)?;
    let is_looked_for = is_worth_a_request || is_looked_for(model, &context.config);
    let open = if is_looked_for { open.look_for_bundle() } else { open };
    open.await.map_err(|error| unopened(error, &model.path))
}

fn as_asked(model: &ModelArgs, context: &Context<'_>) -> Result<Open, Failure> {
    let open = Carton::open(model.location()).allow_file_links(model.allow_file_links).config(context.config.clone());
    let open = set(with_trust!(open, model), model.expect, Open::expect_hash);
    Ok(set(open, progress(context), Open::progress))
}

/// As [`explained`], for a carton that is not opened: it may be in the cache.
pub(super) fn unopened(error: carton_core::Error, path: &Path) -> Failure {
    let is_unreachable = error.is_unreachable();
    let failure = explained(error, path);
    if is_unreachable && failure.advice().is_none() {
        return failure
            .hint("what was used on this machine before may be in the cache: `--offline` takes it from there");
    }
    failure
}

/// Adds a hint if the file does not look like a carton at all, rather than like a damaged one.
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

/// Whether a path looks like a bare model or anything else but a carton. Anything with the name or the parts of a carton counts as one,
/// so that its errors are reported.
pub(super) fn looks_bare(path: &Path) -> bool {
    if path.extension().is_some_and(|extension| extension == "carton") {
        return false;
    }
    if path.is_dir() {
        return !path.join("carton.toml").is_file();
    }
    // Frameworks use zip files, too, so a zip file counts as a carton only if it has the parts of one.
    path.is_file() && !Carton::looks_like_one(path)
}

/// Returns a callback that shows the library's progress; `None` if no progress is shown.
pub(super) fn progress(context: &Context<'_>) -> Option<impl Fn(&ProgressEvent) + Clone + Send + Sync + 'static> {
    let display = context.output.progress();
    display.is_shown().then(|| display.listener())
}
