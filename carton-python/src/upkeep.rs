//! The upkeep of this machine: installed runners, and the cache.

use std::time::SystemTime;

use carton_core::cache::{Cache, CachedCarton, PruneOptions, Pruned};
use carton_core::runner::{AvailableRunners, Installer, Place, Requirement};
use pyo3::prelude::*;

use crate::package::config;
use crate::reports::Progress;
use crate::results::{self, fields};
use crate::runtime::blocking;
use crate::{calls, errors, package};

/// The runners that are available: name, version, and where they are installed; `None` for those of the program.
#[pyfunction]
pub(crate) fn runners<'py>(py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let config = config(py, None)?;
    let runners = blocking(py, None, move |_| AvailableRunners::read(&config))?;
    let entry = |runner: &carton_core::runner::Descriptor, folder: Option<&std::path::Path>| {
        let fields = fields!(py, {
            "name": &runner.runner_name,
            "framework_version": runner.framework_version.to_string(),
            "compat_version": runner.runner_compat_version,
            "folder": folder.map(|path| path.as_os_str()),
        });
        results::result(py, "Runner", &fields)
    };
    let embedded = runners.embedded().iter().map(|runner| entry(runner, None));
    let installed = runners.installed().map(|(runner, folder)| entry(runner, Some(folder)));
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
    let config = config(py, None)?;
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
        installer.from_index(&place, &requirement)
    })?;
    Ok(installed.descriptor.to_string())
}

fn carton<'py>(py: Python<'py>, carton: &CachedCarton) -> PyResult<Bound<'py, PyAny>> {
    let last_used = carton.last_used.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let fields = fields!(py, {
        "manifest_sha256": carton.manifest.to_string(),
        "model_name": &carton.model_name,
        "address": carton.address.as_ref().map(ToString::to_string),
        "path": carton.path.as_ref().map(|path| path.as_os_str()),
        "bytes": carton.bytes,
        "last_used": last_used.as_secs_f64(),
        "in_use": carton.in_use,
    });
    results::result(py, "CachedCarton", &fields)
}

fn cartons<'py>(py: Python<'py>, cartons: &[CachedCarton]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    cartons.iter().map(|cached| carton(py, cached)).collect()
}

/// What the cache holds.
#[pyfunction]
pub(crate) fn cache_list<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    let config = config(py, None)?;
    let (path, listing) = blocking(py, None, move |cancel_token| {
        let cache = Cache::open(&config.cache_dir)?.cancel_token(cancel_token);
        Ok((cache.path().to_path_buf(), cache.list()?))
    })?;
    let fields = fields!(py, {
        "path": path.as_os_str(),
        "bytes": listing.bytes,
        "cartons": cartons(py, &listing.cartons)?,
    });
    results::result(py, "CacheListing", &fields)
}

/// Deletes what the cache can spare. `carton.cache.prune` documents it.
#[pyfunction]
#[pyo3(signature = (*, older_than=None, max_size=None, dry_run=false))]
pub(crate) fn cache_prune<'py>(
    py: Python<'py>,
    older_than: Option<f64>,
    max_size: Option<u64>,
    dry_run: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let config = config(py, None)?;
    let mut options = PruneOptions::default();
    options.older_than = older_than.map(|seconds| calls::duration(py, seconds)).transpose()?;
    options.max_size = max_size;
    options.dry_run = dry_run;
    let pruned = blocking(py, None, move |cancel_token| {
        Cache::open(&config.cache_dir)?.cancel_token(cancel_token).prune(&options)
    })?;
    self::pruned(py, &pruned)
}

fn pruned<'py>(py: Python<'py>, pruned: &Pruned) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, {
        "cartons": cartons(py, &pruned.cartons)?,
        "freed": pruned.freed,
        "remaining": pruned.remaining,
    });
    results::result(py, "Pruned", &fields)
}

/// Deletes cartons from the cache. `carton.cache.remove` documents it.
#[pyfunction]
pub(crate) fn cache_remove<'py>(py: Python<'py>, wanted: Vec<String>) -> PyResult<Bound<'py, PyAny>> {
    let config = config(py, None)?;
    let pruned = blocking(py, None, move |cancel_token| {
        Cache::open(&config.cache_dir)?.cancel_token(cancel_token).remove(&wanted)
    })?;
    self::pruned(py, &pruned)
}
