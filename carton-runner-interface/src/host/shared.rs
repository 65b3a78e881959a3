//! The state that the threads and the callers of one connection share. Calls wait here for their turn and for memory, and all of them end
//! when the connection is closed. `exchange` sends them and waits for their answers.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::calls::{Answer, Calls};
use super::incoming::Incoming;
use super::{CallError, CallTimings, CloseReason, ConnectionOptions, Event, Loaded, Peer, Phase};
use crate::housekeeper::{Elapsed, Housekeeper};
use crate::link::{Link, Outbound, SendError};
use crate::message::{Message, WireTensor, code};
use crate::protocol_error::ProtocolError;
use crate::runner::RunnerError;
use crate::shared_memory::pool::{PoolBuffer, PoolError};
use crate::spin::Spin;
use crate::tensor_encoding::{Plan, encode};
use crate::version;
use carton_tensor::Tensors;

/// The longest time for which a caller spins for its answer: that of a call of a small model, or of a batch of such calls on a busy machine.
/// Other tasks wait meanwhile, unless another worker takes them over.
const LONGEST_SPIN: Duration = Duration::from_micros(400);

/// One connection, as its threads and its callers share it.
pub(super) struct Shared {
    pub(super) link: Arc<Link>,
    pub(super) incoming: Incoming,
    pub(super) calls: Calls,
    pub(super) housekeeper: Arc<Housekeeper>,
    pub(super) options: ConnectionOptions,
    pub(super) peer: OnceLock<(Peer, version::Agreement)>,
    pub(super) loaded: OnceLock<Loaded>,
    pub(super) slots: Arc<Semaphore>,
    n_queued: AtomicUsize,
    pub(super) spin: Spin,
    /// Held by the one call that takes several buffers.
    taking_buffers: tokio::sync::Mutex<()>,
    last_id: AtomicU64,
    pub(super) closed: watch::Sender<Option<Arc<CloseReason>>>,
}

impl Shared {
    pub(super) fn new(
        link: Arc<Link>,
        incoming: Incoming,
        housekeeper: Arc<Housekeeper>,
        options: ConnectionOptions,
    ) -> Self {
        Self {
            link,
            incoming,
            calls: Calls::default(),
            housekeeper,
            options,
            peer: OnceLock::new(),
            loaded: OnceLock::new(),
            slots: Arc::new(Semaphore::new(0)),
            n_queued: AtomicUsize::new(0),
            spin: Spin::new(LONGEST_SPIN),
            taking_buffers: tokio::sync::Mutex::default(),
            last_id: AtomicU64::new(0),
            closed: watch::Sender::new(None),
        }
    }

    /// Closes the connection, and returns the reason. If it is closed already, its first reason stays.
    pub(super) fn close(&self, reason: CloseReason) -> Arc<CloseReason> {
        let mut actual = Arc::new(reason);
        self.closed.send_if_modified(|closed| match closed {
            Some(first) => {
                actual = Arc::clone(first);
                false
            }
            None => {
                *closed = Some(Arc::clone(&actual));
                true
            }
        });
        self.calls.close(&actual);
        self.slots.close();
        self.link.close();
        actual
    }

    pub(super) fn closed_error(&self) -> CallError {
        let reason = self.closed.borrow().clone();
        CallError::Closed(reason.unwrap_or_else(|| Arc::new(CloseReason::EndOfFile)))
    }

    /// Closes the connection because an answer does not belong to its call. Answers are checked when they arrive, so this is not expected.
    pub(super) fn wrong_answer(&self) -> CallError {
        let why = "it answers another kind of call".to_owned();
        CallError::Closed(self.close(CloseReason::Protocol(ProtocolError::Unexpected { message: "answer", why })))
    }

    pub(super) fn tell(&self, event: Event) {
        if let Some(on_event) = &self.options.on_event {
            on_event(event);
        }
    }

    pub(super) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits for a free slot of the runner. Fails if the connection is closed, although closing it frees slots.
    pub(super) async fn slot(&self, deadline: Option<Instant>) -> Result<OwnedSemaphorePermit, CallError> {
        if self.loaded.get().is_none() {
            let error = RunnerError::new("no model is loaded");
            return Err(match self.closed.borrow().clone() {
                Some(reason) => CallError::Closed(reason),
                None => CallError::Runner { code: code::NOT_LOADED.to_owned(), error },
            });
        }
        let slot = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => Ok(slot),
            Err(_) => {
                let cap = self.options.queue_cap;
                let _place = QueuePlace::take(&self.n_queued, cap).ok_or(CallError::QueueFull { cap })?;
                let slot = self.housekeeper.within(deadline, Arc::clone(&self.slots).acquire_owned()).await;
                slot.map_err(|Elapsed| CallError::DeadlineExceeded { phase: Phase::Queued })?
            }
        };
        match slot {
            Ok(slot) if self.closed.borrow().is_none() => Ok(slot),
            _ => Err(self.closed_error()),
        }
    }

    /// Takes a buffer of shared memory. Waits for room for as long as the options say.
    pub(super) async fn pool_buffer(&self, n_bytes: usize, deadline: Option<Instant>) -> Result<PoolBuffer, CallError> {
        let started = Instant::now();
        let until = [deadline, started.checked_add(self.options.pool_wait)].into_iter().flatten().min();
        let pool = &self.link.memory.pool;
        let buffer = poll_fn(|context| pool.poll_alloc(context, n_bytes));
        match self.housekeeper.within(until, buffer).await {
            Ok(Ok(buffer)) => Ok(buffer),
            Ok(Err(PoolError::Io(source))) => {
                Err(CallError::Io { what: "making a region of shared memory", source: Arc::new(source) })
            }
            Err(Elapsed) if deadline == until => Err(CallError::DeadlineExceeded { phase: Phase::Queued }),
            Ok(Err(PoolError::Full { .. })) | Err(Elapsed) => {
                let (used, cap) = pool.usage();
                Err(CallError::PoolFull { bytes: n_bytes as u64, used, cap, waited: started.elapsed() })
            }
        }
    }

    /// Takes all buffers that one call needs. Fails at once if the inputs can never fit together.
    async fn pool_buffers(&self, needs: &[usize], deadline: Option<Instant>) -> Result<Vec<PoolBuffer>, CallError> {
        let bytes = needs.iter().fold(0_u64, |sum, &n_bytes| sum.saturating_add(n_bytes as u64));
        let (used, cap) = self.link.memory.pool.usage();
        if bytes > cap {
            return Err(CallError::PoolFull { bytes, used, cap, waited: Duration::ZERO });
        }
        // Two calls that each hold only some of their buffers would wait for each other, so one call takes buffers at a time.
        let _turn = if needs.len() > 1 {
            let started = Instant::now();
            let until = [deadline, started.checked_add(self.options.pool_wait)].into_iter().flatten().min();
            match self.housekeeper.within(until, self.taking_buffers.lock()).await {
                Ok(turn) => Some(turn),
                Err(Elapsed) if deadline == until => return Err(CallError::DeadlineExceeded { phase: Phase::Queued }),
                Err(Elapsed) => return Err(CallError::PoolFull { bytes, used, cap, waited: started.elapsed() }),
            }
        } else {
            None
        };
        let mut buffers = Vec::with_capacity(needs.len());
        for &n_bytes in needs {
            buffers.push(self.pool_buffer(n_bytes, deadline).await?);
        }
        Ok(buffers)
    }

    /// Brings inputs into shared memory or the frame.
    pub(super) async fn encode(
        &self,
        id: u64,
        mut inputs: Tensors,
        deadline: Option<Instant>,
    ) -> Result<(Outbound, Vec<WireTensor>), CallError> {
        let (memory, cap) = (&self.link.memory, self.options.frame_cap);
        self.link.peer_dtypes().carry(&mut inputs)?;
        let plan = Plan::new(memory, &inputs);
        if let Some((input, input_bytes)) = plan.largest_inline
            && plan.inline_bytes > cap
            && !memory.is_in_use()
        {
            let (input, bytes) = (input.to_owned(), plan.inline_bytes);
            return Err(CallError::InputsTooLarge { input, input_bytes, bytes, cap });
        }
        let buffers = self.pool_buffers(&plan.buffers, deadline).await?;
        let room = poll_fn(|context| self.link.poll_room(context));
        let room = self.housekeeper.within(deadline, room).await;
        room.map_err(|Elapsed| CallError::DeadlineExceeded { phase: Phase::Queued })?;
        let encoded = encode(memory, inputs, buffers).map_err(|error| CallError::Io {
            what: "writing the inputs",
            source: Arc::new(std::io::Error::other(error)),
        })?;
        let mut outbound = Outbound::of_call(id);
        let wire = outbound.carry(encoded);
        Ok((outbound, wire))
    }

    /// Sends the message of a call that is registered already.
    pub(super) async fn send_call(&self, id: u64, message: Message, outbound: Outbound) -> Result<(), CallError> {
        let Err(error) = self.link.send(message, outbound) else { return Ok(()) };
        self.calls.forget(id);
        Err(match error {
            // The reading thread may still be handling the last messages. It knows why the connection ended, so this waits for it.
            SendError::Closed => CallError::Closed(self.wait_until_closed().await),
            SendError::TooLarge { bytes, cap } => CallError::TooLarge { bytes, cap },
            SendError::Json(error) => {
                let source = Arc::new(std::io::Error::other(error));
                CallError::Io { what: "writing the message as JSON", source }
            }
        })
    }

    pub(super) async fn wait_until_closed(&self) -> Arc<CloseReason> {
        let mut closed = self.closed.subscribe();
        let reason = closed.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        // `self` owns the sender, so waiting does not end before there is a reason.
        reason.unwrap_or_else(|| Arc::new(CloseReason::EndOfFile))
    }

    /// Tells the runner that the answer of a call is not wanted any more.
    pub(super) fn cancel(&self, id: u64) {
        if self.calls.abandon(id) {
            // A closed connection needs no cancelling.
            let _ = self.link.send(Message::Cancel {}, Outbound::of_call(id));
        }
    }

    pub(super) fn outputs(
        &self,
        answer: Answer,
        mut timings: CallTimings,
    ) -> Result<(Tensors, CallTimings), CallError> {
        let Answer::Outputs(outputs) = answer else { return Err(self.wrong_answer()) };
        let started = Instant::now();
        let outputs = self.own(outputs)?;
        timings.transfer += started.elapsed();
        Ok((outputs, timings))
    }

    /// Returns the outputs for the caller: with `copy_outputs`, copied into memory that no runner can reach.
    pub(super) fn own(&self, outputs: Tensors) -> Result<Tensors, CallError> {
        if !self.options.copy_outputs {
            return Ok(outputs);
        }
        Ok(crate::tensor_encoding::copy_out(outputs)?)
    }
}

/// A place in the queue of calls.
struct QueuePlace<'a>(&'a AtomicUsize);

impl<'a> QueuePlace<'a> {
    fn take(n_queued: &'a AtomicUsize, cap: usize) -> Option<Self> {
        let enter = |queued: usize| (queued < cap).then_some(queued + 1);
        n_queued.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).ok().map(|_| Self(n_queued))
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
