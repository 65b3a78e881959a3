//! The turn of a call: a free slot of the runner, which the call takes before it gives its inputs away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tracing::Instrument;

use super::calls::{Answer, Kind, Waiter};
use super::handle::Handle;
use super::stream::{InferStream, SealedInputs};
use super::{CallError, CallTimings};
use crate::message::{Message, WireTensor, code};
use crate::model::Statement;
use crate::runner::RunnerError;
use carton_tensor::Tensors;

/// A call that may be sent to the runner now; [`Connection::turn`](super::Connection::turn) waits for one.
///
/// Nothing of the call has reached the runner. If its connection closes while a caller waits for a turn, the same call can be made
/// on another connection.
pub struct Turn {
    pub(super) handle: Arc<Handle>,
    /// The number of the call.
    pub(super) id: u64,
    pub(super) slot: OwnedSemaphorePermit,
    /// The time for which the caller waited.
    pub(super) queue: Duration,
    pub(super) deadline: Option<Instant>,
}

impl Turn {
    /// Runs the model once. Dropping the future cancels the call.
    ///
    /// # Errors
    /// The runner's, or the connection's.
    pub async fn infer(self, inputs: Tensors) -> Result<(Tensors, CallTimings), CallError> {
        let message = |inputs| Message::Infer { inputs };
        let shared = Arc::clone(&self.handle.shared);
        let (answer, timings) = self.run(Kind::Infer, inputs, message).await?;
        shared.outputs(answer, timings)
    }

    /// Asks what the loaded model states about itself.
    ///
    /// # Errors
    /// As [`infer`](Self::infer). A runner that does not know this call fails with [`code::UNKNOWN_MESSAGE`].
    pub async fn describe(self) -> Result<Statement, CallError> {
        let shared = Arc::clone(&self.handle.shared);
        match self.run(Kind::Describe, Tensors::new(), |_| Message::Describe {}).await?.0 {
            Answer::Described(statement) => Ok(statement),
            _ => Err(shared.wrong_answer()),
        }
    }

    /// Runs the model and receives its outputs as they come.
    ///
    /// # Errors
    /// As [`infer`](Self::infer); those of the run itself come from [`InferStream::recv`].
    pub async fn infer_stream(self, inputs: Tensors) -> Result<InferStream, CallError> {
        let Self { handle, id, slot, deadline, .. } = self;
        let shared = &handle.shared;
        let credits = shared.options.stream_credits.max(1);
        let (outbound, inputs) = shared.encode(id, inputs, deadline).await?;
        let (items, received) = mpsc::unbounded_channel();
        shared.calls.add(id, Kind::Stream, Waiter::Items(items), credits, Some(slot))?;
        shared.send_call(id, Message::InferStream { inputs, credits }, outbound).await?;
        Ok(InferStream::new(handle, id, received, credits, deadline))
    }

    /// Hands inputs to the runner for many calls of [`infer_sealed`](Self::infer_sealed).
    ///
    /// # Errors
    /// As [`infer`](Self::infer).
    pub async fn seal(self, inputs: Tensors) -> Result<SealedInputs, CallError> {
        let message = |inputs| Message::Seal { inputs };
        let connection = Arc::clone(&self.handle);
        match self.run(Kind::Seal, inputs, message).await?.0 {
            Answer::Sealed { handle } => Ok(SealedInputs::new(connection, handle)),
            _ => Err(connection.shared.wrong_answer()),
        }
    }

    /// Runs the model on sealed inputs.
    ///
    /// # Errors
    /// As [`infer`](Self::infer). A runner that was loaded anew knows nothing of what was sealed before: the inputs have to
    /// be sealed again.
    pub async fn infer_sealed(self, sealed: &SealedInputs) -> Result<(Tensors, CallTimings), CallError> {
        let Some(handle) = sealed.number_on(&self.handle) else {
            let error = RunnerError::new("these inputs were sealed on another connection");
            return Err(CallError::Runner { code: code::UNKNOWN_HANDLE.to_owned(), error });
        };
        let message = |_| Message::InferSealed { handle };
        let shared = Arc::clone(&self.handle.shared);
        let (answer, timings) = self.run(Kind::Infer, Tensors::new(), message).await?;
        shared.outputs(answer, timings)
    }

    /// Makes the call. The connection stays open meanwhile.
    async fn run(
        self,
        kind: Kind,
        inputs: Tensors,
        message: impl FnOnce(Vec<WireTensor>) -> Message,
    ) -> Result<(Answer, CallTimings), CallError> {
        let Self { handle, id, slot, queue, deadline } = self;
        let shared = &handle.shared;
        let started = Instant::now();
        let (outbound, inputs) =
            shared.encode(id, inputs, deadline).instrument(tracing::debug_span!("transfer", call = id)).await?;
        let transfer = started.elapsed();
        let answer = shared
            .exchange(id, kind, message(inputs), outbound, Some(slot), deadline)
            .instrument(tracing::debug_span!("run", call = id))
            .await?;
        let run = started.elapsed() - transfer;
        tracing::debug!(call = id, ?queue, ?transfer, ?run, "call answered");
        Ok((answer, CallTimings { call: id, queue, transfer, run }))
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").field("call", &self.id).finish_non_exhaustive()
    }
}
