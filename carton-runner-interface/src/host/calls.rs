//! The calls of one connection that wait for an answer.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{CallError, CloseReason};
use crate::model::{PackResponse, Prepared, Statement};
use crate::protocol_error::ProtocolError;
use carton_tensor::Tensors;

/// The answer to a call.
pub(super) enum Answer {
    Loaded {
        max_concurrency: u64,
    },
    Prepared(Prepared),
    Packed(PackResponse),
    Described(Statement),
    Outputs(Tensors),
    Sealed {
        handle: u64,
    },
    /// The call is over, and there is no value.
    Done,
}

/// The kinds of calls, against which answers are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Load,
    Prepare,
    Pack,
    Describe,
    Infer,
    Stream,
    Seal,
    Ping,
}

/// The receiver of an answer.
pub(super) enum Waiter {
    Answer(oneshot::Sender<Result<Answer, CallError>>),
    Items(mpsc::UnboundedSender<Result<Tensors, CallError>>),
    /// The call was cancelled. Its answer only says that the runner is done with it.
    Nobody,
}

struct Call {
    kind: Kind,
    waiter: Waiter,
    /// Items the runner may still send.
    credits: u64,
    /// The runner's slot, which the call occupies until it is answered.
    _slot: Option<OwnedSemaphorePermit>,
}

/// Calls by their number.
#[derive(Default)]
pub(super) struct Calls(Mutex<State>);

#[derive(Default)]
struct State {
    calls: HashMap<u64, Call>,
    closed: Option<Arc<CloseReason>>,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    pub(super) fn add(
        &self,
        id: u64,
        kind: Kind,
        waiter: Waiter,
        credits: u32,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Result<(), CallError> {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Err(CallError::Closed(Arc::clone(reason)));
        }
        state.calls.insert(id, Call { kind, waiter, credits: credits.into(), _slot: slot });
        Ok(())
    }

    /// Forgets a call that was never sent.
    pub(super) fn forget(&self, id: u64) {
        self.lock().calls.remove(&id);
    }

    /// Drops the receiver of the answer. Returns whether the call is still running.
    pub(super) fn abandon(&self, id: u64) -> bool {
        let mut state = self.lock();
        match state.calls.get_mut(&id) {
            Some(call) => {
                call.waiter = Waiter::Nobody;
                true
            }
            None => false,
        }
    }

    /// Allows the runner `n` more items.
    pub(super) fn add_credits(&self, id: u64, n: u32) {
        if let Some(call) = self.lock().calls.get_mut(&id) {
            call.credits += u64::from(n);
        }
    }

    /// Delivers the last answer to a call. Returns the answer if there is no receiver.
    pub(super) fn answer(
        &self,
        id: u64,
        message: &'static str,
        kinds: &[Kind],
        answer: Result<Answer, CallError>,
    ) -> Result<Option<Answer>, ProtocolError> {
        let call = {
            let mut state = self.lock();
            match state.calls.get(&id) {
                None => return Err(ProtocolError::UnknownCall { message, id }),
                Some(call) if !kinds.is_empty() && !kinds.contains(&call.kind) => {
                    let why = format!("call {id} is not one it can answer");
                    return Err(ProtocolError::Unexpected { message, why });
                }
                Some(_) => state.calls.remove(&id),
            }
        };
        match (call.map(|call| call.waiter), answer) {
            (Some(Waiter::Answer(waiter)), answer) => match waiter.send(answer) {
                Err(Ok(unwanted)) => Ok(Some(unwanted)),
                _ => Ok(None),
            },
            (Some(Waiter::Items(items)), Err(error)) => {
                let _ = items.send(Err(error));
                Ok(None)
            }
            (_, Ok(unwanted)) => Ok(Some(unwanted)),
            (_, Err(_)) => Ok(None),
        }
    }

    /// Delivers one item of a stream.
    pub(super) fn item(&self, id: u64, outputs: Tensors) -> Result<(), ProtocolError> {
        let message = "stream_item";
        let mut state = self.lock();
        let call = state.calls.get_mut(&id).ok_or(ProtocolError::UnknownCall { message, id })?;
        if call.kind != Kind::Stream {
            return Err(ProtocolError::Unexpected { message, why: format!("call {id} is not a stream") });
        }
        call.credits = call
            .credits
            .checked_sub(1)
            .ok_or_else(|| ProtocolError::Unexpected { message, why: format!("call {id} has no credits left") })?;
        if let Waiter::Items(items) = &call.waiter {
            let _ = items.send(Ok(outputs));
        }
        Ok(())
    }

    /// Fails all calls, now and later.
    pub(super) fn close(&self, reason: &Arc<CloseReason>) {
        let calls = {
            let mut state = self.lock();
            state.closed.get_or_insert_with(|| Arc::clone(reason));
            std::mem::take(&mut state.calls)
        };
        for call in calls.into_values() {
            let error = CallError::Closed(Arc::clone(reason));
            match call.waiter {
                Waiter::Answer(waiter) => drop(waiter.send(Err(error))),
                Waiter::Items(items) => drop(items.send(Err(error))),
                Waiter::Nobody => {}
            }
        }
    }
}
