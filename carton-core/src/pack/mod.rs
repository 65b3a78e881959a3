//! Makes a carton: asks the runner what the model is, joins that with what the user says, writes the package, and loads
//! what was written before it gets its name.

mod check;
mod input;
mod packing;
mod recognize;
mod runner_answer;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use carton_runner_interface::Options;
use carton_tensor::Tensor;
use semver::VersionReq;
use serde::Serialize;

pub use self::packing::Packing;
use crate::archive::Compression;
use crate::blocking::run_blocking;
use crate::config::Config;
use crate::digest::Sha256Digest;
use crate::links::Links;
use crate::metadata::Draft;
use crate::progress::ProgressCallback;
use crate::runner::launch::LaunchPolicy;
use crate::tensor_data::TensorFormat;
use crate::{Carton, Error, Inputs, SelfTestReport};

/// How [`Carton::pack`] packs. Build it from the default.
#[derive(Clone)]
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
    /// Whether the packed model is loaded, compared with its signature and put to its self-tests before the carton gets its name.
    /// Nothing is written where that fails. On by default.
    pub check: bool,
    /// Files that are left out of the carton, by their SHA-256, and where they can be fetched. The carton is checked with all its files;
    /// it is the one that [`Carton::shrink`] makes of the whole one. A digest that no file has which can be left out is refused.
    pub links: Links,
    /// Links of files of which this carton has some, as those of a family of models: they are left out too. The digests that match
    /// nothing are in [`Packed::unmatched`]; it is an error when nothing is left out at all.
    pub known_links: Links,
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

impl Default for PackOptions {
    fn default() -> Self {
        Self {
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
            config: None,
            progress: None,
        }
    }
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
    /// The digests in [`PackOptions::known_links`] that no file has which can be left out, sorted.
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
    /// Packs the model at `path` for `runner` into the carton `output`.
    ///
    /// The carton appears under its name when it is complete and, unless [`PackOptions::check`] is off, was loaded and passed its
    /// self-tests; a file of that name is replaced.
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
    /// No such runner, a model it refuses, metadata that breaks a rule of the format or contradicts the model, a self-test that
    /// fails, files that cannot be read or written. What was at `output` before is still there then.
    pub async fn pack(
        path: impl AsRef<Path>,
        runner: &str,
        output: impl AsRef<Path>,
        options: PackOptions,
    ) -> Result<Packed, Error> {
        Self::prepare_pack(path, runner, options).await?.write(output).await
    }

    /// The first half of [`pack`](Self::pack): asks the runner what the model is. Self-tests can then be recorded from inputs that
    /// are made for what the model declares.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::collections::BTreeMap;
    /// use carton_core::{Carton, Inputs, PackOptions, RecordSelfTest};
    /// use carton_tensor::NumericTensor;
    ///
    /// let mut packing = Carton::prepare_pack("model.onnx", "onnx", PackOptions::default()).await?;
    /// let mut inputs = BTreeMap::new();
    /// for spec in packing.declared_inputs()? {
    ///     inputs.insert(spec.name.clone(), NumericTensor::zeroed(spec.dtype, vec![1, 4])?.into());
    /// }
    /// packing.record(RecordSelfTest { name: None, inputs: Inputs::Named(inputs) })?;
    /// packing.write("model.carton").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`pack`](Self::pack) that can be told without writing anything.
    pub async fn prepare_pack(path: impl AsRef<Path>, runner: &str, options: PackOptions) -> Result<Packing, Error> {
        Packing::prepare(path.as_ref(), runner, options).await
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
        run_blocking(move |_| recognize::runner_for(&path)).await
    }
}
