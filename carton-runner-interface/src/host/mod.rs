//! The host's side: one [`Connection`] per runner process, used by any number of tasks at once.
//!
//! The caller starts and kills processes. It passes one end of a socket pair ([`Transport`]) to the connection, and calls
//! [`Connection::close`] when the process has died. A connection uses plain threads and needs no particular async runtime.

mod calls;
mod connection;
mod dispatch;
mod error;
mod exchange;
mod files;
mod handle;
mod incoming;
mod reading;
mod shared;
mod stream;
mod turn;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use connection::Connection;
pub use error::{CallError, CloseReason, Phase};
pub use stream::{InferStream, SealedInputs};
pub use turn::Turn;

pub use crate::message::{LogLevel, code};
pub use crate::transport::Transport;

/// The settings of a connection.
#[derive(Clone)]
pub struct ConnectionOptions {
    /// The time in which the runner must say hello.
    pub hello_timeout: Duration,
    /// Whether tensors may travel in shared memory. The runner must support it too.
    pub shared_memory: bool,
    /// The most bytes of shared memory this side keeps for inputs.
    pub pool_cap: u64,
    /// How long a call or an allocation waits for room in a full pool.
    pub pool_wait: Duration,
    /// The largest frame that is sent or accepted, and the most bytes of strings in shared memory that one message of the runner may name,
    /// because they are copied.
    pub frame_cap: u64,
    /// The most calls that wait for a free slot of the runner; the next one fails.
    pub queue_cap: usize,
    /// The most items that the runner may send before [`InferStream::recv`] takes them.
    pub stream_credits: u32,
    /// Copies every output out of shared memory, for runners that may change it later because they are not trusted.
    pub copy_outputs: bool,
    /// The most bytes of shared memory the runner may lend to this side.
    pub runner_pool_cap: u64,
    /// Called with log records and progress, by the thread that reads from the runner. That may be the thread of a caller, within its task: the
    /// function must not block, nor call the runner. The connection ends if it panics.
    pub on_event: Option<Arc<dyn Fn(Event) + Send + Sync>>,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            hello_timeout: Duration::from_secs(30),
            shared_memory: true,
            pool_cap: 4 << 30,
            pool_wait: Duration::from_secs(30),
            frame_cap: 1 << 30,
            queue_cap: 1024,
            stream_credits: 16,
            copy_outputs: false,
            runner_pool_cap: 64 << 30,
            on_event: None,
        }
    }
}

/// The messages of a runner beside its answers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A log record.
    Log {
        /// The number of the call it belongs to ([`CallTimings::call`]).
        call: Option<u64>,
        /// How important it is.
        level: LogLevel,
        /// The text.
        message: String,
    },
    /// The progress of a long call.
    Progress {
        /// The number of the call it belongs to ([`CallTimings::call`]).
        call: Option<u64>,
        /// The present step.
        what: String,
        /// Units done.
        done: u64,
        /// Units in total, if known.
        total: Option<u64>,
    },
}

/// How a runner introduced itself in its hello, and what both sides agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The runner's name.
    pub name: String,
    /// The version of its framework.
    pub framework_version: String,
    /// The protocol version that both sides speak.
    pub version: u32,
    /// The features that both sides have.
    pub features: Vec<String>,
}

/// A request to load a model, with its files named by the host.
pub type LoadRequest = crate::model::LoadRequest<Files>;

/// The form in which a runner gets the files of a model.
#[derive(Clone, Debug)]
pub enum Files {
    /// A folder (`files = "directory"` in the runner's descriptor).
    Directory(PathBuf),
    /// Ranges of open files (`files = "ranges"`).
    Ranges(Vec<FileRange>),
}

/// One file of a model that lies inside another file.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// Its path below `model/`.
    pub path: String,
    /// The file that holds it; files that share an `Arc` are passed once.
    pub file: Arc<File>,
    /// Where `file` lies on disk, for runners that cannot receive descriptors.
    pub location: Option<PathBuf>,
    /// The offset of its bytes in `file`.
    pub offset: u64,
    /// Its size in bytes.
    pub length: u64,
}

/// A runner's answer to a [`LoadRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The most calls that it runs at once.
    pub max_concurrency: usize,
}

/// The options of one call.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// The time at which the call is cancelled, whether it waits or runs. The runner is not killed.
    pub deadline: Option<Instant>,
}

/// The times of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallTimings {
    /// The number of the call, as in `tracing` spans and on the wire.
    pub call: u64,
    /// Waiting for a free slot of the runner.
    pub queue: Duration,
    /// Bringing inputs into shared memory or frames, and outputs out of them.
    pub transfer: Duration,
    /// The time from sending the request to receiving the answer.
    pub run: Duration,
}
