//! Finds the runner for a model: an installed one, or else, when that is allowed, one from the configured index.

use super::{Descriptor, InstallError, Installer, PLATFORM, Place, Registry, Requirement, select};
use crate::config::Config;
use crate::context::Context;
use crate::network::shown;

/// Where a runner may come from, and who waits for it.
pub(crate) struct Choice<'a> {
    pub(crate) config: &'a Config,
    /// Whether a missing runner is installed, if the configuration does not say so already.
    pub(crate) install: bool,
    pub(crate) context: &'a Context,
}

/// The runner that meets `requirement`.
///
/// # Errors
/// [`InstallError::NoRunner`] when none does and none may be installed; else what kept it from being installed.
pub(crate) fn choose(requirement: &Requirement, choice: &Choice<'_>) -> Result<Descriptor, InstallError> {
    let registry = Registry::read(&choice.config.runner_dir)?;
    match select(registry.runners(), requirement, PLATFORM) {
        Ok(runner) => Ok(runner.clone()),
        Err(mut none) => {
            none.index_configured = choice.config.runner_index.is_some();
            match &choice.config.runner_index {
                Some(index) if choice.install || choice.config.auto_install => install(requirement, index, choice),
                _ => Err(InstallError::NoRunner(none)),
            }
        }
    }
}

fn install(requirement: &Requirement, index: &str, choice: &Choice<'_>) -> Result<Descriptor, InstallError> {
    let place = Place::parse(index).map_err(|source| InstallError::Place { text: shown(index), source })?;
    let installer = Installer::with_context(choice.config, choice.context.clone());
    let installed = installer.from_index(&place, requirement)?;
    tracing::info!(runner = %installed.descriptor, index = %place, "installed a runner");
    Ok(installed.descriptor)
}
