//! Makes a carton: asks the runner what the model is, joins that with what the user says, and writes the package.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use carton_runner_interface::host::{CallError, CallOptions, ConnectionOptions};
use carton_runner_interface::runner::{PackRequest, PackResponse};
use carton_runner_interface::{Options, TensorSpec};
use carton_tensor::{Tensor, npy};
use semver::VersionReq;

use crate::archive::Compression;
use crate::blocking::{Abandoned, run_blocking};
use crate::config::Config;
use crate::digest::Sha256Digest;
use crate::metadata::{self, Draft, DraftReference, Metadata, Reference, SelfTest};
use crate::model::{LoadOptions, runner_variables, start_runner};
use crate::package::{self, PackageInput};
use crate::progress::{ProgressCallback, ProgressEvent, Stage};
use crate::runner::launch::LaunchPolicy;
use crate::runner::{self, Choice, Descriptor, Requirement};
use crate::tensor_data::{TensorFormat, is_tensor_file};
use crate::{Carton, Error, Inputs};

/// How [`Carton::pack`] packs. Build it from the default.
#[derive(Clone, Default)]
pub struct PackOptions {
    /// The metadata. What the runner reads from the model fills in what is not given here.
    pub metadata: Draft,
    /// Where files that the metadata refers to are; the current folder if `None`.
    pub metadata_folder: Option<PathBuf>,
    /// The framework versions that run the model; `None` takes the metadata's, else what the runner recommends.
    pub framework_version: Option<VersionReq>,
    /// Options for the runner, over those of the metadata; they are stored in the carton.
    pub options: Options,
    /// Options for the runner while it packs; they are not stored.
    pub pack_options: Options,
    /// Files for `misc/`, by their path there.
    pub misc: BTreeMap<String, PathBuf>,
    /// Tensors for `tensor_data/`, by name; the metadata may refer to them.
    pub tensors: BTreeMap<String, Tensor>,
    /// How numeric tensors are stored. All but [`TensorFormat::Bin`] make a carton that only readers can open which know of it
    /// (spec/carton-format-extensions.md, "Tensor files").
    pub tensor_format: TensorFormat,
    /// Self-tests whose expected outputs are what the packed model returns.
    pub record_self_tests: Vec<RecordSelfTest>,
    /// Installs a missing runner from the configured index ([`Config::runner_index`]); [`Config::auto_install`] does so too.
    pub install_runners: bool,
    /// How entries are compressed.
    pub compression: Compression,
    /// What the runner process may see and use.
    pub policy: LaunchPolicy,
    /// Directories; `None` reads the configuration file and the environment.
    pub config: Option<Config>,
    /// Told how far packing has come.
    pub progress: Option<ProgressCallback>,
}

impl fmt::Debug for PackOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackOptions").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

/// A self-test to be recorded.
#[derive(Clone, Debug)]
pub struct RecordSelfTest {
    /// The test's name.
    pub name: Option<String>,
    /// What the model is run with.
    pub inputs: Inputs,
}

/// What was packed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packed {
    /// The carton.
    pub path: PathBuf,
    /// The SHA-256 of its MANIFEST: the model's hash.
    pub manifest_sha256: Sha256Digest,
    /// Whether it has a file of many tensors, so that only readers can open it that know of those
    /// (spec/carton-format-extensions.md, "Tensor files").
    pub has_tensor_file: bool,
}

impl Carton {
    /// Packs the model at `path` for `runner` into the carton `output`.
    ///
    /// The carton appears under its name when it is complete; a file of that name is replaced.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::{Carton, PackOptions};
    /// let packed = Carton::pack("model.onnx", "onnx", "model.carton", PackOptions::default()).await?;
    /// println!("{}", packed.manifest_sha256);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// No such runner, a model it refuses, metadata that breaks a rule of the format, files that cannot be read or
    /// written. Nothing is left at `output` then.
    pub async fn pack(
        path: impl AsRef<Path>,
        runner: &str,
        output: impl AsRef<Path>,
        options: PackOptions,
    ) -> Result<Packed, Error> {
        let output = output.as_ref().to_path_buf();
        let (config, descriptor) = {
            let runner = runner.to_owned();
            let (config, version) = (options.config.clone(), options.framework_version.clone());
            let drafted = options.metadata.required_framework_version.clone();
            let (install, progress) = (options.install_runners, options.progress.clone());
            run_blocking(move |abandoned| {
                let config = match config {
                    Some(config) => config,
                    None => Config::load(None)?,
                };
                let requirement =
                    Requirement { name: runner, framework_version: version.or(drafted), compat_version: None };
                let wanted = &|| abandoned.control();
                let choice = Choice { config: &config, install, progress: progress.as_ref(), wanted };
                let descriptor = runner::choose(&requirement, &choice)?;
                Ok((config, descriptor))
            })
            .await?
        };
        let path = absolute(path.as_ref())?;
        let scratch = tempfile::tempdir().map_err(|source| Error::Io {
            what: "make a folder in",
            path: std::env::temp_dir(),
            source,
        })?;

        let mut draft = options.metadata.clone();
        draft.opts.extend(options.options.clone());
        let response = ask_runner(&descriptor, &path, scratch.path(), &draft, &config, &options).await?;
        complete(&mut draft, &descriptor, &response, options.framework_version.clone())?;
        if !options.record_self_tests.is_empty() && draft.inputs.is_none() && draft.outputs.is_none() {
            return Err(Error::NoSignature);
        }

        let folder = options.metadata_folder.clone().unwrap_or_default();
        let mut input = Input {
            draft,
            model_path: response.path,
            misc: options.misc.clone(),
            tensors: options.tensors.clone(),
            tensor_format: options.tensor_format,
            compression: options.compression,
            progress: options.progress.clone(),
        };
        input = run_blocking(move |_| input.read_files(&folder).map(|()| input)).await?;
        if !options.record_self_tests.is_empty() {
            input = record(input, &options, &config, scratch.path().join("unrecorded.carton")).await?;
        }
        run_blocking(move |abandoned| {
            // The runner's scratch folder lives until the model in it is packed.
            let _scratch = scratch;
            input.write(output, &abandoned)
        })
        .await
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    let io_error = |source| Error::Io { what: "open", path: path.to_path_buf(), source };
    std::fs::metadata(path).map_err(io_error)?;
    std::path::absolute(path).map_err(io_error)
}

async fn ask_runner(
    descriptor: &Descriptor,
    path: &Path,
    scratch: &Path,
    draft: &Draft,
    config: &Config,
    options: &PackOptions,
) -> Result<PackResponse, Error> {
    let mut policy = options.policy.clone();
    policy.variables.extend(runner_variables(config));
    let session = start_runner(descriptor, &policy, ConnectionOptions::default(), options.progress.clone()).await?;
    let mut runner_options = Options::new();
    runner_options.extend(draft.opts.clone());
    let request = PackRequest {
        path: path.to_path_buf(),
        scratch: scratch.to_path_buf(),
        options: runner_options,
        pack_options: options.pack_options.clone(),
    };
    match session.connection().pack(request, CallOptions::default()).await {
        Ok(response) => Ok(response),
        Err(error) => Err(match session.explain(error).await {
            Err(crash) => Error::RunnerCrashed(crash),
            Ok(CallError::Runner { error, .. }) => Error::refused(descriptor.to_string(), error),
            Ok(other) => Error::Call(other),
        }),
    }
}

/// Fills in what the user did not say.
fn complete(
    draft: &mut Draft,
    descriptor: &Descriptor,
    response: &PackResponse,
    framework_version: Option<VersionReq>,
) -> Result<(), Error> {
    draft.runner_name = Some(descriptor.runner_name.clone());
    draft.runner_compat_version = Some(descriptor.runner_compat_version);
    if framework_version.is_some() {
        draft.required_framework_version = framework_version;
    }
    if draft.required_framework_version.is_none() {
        let recommended = match &response.required_framework_version {
            Some(recommended) => recommended.clone(),
            None => format!("={}", descriptor.framework_version),
        };
        let requirement = VersionReq::parse(&recommended).map_err(|_| Error::RunnerAnswer {
            runner: descriptor.to_string(),
            expected: "a semantic version requirement",
            found: recommended,
        })?;
        draft.required_framework_version = Some(requirement);
    }
    for (key, value) in &response.options {
        draft.opts.entry(key.clone()).or_insert_with(|| value.clone());
    }
    if draft.inputs.is_none() && draft.outputs.is_none() && !(response.inputs.is_empty() && response.outputs.is_empty())
    {
        draft.inputs = Some(response.inputs.iter().map(declared).collect());
        draft.outputs = Some(response.outputs.iter().map(declared).collect());
    }
    Ok(())
}

fn declared(spec: &TensorSpec) -> metadata::TensorSpec {
    metadata::TensorSpec {
        name: spec.name.clone(),
        dtype: spec.dtype,
        shape: spec.shape.clone(),
        description: None,
        internal_name: spec.internal_name.clone(),
    }
}

/// Runs the packed model on the inputs to be recorded and adds what it returns.
async fn record(mut input: Input, options: &PackOptions, config: &Config, unrecorded: PathBuf) -> Result<Input, Error> {
    let path = unrecorded.clone();
    let (returned, packed) = run_blocking(move |abandoned| {
        let packed = input.clone().write(path, &abandoned);
        Ok((input, packed?))
    })
    .await?;
    input = returned;
    let load = LoadOptions {
        config: Some(config.clone()),
        policy: options.policy.clone(),
        progress: options.progress.clone(),
        ..LoadOptions::default()
    };
    let model = Carton::load(packed.path, load).await?;
    for test in &options.record_self_tests {
        let inputs = model.named(test.inputs.clone())?;
        let outputs = model.infer(Inputs::Named(inputs.clone())).await?;
        let self_test = SelfTest {
            name: test.name.clone(),
            description: None,
            inputs: input.add_tensors(inputs),
            expected_out: Some(input.add_tensors(outputs)),
        };
        input.draft.self_tests.push(self_test);
    }
    Ok(input)
}

/// Everything that goes into the carton.
#[derive(Clone)]
struct Input {
    draft: Draft,
    model_path: PathBuf,
    misc: BTreeMap<String, PathBuf>,
    tensors: BTreeMap<String, Tensor>,
    tensor_format: TensorFormat,
    compression: Compression,
    progress: Option<ProgressCallback>,
}

impl Input {
    /// Turns references to files into tensors of `tensor_data` and files of `misc`.
    fn read_files(&mut self, folder: &Path) -> Result<(), Error> {
        let Self { draft, tensors, misc, .. } = self;
        let mut known: BTreeMap<(PathBuf, Option<String>), Reference> = BTreeMap::new();
        draft.resolve_files(|path, member| {
            let key = (path.to_path_buf(), member.map(str::to_owned));
            if let Some(reference) = known.get(&key) {
                return Ok(reference.clone());
            }
            let reference = match read_tensor(&folder.join(path), member)? {
                Some(tensor) => {
                    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                    let name = unused(tensors, member.unwrap_or(&stem));
                    tensors.insert(name.clone(), tensor);
                    Reference::TensorData(name)
                }
                None => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    let name = unused(misc, &name);
                    misc.insert(name.clone(), folder.join(path));
                    Reference::Misc(name)
                }
            };
            known.insert(key, reference.clone());
            Ok::<_, Error>(reference)
        })
    }

    fn add_tensors(&mut self, tensors: BTreeMap<String, Tensor>) -> BTreeMap<String, DraftReference> {
        let mut references = BTreeMap::new();
        for (name, tensor) in tensors {
            let stored = unused(&self.tensors, &name);
            self.tensors.insert(stored.clone(), tensor);
            references.insert(name, Reference::TensorData(stored).into());
        }
        references
    }

    fn write(self, output: PathBuf, abandoned: &Abandoned) -> Result<Packed, Error> {
        let metadata: Metadata = self.draft.validate()?;
        let progress = self.progress;
        let input = PackageInput {
            misc: self.misc,
            tensors: self.tensors,
            tensor_format: self.tensor_format,
            ..PackageInput::new(metadata, self.model_path)
        };
        let manifest = package::write(&input, &output, self.compression, &|done, total| {
            if let Some(progress) = &progress {
                progress(&ProgressEvent::bytes(Stage::Pack, done, total));
            }
            abandoned.control()
        })
        .map_err(Error::Pack)?;
        let has_tensor_file = manifest.iter().any(|(path, _)| is_tensor_file(path));
        Ok(Packed { path: output, manifest_sha256: manifest.hash(), has_tensor_file })
    }
}

/// The tensor in an `.npy` file or in a member of an `.npz` file; `None` for other files.
fn read_tensor(path: &Path, member: Option<&str>) -> Result<Option<Tensor>, Error> {
    let error = |source| Error::TensorFile { path: path.to_path_buf(), source };
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    match (extension.as_ref().and_then(|extension| extension.to_str()), member) {
        (Some("npz"), Some(member)) => {
            let mut arrays = npy::Npz::open(path).map_err(error)?;
            Ok(Some(arrays.read(member).map_err(error)?))
        }
        (Some("npz"), None) => {
            let mut arrays = npy::Npz::open(path).map_err(error)?;
            match arrays.names().to_vec().as_slice() {
                [only] => Ok(Some(arrays.read(only).map_err(error)?)),
                names => Err(Error::NpzMember { path: path.to_path_buf(), names: names.to_vec() }),
            }
        }
        (Some("npy"), None) => Ok(Some(npy::read_path(path).map_err(error)?)),
        _ => Ok(None),
    }
}

/// `name`, or `name_2`, `name_3`, … where it is taken.
fn unused<T>(taken: &BTreeMap<String, T>, name: &str) -> String {
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
        _ => (name, String::new()),
    };
    let mut candidate = name.to_owned();
    let mut number = 2;
    while taken.contains_key(&candidate) {
        candidate = format!("{stem}_{number}{extension}");
        number += 1;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_names_get_a_number() {
        let taken: BTreeMap<String, ()> =
            [("x", ()), ("x_2", ()), ("cat.png", ())].map(|(k, v)| (k.to_owned(), v)).into();
        let check = |name: &str, expected: &str| assert_eq!(unused(&taken, name), expected);
        check("y", "y");
        check("x", "x_3");
        check("cat.png", "cat_2.png");
    }
}
