//! Finds the runner for a model: an installed one or, if that is allowed, one from the configured index.

use carton_format::context::Context;

use super::{AvailableRunners, Descriptor, InstallError, Installer, PLATFORM, Place, Requirement, select};
use crate::config::Config;
use crate::error::Error;

/// Where a runner may come from, and the context of the operation that needs it.
pub(crate) struct RunnerSources<'a> {
    pub(crate) config: &'a Config,
    /// Whether a missing runner is installed even if the configuration does not allow it in general.
    pub(crate) install: bool,
    pub(crate) context: &'a Context,
}

/// Returns a runner that meets `requirement`, installing it if necessary and allowed.
///
/// # Errors
/// [`InstallError::NoRunner`] if there is none and none may be installed; [`InstallError::LostLibrary`] if it has lost its library;
/// otherwise the error of the installation.
pub(crate) fn choose(requirement: &Requirement, sources: &RunnerSources<'_>) -> Result<Descriptor, Error> {
    let runners = AvailableRunners::read(sources.config)?;
    match select(runners.runners(), requirement, PLATFORM) {
        Ok(runner) => match runner.lost_library() {
            None => Ok(runner.clone()),
            Some(folder) => Err(InstallError::LostLibrary { runner: runner.to_string(), folder }.into()),
        },
        Err(mut none) => {
            none.index_configured = sources.config.runner_index.is_some();
            match &sources.config.runner_index {
                Some(index) if sources.install || sources.config.auto_install => install(requirement, index, sources),
                _ => Err(InstallError::NoRunner(none).into()),
            }
        }
    }
}

fn install(requirement: &Requirement, index: &str, sources: &RunnerSources<'_>) -> Result<Descriptor, Error> {
    let place = Place::parse(index).map_err(InstallError::place(index))?;
    let installer = Installer::with_context(sources.config, sources.context.clone());
    let installed = installer.from_index(&place, requirement)?;
    tracing::info!(runner = %installed.descriptor, index = %place, "installed a runner");
    Ok(installed.descriptor)
}
