//! Why something could not be fetched.

use std::time::Duration;

use super::{Credentials, CredentialsSent, HttpStatus, Url};

/// Why something could not be fetched. URLs are shown as their address alone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// It is not in the cache, and the network may not be used.
    #[error("`{url}` is not in the cache, and the network is not to be used")]
    Offline {
        /// The address.
        url: String,
    },
    /// This program was built without access to servers.
    #[error("`{url}` is on a server, and this program was built without access to servers")]
    NotBuilt {
        /// The address.
        url: String,
    },
    /// The URL cannot be used.
    #[error("`{url}` {reason}")]
    Url {
        /// As much of it as may be shown.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server cannot be reached, or the connection broke.
    #[error("cannot {action} `{url}`")]
    Connection {
        /// What was tried: "find the host of", "connect to", "get an answer from", "read".
        action: &'static str,
        /// The address.
        url: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server is on this machine or in a private network, which is not allowed for this URL.
    #[error("`{url}` leads to {at}, which is no public address")]
    Private {
        /// The address of the URL.
        url: String,
        /// Where it leads: an address, or what is there.
        at: String,
    },
    /// The server's certificate is not trusted, or it speaks no TLS that is spoken here.
    #[error("cannot make a secure connection to `{url}`")]
    Tls {
        /// The address.
        url: String,
        /// What is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// This machine trusts no server, because it has no certificates of those who vouch for them.
    #[error("cannot make a secure connection to `{url}`: {reason}")]
    NoTls {
        /// The address.
        url: String,
        /// What is missing.
        reason: String,
    },
    /// The server sent nothing, or next to nothing, for too long.
    #[error("`{url}` sent {} in {} s", if *found == 0 { "nothing".to_owned() } else { format!("only {found} bytes") },
        after.as_secs_f32())]
    Stalled {
        /// The address.
        url: String,
        /// How long it was waited for.
        after: Duration,
        /// How many bytes came meanwhile.
        found: u64,
    },
    /// The server refused.
    #[error("`{url}` answered {status}")]
    Status {
        /// The address.
        url: String,
        /// The status code and its meaning.
        status: HttpStatus,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// Which credentials were sent.
        credentials: CredentialsSent,
    },
    /// The credentials for a server cannot be sent.
    #[error("the token for `{url}` from {from} {reason}")]
    Credentials {
        /// The address.
        url: String,
        /// Where the token comes from.
        from: String,
        /// What is wrong with it, without what it says.
        reason: String,
    },
    /// The server led from one URL to the next without end.
    #[error("`{url}` leads over more than {limit} redirects")]
    Redirects {
        /// The address that was asked for.
        url: String,
        /// How many are followed.
        limit: usize,
    },
    /// The server leads to where nobody should follow.
    #[error("`{url}` leads to `{to}`, {reason}")]
    Redirect {
        /// The address that leads there.
        url: String,
        /// The address it leads to, or its scheme.
        to: String,
        /// Why it is not followed.
        reason: &'static str,
    },
    /// The server sends files as a whole only.
    #[error("the server of `{url}` sends no parts of files")]
    NoRanges {
        /// The address.
        url: String,
        /// How many bytes the whole file has, where the server told.
        length: Option<u64>,
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

    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Offline { .. } => Some("allow the network, or fetch it once while it is allowed".to_owned()),
            Self::NotBuilt { .. } => Some("build it with the feature `remote` of carton-core".to_owned()),
            Self::NoTls { .. } => Some(
                "install the system's `ca-certificates`, or name a file of certificates as SSL_CERT_FILE".to_owned(),
            ),
            Self::Status { url, status, credentials, .. } if matches!(status.code(), 401 | 403) => {
                Some(access_hint(url, credentials))
            }
            _ => None,
        }
    }

    /// Whether the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connection { action: "find the host of", source, .. } => !is_unknown_host(&source.to_string()),
            Self::Connection { .. } | Self::Stalled { .. } | Self::Cut { .. } => true,
            Self::Status { status, .. } => matches!(status.code(), 408 | 425 | 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }
}

/// What to do when a server gives nothing without credentials, or without better ones.
fn access_hint(url: &str, credentials: &CredentialsSent) -> String {
    match credentials {
        CredentialsSent::From(from) => return format!("the server does not accept the credentials from {from}"),
        CredentialsSent::Withheld(from) => {
            return format!("the credentials from {from} are sent over https only: ask for an https URL");
        }
        CredentialsSent::Redirected => {
            return "the URL leads to another server, which is not told the credentials: ask that server itself"
                .to_owned();
        }
        CredentialsSent::None => {}
    }
    let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let variable = Credentials::variable(&host).map(|name| format!("set {name} to a token, or "));
    format!(
        "{}put a token for `{host}` into the configuration's [[credentials]], or a login into ~/.netrc",
        variable.unwrap_or_default()
    )
}

/// Whether the resolver says that there is no such host, rather than that it got no answer. It says so in words only, and each C
/// library in its own; a wrong guess costs a few attempts more or less.
fn is_unknown_host(text: &str) -> bool {
    ["not known", "nodename nor servname", "does not resolve", "No address associated"]
        .iter()
        .any(|words| text.contains(words))
}
