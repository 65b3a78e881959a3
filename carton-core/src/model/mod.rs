//! A loaded model: a package joined to a runner process.

mod checks;
mod infer;
mod live;
mod load;
mod load_settings;
mod sealed;
mod stream;

use std::sync::Arc;

use carton_tensor::{DataType, Element, NumericTensor};

use self::live::{Live, timed_out};
use crate::package::Package;
use crate::progress::ProgressCallback;
use crate::{CallError, Error, Inputs, Location, Tensors, runner};

pub use infer::{CallInputs, Infer};
pub(crate) use live::{start_runner, wire_specs};
pub use load::Load;
pub(crate) use load::complete_policy;
pub use sealed::SealedInputs;
pub use stream::OutputStream;

/// A model that is loaded in a runner process of its own.
///
/// Clones share the process; it ends when the last one is dropped. All methods may be used from any number of tasks at
/// once. They need a tokio runtime.
///
/// ```no_run
/// use carton_core::{Carton, NumericTensor};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Carton::load("digits.carton").await?;
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
    /// What is returned is awaited; before that, its setters say how the model is loaded. See [`Load`].
    ///
    /// # Errors
    /// A carton that is malformed or does not match its MANIFEST or the [expected hash](Load::expect_hash); no runner that fits; a
    /// runner that dies or refuses the model. See [`Error::kind`].
    pub fn load(location: impl Into<Location>) -> Load {
        Load::carton(location.into())
    }

    /// Loads a bare model: a folder or file that is no carton, with the runner of this name. Nothing is verified: there is nothing to
    /// verify against. Every version of the runner's framework will do, unless [`Load::framework_version`] says otherwise.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use carton_core::Carton;
    /// let model = Carton::load_unpacked("model.onnx", "onnx").framework_version(">=1.10, <2".parse()?).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_unpacked(path: impl Into<std::path::PathBuf>, runner: impl Into<String>) -> Load {
        Load::bare(path.into(), runner.into())
    }

    /// Runs the model once, on tensors or on [sealed](Self::seal) inputs.
    ///
    /// Inputs are checked against the carton's signature before the runner sees them, outputs before the caller does.
    /// What is returned is awaited for the outputs; see [`Infer`] for deadlines, timings and streams. Dropping the future cancels
    /// the call.
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton) -> Result<(), Box<dyn std::error::Error>> {
    /// use carton_core::NumericTensor;
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
    pub fn infer<'a>(&'a self, inputs: impl Into<CallInputs<'a>>) -> Infer<'a> {
        Infer::new(&self.live, inputs.into())
    }

    /// Hands inputs to the runner once, for many calls of [`infer`](Self::infer). After the runner died, the next call hands them to
    /// the fresh one.
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton, inputs: carton_core::Inputs) -> Result<(), carton_core::Error> {
    /// let sealed = model.seal(inputs).await?;
    /// for _ in 0..100 {
    ///     model.infer(&sealed).await?;
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
        match session.connection().ping(self.live.call_options(None)).await {
            Ok(()) => Ok(()),
            // Not explained as a call's error, which kills the runner: it may be busy with a model that leaves no room for answers.
            Err(CallError::DeadlineExceeded { phase }) => Err(timed_out(&session, phase)),
            Err(error) => Err(self.live.explain(&session, error).await),
        }
    }
}
