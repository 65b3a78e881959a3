//! The upkeep of this machine: installed runners, and the cache.

use std::time::{Duration, SystemTime};

use carton_core::cache::{Cache, CachedCarton, PruneOptions};
use carton_core::config::Config;
use carton_core::runner::{Installer, Place, Registry, Requirement};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::reports::Progress;
use crate::runtime::blocking;
use crate::{errors, package};

fn config(py: Python<'_>) -> PyResult<Config> {
    Config::load(None).map_err(|error| errors::of_error(py, &error.into()))
}

/// The runners that are available: name, version, and where they are installed; `None` for those of the program.
#[pyfunction]
pub(crate) fn runners<'py>(py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let config = config(py)?;
    let registry = blocking(py, None, move |_| Ok(Registry::read(&config.runner_dir)?))?;
    let entry = |runner: &carton_core::runner::Descriptor, folder: Option<&std::path::Path>| {
        let entry = PyDict::new(py);
        entry.set_item("name", &runner.runner_name)?;
        entry.set_item("framework_version", runner.framework_version.to_string())?;
        entry.set_item("compat_version", runner.runner_compat_version)?;
        entry.set_item("folder", folder)?;
        Ok(entry)
    };
    let embedded = registry.embedded().iter().map(|runner| entry(runner, None));
    let installed = registry.installed().map(|(runner, folder)| entry(runner, Some(folder)));
    embedded.chain(installed).collect()
}

/// Installs a runner from an index, by default the configured one. `carton.install_runner` documents it.
#[pyfunction]
#[pyo3(signature = (name, *, version=None, index=None, progress=None))]
pub(crate) fn install_runner(
    py: Python<'_>,
    name: &str,
    version: Option<&str>,
    index: Option<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let progress = Progress::new(progress);
    let config = config(py)?;
    let index = index.or_else(|| config.runner_index.clone());
    let index = index.ok_or_else(|| errors::invalid(py, "no runner index is configured: pass index="))?;
    let place = Place::parse(&index).map_err(|error| errors::of_error(py, &error.into()))?;
    let mut requirement = Requirement::new(name);
    if let Some(version) = version {
        requirement.framework_version = Some(package::requirement(py, version)?);
    }
    let listener = progress.as_ref().map(Progress::listener);
    let installed = blocking(py, progress.as_ref(), move |cancel_token| {
        let mut installer = Installer::new(&config).cancel_token(cancel_token);
        if let Some(listener) = listener {
            installer = installer.progress(listener);
        }
        Ok(installer.from_index(&place, &requirement)?)
    })?;
    Ok(installed.descriptor.to_string())
}

fn carton<'py>(py: Python<'py>, carton: &CachedCarton) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("manifest_sha256", carton.manifest.to_string())?;
    entry.set_item("model_name", &carton.model_name)?;
    entry.set_item("address", carton.address.as_ref().map(ToString::to_string))?;
    entry.set_item("path", &carton.path)?;
    entry.set_item("bytes", carton.bytes)?;
    let last_used = carton.last_used.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    entry.set_item("last_used", last_used.as_secs_f64())?;
    entry.set_item("in_use", carton.in_use)?;
    Ok(entry)
}

fn cartons<'py>(py: Python<'py>, cartons: &[CachedCarton]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    cartons.iter().map(|cached| carton(py, cached)).collect()
}

/// What the cache holds.
#[pyfunction]
pub(crate) fn cache_list<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let config = config(py)?;
    let (path, listing) = blocking(py, None, move |cancel_token| {
        let cache = Cache::open(&config.cache_dir)?.cancel_token(cancel_token);
        Ok((cache.path().to_path_buf(), cache.list()?))
    })?;
    let result = PyDict::new(py);
    result.set_item("path", path)?;
    result.set_item("bytes", listing.bytes)?;
    result.set_item("cartons", cartons(py, &listing.cartons)?)?;
    Ok(result)
}

/// Deletes what the cache can spare. `carton.cache.prune` documents it.
#[pyfunction]
#[pyo3(signature = (*, older_than=None, max_size=None, dry_run=false))]
pub(crate) fn cache_prune<'py>(
    py: Python<'py>,
    older_than: Option<f64>,
    max_size: Option<u64>,
    dry_run: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let config = config(py)?;
    let mut options = PruneOptions::default();
    options.older_than = older_than
        .map(|seconds| {
            Duration::try_from_secs_f64(seconds).map_err(|_| errors::invalid(py, "older_than is a time in seconds"))
        })
        .transpose()?;
    options.max_size = max_size;
    options.dry_run = dry_run;
    let pruned = blocking(py, None, move |cancel_token| {
        Ok(Cache::open(&config.cache_dir)?.cancel_token(cancel_token).prune(&options)?)
    })?;
    let result = PyDict::new(py);
    result.set_item("cartons", cartons(py, &pruned.cartons)?)?;
    result.set_item("freed", pruned.freed)?;
    result.set_item("remaining", pruned.remaining)?;
    Ok(result)
}

/// Deletes cartons from the cache. `carton.cache.remove` documents it.
#[pyfunction]
pub(crate) fn cache_remove<'py>(py: Python<'py>, wanted: Vec<String>) -> PyResult<Bound<'py, PyDict>> {
    let config = config(py)?;
    let pruned = blocking(py, None, move |cancel_token| {
        Ok(Cache::open(&config.cache_dir)?.cancel_token(cancel_token).remove(&wanted)?)
    })?;
    let result = PyDict::new(py);
    result.set_item("cartons", cartons(py, &pruned.cartons)?)?;
    result.set_item("freed", pruned.freed)?;
    Ok(result)
}
