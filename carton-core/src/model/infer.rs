//! One call of a model: on what, for how long, and what is wanted of it.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use carton_runner_interface::host::CallTimings;

use super::live::Live;
use super::sealed::SealedInputs;
use super::stream::OutputStream;
use crate::blocking::Awaited;
use crate::{Error, Inputs, Tensors};

/// One call of a model that is about to be made: what [`Carton::infer`](crate::Carton::infer) returns.
///
/// `.await` makes the call and gives its outputs; [`timed`](Self::timed) also tells where the time went, and
/// [`stream`](Self::stream) gives the outputs as they come.
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

/// What a model is called on: tensors, or inputs that its runner has already.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallInputs<'a> {
    /// Tensors, which are passed with the call.
    Tensors(Inputs),
    /// What [`Carton::seal`](crate::Carton::seal) returned.
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

    /// The time that this call may take, waiting included, instead of that of [`Load::timeout`](crate::Load::timeout). A runner that
    /// exceeds it is killed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Makes the call, and tells where the time went.
    ///
    /// # Errors
    /// As [`Carton::infer`](crate::Carton::infer).
    pub async fn timed(self) -> Result<(Tensors, CallTimings), Error> {
        let Self { live, inputs, timeout } = self;
        match inputs {
            CallInputs::Tensors(inputs) => live.infer(inputs, timeout).await,
            CallInputs::Sealed(sealed) => sealed.infer(live, timeout).await,
        }
    }

    /// Makes the call and receives its outputs as they come. Dropping the stream cancels the call.
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
    /// As [`Carton::infer`](crate::Carton::infer); those of the run itself come from the stream.
    pub async fn stream(self) -> Result<OutputStream, Error> {
        let Self { live, inputs, timeout } = self;
        let inputs = match inputs {
            CallInputs::Tensors(inputs) => inputs,
            // The protocol runs sealed inputs to their end. A stream passes their tensors, which the host has kept.
            CallInputs::Sealed(sealed) => sealed.tensors(),
        };
        OutputStream::start(Arc::clone(live), inputs, timeout).await
    }
}

impl<'a> IntoFuture for Infer<'a> {
    type Output = Result<Tensors, Error>;
    type IntoFuture = Awaited<'a, Tensors>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.timed().await?.0) })
    }
}
