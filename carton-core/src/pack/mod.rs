//! Makes a carton: asks the runner what the model is, joins that with what the user says, writes the package, and loads
//! what was written before it gets its name.

mod check;
mod input;
mod packing;
mod recognize;
mod runner_answer;

use std::collections::BTreeMap;
use std::fmt;
use std::future::IntoFuture;
use std::path::{Path, PathBuf};

use carton_runner_interface::{OptionValue, Options};
use carton_tensor::Tensor;
use semver::VersionReq;
use serde::Serialize;

pub use self::packing::Packing;
use crate::archive::Compression;
use crate::blocking::{Awaited, run_blocking};
use crate::digest::Sha256Digest;
use crate::links::Links;
use crate::metadata::Draft;
use crate::runner::launch::LaunchPolicy;
use crate::settings::{OperationSettings, operation_setters};
use crate::tensor_data::TensorFormat;
use crate::{Carton, Error, Inputs, SelfTestReport};

/// A model that is about to be packed: what [`Carton::pack`] returns. Setters say how, and `.await` writes the carton.
///
/// [`prepare`](Self::prepare) stops after the runner has said what the model is, so that self-tests can be recorded from inputs that
/// fit it.
#[derive(Clone)]
#[must_use = "nothing is packed until this is awaited"]
pub struct Pack {
    path: PathBuf,
    output: PathBuf,
    runner: Option<String>,
    metadata: Draft,
    metadata_folder: Option<PathBuf>,
    framework_version: Option<VersionReq>,
    options: Options,
    pack_options: Options,
    misc: BTreeMap<String, PathBuf>,
    tensors: BTreeMap<String, Tensor>,
    tensor_format: TensorFormat,
    record_self_tests: Vec<RecordSelfTest>,
    check: bool,
    links: Links,
    known_links: Links,
    install_runners: bool,
    compression: Compression,
    policy: LaunchPolicy,
    operation: OperationSettings,
}

impl Pack {
    fn new(path: PathBuf, output: PathBuf) -> Self {
        Self {
            path,
            output,
            runner: None,
            metadata: Draft::default(),
            metadata_folder: None,
            framework_version: None,
            options: Options::new(),
            pack_options: Options::new(),
            misc: BTreeMap::new(),
            tensors: BTreeMap::new(),
            tensor_format: TensorFormat::default(),
            record_self_tests: Vec::new(),
            check: true,
            links: Links::default(),
            known_links: Links::default(),
            install_runners: false,
            compression: Compression::default(),
            policy: LaunchPolicy::default(),
            operation: OperationSettings::default(),
        }
    }

    operation_setters!(operation);

    /// The runner that the model is for. Unless this is called it is the one that the metadata names, else the one that
    /// [`Carton::runner_for`] tells.
    pub fn runner(mut self, name: impl Into<String>) -> Self {
        self.runner = Some(name.into());
        self
    }

    /// The metadata. The runner reads the model and adds the inputs, outputs and options that are missing here.
    pub fn metadata(mut self, metadata: Draft) -> Self {
        self.metadata = metadata;
        self
    }

    /// The folder of the files that the metadata refers to; the current one by default.
    pub fn metadata_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.metadata_folder = Some(folder.into());
        self
    }

    /// The framework versions that run the model, instead of those of the metadata, or else of the runner's recommendation.
    pub fn framework_version(mut self, required: VersionReq) -> Self {
        self.framework_version = Some(required);
        self
    }

    /// Sets an option of the runner, which is stored in the carton. It wins over the metadata's option of that name.
    pub fn option(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    /// Sets options of the runner, as [`option`](Self::option) does for one.
    pub fn options(mut self, options: impl IntoIterator<Item = (String, OptionValue)>) -> Self {
        self.options.extend(options);
        self
    }

    /// Sets an option of the runner for packing only. It is not stored.
    pub fn pack_option(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        self.pack_options.insert(name.into(), value.into());
        self
    }

    /// Adds a file, which becomes `misc/` and `name` in the carton.
    pub fn misc(mut self, name: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        self.misc.insert(name.into(), file.into());
        self
    }

    /// Adds a tensor to `tensor_data/`. The metadata may refer to it by its name.
    pub fn tensor(mut self, name: impl Into<String>, tensor: impl Into<Tensor>) -> Self {
        self.tensors.insert(name.into(), tensor.into());
        self
    }

    /// How numeric tensors are stored. All but [`TensorFormat::Bin`] make a carton that only readers can open which know of it
    /// (spec/carton-format-extensions.md, "Tensor files").
    pub fn tensor_format(mut self, format: TensorFormat) -> Self {
        self.tensor_format = format;
        self
    }

    /// Adds a self-test whose expected outputs are what the packed model returns.
    pub fn record_self_test(mut self, test: impl Into<RecordSelfTest>) -> Self {
        self.record_self_tests.push(test.into());
        self
    }

    /// Whether the packed model is loaded, compared with its signature and put to its self-tests before the carton gets its name.
    /// Nothing is written where that fails. On by default.
    pub fn check(mut self, check: bool) -> Self {
        self.check = check;
        self
    }

    /// Leaves files out of the carton, by their SHA-256, which can be fetched from these links. The carton is checked with all its
    /// files; it is the one that [`Carton::shrink`] makes of the whole one. A digest that no file has which can be left out is refused.
    pub fn links(mut self, links: Links) -> Self {
        self.links = links;
        self
    }

    /// Leaves out those of these files that this carton has, as [`links`](Self::links) does: for links of a family of models. The
    /// digests that match nothing are in [`Packed::unmatched`]; it is an error when nothing is left out at all.
    pub fn known_links(mut self, links: Links) -> Self {
        self.known_links = links;
        self
    }

    /// Whether a missing runner is installed from the configured index ([`Config::runner_index`](crate::Config::runner_index)). Off
    /// by default; [`Config::auto_install`](crate::Config::auto_install) switches it on, too.
    pub fn install_runners(mut self, install: bool) -> Self {
        self.install_runners = install;
        self
    }

    /// How entries are compressed.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// The environment and the limits of the runner's process.
    pub fn policy(mut self, policy: LaunchPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The first half of packing: asks the runner what the model is. [`Packing::write`] is the second half.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::collections::BTreeMap;
    /// use carton_core::{Carton, Inputs, NumericTensor, Tensor};
    ///
    /// let mut packing = Carton::pack("model.onnx", "model.carton").prepare().await?;
    /// let mut inputs = BTreeMap::<String, Tensor>::new();
    /// for spec in packing.declared_inputs()? {
    ///     inputs.insert(spec.name.clone(), NumericTensor::zeroed(spec.dtype, vec![1, 4])?.into());
    /// }
    /// packing.record(Inputs::from(inputs))?;
    /// packing.write().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Carton::pack`] that can be told without writing anything.
    pub async fn prepare(self) -> Result<Packing, Error> {
        Packing::prepare(self).await
    }
}

impl IntoFuture for Pack {
    type Output = Result<Packed, Error>;
    type IntoFuture = Awaited<'static, Packed>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.prepare().await?.write().await })
    }
}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pack")
            .field("path", &self.path)
            .field("output", &self.output)
            .field("runner", &self.runner)
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}

/// A self-test to be recorded: made of the inputs that the model is run with.
#[derive(Clone, Debug)]
pub struct RecordSelfTest {
    name: Option<String>,
    inputs: Inputs,
}

impl RecordSelfTest {
    /// Gives the test a name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl<T: Into<Inputs>> From<T> for RecordSelfTest {
    fn from(inputs: T) -> Self {
        Self { name: None, inputs: inputs.into() }
    }
}

/// What was packed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Packed {
    /// The carton.
    pub path: PathBuf,
    /// The SHA-256 of its MANIFEST: the model's hash.
    pub manifest_sha256: Sha256Digest,
    /// Whether it has a file of many tensors, so that only readers can open it that know of those
    /// (spec/carton-format-extensions.md, "Tensor files").
    pub has_tensor_file: bool,
    /// The runner's options that are lists or tables, sorted: readers that know only numbers, strings, booleans and dates, as the
    /// first one does, cannot open the carton.
    pub nested_options: Vec<String>,
    /// The digests in [`Pack::known_links`] that no file has which can be left out, sorted.
    pub unmatched: Vec<Sha256Digest>,
    /// What was checked; `None` when nothing was.
    pub check: Option<PackCheck>,
}

/// How the check of a packed model went: it loaded, its signature does not contradict it, and no self-test failed.
///
/// As JSON, the report's names stand beside `runner`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PackCheck {
    /// Name and version of the runner that loaded the model.
    pub runner: String,
    /// How the self-tests went; none failed.
    #[serde(flatten)]
    pub report: SelfTestReport,
}

impl Carton {
    /// Packs the model at `path` into the carton `output`.
    ///
    /// The carton appears under its name when it is complete and, unless [`Pack::check`] is off, was loaded and passed its
    /// self-tests; a file of that name is replaced.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::Carton;
    /// let packed = Carton::pack("model.onnx", "model.carton").await?;
    /// println!("{}", packed.manifest_sha256);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// No such runner, a model it refuses, metadata that breaks a rule of the format or contradicts the model, a self-test that
    /// fails, files that cannot be read or written. What was at `output` before is still there then.
    pub fn pack(path: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Pack {
        Pack::new(path.into(), output.into())
    }

    /// The runner that runs the model at `path`, where its files leave no doubt: `onnx` for a `.onnx` file, `torchscript` for an
    /// archive of TorchScript, `python` for a Python module or a folder with exactly one.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// assert_eq!(carton_core::Carton::runner_for("model.onnx").await?, Some("onnx"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The path cannot be looked at; [`Error::ModelFile`] for a file that is empty or was cut off.
    pub async fn runner_for(path: impl AsRef<Path>) -> Result<Option<&'static str>, Error> {
        let path = path.as_ref().to_path_buf();
        run_blocking(None, move |_| recognize::runner_for(&path)).await
    }
}
