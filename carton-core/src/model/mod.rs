//! A loaded model: a package and the runner process that runs it.
//!
//! `load` opens the package, prepares the model's files and chooses the runner. `start` starts the runner and loads the model there.
//! `live` owns the runner process and lets it be started again when it has died. `infer`, `sealed` and `stream` are the forms of a call, and `checks` compares each call with the signature.
//! The protocol is in `carton-runner-interface`, the start of processes in `runner`.

mod checks;
mod error;
mod infer;
mod live;
mod load;
mod load_settings;
mod open;
mod preparation;
mod sealed;
mod start;
mod stream;
mod try_runner;

use std::sync::Arc;
use std::time::Duration;

use carton_format::progress::ProgressCallback;
use carton_runner_interface::Statement;
use carton_runner_interface::host::{CallError, Phase};
use carton_tensor::{DataType, Element, NumericTensor};

use self::live::Live;
use crate::package::Package;
use crate::{Error, Inputs, Location, Tensors, runner};

pub use infer::{CallInputs, Infer};
pub(crate) use live::Observed;
pub use load::Load;
pub(crate) use load::complete_policy;
pub use sealed::SealedInputs;
pub(crate) use start::{start_runner, wire_specs};
pub use stream::OutputStream;
pub use try_runner::try_runner;

/// A model that is loaded into its own runner process.
///
/// Clones share the process, which ends when the last of them is dropped. All methods may be called from any number of tasks at
/// once. They need a tokio runtime.
///
/// ```no_run
/// use carton_core::{Carton, NumericTensor};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Carton::load("digits.carton").await?;
/// let image = NumericTensor::from_vec(vec![0.0_f32; 64], vec![1, 1, 8, 8])?;
/// let outputs = model.infer([("image", image)]).await?;
/// println!("{:?}", outputs.get::<f32>("probabilities")?.as_slice());
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
    /// Loads a carton, or a folder that holds an unpacked one: verifies it, chooses and starts its runner, and loads the model
    /// there. Files of the model are not hashed again if the same carton was verified before and has not changed since.
    ///
    /// Returns a [`Load`], whose setters configure the load, and which is awaited.
    ///
    /// # Errors
    /// The carton is malformed, or does not match its MANIFEST or the [expected hash](Load::expect_hash); no runner fits; the
    /// runner dies or refuses the model. See [`Error::kind`].
    pub fn load(location: impl Into<Location>) -> Load {
        Load::carton(location.into())
    }

    /// Loads a bare model, a folder or file that is not a carton, with the runner called `runner`. Nothing is verified, because
    /// there is no MANIFEST to verify against. Any version of the runner's framework is accepted, unless
    /// [`Load::framework_version`] restricts it. Links that leave the folder are followed where the model may read what they lead to
    /// ([`Load::allow_read`]), or without the sandbox.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use carton_core::Carton;
    /// let model = Carton::load_bare("model.onnx", "onnx").framework_version(">=1.10, <2".parse()?).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_bare(path: impl Into<std::path::PathBuf>, runner: impl Into<String>) -> Load {
        Load::bare(path.into(), runner.into())
    }

    /// Runs the model once, on tensors or on [sealed](Self::seal) inputs.
    ///
    /// The inputs are checked against the carton's signature before the runner gets them, and the outputs before the caller does.
    /// Awaiting the returned [`Infer`] returns the outputs; its setters and methods offer deadlines, timings and streams.
    /// Dropping the future cancels the call.
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton) -> Result<(), Box<dyn std::error::Error>> {
    /// use carton_core::NumericTensor;
    /// let image = NumericTensor::from_vec(vec![0.0_f32; 64], vec![1, 1, 8, 8])?;
    /// // By name, or in declared order: `model.infer(vec![image])`.
    /// let outputs = model.infer([("image", image)]).await?;
    /// let probabilities = outputs.get::<f32>("probabilities")?;
    /// println!("{:?} {:?}", probabilities.shape(), probabilities.as_slice());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The inputs or outputs contradict the signature, the model reports an error, or the runner died. After each of these the
    /// model can be called again.
    pub fn infer<'a>(&'a self, inputs: impl Into<CallInputs<'a>>) -> Infer<'a> {
        Infer::new(&self.live, inputs.into())
    }

    /// Passes inputs to the runner once, for many calls of [`infer`](Self::infer). If the runner dies, the next call passes them
    /// to the fresh runner. The time limit is [`Load::timeout`]. Only this model takes the sealed inputs; its clones are the same
    /// model.
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

    /// Allocates a tensor in memory that is shared with the runner, so that passing it to a call copies nothing. Its elements are
    /// zeros or old data until they are written. They cannot be written while a call has the tensor.
    ///
    /// While the shared memory is full, this waits for room, for at most [`Load::pool_wait`]. If the runner has died, this first
    /// waits for a fresh one, for at most [`Load::timeout`].
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
    /// The shape is too large, the shared memory stays full, or the runner cannot be restarted.
    pub async fn alloc<T: Element>(&self, shape: &[usize]) -> Result<NumericTensor, Error> {
        self.alloc_dtype(T::DTYPE, shape).await
    }

    /// Does the same as [`alloc`](Self::alloc), with the dtype as a value.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc); also for [`DataType::String`], whose elements have no fixed size.
    pub async fn alloc_dtype(&self, dtype: DataType, shape: &[usize]) -> Result<NumericTensor, Error> {
        let session = self.live.session(self.live.call_options(None).deadline).await?;
        match session.connection().alloc(dtype, shape).await {
            Ok(tensor) => Ok(tensor),
            Err(error) => Err(self.live.explain(&session, error).await),
        }
    }

    /// Starts another runner with the same model, on the same files and with the same settings. Nothing is verified or fetched
    /// again. The two runners share neither calls, sealed inputs nor allocated tensors.
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton) -> Result<(), carton_core::Error> {
    /// let mut workers = vec![model];
    /// for _ in 1..4 {
    ///     workers.push(workers[0].start_another().await?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The runner dies or refuses the model.
    pub async fn start_another(&self) -> Result<Self, Error> {
        Ok(Self { live: Arc::new(self.live.start_another().await?) })
    }

    /// Returns the carton: metadata, self-tests, examples, files.
    #[must_use]
    pub fn package(&self) -> &Package {
        self.live.package()
    }

    /// Returns the descriptor of the runner that runs the model.
    #[must_use]
    pub fn runner(&self) -> &runner::Descriptor {
        self.live.descriptor()
    }

    /// Returns the number of calls that the runner runs at once, as it said when the model was loaded. Further calls wait for their
    /// turn, up to [`Load::max_waiting_calls`].
    #[must_use]
    pub fn max_concurrency(&self) -> usize {
        self.live.max_concurrency()
    }

    /// The callback for progress, if there is one.
    pub(crate) fn progress(&self) -> Option<ProgressCallback> {
        self.live.progress()
    }

    /// Runs the model once, and checks its inputs but not its outputs against the signature.
    pub(crate) async fn observe(&self, inputs: Inputs, timeout: Option<Duration>) -> Result<Observed, Error> {
        Ok(self.live.observe(inputs, timeout).await?.0)
    }

    /// Returns what the loaded model states about itself.
    pub(crate) async fn describe(&self) -> Result<Statement, Error> {
        self.live.describe().await
    }

    /// Gives positional inputs the names that the carton declares; named inputs keep theirs.
    pub(crate) fn named(&self, inputs: Inputs) -> Result<Tensors, Error> {
        self.live.named(inputs)
    }

    /// Waits until the runner is dead, also if no call is running, and returns why: it died ([`ErrorKind::RunnerCrashed`](crate::ErrorKind)), or why a fresh one could not be
    /// started. Does not start a fresh one itself; the next call does, and so does [`ensure_running`](Self::ensure_running).
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton) -> Result<(), carton_core::Error> {
    /// loop {
    ///     eprintln!("{}", model.runner_died().await);
    ///     model.ensure_running().await?;
    /// }
    /// # }
    /// ```
    pub async fn runner_died(&self) -> Error {
        self.live.died().await
    }

    /// Whether the runner is up. It is not while a fresh one starts.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.live.is_running()
    }

    /// Starts a fresh runner if the last one is dead, and waits until it has loaded the model: as long as [`Load::start_timeout`] and
    /// [`Load::load_timeout`] allow.
    ///
    /// # Errors
    /// The runner cannot be started, or refuses the model; or [restarting](Load::restart) is switched off.
    pub async fn ensure_running(&self) -> Result<(), Error> {
        self.live.session(None).await.map(drop)
    }

    /// Asks the runner for an answer and waits for it. The time limit is [`Load::timeout`]. A runner that does not answer within it
    /// is not killed, because it may be busy with a call that leaves no room for answers.
    ///
    /// # Errors
    /// The runner does not answer in time, or it died and cannot be restarted.
    pub async fn ping(&self) -> Result<(), Error> {
        let options = self.live.call_options(None);
        let session = self.live.session(options.deadline).await?;
        match session.connection().ping(options).await {
            Ok(()) => Ok(()),
            // Not explained as a call's error, which kills the runner: it may be busy with a model that leaves no room for answers.
            Err(CallError::DeadlineExceeded { .. }) => Err(self.live.timed_out(Phase::Queued, None)),
            Err(error) => Err(self.live.explain(&session, error).await),
        }
    }
}
