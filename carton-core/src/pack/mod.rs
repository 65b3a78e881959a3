//! Makes a carton: asks the runner what the model is, joins that with what the user says, and writes the package.

mod input;
mod runner_answer;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use carton_runner_interface::Options;
use carton_tensor::Tensor;
use semver::VersionReq;

use self::input::Input;
use self::runner_answer::{ask_runner, complete};
use crate::archive::Compression;
use crate::blocking::run_blocking;
use crate::config::Config;
use crate::digest::Sha256Digest;
use crate::metadata::{Draft, SelfTest};
use crate::model::LoadOptions;
use crate::progress::ProgressCallback;
use crate::runner::launch::LaunchPolicy;
use crate::runner::{self, Choice, Requirement};
use crate::tensor_data::TensorFormat;
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
