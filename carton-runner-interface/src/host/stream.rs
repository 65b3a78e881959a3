//! The handles that a connection returns: streams of outputs, and sealed inputs.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::mpsc;

use super::handle::Handle;
use super::{CallError, Phase};
use crate::link::Outbound;
use crate::message::Message;
use carton_tensor::Tensors;

/// The outputs of a streaming call. Dropping it cancels the call.
pub struct InferStream {
    handle: Arc<Handle>,
    id: u64,
    items: mpsc::UnboundedReceiver<Result<Tensors, CallError>>,
    /// Items received since the runner was last given credits.
    n_received: u32,
    credits: u32,
    deadline: Option<Instant>,
    ended: bool,
}

impl InferStream {
    pub(super) fn new(
        handle: Arc<Handle>,
        id: u64,
        items: mpsc::UnboundedReceiver<Result<Tensors, CallError>>,
        credits: u32,
        deadline: Option<Instant>,
    ) -> Self {
        Self { handle, id, items, n_received: 0, credits, deadline, ended: false }
    }

    /// The number of the call, as in `tracing` spans and on the wire.
    #[must_use]
    pub fn call(&self) -> u64 {
        self.id
    }

    /// Returns the next outputs; `None` when the runner is done. An error is the last item.
    pub async fn recv(&mut self) -> Option<Result<Tensors, CallError>> {
        let handle = Arc::clone(&self.handle);
        let deadline = self.deadline;
        let next = std::future::poll_fn(|context| self.poll_recv(context));
        match handle.shared.housekeeper.within(deadline, next).await {
            Ok(next) => next,
            Err(_) if self.ended => None,
            Err(_) => {
                self.end();
                Some(Err(CallError::DeadlineExceeded { phase: Phase::Running }))
            }
        }
    }

    /// As [`recv`](Self::recv), to implement `Stream`. Does not watch the deadline of the call.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Tensors, CallError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let item = std::task::ready!(self.items.poll_recv(context));
        Poll::Ready(match item {
            Some(Ok(outputs)) => {
                self.give_credits();
                match self.handle.shared.own(outputs) {
                    Ok(outputs) => Some(Ok(outputs)),
                    Err(error) => {
                        self.end();
                        Some(Err(error))
                    }
                }
            }
            end => {
                self.ended = true;
                end
            }
        })
    }

    /// Returns credits in batches, so that an item does not cost a message in this direction too.
    fn give_credits(&mut self) {
        self.n_received += 1;
        if self.n_received >= self.credits.div_ceil(2) {
            let n = std::mem::take(&mut self.n_received);
            let shared = &self.handle.shared;
            shared.calls.add_credits(self.id, n);
            // If the connection is closed, the next item reports it.
            let _ = shared.link.send(Message::Credit { n }, Outbound::of_call(self.id));
        }
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.handle.shared.cancel(self.id);
        }
    }
}

impl Drop for InferStream {
    fn drop(&mut self) {
        self.end();
    }
}

/// Inputs that the runner keeps. Dropping this lets the runner forget them.
pub struct SealedInputs {
    handle: Arc<Handle>,
    number: u64,
}

impl SealedInputs {
    pub(super) fn new(handle: Arc<Handle>, number: u64) -> Self {
        Self { handle, number }
    }

    /// The runner's number for these inputs, if they were sealed on the connection of `handle`.
    pub(super) fn number_on(&self, handle: &Arc<Handle>) -> Option<u64> {
        Arc::ptr_eq(&self.handle, handle).then_some(self.number)
    }
}

impl Drop for SealedInputs {
    fn drop(&mut self) {
        // If the connection is closed, the runner has nothing to forget.
        let _ = self.handle.shared.link.send_plain(Message::Unseal { handle: self.number });
    }
}
