//! Sends a call and waits for its answer.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::calls::{Answer, Kind, Waiter};
use super::reading;
use super::shared::Shared;
use super::{CallError, CallOptions, Phase};
use crate::housekeeper::Elapsed;
use crate::link::Outbound;
use crate::message::Message;

impl Shared {
    /// Makes a call that takes no slot of the runner and has no tensors.
    pub(super) async fn call(
        self: &Arc<Self>,
        kind: Kind,
        message: Message,
        descriptors: Vec<OwnedFd>,
        options: &CallOptions,
    ) -> Result<Answer, CallError> {
        let id = self.next_id();
        let outbound = Outbound { id: Some(id), descriptors, ..Outbound::default() };
        self.exchange(id, kind, message, outbound, None, options.deadline).await
    }

    /// Sends the message of a call and waits for its answer. Dropping the future cancels the call.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        id: u64,
        kind: Kind,
        message: Message,
        outbound: Outbound,
        slot: Option<OwnedSemaphorePermit>,
        deadline: Option<Instant>,
    ) -> Result<Answer, CallError> {
        let (waiter, mut answer) = oneshot::channel();
        self.calls.add(id, kind, Waiter::Answer(waiter), 0, slot)?;
        self.send_call(id, message, outbound).await?;
        let _cancel = CancelOnDrop { shared: self, id };
        if let Some(answer) = reading::spin(self, &mut answer) {
            return answer;
        }
        match self.housekeeper.within(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(self.closed_error()),
            Err(Elapsed) => Err(CallError::DeadlineExceeded { phase: Phase::Running }),
        }
    }
}

struct CancelOnDrop<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        // If the call was answered, it is not known any more, and nothing is sent.
        self.shared.cancel(self.id);
    }
}
