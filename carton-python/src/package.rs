//! Opened cartons: what they say of themselves, their files and tensors.

use carton_bom::{Format, Moment, UnknownFormat};
use carton_core::config::Config;
use carton_core::diff::Diff;
use carton_core::package::ExampleValue;
use carton_core::tensor::Tolerance;
use carton_core::trust::{PublicKey, SigningStatus};
use carton_core::{Carton, Error, Location, ManifestHash, Open, Options, Tensor, Unpack, Verify, VersionReq};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::paths::GivenPath;
use crate::results::{self, fields};
use crate::specs::TensorSpec;
use crate::{errors, runtime, tensors};

/// A hash of a carton, from text.
pub(crate) fn hash(py: Python<'_>, text: &str) -> PyResult<ManifestHash> {
    text.parse().map_err(|error: carton_core::DigestError| errors::invalid(py, &error.to_string()))
}

/// Who signed a carton, as Python has it.
fn shown_status<'py>(py: Python<'py>, status: Option<&SigningStatus>) -> PyResult<Option<Bound<'py, PyAny>>> {
    status.map(|status| results::report(py, "signing_status", status)).transpose()
}

/// A requirement on a version, from text.
pub(crate) fn requirement(py: Python<'_>, text: &str) -> PyResult<VersionReq> {
    text.parse().map_err(|error| errors::invalid(py, &format!("`{text}` is not a version requirement: {error}")))
}

/// Options of a runner, from JSON.
pub(crate) fn options(py: Python<'_>, json: &str) -> PyResult<Options> {
    serde_json::from_str(json).map_err(|error| errors::invalid(py, &format!("these options are not usable: {error}")))
}

/// The configuration of this machine, with `offline` in place of its own setting if it is given.
pub(crate) fn config(py: Python<'_>, offline: Option<bool>) -> PyResult<Config> {
    let mut config = Config::load(None).map_err(|error| errors::of_error(py, &error))?;
    config.offline = offline.unwrap_or(config.offline);
    Ok(config)
}

/// Reads public keys from their PEM texts.
pub(crate) fn public_keys(py: Python<'_>, texts: &[String]) -> PyResult<Vec<PublicKey>> {
    let read = |text: &String| {
        PublicKey::from_pem(text).map_err(|error| errors::invalid(py, &format!("not a usable public key: {error}")))
    };
    texts.iter().map(read).collect()
}

/// Opens a carton and waits for it. `carton.open` documents it.
#[pyfunction]
#[pyo3(signature = (location, *, expect=None, allow_file_links=false, trusted_keys=None, bundle=None, require_signed=None,
    offline=None, progress=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn open(
    py: Python<'_>,
    location: &str,
    expect: Option<&str>,
    allow_file_links: bool,
    trusted_keys: Option<Vec<String>>,
    bundle: Option<&str>,
    require_signed: Option<bool>,
    offline: Option<bool>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Package> {
    let config = config(py, offline)?;
    let location = Location::from(location);
    // As `carton info` does: it costs a request only if somebody is trusted.
    let trusted_keys = public_keys(py, &trusted_keys.unwrap_or_default())?;
    let is_trust_given = !trusted_keys.is_empty() || bundle.is_some() || require_signed.is_some();
    let is_looked_for = location.path().is_some() || is_trust_given || !config.trust.is_empty();
    let mut open = Carton::open(location).allow_file_links(allow_file_links).config(config);
    if is_looked_for {
        open = open.look_for_bundle();
    }
    if let Some(text) = expect {
        open = open.expect_hash(hash(py, text)?);
    }
    for key in trusted_keys {
        open = open.trust_key(key);
    }
    if let Some(bundle) = bundle {
        open = open.bundle(bundle);
    }
    if let Some(required) = require_signed {
        open = open.require_signed(required);
    }
    Ok(Package(runtime::wait_with_progress(py, progress, open, Open::progress)?))
}

/// A tolerance for numbers in tensors.
pub(crate) fn tolerance(py: Python<'_>, rtol: f64, atol: f64) -> PyResult<Tolerance> {
    for (name, number) in [("rtol", rtol), ("atol", atol)] {
        if !(number >= 0.0 && number.is_finite()) {
            return Err(errors::invalid(py, &format!("{name} is {number}, expected a number from 0 on")));
        }
    }
    Ok(Tolerance::new(rtol, atol))
}

/// Compares two cartons and waits for it. `carton.diff` documents it.
#[pyfunction]
#[pyo3(signature = (a, b, *, fetch=false, rtol=0.0, atol=0.0, allow_file_links=false, trusted_keys=None, require_signed=None,
    offline=None, progress=None))]
#[allow(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn diff<'py>(
    py: Python<'py>,
    a: &str,
    b: &str,
    fetch: bool,
    rtol: f64,
    atol: f64,
    allow_file_links: bool,
    trusted_keys: Option<Vec<String>>,
    require_signed: Option<bool>,
    offline: Option<bool>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let config = config(py, offline)?;
    let (a, b) = (Location::from(a), Location::from(b));
    let trusted_keys = public_keys(py, &trusted_keys.unwrap_or_default())?;
    let is_trust_given = !trusted_keys.is_empty() || require_signed.is_some() || !config.trust.is_empty();
    let is_looked_for = is_trust_given || (a.path().is_some() && b.path().is_some());
    let mut diff = Carton::diff(a, b).allow_file_links(allow_file_links).fetch(fetch).config(config);
    diff = diff.tolerance(tolerance(py, rtol, atol)?);
    if is_looked_for {
        diff = diff.look_for_bundles();
    }
    for key in trusted_keys {
        diff = diff.trust_key(key);
    }
    if let Some(required) = require_signed {
        diff = diff.require_signed(required);
    }
    results::report(py, "carton_diff", &runtime::wait_with_progress(py, progress, diff, Diff::progress)?)
}

/// An opened carton.
#[pyclass(frozen, module = "carton")]
pub(crate) struct Package(pub(crate) carton_core::Package);

impl Package {
    /// Runs work that blocks, on a thread of the runtime.
    fn blocking<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&carton_core::Package) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let package = self.0.clone();
        runtime::blocking(py, None, move |cancel_token| work(&package.cancel_token(cancel_token)))
    }
}

/// Converts the value of an example to an array, or to the bytes of a file.
fn example_value<'py>(py: Python<'py>, value: ExampleValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        ExampleValue::Tensor(tensor) => tensors::value(py, tensor),
        ExampleValue::Misc(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
        _ => Err(errors::invalid(py, "this example has a value of an unknown kind")),
    }
}

#[pymethods]
impl Package {
    /// The hash of the carton, in hexadecimal digits; None for a model that is not in a carton.
    #[getter]
    fn manifest_sha256(&self) -> Option<String> {
        self.0.manifest_sha256().map(|hash| hash.to_string())
    }

    /// Who signed the carton: a `SigningStatus`; None if that was not looked for.
    ///
    /// `carton.open` looks for the signing bundle of a local carton, and of one on a server where somebody is trusted. `carton.load` does so
    /// where the carton must be signed.
    #[getter]
    fn signing<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        shown_status(py, self.0.signing_status())
    }

    /// The name of the model.
    #[getter]
    fn model_name(&self) -> Option<&str> {
        self.0.metadata().model_name()
    }

    /// One line about the model.
    #[getter]
    fn short_description(&self) -> Option<&str> {
        self.0.metadata().short_description()
    }

    /// What the model is, in Markdown.
    #[getter]
    fn model_description(&self) -> Option<&str> {
        self.0.metadata().model_description()
    }

    /// The license, as an SPDX expression where one exists.
    #[getter]
    fn license(&self) -> Option<&str> {
        self.0.metadata().license()
    }

    /// The declared inputs, in order.
    #[getter]
    fn inputs(&self) -> Vec<TensorSpec> {
        self.0.metadata().inputs().iter().cloned().map(TensorSpec).collect()
    }

    /// The declared outputs, in order.
    #[getter]
    fn outputs(&self) -> Vec<TensorSpec> {
        self.0.metadata().outputs().iter().cloned().map(TensorSpec).collect()
    }

    /// The names of the self-tests.
    #[getter]
    fn self_tests(&self) -> Vec<String> {
        self.0.self_tests().map(|test| test.label()).collect()
    }

    /// The names of the examples.
    #[getter]
    fn examples(&self) -> Vec<String> {
        self.0.examples().map(|example| example.label()).collect()
    }

    /// The names of the tensors in `tensor_data/`.
    #[getter]
    fn tensors(&self) -> Vec<String> {
        self.0.tensors().names().map(str::to_owned).collect()
    }

    /// Everything that is known without reading a file of the model: an `Info`. The front matter of `misc/README.md` is read.
    ///
    ///     >>> info = carton.open("digits.carton").info()
    ///     >>> info.runner.name, [spec.shape for spec in info.inputs]
    ///     ('onnx', [['batch', 1, 8, 8]])
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let info = self.blocking(py, |package| package.read_info())?;
        results::report(py, "info", &info)
    }

    /// Makes a bill of materials as JSON text: `cyclonedx`, a CycloneDX 1.6 ML-BOM, or `spdx`, SPDX 3.0 with the AI profile.
    ///
    /// It documents what the carton states and contains, and certifies nothing. Its time is that of the variable `SOURCE_DATE_EPOCH`;
    /// without it CycloneDX has none, and SPDX, which cannot do without, the present. No weights are read.
    ///
    /// Raises `InvalidInputError` for another format, or a `SOURCE_DATE_EPOCH` that is none, and `IntegrityError` or `NetworkError` if the
    /// carton's lock of Python packages cannot be read.
    ///
    ///     >>> '"machine-learning-model"' in carton.open("digits.carton").bom("cyclonedx")
    ///     True
    fn bom(&self, py: Python<'_>, format: &str) -> PyResult<String> {
        let format: Format = format.parse().map_err(|error: UnknownFormat| errors::invalid(py, &error.to_string()))?;
        let moment = Moment::from_environment().map_err(|error| errors::invalid(py, &error.to_string()))?;
        let inventory = self.blocking(py, |package| package.inventory())?;
        Ok(carton_bom::document(&inventory, format, &moment))
    }

    /// Reads a tensor of `tensor_data/`: an array that is yours, in the dtype and shape that it was packed with.
    ///
    /// Raises `InvalidInputError` for a name that is not among `tensors`, and `IntegrityError` for damage.
    ///
    ///     >>> package = carton.open("digits.carton")
    ///     >>> package.tensor(package.tensors[0]).dtype.name
    ///     'float32'
    fn tensor<'py>(&self, py: Python<'py>, name: String) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.blocking(py, move |package| package.tensor(&name))?;
        tensors::value(py, tensor)
    }

    /// Reads an example: its inputs and its sample outputs. A value is an array, or the bytes of a file of `misc/`.
    ///
    /// Raises `InvalidInputError` for a name that is not among `examples`, and `IntegrityError` for damage.
    ///
    ///     >>> package = carton.open("digits.carton")
    ///     >>> inputs, outputs = package.example(package.examples[0])
    ///     >>> list(outputs)
    ///     ['probabilities']
    fn example<'py>(&self, py: Python<'py>, name: String) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let (inputs, outputs) = self.blocking(py, move |package| {
            let example = package.example(&name)?;
            Ok((example.inputs()?, example.sample_out()?))
        })?;
        let dict = |values: std::collections::BTreeMap<String, ExampleValue>| -> PyResult<Bound<'py, PyDict>> {
            let dict = PyDict::new(py);
            for (name, value) in values {
                dict.set_item(name, example_value(py, value)?)?;
            }
            Ok(dict)
        };
        Ok((dict(inputs)?, dict(outputs)?))
    }

    /// Reads a self-test: its inputs, and the outputs that it expects, None if it only runs the model.
    ///
    /// Raises `InvalidInputError` for a name that is not among `self_tests`, and `IntegrityError` for damage.
    ///
    ///     >>> package = carton.open("digits.carton")
    ///     >>> inputs, expected = package.self_test("sixteen digits")
    ///     >>> inputs["image"].shape, expected["probabilities"].shape
    ///     ((16, 1, 8, 8), (16, 10))
    fn self_test<'py>(
        &self,
        py: Python<'py>,
        name: String,
    ) -> PyResult<(Bound<'py, PyDict>, Option<Bound<'py, PyDict>>)> {
        let (inputs, expected) = self.blocking(py, move |package| {
            let test = package.self_test(&name)?;
            Ok((test.inputs()?, test.expected_out()?))
        })?;
        let dict = |tensors: std::collections::BTreeMap<String, Tensor>| -> PyResult<Bound<'py, PyDict>> {
            let dict = PyDict::new(py);
            for (name, tensor) in tensors {
                dict.set_item(name, tensors::value(py, tensor)?)?;
            }
            Ok(dict)
        };
        Ok((dict(inputs)?, expected.map(dict).transpose()?))
    }

    /// Reads a file of at most `limit` bytes, and verifies it.
    ///
    /// Raises `InvalidInputError` for a path that is not in the carton, `IntegrityError` for damage, and `NetworkError` for a file that
    /// must be fetched and cannot be.
    ///
    ///     >>> carton.open("digits.carton").read("carton.toml")[:12]
    ///     b'spec_version'
    #[pyo3(signature = (path, *, limit=1 << 30))]
    fn read<'py>(&self, py: Python<'py>, path: String, limit: u64) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.blocking(py, move |package| package.read_file(&path, limit))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Hashes every file, and returns a `VerifyReport`. `progress` is called as `carton.load` calls it.
    ///
    /// Damage is in the report, and so is a signing bundle that is not one of this carton. Raises `MachineError` where a file cannot be read.
    ///
    ///     >>> report = carton.open("digits.carton").verify()
    ///     >>> report.ok, report.bad
    ///     (True, [])
    #[pyo3(signature = (*, progress=None))]
    fn verify<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let report = runtime::wait_with_progress(py, progress, self.0.verify(), Verify::progress)?;
        let status = self.0.signing_status();
        let is_broken = matches!(status, Some(SigningStatus::Untrusted { is_broken: true, .. }));
        let bad = report.bad.iter().map(|bad| (bad.path.clone(), errors::text(&bad.error)));
        let fields = fields!(py, {
            "ok": report.is_good() && !is_broken,
            "manifest_sha256": report.manifest_sha256.map(|hash| hash.to_string()),
            "files": report.n_files,
            "bytes": report.n_bytes,
            "bad": bad.collect::<Vec<_>>(),
            "not_fetched": report.not_fetched,
            "warnings": report.warnings,
            "signing": shown_status(py, status)?,
        });
        results::result(py, "VerifyReport", &fields)
    }

    /// Writes the carton into a new folder. Each file is verified on the way. `progress` is called as `carton.load` calls it.
    ///
    /// Raises `InvalidInputError` for a folder that exists and is not empty, `IntegrityError` for damage, and `MachineError` where it
    /// cannot be written.
    ///
    ///     >>> carton.open("digits.carton").unpack("unpacked")
    ///     >>> sorted(os.listdir("unpacked"))[:2]
    ///     ['MANIFEST', 'carton.toml']
    #[pyo3(signature = (destination, *, progress=None))]
    fn unpack(&self, py: Python<'_>, destination: GivenPath, progress: Option<Py<PyAny>>) -> PyResult<()> {
        runtime::wait_with_progress(py, progress, self.0.unpack(destination.0), Unpack::progress)
    }

    /// What a notebook shows: the card of the model.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("carton._card")?.call_method1("card", (slf,))
    }

    fn __repr__(&self) -> String {
        let name = self.0.metadata().model_name().unwrap_or("unnamed");
        match self.0.manifest_sha256() {
            Some(hash) => format!("<carton.Package {name:?} sha256:{hash}>"),
            None => format!("<carton.Package {name:?}, not in a carton>"),
        }
    }
}
