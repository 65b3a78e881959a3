//! A loaded model: a package joined to a runner process.

mod checks;
mod live;
mod options;
mod sealed;
mod stream;

use std::ops::ControlFlow;
use std::sync::Arc;

use carton_runner_interface::host::CallTimings;
use carton_tensor::{DataType, Element, NumericTensor};
use semver::VersionReq;

use self::live::{Live, ModelFiles};
use crate::blocking::run_blocking;
use crate::config::Config;
use crate::open::{self, Opening};
use crate::package::{self, Package};
use crate::progress::ProgressCallback;
use crate::runner::{self, Choice, Requirement};
use crate::source::Source;
use crate::{Error, Inputs, Location, Tensors};

pub(crate) use live::{start_runner, wire_specs};
pub use options::{InferOptions, LoadOptions};
pub use sealed::SealedInputs;
pub use stream::OutputStream;

/// A model that is loaded in a runner process of its own.
///
/// Clones share the process; it ends when the last one is dropped. All methods may be used from any number of tasks at
/// once. They need a tokio runtime.
///
/// ```no_run
/// use carton_core::{Carton, LoadOptions};
/// use carton_tensor::NumericTensor;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Carton::load("digits.carton", LoadOptions::default()).await?;
/// let image = NumericTensor::from_vec(vec![0.0_f32; 64], vec![1, 1, 8, 8])?;
/// let outputs = model.infer([("image", image)]).await?;
/// println!("{:?}", outputs["probabilities"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Carton {
    live: Arc<Live>,
}

impl std::fmt::Debug for Carton {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carton").field("runner", &self.live.descriptor().to_string()).finish_non_exhaustive()
    }
}

impl Carton {
    /// Loads a carton, or a folder that holds an unpacked one: verifies it, chooses and starts its runner, and loads the
    /// model there. The model's files are hashed unless the very same file was verified before.
    ///
    /// # Errors
    /// A carton that is malformed or does not match its MANIFEST or [`LoadOptions::expect`]; no runner that fits; a runner
    /// that dies or refuses the model. See [`Error::kind`].
    pub async fn load(location: impl Into<Location>, options: LoadOptions) -> Result<Self, Error> {
        let location = location.into();
        Self::load_with(options, move |config, options, opening| {
            open::open(&location, options.expect, options.allow_file_links, config, opening)
        })
        .await
    }

    /// Loads a bare model: a folder or file that is no carton, with the runner that runs it. Nothing is verified: there
    /// is nothing to verify against.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use carton_core::{Carton, LoadOptions};
    /// let model = Carton::load_unpacked("model.onnx", "onnx", ">=1.10, <2".parse()?, LoadOptions::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn load_unpacked(
        path: impl Into<std::path::PathBuf>,
        runner: &str,
        framework_version: VersionReq,
        options: LoadOptions,
    ) -> Result<Self, Error> {
        let path = path.into();
        let runner = runner.to_owned();
        Self::load_with(options, move |_, _, opening| {
            Ok(Package::bare(&path, &runner, framework_version, opening.cache.clone())?)
        })
        .await
    }

    /// Loads the carton that `source` holds. What it only links to is not fetched.
    pub(crate) async fn load_source(source: Arc<dyn Source>, options: LoadOptions) -> Result<Self, Error> {
        Self::load_with(options, move |_, options, opening| {
            let (cache, expect) = (opening.cache.clone(), options.expect);
            Ok(Package::open_archive(source, package::OpenOptions { cache, expect, ..Default::default() })?)
        })
        .await
    }

    async fn load_with(
        options: LoadOptions,
        open: impl FnOnce(&Config, &LoadOptions, &Opening) -> Result<Package, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let (package, descriptor, files, options) = run_blocking(move |abandoned| {
            let config = match &options.config {
                Some(config) => config.clone(),
                None => Config::load(None)?,
            };
            let opening = Opening {
                cache: Some(open::cache(&config)?),
                activity: Arc::clone(abandoned.activity()),
                progress: options.progress.clone(),
            };
            let package = open(&config, &options, &opening)?;
            let descriptor = choose_runner(&package, &config, &options, &|| abandoned.control())?;
            let files = ModelFiles::prepare(&package, descriptor.files, options.progress.as_ref(), &abandoned)?;
            let mut options = options;
            complete_policy(&mut options.policy, &config);
            Ok((package, descriptor, files, options))
        })
        .await?;
        Ok(Self { live: Arc::new(Live::start(package, descriptor, files, options).await?) })
    }

    /// Runs the model once.
    ///
    /// Inputs are checked against the carton's signature before the runner sees them, outputs before the caller does.
    /// Dropping the future cancels the call.
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton) -> Result<(), Box<dyn std::error::Error>> {
    /// use carton_tensor::NumericTensor;
    /// let image = NumericTensor::from_vec(vec![0.0_f32; 64], vec![1, 1, 8, 8])?;
    /// // By name, or in declared order: `model.infer(vec![image])`.
    /// let outputs = model.infer([("image", image)]).await?;
    /// if let Some(probabilities) = outputs["probabilities"].as_numeric() {
    ///     println!("{:?}", probabilities.as_slice::<f32>()?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Inputs or outputs that contradict the signature, an error of the model, a runner that died. After each of these
    /// the model can be called again.
    pub async fn infer(&self, inputs: impl Into<Inputs>) -> Result<Tensors, Error> {
        Ok(self.infer_timed(inputs, InferOptions::default()).await?.0)
    }

    /// As [`infer`](Self::infer), with options for this call.
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton) -> Result<(), carton_core::Error> {
    /// use std::time::Duration;
    /// use carton_core::{InferOptions, Inputs};
    /// let options = InferOptions { timeout: Some(Duration::from_secs(1)) };
    /// model.infer_with(Inputs::none(), options).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn infer_with(&self, inputs: impl Into<Inputs>, options: InferOptions) -> Result<Tensors, Error> {
        Ok(self.infer_timed(inputs, options).await?.0)
    }

    /// As [`infer_with`](Self::infer_with), and tells where the time went.
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton) -> Result<(), carton_core::Error> {
    /// use carton_core::{InferOptions, Inputs};
    /// let (outputs, timings) = model.infer_timed(Inputs::none(), InferOptions::default()).await?;
    /// println!("{} outputs, {:?} in the runner", outputs.len(), timings.run);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn infer_timed(
        &self,
        inputs: impl Into<Inputs>,
        options: InferOptions,
    ) -> Result<(Tensors, CallTimings), Error> {
        let (inputs, bindings) = self.live.check_inputs(inputs.into())?;
        let session = self.live.session().await?;
        let call = self.live.call_options(&options);
        let (outputs, timings) = match session.connection().infer_timed(inputs, call).await {
            Ok(answer) => answer,
            Err(error) => return Err(self.live.explain(&session, error).await),
        };
        self.live.check_outputs(bindings, &outputs)?;
        Ok((outputs, timings))
    }

    /// Runs the model and receives its outputs as they come.
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton) -> Result<(), carton_core::Error> {
    /// let mut stream = model.infer_stream(carton_core::Inputs::none()).await?;
    /// while let Some(outputs) = stream.next().await {
    ///     println!("{:?}", outputs?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`infer`](Self::infer); those of the run itself come from the stream.
    pub async fn infer_stream(&self, inputs: impl Into<Inputs>) -> Result<OutputStream, Error> {
        OutputStream::start(Arc::clone(&self.live), inputs.into()).await
    }

    /// Hands inputs to the runner once, for many calls of [`infer_sealed`](Self::infer_sealed).
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton, inputs: carton_core::Inputs) -> Result<(), carton_core::Error> {
    /// let sealed = model.seal(inputs).await?;
    /// for _ in 0..100 {
    ///     model.infer_sealed(&sealed).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn seal(&self, inputs: impl Into<Inputs>) -> Result<SealedInputs, Error> {
        SealedInputs::new(&self.live, inputs.into()).await
    }

    /// Runs the model on sealed inputs. After the runner died they are sealed again first.
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn infer_sealed(&self, sealed: &SealedInputs) -> Result<Tensors, Error> {
        sealed.infer(&self.live).await
    }

    /// A tensor of zeros or leftovers in memory that the runner shares: fill it, and it is passed without a copy.
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut image = model.alloc::<f32>(&[1, 1, 8, 8]).await?;
    /// if let Some(pixels) = image.as_mut_slice::<f32>()? {
    ///     pixels.fill(0.5);
    /// }
    /// model.infer([("image", image)]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A shape that is too large, shared memory that stays full, a runner that cannot be restarted.
    pub async fn alloc<T: Element>(&self, shape: &[usize]) -> Result<NumericTensor, Error> {
        self.alloc_dtype(T::DTYPE, shape).await
    }

    /// As [`alloc`](Self::alloc), with the dtype as a value.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc), and [`DataType::String`], whose elements have no size.
    pub async fn alloc_dtype(&self, dtype: DataType, shape: &[usize]) -> Result<NumericTensor, Error> {
        let session = self.live.session().await?;
        match session.connection().alloc(dtype, shape).await {
            Ok(tensor) => Ok(tensor),
            Err(error) => Err(self.live.explain(&session, error).await),
        }
    }

    /// What the carton holds besides the model: metadata, self-tests, examples, files.
    #[must_use]
    pub fn package(&self) -> &Package {
        self.live.package()
    }

    /// The runner that runs the model.
    #[must_use]
    pub fn runner(&self) -> &runner::Descriptor {
        self.live.descriptor()
    }

    /// Who is told of progress.
    pub(crate) fn progress(&self) -> Option<ProgressCallback> {
        self.live.progress()
    }

    /// Inputs by the names the carton declares.
    pub(crate) fn named(&self, inputs: Inputs) -> Result<Tensors, Error> {
        self.live.named(inputs)
    }

    /// Waits for a sign of life from the runner. One that does not answer is not killed for it.
    ///
    /// # Errors
    /// A runner that died and cannot be restarted.
    pub async fn ping(&self) -> Result<(), Error> {
        let session = self.live.session().await?;
        match session.connection().ping(self.live.call_options(&InferOptions::default())).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.live.explain(&session, error).await),
        }
    }
}

/// Adds what the configuration says to the caller's policy: which variables a runner gets, and which it does not get because the
/// host takes credentials from them.
pub(crate) fn complete_policy(policy: &mut runner::launch::LaunchPolicy, config: &Config) {
    let offline = if config.offline { "1" } else { "0" };
    policy.variables.extend([
        ("CARTON_RUNNER_DATA_DIR".to_owned(), config.runner_data_dir.to_string_lossy().into_owned()),
        ("CARTON_OFFLINE".to_owned(), offline.to_owned()),
    ]);
    policy.withheld.extend(config.credentials.tokens.iter().filter_map(|token| token.variable.clone()));
}

/// The runner that fits the carton, with what the caller overrides.
fn choose_runner(
    package: &Package,
    config: &Config,
    options: &LoadOptions,
    wanted: &(dyn Fn() -> ControlFlow<()> + Sync),
) -> Result<runner::Descriptor, Error> {
    let platforms = package.metadata().required_platforms();
    if !platforms.is_empty() && !platforms.iter().any(|platform| platform == runner::PLATFORM) {
        return Err(Error::Platform { required: platforms.to_vec(), found: runner::PLATFORM });
    }
    let required = package.metadata().runner();
    let requirement = Requirement {
        name: options.runner.clone().unwrap_or_else(|| required.runner_name.clone()),
        framework_version: Some(
            options.framework_version.clone().unwrap_or_else(|| required.required_framework_version.clone()),
        ),
        // Another runner numbers its layouts in its own way.
        compat_version: options.runner.is_none().then_some(required.runner_compat_version),
    };
    let install = options.install_runners;
    Ok(runner::choose(&requirement, &Choice { config, install, progress: options.progress.as_ref(), wanted })?)
}
