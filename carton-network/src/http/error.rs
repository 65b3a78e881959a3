//! The errors of the network.

use std::time::Duration;

use carton_format::context::Cancelled;
use carton_format::error_kind::ErrorKind;
use carton_format::url::{ShownUrl, Url};

use super::{Credentials, CredentialsSent, HttpStatus};

/// Why a fetch failed. URLs are shown without the parts that may be secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The file is not in the cache, and the network may not be used.
    #[error("`{url}` is not in the cache, and the network is not to be used")]
    Offline {
        /// The URL.
        url: ShownUrl,
    },
    /// This program was built without access to object stores.
    #[error("`{url}` is in an object store, and this program was built without access to them")]
    NotBuilt {
        /// The URL.
        url: ShownUrl,
    },
    /// The URL cannot be used.
    #[error("`{url}` {reason}")]
    Url {
        /// The URL.
        url: ShownUrl,
        /// The reason, in words.
        reason: String,
    },
    /// The server cannot be reached, or the connection broke.
    #[error("cannot {action} `{url}`")]
    Connection {
        /// The attempted action: "find the host of", "connect to", "connect, through the proxy, to", "get an answer from", "read".
        action: &'static str,
        /// The URL.
        url: ShownUrl,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server is on this machine or in a private network, which is not allowed for this URL.
    #[error("`{url}` leads to {at}, which is not a public IP address")]
    Private {
        /// The URL.
        url: ShownUrl,
        /// The private IP address, or a description of the target.
        at: String,
    },
    /// The server's certificate is not trusted, or the server and this program share no TLS version.
    #[error("cannot make a secure connection to `{url}`")]
    Tls {
        /// The URL.
        url: ShownUrl,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// This machine trusts no server, because it has no certificates of certification authorities.
    #[error("cannot make a secure connection to `{url}`: {reason}")]
    NoTls {
        /// The URL.
        url: ShownUrl,
        /// What is missing.
        reason: String,
    },
    /// The server sent nothing, or almost nothing, for too long.
    #[error("`{url}` sent {} in {} s", if *found == 0 { "nothing".to_owned() } else { format!("only {found} bytes") },
        after.as_secs_f32())]
    Stalled {
        /// The URL.
        url: ShownUrl,
        /// How long the request waited.
        after: Duration,
        /// How many bytes arrived during that time.
        found: u64,
    },
    /// The server answered with an error status.
    #[error("`{url}` answered {status}")]
    Status {
        /// The URL.
        url: ShownUrl,
        /// The status code and its meaning.
        status: HttpStatus,
        /// How long the server asks clients to wait.
        retry_after: Option<Duration>,
        /// Which credentials were sent.
        credentials: CredentialsSent,
    },
    /// The credentials for a server cannot be sent.
    #[error("the token for `{url}` from {from} {reason}")]
    Credentials {
        /// The URL.
        url: ShownUrl,
        /// The source of the token.
        from: String,
        /// A description of the problem that does not contain the token.
        reason: String,
    },
    /// The server redirected too often.
    #[error("`{url}` leads over more than {limit} redirects")]
    Redirects {
        /// The requested URL.
        url: ShownUrl,
        /// The largest number of redirects that are followed.
        limit: usize,
    },
    /// A redirect that must not be followed.
    #[error("`{url}` leads to `{to}`, {reason}")]
    Redirect {
        /// The URL whose answer is the redirect.
        url: ShownUrl,
        /// The target's URL, or only its scheme.
        to: String,
        /// Why the redirect is not followed.
        reason: &'static str,
    },
    /// The server sends only whole files.
    #[error("the server of `{url}` sends no parts of files")]
    NoRanges {
        /// The URL.
        url: ShownUrl,
        /// The length of the whole file in bytes, if the server stated it.
        length: Option<u64>,
    },
    /// The answer does not fit the request.
    #[error("`{url}`: expected {expected}, found {found}")]
    Answer {
        /// The URL.
        url: ShownUrl,
        /// What was requested.
        expected: String,
        /// What the server sent.
        found: String,
    },
    /// A registry names a server of tokens that the login for the registry is not for.
    #[error("`{registry}` asks for the login to be sent to `{realm}`, which is another server")]
    TokenServer {
        /// The registry.
        registry: ShownUrl,
        /// The server of tokens.
        realm: ShownUrl,
    },
    /// The body ended early.
    #[error("`{url}` sent {found} bytes, expected {expected}")]
    Cut {
        /// The URL.
        url: ShownUrl,
        /// The expected number of bytes.
        expected: u64,
        /// The number of bytes received.
        found: u64,
    },
    /// The file at the URL is no longer the version of the first request.
    #[error("`{url}` changed meanwhile: expected {expected}, found {found}")]
    Changed {
        /// The URL.
        url: ShownUrl,
        /// The version at the first request.
        expected: String,
        /// The version now.
        found: String,
    },
    /// The server sent more than the limit.
    #[error("`{url}`: at most {limit} bytes are accepted")]
    TooLarge {
        /// The URL.
        url: ShownUrl,
        /// The limit.
        limit: u64,
    },
    /// The caller cancelled the work.
    #[error("interrupted")]
    Interrupted,
    /// A bug in this library, or a lack of system resources.
    #[error("internal error: {0}")]
    Internal(String),
}

/// The attempted action where a proxy did not lead to the server.
pub(super) const THROUGH_PROXY: &str = "connect, through the proxy, to";

impl NetworkError {
    /// A fault of this library.
    pub fn internal(what: impl Into<String>) -> Self {
        Self::Internal(what.into())
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        if matches!(self, Self::Interrupted) { ErrorKind::Interrupted } else { ErrorKind::Network }
    }

    /// What the user can do about the error, if anything.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::TokenServer { .. } => Some(
                "if that server may have the login, name its host in `token_servers` of the registry's entry in [[registries]] of the configuration"
                    .to_owned(),
            ),
            Self::Offline { .. } => Some("allow the network, or fetch it once while it is allowed".to_owned()),
            Self::NotBuilt { .. } => Some("a release of the command has it; a library is built with the feature `object-store`".to_owned()),
            Self::Connection { action: THROUGH_PROXY, .. } => Some(
                "the proxy is that of `network.proxy` in the configuration, or else of HTTPS_PROXY or ALL_PROXY; it may refuse the server, or \
                 want a user and a password"
                    .to_owned(),
            ),
            Self::NoTls { .. } => Some(
                "install the system's `ca-certificates`, or name a file of certificates as SSL_CERT_FILE".to_owned(),
            ),
            Self::Tls { source, .. } if source.to_string().contains("UnknownIssuer") => Some(
                "if an authority of your own made the server's certificate, install the authority's certificate on this machine, or name \
                 its file as SSL_CERT_FILE"
                    .to_owned(),
            ),
            Self::Tls { source, .. } if source.to_string().contains("CaUsedAsEndEntity") => Some(
                "the server shows the certificate of an authority as its own: let that authority make one for the server, without \
                 `basicConstraints=CA:TRUE`"
                    .to_owned(),
            ),
            Self::Status { url, status, credentials, .. } if matches!(status.code(), 401 | 403) => {
                Some(access_hint(url, credentials))
            }
            Self::NoRanges { .. } => Some("download the whole file, and give its path".to_owned()),
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

/// The host of the Hugging Face Hub, whose users have its own variable for their token.
const HUB_HOST: &str = "huggingface.co";

/// The hint for a server that demands credentials, or better ones.
fn access_hint(url: &ShownUrl, credentials: &CredentialsSent) -> String {
    match credentials {
        CredentialsSent::From(from) => return format!("the server does not accept the credentials from {from}"),
        CredentialsSent::Withheld(from) => {
            return format!("the credentials from {from} are sent over https only: ask for an https URL");
        }
        CredentialsSent::Redirected => {
            return "the URL leads to another server, which does not get the credentials: use the URL at that server"
                .to_owned();
        }
        CredentialsSent::None => {}
    }
    let url = Url::parse(url.as_str()).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    if host == HUB_HOST {
        return "set HF_TOKEN to a token of the Hub, or store one with `hf auth login`; a repository may also ask for its conditions to be \
                accepted on its page"
            .to_owned();
    }
    let variable = Credentials::variable(host).map(|name| format!("set {name} to a token, or "));
    format!(
        "{}put a token for `{host}` into the configuration's [[credentials]], or a login into ~/.netrc",
        variable.unwrap_or_default()
    )
}

impl From<Cancelled> for NetworkError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}

/// Whether the resolver says that there is no such host, rather than that it got no answer. It says so only in words, which differ
/// between C libraries; a wrong guess costs a few attempts more or fewer.
fn is_unknown_host(text: &str) -> bool {
    ["not known", "nodename nor servname", "does not resolve", "No address associated"]
        .iter()
        .any(|words| text.contains(words))
}
