//! The host's side: one [`Connection`] a runner process, used from any number of tasks at once.
//!
//! Starting and killing processes belongs to whoever owns them; a connection takes one end of a socket pair
//! ([`Transport`]) and is told by [`Connection::close`] when the process has died. It uses plain threads and needs no
//! particular async runtime.

mod calls;
mod connection;
mod dispatch;
mod error;
mod files;
mod handle;
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

/// Limits and habits of a connection.
#[derive(Clone)]
pub struct ConnectionOptions {
    /// How long the runner may take to say hello.
    pub hello_timeout: Duration,
    /// Whether tensors may travel in shared memory, where the runner can do that too.
    pub shared_memory: bool,
    /// The most bytes of shared memory this side keeps for inputs.
    pub pool_cap: u64,
    /// How long a call or an allocation waits for room in a full pool.
    pub pool_wait: Duration,
    /// The largest frame that is sent or accepted.
    pub frame_cap: u64,
    /// The most calls that wait for a free slot of the runner; the next one fails.
    pub queue_cap: usize,
    /// Outputs the runner may send ahead of [`InferStream::recv`].
    pub stream_credits: u32,
    /// Copies every output out of shared memory, for runners that are not trusted to leave it alone.
    pub copy_outputs: bool,
    /// The most bytes of shared memory the runner may lend to this side.
    pub runner_pool_cap: u64,
    /// Told of log records and progress, on the thread that reads from the runner: it must not block.
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

/// What a runner tells besides its answers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A log record.
    Log {
        /// The call it belongs to ([`CallOptions`] numbers are in the spans of `tracing`).
        call: Option<u64>,
        /// How important it is.
        level: LogLevel,
        /// The text.
        message: String,
    },
    /// How far a long call has come.
    Progress {
        /// The call it belongs to.
        call: Option<u64>,
        /// What is being done.
        what: String,
        /// Units done.
        done: u64,
        /// Units in all, where known.
        total: Option<u64>,
    },
}

/// What a runner called itself in its hello.
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

/// What to load.
pub type LoadRequest = crate::model::LoadRequest<Files>;

/// The files of a model as they are given to a runner.
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
    /// Where its bytes start.
    pub offset: u64,
    /// How many bytes it has.
    pub length: u64,
}

/// What a runner answered to a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// How many calls it runs at once.
    pub max_concurrency: usize,
}

/// How one call is to be made.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// When to give the call up, waiting or running. It is then cancelled; the runner is not killed for it.
    pub deadline: Option<Instant>,
}

/// Where the time of one call went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTimings {
    /// The number of the call, as in `tracing` spans and on the wire.
    pub call: u64,
    /// Waiting for a free slot of the runner.
    pub queue: Duration,
    /// Bringing inputs into shared memory or frames, and outputs out of them.
    pub transfer: Duration,
    /// From the request sent to the answer received.
    pub run: Duration,
}
