//! A host being served, as the threads of the runner share it, and how serving ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::Sealed;
use super::call::CallState;
use crate::link::Link;
use crate::message::{Message, WireError, code};
use crate::protocol_error::ProtocolError;
use crate::shared_memory::peer::MapError;
use crate::spin::Spin;
use crate::transport::reader::{FrameReader, ReadError};
use crate::transport::turn::Turn;

/// Why a runner stopped serving although its host is not gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The host broke the protocol, or speaks another one.
    #[error("the host broke the protocol")]
    Protocol(#[from] ProtocolError),
    /// An error of the operating system.
    #[error("reading from or writing to the host")]
    Io(#[from] std::io::Error),
}

/// How a runner serves.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Whether tensors may travel in shared memory. The host must support it too.
    pub shared_memory: bool,
    /// The most bytes of shared memory the runner lends out.
    pub pool_cap: u64,
    /// How long a call waits for room in a full pool.
    pub pool_wait: Duration,
    /// The largest frame that the runner writes, in bytes. The default is what hosts accept.
    pub frame_cap: u64,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { shared_memory: true, pool_cap: 4 << 30, pool_wait: Duration::from_secs(30), frame_cap: 1 << 30 }
    }
}

/// A host being served, as the threads of the runner share it.
pub(super) struct Server<R> {
    pub(super) options: ServeOptions,
    pub(super) link: Arc<Link>,
    pub(super) turn: Turn,
    pub(super) spin: Spin,
    pub(super) reader: Mutex<FrameReader>,
    /// The number of threads that wait for the turn to read.
    pub(super) n_waiting: AtomicUsize,
    pub(super) model: OnceLock<R>,
    pub(super) loading: AtomicBool,
    pub(super) calls: Mutex<HashMap<u64, Arc<CallState>>>,
    pub(super) sealed: Mutex<HashMap<u64, Arc<Sealed>>>,
    pub(super) last_handle: AtomicU64,
    pub(super) stopping: AtomicBool,
    pub(super) end: Mutex<Option<Result<(), ServeError>>>,
    pub(super) ended: Condvar,
}

/// Why reading ended.
pub(super) enum End {
    HostIsGone,
    Failed(ServeError),
}

impl From<ReadError> for End {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::EndOfFile => Self::HostIsGone,
            ReadError::Protocol(error) => Self::Failed(error.into()),
            ReadError::Io(error) => Self::Failed(error.into()),
        }
    }
}

impl From<MapError> for End {
    fn from(error: MapError) -> Self {
        match error {
            MapError::Protocol(error) => Self::Failed(error.into()),
            MapError::Io(error) => Self::Failed(error.into()),
        }
    }
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> Self {
        Self::Failed(error.into())
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl<R> Server<R> {
    pub(super) fn has_ended(&self) -> bool {
        lock(&self.end).is_some()
    }

    pub(super) fn finish(&self, end: End) {
        let result = match end {
            End::HostIsGone => Ok(()),
            End::Failed(error) => Err(error),
        };
        if let Err(ServeError::Protocol(error)) = &result {
            let _ = self.link.send_plain(Message::Error(WireError::new(code::PROTOCOL, error.to_string())));
        }
        lock(&self.end).get_or_insert(result);
        self.ended.notify_all();
        self.link.close();
        lock(&self.calls).values().for_each(|call| call.cancel());
        lock(&self.sealed).clear();
    }

    pub(super) fn stop_when_idle(&self) {
        if self.stopping.load(Ordering::Acquire) && lock(&self.calls).is_empty() {
            self.finish(End::HostIsGone);
        }
    }
}
