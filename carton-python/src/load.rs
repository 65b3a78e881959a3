//! Loading models: the options, waited for or awaited.

use carton_core::signature::SignatureMode;
use carton_core::{Carton, Load, Location};
use pyo3::prelude::*;

use crate::calls::duration;
use crate::model::Model;
use crate::sandbox::SandboxOptions;
use crate::{bridge, errors, package, runtime};

/// The options of `load`, of which Python passes those that the caller gave.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct LoadOptions {
    #[pyo3(default)]
    expect: Option<String>,
    #[pyo3(default)]
    device: Option<String>,
    #[pyo3(default)]
    runner: Option<String>,
    /// JSON.
    #[pyo3(default)]
    options: Option<String>,
    #[pyo3(default)]
    timeout: Option<f64>,
    #[pyo3(default)]
    load_timeout: Option<f64>,
    #[pyo3(default)]
    pool_wait: Option<f64>,
    #[pyo3(default)]
    signature: Option<String>,
    install_runners: bool,
    bare: bool,
    allow_file_links: bool,
    trusted_keys: Vec<String>,
    #[pyo3(default)]
    bundle: Option<String>,
    #[pyo3(default)]
    require_signed: Option<bool>,
    restart: bool,
    #[pyo3(default)]
    pool_bytes: Option<u64>,
    #[pyo3(default)]
    offline: Option<bool>,
    #[pyo3(default)]
    framework_version: Option<String>,
    sandbox: SandboxOptions,
}

impl LoadOptions {
    fn load(self, py: Python<'_>, location: Location) -> PyResult<Load> {
        let invalid = |error: &dyn std::error::Error| errors::invalid(py, &error.to_string());
        let mut load = match (self.bare, self.runner, location.path()) {
            (true, Some(runner), Some(path)) => Carton::load_bare(path, runner),
            (true, _, _) => return Err(errors::invalid(py, "a bare model needs its path and `runner=`")),
            (false, None, _) => Carton::load(location),
            (false, Some(runner), _) => Carton::load(location).runner(runner),
        };
        if let Some(hash) = self.expect {
            load = load.expect_hash(package::hash(py, &hash)?);
        }
        for key in package::public_keys(py, &self.trusted_keys)? {
            load = load.trust_key(key);
        }
        if let Some(bundle) = self.bundle {
            load = load.bundle(bundle);
        }
        if let Some(required) = self.require_signed {
            load = load.require_signed(required);
        }
        if let Some(device) = self.device {
            load = load.device(device);
        }
        if let Some(options) = self.options {
            load = load.options(package::options(py, &options)?);
        }
        if let Some(seconds) = self.timeout {
            load = load.timeout(duration(py, seconds)?);
        }
        if let Some(seconds) = self.load_timeout {
            load = load.load_timeout(duration(py, seconds)?);
        }
        if let Some(seconds) = self.pool_wait {
            load = load.pool_wait(duration(py, seconds)?);
        }
        if let Some(mode) = self.signature {
            load = load.signature(mode.parse::<SignatureMode>().map_err(|error| invalid(&error))?);
        }
        if let Some(n_bytes) = self.pool_bytes {
            load = load.pool_bytes(n_bytes);
        }
        if let Some(required) = self.framework_version {
            load = load.framework_version(package::requirement(py, &required)?);
        }
        if self.offline.is_some() {
            load = load.config(package::config(py, self.offline)?);
        }
        let load = self.sandbox.apply(py, load)?;
        Ok(load.install_runners(self.install_runners).allow_file_links(self.allow_file_links).restart(self.restart))
    }
}

/// Loads a model and waits for it. `carton.load` documents it.
#[pyfunction]
#[pyo3(signature = (location, options, progress=None))]
pub(crate) fn load(
    py: Python<'_>,
    location: &str,
    options: LoadOptions,
    progress: Option<Py<PyAny>>,
) -> PyResult<Model> {
    let load = options.load(py, Location::from(location))?;
    Ok(Model::new(runtime::wait_with_progress(py, progress, load, Load::progress)?))
}

/// Loads a model; the result is awaited.
#[pyfunction]
pub(crate) fn load_async<'py>(py: Python<'py>, location: &str, options: LoadOptions) -> PyResult<Bound<'py, PyAny>> {
    let load = options.load(py, Location::from(location))?;
    bridge::awaitable(py, load.into_future(), |py, carton| Ok(Py::new(py, Model::new(carton))?.into_any()))
}
