//! Why calls and connections fail.

use std::sync::Arc;
use std::time::Duration;

use carton_tensor::TensorError;

use crate::dtypes::NotTaken;
use crate::protocol_error::ProtocolError;
use crate::runner::RunnerError;

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The connection is closed; so are all other calls on it.
    #[error("the runner is gone")]
    Closed(#[source] Arc<CloseReason>),
    /// The runner answered with an error and goes on.
    #[error("{}", error.message)]
    Runner {
        /// The error's code (spec/runner-protocol.md, "What each message says").
        code: String,
        /// Message and causes.
        error: RunnerError,
    },
    /// The deadline of the call passed.
    #[error("deadline passed while the call was {phase}")]
    DeadlineExceeded {
        /// What the call was doing.
        phase: Phase,
    },
    /// An input has an element that no runner takes.
    #[error(transparent)]
    Cast(#[from] NotTaken),
    /// Too many calls wait for the runner.
    #[error("{cap} calls are already waiting for the runner")]
    QueueFull {
        /// The most that may wait.
        cap: usize,
    },
    /// The pool of shared memory stayed full.
    #[error("{}", pool_full(*bytes, *used, *cap, *waited))]
    PoolFull {
        /// The bytes asked for.
        bytes: u64,
        /// Bytes in use.
        used: u64,
        /// The most this side may use.
        cap: u64,
        /// How long the call waited.
        waited: Duration,
    },
    /// The inputs do not fit into one message, and the runner has no shared memory.
    #[error(
        "the input `{input}` has {input_bytes} bytes, all inputs {bytes}; with this runner no shared memory is used, and a \
         message can have {cap} bytes"
    )]
    InputsTooLarge {
        /// The largest input.
        input: String,
        /// Its size.
        input_bytes: u64,
        /// The size of all inputs.
        bytes: u64,
        /// The limit.
        cap: u64,
    },
    /// A message does not fit into a frame.
    #[error("a message of {bytes} bytes is above the limit of {cap}")]
    TooLarge {
        /// The size of the message.
        bytes: u64,
        /// The limit.
        cap: u64,
    },
    /// A tensor that cannot be created.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// An error of the operating system.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: Arc<std::io::Error>,
    },
}

/// The phases of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for a free slot of the runner or for memory.
    Queued,
    /// Running.
    Running,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Queued => "waiting",
            Self::Running => "running",
        })
    }
}

/// Why a connection is closed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The runner closed its end, or died.
    #[error("the runner closed the connection")]
    EndOfFile,
    /// The runner broke the protocol.
    #[error("the runner broke the protocol")]
    Protocol(#[source] ProtocolError),
    /// The runner said that it is about to close the connection.
    #[error("the runner refused to go on: {message}")]
    Refused {
        /// The code of its error.
        code: String,
        /// Its message.
        message: String,
    },
    /// The runner did not say hello in time.
    #[error("the runner did not say hello within {0:?}")]
    HelloTimeout(Duration),
    /// [`Connection::close`](super::Connection::close) was called.
    #[error("{0}")]
    Requested(String),
    /// An error of the operating system.
    #[error("reading from or writing to the runner")]
    Io(#[source] Arc<std::io::Error>),
}

fn pool_full(bytes: u64, used: u64, cap: u64, waited: Duration) -> String {
    if bytes > cap {
        format!("{bytes} bytes do not fit in the {cap} bytes of shared memory")
    } else {
        format!("no room for {bytes} bytes in shared memory came free within {waited:?} ({used} of {cap} bytes in use)")
    }
}
