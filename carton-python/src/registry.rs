//! Cartons in registries of container images.

use std::path::PathBuf;

use carton_core::registry::{self, List, Pull, Push, Reference, Tag, TagInfo};
use carton_core::{Carton, Location};
use pyo3::prelude::*;

use crate::paths::GivenPath;
use crate::results::{self, fields};
use crate::{errors, pack, package, runtime};

/// Configures the trust in a carton that is opened.
macro_rules! with_trust {
    ($py:expr, $operation:expr, $expect:expr, $trusted_keys:expr, $bundle:expr, $require_signed:expr) => {{
        let mut operation = $operation;
        if let Some(text) = $expect {
            operation = operation.expect_hash(package::hash($py, text)?);
        }
        for key in package::public_keys($py, &$trusted_keys.unwrap_or_default())? {
            operation = operation.trust_key(key);
        }
        if let Some(bundle) = $bundle {
            operation = operation.bundle(bundle);
        }
        if let Some(required) = $require_signed {
            operation = operation.require_signed(required);
        }
        operation
    }};
}

/// The name of an artifact, from its URL.
fn reference(py: Python<'_>, text: &str) -> PyResult<Reference> {
    text.parse::<Reference>()
        .map_err(|error| errors::invalid(py, &format!("`{text}` is not the name of an artifact: {error}")))
}

/// Pushes a carton and waits for it. `carton.push` documents it.
#[pyfunction]
#[pyo3(signature = (location, artifact, *, min_size=None, mount_from=None, expect=None, allow_file_links=false, trusted_keys=None,
    bundle=None, require_signed=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "the keyword arguments of Python")]
pub(crate) fn push<'py>(
    py: Python<'py>,
    location: &str,
    artifact: &str,
    min_size: Option<u64>,
    mount_from: Option<Vec<String>>,
    expect: Option<&str>,
    allow_file_links: bool,
    trusted_keys: Option<Vec<String>>,
    bundle: Option<&str>,
    require_signed: Option<bool>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let push = Carton::push(Location::from(location), reference(py, artifact)?).allow_file_links(allow_file_links);
    let mut push = with_trust!(py, push, expect, trusted_keys, bundle, require_signed);
    if let Some(min_size) = min_size {
        push = push.min_size(min_size);
    }
    push = mount_from.into_iter().flatten().fold(push, Push::mount_from);
    let pushed = runtime::wait_with_progress(py, progress, push, Push::progress)?;
    let fields = fields!(py, {
        "artifact": pushed.reference.to_string(),
        "digest": pushed.reference.digest().map(|digest| digest.to_string()),
        "manifest_sha256": pushed.manifest_sha256.to_string(),
        "blobs": pushed.n_blobs,
        "sent": pushed.sent,
        "mounted": pushed.mounted,
        "present": pushed.present,
        "signed": pushed.signed,
    });
    results::result(py, "Pushed", &fields)
}

/// Writes a carton of a registry to a file, and waits for it. `carton.pull` documents it.
#[pyfunction]
#[pyo3(signature = (artifact, output=None, *, compression=None, expect=None, trusted_keys=None, bundle=None, require_signed=None,
    progress=None))]
#[expect(clippy::too_many_arguments, reason = "the keyword arguments of Python")]
pub(crate) fn pull<'py>(
    py: Python<'py>,
    artifact: &str,
    output: Option<GivenPath>,
    compression: Option<&str>,
    expect: Option<&str>,
    trusted_keys: Option<Vec<String>>,
    bundle: Option<&str>,
    require_signed: Option<bool>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let reference = reference(py, artifact)?;
    let name = || reference.repository().rsplit('/').next().unwrap_or("model").to_owned();
    let output = output.map_or_else(|| PathBuf::from(format!("{}.carton", name())), |path| path.0);
    let pull = Carton::pull(reference, output);
    let mut pull = with_trust!(py, pull, expect, trusted_keys, bundle, require_signed);
    if let Some(name) = compression {
        pull = pull.compression(pack::compression(py, name)?);
    }
    let pulled = runtime::wait_with_progress(py, progress, pull, Pull::progress)?;
    let fields = fields!(py, {
        "path": pulled.path.as_os_str(),
        "manifest_sha256": pulled.manifest_sha256.to_string(),
        "bundle": pulled.bundle.as_ref().map(|path| path.as_os_str()),
    });
    results::result(py, "Pulled", &fields)
}

/// Gives an artifact a tag, and waits for it. `carton.tag` documents it.
#[pyfunction]
#[pyo3(signature = (artifact, tag, *, progress=None))]
pub(crate) fn tag<'py>(
    py: Python<'py>,
    artifact: &str,
    tag: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let tag = registry::tag(reference(py, artifact)?, tag).map_err(|error| errors::invalid(py, &error.to_string()))?;
    let tagged = runtime::wait_with_progress(py, progress, tag, Tag::progress)?;
    let fields = fields!(py, { "artifact": tagged.reference.to_string(), "digest": tagged.digest.to_string() });
    results::result(py, "Tagged", &fields)
}

/// Lists the tags of a repository, and waits for it. `carton.tags` documents it.
#[pyfunction]
#[pyo3(signature = (repository, *, progress=None))]
pub(crate) fn tags<'py>(
    py: Python<'py>,
    repository: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let list = registry::list(reference(py, repository)?);
    let listed: Vec<TagInfo> = runtime::wait_with_progress(py, progress, list, List::progress)?;
    let shown = |listed: TagInfo| {
        let fields = fields!(py, {
            "tag": listed.reference.tag(),
            "artifact": listed.reference.to_string(),
            "digest": listed.digest.map(|digest| digest.to_string()),
            "manifest_sha256": listed.manifest_sha256.map(|hash| hash.to_string()),
            "size": listed.size,
        });
        results::result(py, "TagInfo", &fields)
    };
    listed.into_iter().map(shown).collect()
}
