//! Packing, shrinking and resolving cartons.

use std::collections::BTreeMap;

use carton_core::metadata::{Draft, DraftReference, Example, Reference, SelfTest};
use carton_core::packing::{Compression, Recognized, RecordSelfTest, Template, TensorFormat};
use carton_core::shrink::{LeaveOut, Resolve, Shrink};
use carton_core::{Carton, Inputs, Links, Location, Pack};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::paths::GivenPath;
use crate::results::{self, fields};
use crate::sandbox::SandboxOptions;
use crate::specs::TensorSpec;
use crate::{errors, package, runtime, tensors};

/// The options of `pack`, as Python passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PackOptions<'py> {
    runner: Option<String>,
    metadata: Option<GivenPath>,
    model_name: Option<String>,
    short_description: Option<String>,
    model_description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    homepage: Option<String>,
    required_platforms: Option<Vec<String>>,
    inputs: Option<Vec<Bound<'py, TensorSpec>>>,
    outputs: Option<Vec<Bound<'py, TensorSpec>>>,
    self_tests: Vec<TestData<'py>>,
    examples: Vec<TestData<'py>>,
    record: Vec<TestData<'py>>,
    framework_version: Option<String>,
    /// JSON.
    options: Option<String>,
    /// JSON.
    pack_options: Option<String>,
    misc: BTreeMap<String, GivenPath>,
    tensors: Bound<'py, PyDict>,
    tensor_format: Option<String>,
    compression: Option<String>,
    links: BTreeMap<String, Vec<String>>,
    exclude: Vec<String>,
    allow_secrets: Vec<String>,
    check: bool,
    strict: bool,
    install_runners: bool,
    sandbox: SandboxOptions,
}

/// A self-test or an example: its name, description, inputs and outputs.
type TestData<'py> = (Option<String>, Option<String>, Bound<'py, PyDict>, Option<Bound<'py, PyDict>>);

/// Links from digests to URLs.
fn links(py: Python<'_>, urls: BTreeMap<String, Vec<String>>) -> PyResult<Links> {
    let digest =
        |text: String| text.parse().map_err(|error: carton_core::DigestError| errors::invalid(py, &error.to_string()));
    let urls = urls.into_iter().map(|(text, urls)| Ok((digest(text)?, urls)));
    let urls = urls.collect::<PyResult<BTreeMap<_, _>>>()?;
    if urls.is_empty() {
        return Ok(Links::default());
    }
    Links::from_urls(urls).map_err(|error| errors::invalid(py, &error.to_string()))
}

pub(crate) fn compression(py: Python<'_>, name: &str) -> PyResult<Compression> {
    Ok(match name {
        "auto" => Compression::Auto,
        "stored" => Compression::Stored,
        "zstd" => Compression::Zstd,
        "deflate" => Compression::Deflate,
        _ => {
            return Err(errors::invalid(
                py,
                &format!("expected compression auto, stored, zstd or deflate, found `{name}`"),
            ));
        }
    })
}

fn tensor_format(py: Python<'_>, name: &str) -> PyResult<TensorFormat> {
    Ok(match name {
        "bin" => TensorFormat::Bin,
        "safetensors" => TensorFormat::Safetensors,
        "ztensor" => TensorFormat::Ztensor,
        _ => {
            return Err(errors::invalid(
                py,
                &format!("expected tensor format bin, safetensors or ztensor, found `{name}`"),
            ));
        }
    })
}

/// Tensors of a self-test or an example, by their names there.
type References = BTreeMap<String, DraftReference>;

/// Tensors that are added to the carton for self-tests and examples, under names that no other tensor has.
struct Added {
    tensors: Vec<(String, carton_core::Tensor)>,
}

impl Added {
    /// Adds the tensors of one side of a test, and returns references to them.
    fn references(&mut self, prefix: &str, values: &Bound<'_, PyDict>) -> PyResult<References> {
        let references = values.iter().map(|(name, value)| {
            let name: String = name.extract()?;
            let stored = format!("{prefix}/{name}");
            self.tensors.push((stored.clone(), tensors::tensor(&value, &name)?));
            Ok((name, DraftReference::Carton(Reference::TensorData(stored))))
        });
        references.collect()
    }

    fn self_test(&mut self, number: usize, test: TestData<'_>) -> PyResult<SelfTest<DraftReference>> {
        let (name, description, inputs, expected) = test;
        let mut draft_test = SelfTest::new(self.references(&format!("self_test_{number}/in"), &inputs)?);
        draft_test.name = name;
        draft_test.description = description;
        draft_test.expected_out = match expected {
            Some(expected) => Some(self.references(&format!("self_test_{number}/out"), &expected)?),
            None => None,
        };
        Ok(draft_test)
    }

    fn example(&mut self, number: usize, example: TestData<'_>) -> PyResult<Example<DraftReference>> {
        let (name, description, inputs, outputs) = example;
        let inputs = self.references(&format!("example_{number}/in"), &inputs)?;
        let outputs = match outputs {
            Some(outputs) => self.references(&format!("example_{number}/out"), &outputs)?,
            None => BTreeMap::new(),
        };
        let mut draft_example = Example::new(inputs, outputs);
        draft_example.name = name;
        draft_example.description = description;
        Ok(draft_example)
    }
}

/// The metadata of the file, if one is named, with what the options say instead.
fn metadata(py: Python<'_>, options: &mut PackOptions<'_>, added: &mut Added) -> PyResult<Draft> {
    let mut draft = match &options.metadata {
        Some(GivenPath(path)) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                errors::invalid(py, &format!("cannot read the metadata `{}`: {error}", path.display()))
            })?;
            Draft::parse(&text).map_err(|error| errors::of_error(py, &error.into()))?
        }
        None => Draft::default(),
    };
    let specs = |specs: Vec<Bound<'_, TensorSpec>>| specs.iter().map(|spec| spec.get().0.clone()).collect();
    draft.model_name = options.model_name.take().or(draft.model_name);
    draft.short_description = options.short_description.take().or(draft.short_description);
    draft.model_description = options.model_description.take().or(draft.model_description);
    draft.license = options.license.take().or(draft.license);
    draft.repository = options.repository.take().or(draft.repository);
    draft.homepage = options.homepage.take().or(draft.homepage);
    draft.required_platforms = options.required_platforms.take().unwrap_or(draft.required_platforms);
    draft.inputs = options.inputs.take().map(specs).or(draft.inputs);
    draft.outputs = options.outputs.take().map(specs).or(draft.outputs);
    for (number, test) in std::mem::take(&mut options.self_tests).into_iter().enumerate() {
        draft.self_tests.push(added.self_test(number, test)?);
    }
    for (number, example) in std::mem::take(&mut options.examples).into_iter().enumerate() {
        draft.examples.push(added.example(number, example)?);
    }
    Ok(draft)
}

/// Packs a model and waits for it. `carton.pack` documents it.
#[pyfunction]
#[pyo3(signature = (model, output, options, progress=None))]
pub(crate) fn pack<'py>(
    py: Python<'py>,
    model: GivenPath,
    output: GivenPath,
    mut options: PackOptions<'py>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut added = Added { tensors: Vec::new() };
    let draft = metadata(py, &mut options, &mut added)?;
    let mut pack = Carton::pack(model.0, output.0)
        .metadata(draft)
        .check(options.check)
        .strict(options.strict)
        .install_runners(options.install_runners);
    pack = options.sandbox.apply(py, pack)?;
    if let Some(folder) = options.metadata.as_ref().and_then(|path| path.0.parent()) {
        pack = pack.metadata_folder(folder);
    }
    if let Some(runner) = options.runner {
        pack = pack.runner(runner);
    }
    if let Some(required) = options.framework_version {
        pack = pack.framework_version(package::requirement(py, &required)?);
    }
    if let Some(json) = options.options {
        pack = pack.options(package::options(py, &json)?);
    }
    if let Some(json) = options.pack_options {
        pack = package::options(py, &json)?.into_iter().fold(pack, |pack, (name, value)| pack.pack_option(name, value));
    }
    if let Some(name) = options.compression {
        pack = pack.compression(compression(py, &name)?);
    }
    if let Some(name) = options.tensor_format {
        pack = pack.tensor_format(tensor_format(py, &name)?);
    }
    pack = options.misc.into_iter().fold(pack, |pack, (name, path)| pack.misc(name, path.0));
    for (name, value) in options.tensors.iter() {
        let name: String = name.extract()?;
        let tensor = tensors::tensor(&value, &name)?;
        pack = pack.tensor(name, tensor);
    }
    pack = added.tensors.into_iter().fold(pack, |pack, (name, tensor)| pack.tensor(name, tensor));
    for (name, description, inputs, _) in options.record {
        let mut test = RecordSelfTest::from(Inputs::Named(tensors::named_tensors(&inputs)?));
        if let Some(name) = name {
            test = test.named(name);
        }
        if let Some(description) = description {
            test = test.described(description);
        }
        pack = pack.record_self_test(test);
    }
    pack = pack.links(links(py, options.links)?);
    pack = options.exclude.into_iter().fold(pack, Pack::exclude);
    pack = options.allow_secrets.into_iter().fold(pack, Pack::allow_secret);
    let packed = runtime::wait_with_progress(py, progress, pack, Pack::progress)?;
    let fields = fields!(py, {
        "path": packed.path.as_os_str(),
        "manifest_sha256": packed.manifest_sha256.to_string(),
        "not_packed": packed.not_packed.iter().map(|left_out| left_out.path.clone()).collect::<Vec<_>>(),
        "warnings": packed.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "check": packed.check.map(|check| results::report(py, "pack_check", &check)).transpose()?,
    });
    results::result(py, "Packed", &fields)
}

/// What runs a model, if its files leave no doubt. `carton.recognize` documents it.
#[pyfunction]
pub(crate) fn recognize(py: Python<'_>, model: GivenPath) -> PyResult<Option<Bound<'_, PyAny>>> {
    let Some(Recognized { runner, template, .. }) = runtime::wait(py, None, Carton::recognize(model.0))? else {
        return Ok(None);
    };
    let fields = fields!(py, {
        "runner": runner,
        "template": template.as_ref().map(Template::name),
        "kind": template.as_ref().map(Template::kind),
        "requirements": template.as_ref().map_or(&[][..], Template::requirements).to_vec(),
    });
    results::result(py, "Recognized", &fields).map(Some)
}

/// Writes the Python model that runs the files of a framework. `carton.eject` documents it.
#[pyfunction]
pub(crate) fn eject(py: Python<'_>, model: GivenPath, folder: GivenPath) -> PyResult<()> {
    runtime::wait(py, None, async move { Carton::eject(model.0, folder.0).await.map(drop) })
}

/// Leaves out files that can be fetched from elsewhere, and waits for it. `carton.shrink` documents it.
#[pyfunction]
#[pyo3(signature = (location, output, *, url_prefix=None, min_size=None, links=None, save_files=None, progress=None))]
#[allow(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub(crate) fn shrink<'py>(
    py: Python<'py>,
    location: &str,
    output: GivenPath,
    url_prefix: Option<String>,
    min_size: Option<u64>,
    links: Option<BTreeMap<String, Vec<String>>>,
    save_files: Option<GivenPath>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let leave_out = match (url_prefix, links) {
        (Some(prefix), None) => LeaveOut::large_from(prefix, min_size.unwrap_or(carton_core::shrink::DEFAULT_MIN_SIZE)),
        (None, Some(urls)) => LeaveOut::Linked(self::links(py, urls)?),
        _ => return Err(errors::invalid(py, "pass url_prefix= or links=, one of the two")),
    };
    let mut shrink = Carton::shrink(Location::from(location), output.0, leave_out);
    if let Some(folder) = save_files {
        shrink = shrink.save_files(folder.0);
    }
    let shrunk = runtime::wait_with_progress(py, progress, shrink, Shrink::progress)?;
    let left_out = shrunk.left_out.into_iter().map(|file| {
        let fields = fields!(py, {
            "path": file.path,
            "sha256": file.sha256.to_string(),
            "size": file.size,
            "saved": file.saved.as_ref().map(|path| path.as_os_str()),
        });
        results::result(py, "LeftOut", &fields)
    });
    let fields = fields!(py, {
        "path": shrunk.path.as_os_str(),
        "manifest_sha256": shrunk.manifest_sha256.to_string(),
        "left_out": left_out.collect::<PyResult<Vec<_>>>()?,
    });
    results::result(py, "Shrunk", &fields)
}

/// Puts back files that were left out, and waits for it. `carton.resolve` documents it.
#[pyfunction]
#[pyo3(signature = (location, output, *, allow_file_links=false, progress=None))]
pub(crate) fn resolve<'py>(
    py: Python<'py>,
    location: &str,
    output: GivenPath,
    allow_file_links: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let resolve = Carton::resolve(Location::from(location), output.0).allow_file_links(allow_file_links);
    let resolved = runtime::wait_with_progress(py, progress, resolve, Resolve::progress)?;
    let fields = fields!(py, {
        "path": resolved.path.as_os_str(),
        "manifest_sha256": resolved.manifest_sha256.to_string(),
    });
    results::result(py, "Resolved", &fields)
}
