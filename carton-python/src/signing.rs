//! Keys, and signing: making them, and signing cartons.

use std::io::Write as _;
use std::path::Path;

use carton_core::trust::{Certificate, Curve, KeyError, PrivateKey, SigningIdentity, bundle_path};
use carton_core::{Carton, ErrorKind, Location, Open};
use carton_tensor::files::PendingFile;
use pyo3::prelude::*;

use crate::paths::GivenPath;
use crate::results::{self, fields};
use crate::{errors, package, runtime};

/// Makes a key. Returns its private and its public PEM text, and its fingerprint. `carton.keygen` documents it.
#[pyfunction]
#[pyo3(signature = (curve, password=None))]
pub(crate) fn generate_key(py: Python<'_>, curve: &str, password: Option<&str>) -> PyResult<(String, String, String)> {
    let curve = match curve {
        "p256" => Curve::P256,
        "p384" => Curve::P384,
        other => return Err(errors::invalid(py, &format!("expected the curve `p256` or `p384`, found `{other}`"))),
    };
    let failed = |error: KeyError| errors::invalid(py, &error.to_string());
    let key = PrivateKey::generate(curve).map_err(failed)?;
    let public = key.public_key();
    Ok((key.to_pem(password).map_err(failed)?, public.to_pem(), public.fingerprint()))
}

/// Signs a carton. `key` and `certificates` are PEM texts. `carton.sign` documents it.
#[pyfunction]
#[pyo3(signature = (location, *, key, password=None, certificates=None, expect=None, output=None, progress=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn sign<'py>(
    py: Python<'py>,
    location: &str,
    key: &str,
    password: Option<&str>,
    certificates: Option<Vec<String>>,
    expect: Option<&str>,
    output: Option<GivenPath>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let invalid = |error: &dyn std::error::Error| errors::invalid(py, &error.to_string());
    let location = Location::from(location);
    let output = match (output, location.path()) {
        (Some(path), _) => path.0,
        (None, Some(path)) => bundle_path(path),
        (None, None) => {
            return Err(errors::invalid(py, "the carton is on a server: name the file to write, `output=`"));
        }
    };
    let key = PrivateKey::from_pem(key, password).map_err(|error| invalid(&error))?;
    let mut chain = Vec::new();
    for text in certificates.unwrap_or_default() {
        chain.extend(Certificate::from_pem(&text).map_err(|error| invalid(&error))?);
    }
    let identity = SigningIdentity::with_certificates(key, chain).map_err(|error| invalid(&error))?;
    // Where a rule requires a bundle, this is what makes it.
    let mut open = Carton::open(location).require_signed(false);
    if let Some(text) = expect {
        open = open.expect_hash(package::hash(py, text)?);
    }
    let package = runtime::wait_with_progress(py, progress, open, Open::progress)?;
    let Some(bundle) = package.sign(&identity) else {
        return Err(errors::invalid(py, "only a carton can be signed, and this is a bare model"));
    };
    write(&output, &bundle).map_err(|error| {
        let error = std::io::Error::new(error.kind(), format!("cannot write `{}`: {error}", output.display()));
        errors::of_kind(py, ErrorKind::Machine, &error)
    })?;
    let fields = fields!(py, {
        "path": output.as_os_str(),
        "manifest_sha256": package.manifest_sha256().map(|hash| hash.to_string()),
        "key": identity.key().public_key().fingerprint(),
        "identities": identity.certificate().map(Certificate::names).unwrap_or_default(),
    });
    results::result(py, "Signed", &fields)
}

/// Writes a bundle under a temporary name, and renames it.
fn write(path: &Path, bundle: &[u8]) -> std::io::Result<()> {
    let file = PendingFile::new(path)?;
    file.file().write_all(bundle)?;
    file.publish()
}
