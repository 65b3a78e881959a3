//! Why something could not be fetched.

use std::time::Duration;

/// Why something could not be fetched. URLs are shown as their [`address`](super::address).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// It is not in the cache, and the network may not be used.
    #[error("`{url}` is not in the cache, and the network is not to be used")]
    Offline {
        /// The address.
        url: String,
    },
    /// The server cannot be reached, or the connection broke.
    #[error("cannot {action} `{url}`")]
    Connection {
        /// What was tried: "connect to", "read".
        action: &'static str,
        /// The address.
        url: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server sent nothing for too long.
    #[error("`{url}` sent nothing for {} s", after.as_secs_f32())]
    Stalled {
        /// The address.
        url: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The server refused.
    #[error("`{url}` answered {status}")]
    Status {
        /// The address.
        url: String,
        /// The status code and its meaning.
        status: reqwest::StatusCode,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The server led from one URL to the next without end.
    #[error("`{url}` leads over more than {limit} redirects")]
    Redirects {
        /// The address that was asked for.
        url: String,
        /// How many are followed.
        limit: usize,
    },
    /// The server answered something else than was asked for.
    #[error("`{url}`: expected {expected}, found {found}")]
    Answer {
        /// The address.
        url: String,
        /// What was asked for.
        expected: String,
        /// What was sent.
        found: String,
    },
    /// The body ended early.
    #[error("`{url}` sent {found} bytes, expected {expected}")]
    Cut {
        /// The address.
        url: String,
        /// How many bytes were to come.
        expected: u64,
        /// How many came.
        found: u64,
    },
    /// The file at the URL is another one than at the first request.
    #[error("`{url}` changed meanwhile: expected {expected}, found {found}")]
    Changed {
        /// The address.
        url: String,
        /// The version at the first request.
        expected: String,
        /// The version now.
        found: String,
    },
    /// More was sent than is accepted.
    #[error("`{url}`: at most {limit} bytes are accepted")]
    TooLarge {
        /// The address.
        url: String,
        /// The limit.
        limit: u64,
    },
    /// The caller does not want it any more.
    #[error("interrupted")]
    Interrupted,
    /// A mistake in this library, or no resources to work with.
    #[error("internal error: {0}")]
    Internal(String),
}

impl NetworkError {
    pub(crate) fn internal(what: impl Into<String>) -> Self {
        Self::Internal(what.into())
    }

    /// Whether the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connection { .. } | Self::Stalled { .. } | Self::Cut { .. } => true,
            Self::Status { status, .. } => matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }
}
