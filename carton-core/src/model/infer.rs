//! One call of a model: its inputs, its timeout, and the form of its result.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use carton_runner_interface::host::CallTimings;

use super::live::Live;
use super::sealed::SealedInputs;
use super::stream::OutputStream;
use crate::blocking::Awaited;
use crate::{Error, Inputs, Outputs};

/// One call of a model. Made by [`Carton::infer`](crate::Carton::infer).
///
/// `.await` makes the call and returns its outputs; [`timed`](Self::timed) also returns how long each phase took, and
/// [`stream`](Self::stream) returns the outputs one after another as they arrive.
///
/// ```no_run
/// # async fn example(model: carton_core::Carton) -> Result<(), carton_core::Error> {
/// use std::time::Duration;
/// use carton_core::Inputs;
/// let (outputs, timings) = model.infer(Inputs::none()).timeout(Duration::from_secs(1)).timed().await?;
/// println!("{} outputs, {:?} in the runner", outputs.len(), timings.run);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is run until this is awaited"]
#[derive(Debug)]
pub struct Infer<'a> {
    live: &'a Arc<Live>,
    inputs: CallInputs<'a>,
    timeout: Option<Duration>,
}

/// The inputs of a call: tensors, or inputs that the runner already has.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallInputs<'a> {
    /// Tensors that are passed with the call.
    Tensors(Inputs),
    /// Sealed inputs, from [`Carton::seal`](crate::Carton::seal) of the same model.
    Sealed(&'a SealedInputs),
}

impl<T: Into<Inputs>> From<T> for CallInputs<'_> {
    fn from(inputs: T) -> Self {
        Self::Tensors(inputs.into())
    }
}

impl<'a> From<&'a SealedInputs> for CallInputs<'a> {
    fn from(sealed: &'a SealedInputs) -> Self {
        Self::Sealed(sealed)
    }
}

impl<'a> Infer<'a> {
    pub(super) fn new(live: &'a Arc<Live>, inputs: CallInputs<'a>) -> Self {
        Self { live, inputs, timeout: None }
    }

    /// Sets the time that this call may take, waiting included, instead of [`Load::timeout`](crate::Load::timeout). If the call
    /// is running when the time is up, its runner is killed. Other calls that are running there then fail with
    /// [`ErrorKind::RunnerCrashed`](crate::ErrorKind::RunnerCrashed). Calls that wait for their turn go to the fresh runner, if
    /// [`Load::restart`](crate::Load::restart) is on.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Makes the call, and returns its outputs and how long each phase took.
    ///
    /// # Errors
    /// As [`Carton::infer`](crate::Carton::infer).
    pub async fn timed(self) -> Result<(Outputs, CallTimings), Error> {
        let Self { live, inputs, timeout } = self;
        let (outputs, timings) = match inputs {
            CallInputs::Tensors(inputs) => live.infer(inputs, timeout).await?,
            CallInputs::Sealed(sealed) => sealed.infer(live, timeout).await?,
        };
        Ok((outputs.into(), timings))
    }

    /// Makes the call and returns its outputs as a stream, as they arrive. Dropping the stream cancels the call.
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton) -> Result<(), carton_core::Error> {
    /// let mut stream = model.infer(carton_core::Inputs::none()).stream().await?;
    /// while let Some(outputs) = stream.next().await {
    ///     println!("{:?}", outputs?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Carton::infer`](crate::Carton::infer). Errors of the run itself are items of the stream.
    pub async fn stream(self) -> Result<OutputStream, Error> {
        let Self { live, inputs, timeout } = self;
        let inputs = match inputs {
            CallInputs::Tensors(inputs) => inputs,
            // The protocol has no streamed call on sealed inputs. A stream therefore passes their tensors, which the host has
            // kept.
            CallInputs::Sealed(sealed) => sealed.tensors(live)?,
        };
        OutputStream::start(Arc::clone(live), inputs, timeout).await
    }
}

impl<'a> IntoFuture for Infer<'a> {
    type Output = Result<Outputs, Error>;
    type IntoFuture = Awaited<'a, Outputs>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.timed().await?.0) })
    }
}
