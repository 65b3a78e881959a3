//! One call as a runner sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carton_tensor::{DataType, NumericTensor};
use parking_lot::{Condvar, Mutex};

use super::error::RunnerError;
use crate::link::{Link, Outbound, SendError};
use crate::message::{LogLevel, Message, WireTensor, code};
use crate::shared_memory::THRESHOLD;
use crate::shared_memory::pool::{PoolBuffer, PoolError};
use crate::tensor_encoding::{Plan, encode};
use carton_tensor::Tensors;

/// One call as the runner sees it: whether it was cancelled, memory for outputs, log and progress.
pub struct Call {
    /// `None` for calls that come from no host.
    link: Option<Arc<Link>>,
    state: Arc<CallState>,
    pool_wait: Duration,
}

/// The state of a running call that the reading thread changes.
#[derive(Default)]
pub(super) struct CallState {
    id: u64,
    cancelled: AtomicBool,
    credits: Mutex<u64>,
    changed: Condvar,
}

impl CallState {
    pub(super) fn new(id: u64, credits: u32) -> Self {
        Self { id, credits: Mutex::new(credits.into()), ..Self::default() }
    }

    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        // Takes the lock, so that a thread that is about to wait for credits does not miss the cancellation.
        drop(self.credits.lock());
        self.changed.notify_all();
    }

    pub(super) fn add_credits(&self, n: u32) {
        let mut credits = self.credits.lock();
        *credits = credits.saturating_add(n.into());
        self.changed.notify_all();
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Waits for a credit and uses it up. Returns `false` if the call was cancelled.
    fn take_credit(&self) -> bool {
        let mut credits = self.credits.lock();
        while *credits == 0 && !self.is_cancelled() {
            self.changed.wait(&mut credits);
        }
        *credits = credits.saturating_sub(1);
        !self.is_cancelled()
    }
}

impl Call {
    pub(super) fn new(link: Arc<Link>, state: Arc<CallState>, pool_wait: Duration) -> Self {
        Self { link: Some(link), state, pool_wait }
    }

    /// Creates a call without a host, for example to test a [`Runner`](super::Runner) inside one process. Memory is on the heap, and
    /// log records go to `tracing`.
    #[must_use]
    pub fn detached() -> Self {
        Self { link: None, state: Arc::default(), pool_wait: Duration::ZERO }
    }

    /// Whether the host cancelled the call. A runner that can stop early should.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state.is_cancelled()
    }

    /// Allocates a writable tensor in shared memory, which is returned to the host without a copy. Small tensors, and all tensors for
    /// hosts without shared memory, are on the heap. The elements are arbitrary until they are written.
    ///
    /// # Errors
    /// A tensor that is too large, or a pool that stays full.
    pub fn alloc(&self, dtype: DataType, shape: &[usize]) -> Result<NumericTensor, RunnerError> {
        let n_bytes = NumericTensor::n_bytes_of(dtype, shape)?;
        match &self.link {
            Some(link) if link.memory.is_in_use() && n_bytes >= THRESHOLD => {
                let buffer = self.buffer(link, n_bytes).map_err(|error| RunnerError::from_error(&error))?;
                Ok(NumericTensor::new(dtype, shape.to_vec(), Arc::new(buffer))?)
            }
            _ => Ok(NumericTensor::zeroed(dtype, shape.to_vec())?),
        }
    }

    fn buffer(&self, link: &Link, n_bytes: usize) -> Result<PoolBuffer, PoolError> {
        link.memory.pool.alloc_blocking(n_bytes, self.pool_wait, || !self.is_cancelled())
    }

    /// Sends a log record of level warn to the host.
    pub fn warn(&self, message: &str) {
        self.log(LogLevel::Warn, message);
    }

    /// Sends a log record of level info to the host.
    pub fn info(&self, message: &str) {
        self.log(LogLevel::Info, message);
    }

    /// Sends a log record to the host.
    pub fn log(&self, level: LogLevel, message: &str) {
        match &self.link {
            // If the host is gone, the record is lost.
            Some(_) => drop(self.send(Message::Log { level, message: message.to_owned() })),
            None => tracing::info!(?level, "{message}"),
        }
    }

    /// Reports progress of a long load or pack: `done` of `total` units (`None` if unknown). `what` names the step, such as
    /// `"reading weights"`.
    pub fn progress(&self, what: &str, done: u64, total: Option<u64>) {
        drop(self.send(Message::Progress { what: what.to_owned(), done, total }));
    }

    /// Sends a message of this call that carries no tensors.
    pub(super) fn send(&self, message: Message) -> Result<(), SendError> {
        match &self.link {
            Some(link) => {
                link.wait_for_room();
                link.send(message, Outbound::of_call(self.state.id))
            }
            None => Ok(()),
        }
    }

    /// Sends tensors and drops them.
    pub(super) fn send_tensors(
        &self,
        mut tensors: Tensors,
        message: impl FnOnce(Vec<WireTensor>) -> Message,
    ) -> Result<(), AnswerError> {
        let Some(link) = &self.link else { return Ok(()) };
        let carried = link.peer_dtypes().carry(&mut tensors);
        carried.map_err(|error| AnswerError { code: code::FAILED, error: RunnerError::from_error(&error) })?;
        let mut buffers = Vec::new();
        for n_bytes in Plan::new(&link.memory, &tensors).buffers {
            buffers.push(
                self.buffer(link, n_bytes)
                    .map_err(|error| AnswerError { code: code::POOL_FULL, error: RunnerError::from_error(&error) })?,
            );
        }
        let failed = |error| AnswerError { code: code::FAILED, error };
        let encoded =
            encode(&link.memory, tensors, buffers).map_err(|error| failed(RunnerError::from_error(&error)))?;
        let mut outbound = Outbound::of_call(self.state.id);
        let wire = outbound.carry(encoded);
        link.wait_for_room();
        match link.send(message(wire), outbound) {
            // If the host is gone, the answer is lost.
            Ok(()) | Err(SendError::Closed) => Ok(()),
            Err(error @ SendError::TooLarge { .. }) => {
                Err(AnswerError { code: code::TOO_LARGE, error: RunnerError::from_error(&error) })
            }
            Err(error) => Err(failed(RunnerError::from_error(&error))),
        }
    }
}

/// An error and its code on the wire.
pub(super) struct AnswerError {
    pub(super) code: &'static str,
    pub(super) error: RunnerError,
}

/// Sends the outputs of a streaming call.
pub struct OutputStream<'a> {
    call: &'a Call,
    collected: Vec<Tensors>,
}

impl<'a> OutputStream<'a> {
    pub(super) fn new(call: &'a Call) -> Self {
        Self { call, collected: Vec::new() }
    }

    /// Creates a stream that keeps its items, for [`Call::detached`].
    #[must_use]
    pub fn collecting(call: &'a Call) -> Self {
        Self::new(call)
    }

    /// Returns the items that were sent on a stream of [`Call::detached`].
    #[must_use]
    pub fn into_collected(self) -> Vec<Tensors> {
        self.collected
    }

    /// Sends one item. Waits until the host has given a credit for it.
    ///
    /// # Errors
    /// The call was cancelled or the host is gone.
    pub fn send(&mut self, outputs: Tensors) -> Result<(), RunnerError> {
        if self.call.link.is_none() {
            self.collected.push(outputs);
            return Ok(());
        }
        if !self.call.state.take_credit() {
            return Err(RunnerError::new("the call was cancelled"));
        }
        let sent = self.call.send_tensors(outputs, |outputs| Message::StreamItem { outputs });
        sent.map_err(|AnswerError { error, .. }| error)
    }
}
