//! Makes a carton: asks the runner what the model is, combines the answer with the user's metadata, writes the carton, and loads
//! and tests it before it gets its name.
//!
//! `pointers` finds files that are not the model's, `readme` keeps the README, `recognize` decides which runner a model is for, `runner_answer` asks that runner, `other_side` finds the outputs where the metadata
//! declares inputs alone, `input` reads the files that the metadata names, `packing` runs the steps, and `check` loads and tests the result.
//! `outputs` compares what the model returns with what it declares, for inputs that `zeros` makes where there is no self-test. `warnings`
//! collects what packing warns of, and finds mistakes of the metadata. The format of the carton is up to `package`.

mod check;
mod error;
mod fetch;
mod input;
mod mlflow;
mod other_side;
mod outputs;
mod packing;
mod pointers;
mod readme;
mod recognize;
mod runner_answer;
mod secrets;
mod selected;
mod warnings;
mod zeros;

use std::collections::BTreeMap;
use std::fmt;
use std::future::IntoFuture;
use std::path::{Path, PathBuf};

use carton_format::archive::Compression;
use carton_format::links::Links;
use carton_format::metadata::Draft;
use carton_format::tensor_data::TensorFormat;
use carton_runner_interface::{OptionValue, Options};
use carton_templates::Template;
use carton_tensor::Tensor;
use semver::VersionReq;

use self::error::PackError;
pub use self::fetch::{FetchModel, FetchedModel, fetch_model};
pub use self::packing::Packing;
pub use self::recognize::Recognized;
use crate::blocking::{Awaited, run_blocking};
use crate::packed::Packed;
use crate::runner::launch::LaunchPolicy;
use crate::runner::launch_setters;
use crate::settings::{OperationSettings, operation_setters};
use crate::{Carton, Error, Inputs};

/// A model to be packed. Made by [`Carton::pack`]; setters configure it, and `.await` writes the carton.
///
/// [`prepare`](Self::prepare) stops after the runner has described the model, so that the caller can make inputs that fit it and
/// record self-tests.
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
    exclude: Vec<String>,
    allow_secrets: Vec<String>,
    misc: BTreeMap<String, PathBuf>,
    tensors: BTreeMap<String, Tensor>,
    tensor_format: TensorFormat,
    record_self_tests: Vec<RecordSelfTest>,
    check: bool,
    strict: bool,
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
            exclude: Vec::new(),
            allow_secrets: Vec::new(),
            misc: BTreeMap::new(),
            tensors: BTreeMap::new(),
            tensor_format: TensorFormat::default(),
            record_self_tests: Vec::new(),
            check: true,
            strict: false,
            links: Links::default(),
            known_links: Links::default(),
            install_runners: false,
            compression: Compression::default(),
            policy: LaunchPolicy::default(),
            operation: OperationSettings::default(),
        }
    }

    operation_setters!(operation);

    /// Sets the runner that the model is for. The default is the runner that the metadata names, else the one that
    /// [`Carton::recognize`] returns.
    pub fn runner(mut self, name: impl Into<String>) -> Self {
        self.runner = Some(name.into());
        self
    }

    /// Sets the metadata. The runner reads the model and adds the inputs, outputs and options that are missing here. Where it cannot tell the
    /// outputs that belong to the declared inputs, those that self-tests and examples show are declared: their names, dtypes and numbers of
    /// dimensions.
    pub fn metadata(mut self, metadata: Draft) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the folder that file references of the metadata are relative to; the current folder by default.
    pub fn metadata_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.metadata_folder = Some(folder.into());
        self
    }

    /// Sets the framework versions that run the model. The default is those of the metadata, else those that the runner
    /// recommends.
    pub fn framework_version(mut self, required: VersionReq) -> Self {
        self.framework_version = Some(required);
        self
    }

    /// Sets an option of the runner, which is stored in the carton. It overrides the metadata's option of that name. An option `env.NAME` is
    /// no option but the environment variable `NAME`, which the carton sets for the process that runs the model.
    pub fn option(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    /// Sets several options of the runner; see [`option`](Self::option).
    pub fn options(mut self, options: impl IntoIterator<Item = (String, OptionValue)>) -> Self {
        self.options.extend(options);
        self
    }

    /// Sets an option of the runner for packing only, which is not stored.
    pub fn pack_option(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        self.pack_options.insert(name.into(), value.into());
        self
    }

    /// Leaves files of the model's folder out: a pattern as in `.gitignore`. It comes after those of the folder's `.cartonignore`, and one that begins
    /// with `!` packs what an earlier one leaves out. What no model needs, such as `.git`, is left out without a pattern.
    pub fn exclude(mut self, pattern: impl Into<String>) -> Self {
        self.exclude.push(pattern.into());
        self
    }

    /// Packs the file at this path in the model's folder, or in `misc/`, although it looks like a secret. For an environment variable the path is
    /// `env.NAME`, for an option `opts.NAME`, for other texts of the metadata their key.
    pub fn allow_secret(mut self, path: impl Into<String>) -> Self {
        self.allow_secrets.push(path.into());
        self
    }

    /// Adds a file, which becomes `misc/<name>` in the carton. Without a `README.md`, that of the model's folder is added if it begins with front
    /// matter, which is a model card (spec/carton-format-extensions.md, "Model cards").
    pub fn misc(mut self, name: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        self.misc.insert(name.into(), file.into());
        self
    }

    /// Adds the papers of a fetched model to `misc/`: the README.md and the licenses of a repository on the Hub. Files that are already added
    /// stay. A pack that fetches the model itself does this.
    pub fn papers(mut self, model: &FetchedModel) -> Self {
        for (name, path) in model.papers() {
            self.misc.entry(name.clone()).or_insert_with(|| path.clone());
        }
        self
    }

    /// Adds a tensor to `tensor_data/`. The metadata may refer to it by this name.
    pub fn tensor(mut self, name: impl Into<String>, tensor: impl Into<Tensor>) -> Self {
        self.tensors.insert(name.into(), tensor.into());
        self
    }

    /// Sets how numeric tensors are stored. With any format but [`TensorFormat::Bin`], only readers that know the format can open
    /// the carton (spec/carton-format-extensions.md, "Tensor files").
    pub fn tensor_format(mut self, format: TensorFormat) -> Self {
        self.tensor_format = format;
        self
    }

    /// Adds a self-test. The packed model is run on its inputs, and what it returns becomes the expected outputs. If neither the metadata nor the
    /// model declares inputs, those of the self-tests are declared: their names, dtypes and numbers of dimensions.
    pub fn record_self_test(mut self, test: impl Into<RecordSelfTest>) -> Self {
        self.record_self_tests.push(test.into());
        self
    }

    /// Whether the packed model is loaded, compared with its signature and run on its self-tests before the carton gets its name.
    /// If that fails, nothing is written. On by default.
    ///
    /// Without self-tests, the model is run on zeros. If it does not return the shapes that the model itself declares, the carton declares
    /// what holds instead ([`PackWarning::ShapeCorrected`](crate::packing::PackWarning::ShapeCorrected)). What the metadata declares is never changed: a self-test that contradicts it
    /// fails, and zeros that do are a warning, because the model may not be for them ([`PackWarning::OutputDiffers`](crate::packing::PackWarning::OutputDiffers)).
    pub fn check(mut self, check: bool) -> Self {
        self.check = check;
        self
    }

    /// Whether mistakes in the metadata are errors, and not only [warnings](Packed::warnings): unknown keys,
    /// references of descriptions to files that are not in the carton, and platforms that are no target triples. Off by default.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Leaves out the files whose SHA-256 these links list, because they can be fetched from there. The carton is checked with
    /// all its files; the result is the one that [`Carton::shrink`] makes of the complete carton. A digest that matches no file
    /// that can be left out is an error.
    pub fn links(mut self, links: Links) -> Self {
        self.links = links;
        self
    }

    /// Leaves out files as [`links`](Self::links) does, but accepts digests that match nothing: for links of a family of models.
    /// [`Packed::unmatched`] lists those digests. It is an error if nothing at all is left out.
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

    /// Sets how entries are compressed.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    launch_setters!(policy);

    /// Does the first half of packing: asks the runner what the model is. [`Packing::write`] is the second half.
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
    /// Those of [`Carton::pack`] that can be found without writing anything.
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

/// A self-test to be recorded. Made from the inputs that the model is run on.
#[derive(Clone, Debug)]
pub struct RecordSelfTest {
    name: Option<String>,
    description: Option<String>,
    inputs: Inputs,
}

impl RecordSelfTest {
    /// Gives the test a name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Says what the test shows, in Markdown.
    #[must_use]
    pub fn described(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

impl<T: Into<Inputs>> From<T> for RecordSelfTest {
    fn from(inputs: T) -> Self {
        Self { name: None, description: None, inputs: inputs.into() }
    }
}

impl Carton {
    /// Packs the model at `path` into the carton `output`. The path may be the address of a model on a server, which is fetched as
    /// [`fetch_model`](crate::packing::fetch_model) does.
    ///
    /// The carton appears under its name only when it is complete and, unless [`Pack::check`] is off, was loaded and passed its
    /// self-tests. An existing file of that name is replaced. What may be unintended is logged, and listed in [`Packed::warnings`].
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
    /// The runner does not exist or refuses the model, the metadata breaks a rule of the format or contradicts the model, a
    /// self-test fails, or files cannot be read or written. The file that was at `output` before is still there then.
    pub fn pack(path: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Pack {
        Pack::new(path.into(), output.into())
    }

    /// Returns what runs the model at `path`, if its files leave no doubt: `onnx` for a `.onnx` file, `torchscript` for an
    /// archive of TorchScript, `python` for the files of frameworks that a [`Template`](crate::packing::Template) runs, and for a Python module or a folder with
    /// exactly one. A folder with a `main.py`, or whose only module has a function `get_model`, is a Python model whatever else is in it.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// let recognized = carton_core::Carton::recognize("model.onnx").await?;
    /// assert_eq!(recognized.map(|recognized| recognized.runner), Some("onnx"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The path cannot be inspected; the file is empty or truncated, another one that stands in place of the model, or a model that nothing
    /// runs as it is.
    pub async fn recognize(path: impl AsRef<Path>) -> Result<Option<Recognized>, Error> {
        let path = path.as_ref().to_path_buf();
        run_blocking(None, move |_| recognize::recognize(&path)).await
    }

    /// Writes the Python model that runs the files of a framework into `folder`, with copies of them, and returns it. The folder must be empty or
    /// not exist, and is a model that [`pack`](Self::pack) packs.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// let template = carton_core::Carton::eject("booster.json", "booster").await?;
    /// assert_eq!(template.name(), "xgboost");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`recognize`](Self::recognize); no template is known for these files; the folder is not empty, or cannot be written.
    pub async fn eject(path: impl AsRef<Path>, folder: impl Into<PathBuf>) -> Result<Template, Error> {
        let (path, folder) = (path.as_ref().to_path_buf(), folder.into());
        run_blocking(None, move |_| {
            let template = recognize::recognize(&path)?.and_then(|recognized| recognized.template);
            let template = template.ok_or(PackError::NoTemplate { path })?;
            template.copy_into(&folder).map_err(PackError::Template)?;
            Ok(template)
        })
        .await
    }
}
