//! HTTP as Carton uses it: ranges of files that must not change meanwhile, with limits on waiting and on retries.
//!
//! Knows nothing of cartons or of the cache. Requests run on threads of their own, so that blocking code and any async runtime can
//! use them. A server is not trusted: what it answers is compared with what was asked for, and nothing it says is allocated for.
//!
//! - **Parts.** An answer is the part that was asked for, or the whole file, or an error: a 206 needs one `Content-Range` with that
//!   range and a length ([RFC 9110], section 14). Servers that do not know ranges counted from the end are asked by position.
//! - **Versions.** All parts of a file have the same `ETag`, `Last-Modified` and length as far as the server tells them, asked for by
//!   `If-Range`. Another one is [`NetworkError::Changed`], and its body is not read.
//! - **Encodings.** Parts are asked for as they are, and encoded ones refused: their bytes are others. Whole files may come encoded.
//! - **Waiting.** A server has the idle timeout for its answer, over all of its headers, and again for each 1 KiB of the body.
//! - **Retries.** What may pass (a broken connection, a stall, 408, 425, 429, 500, 502, 503, 504) is tried again after pauses that
//!   double and differ, or that the server asked for, 30 s at most. Only 256 KiB of new bytes make up for failures.
//! - **Redirects** are followed, from `https` to `https` only, and neither in a circle nor too often.
//! - **Private addresses** are refused by a [`Network::public_only`], at every hop, and by the address that is connected to.
//! - **Credentials** go to the scheme, host and port that were asked for, see [`Credentials`].
//! - **Secrets.** What is shown of a URL, in errors and records of every level, is its [`address`]: without user, password and query.
//!   Types that hold a URL or a credential have a `Debug` form of their own.
//!
//! [RFC 9110]: https://www.rfc-editor.org/rfc/rfc9110

mod activity;
mod address;
mod content_range;
mod credentials;
mod error;
mod failure;
mod options;
mod private;
mod read;
mod redirect;
mod reply;
mod retries;
mod retry_after;
mod send;
#[cfg(test)]
mod tests;
mod version;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use private::Reach;
use tokio::runtime::Runtime;
pub use url::Url;

pub use activity::Activity;
pub use address::{address, shown};
pub(crate) use credentials::TOKEN_PREFIX;
pub use credentials::{Credentials, CredentialsSent, HostToken, NetrcFile, Secret};
pub use error::NetworkError;
pub use options::NetworkOptions;
pub use private::is_private;
pub use read::{Fetched, Wanted};
pub use reply::{Extent, Reply};
pub use retries::Retries;
pub use version::Version;

/// How often a blocking caller looks whether it is still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Access to HTTP servers, or the refusal of it. Clones share connections and limits.
#[derive(Clone, Debug)]
pub struct Network {
    inner: Arc<Inner>,
    reach: Reach,
}

struct Inner {
    options: NetworkOptions,
    /// For servers that the user named.
    anywhere: Clients,
    /// For servers that somebody else named. They share no connections with the others.
    public: Clients,
    /// Hosts that the user named and that had private addresses.
    private_hosts: Mutex<BTreeSet<String>>,
    machines: OnceLock<Vec<credentials::Machine>>,
}

#[derive(Default)]
struct Clients {
    http: OnceLock<reqwest::Client>,
    /// Another one, because reading the certificates of this machine takes longer than a request to a server nearby.
    https: OnceLock<reqwest::Client>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Network").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Which part of a file is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// So many bytes at its end, or all if it has fewer.
    Suffix(u64),
    /// These bytes, or those of them that the file has if it has the first; none is no valid part.
    Range(Range<u64>),
}

/// One GET request.
#[derive(Clone)]
pub struct Request<'a> {
    /// The file.
    pub url: &'a Url,
    /// The part of it.
    pub part: Part,
    /// The version that all parts must be of. Another one is [`NetworkError::Changed`].
    pub version: Option<&'a Version>,
    /// The version that is known already: if the server still has it, the answer is [`Extent::NotModified`].
    pub known: Option<&'a Version>,
    /// Whether the answer may be compressed. If not, a part that is compressed is an error; some servers send whole files so
    /// nevertheless, see [`Reply::encodings`].
    pub accept_encoded: bool,
}

impl<'a> Request<'a> {
    /// A request for a part of a file in any version, not compressed.
    pub fn new(url: &'a Url, part: Part) -> Request<'a> {
        Request { url, part, version: None, known: None, accept_encoded: false }
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Request");
        fields.field("url", &address(self.url)).field("part", &self.part).field("version", &self.version);
        fields.field("known", &self.known).field("accept_encoded", &self.accept_encoded).finish()
    }
}

impl Network {
    /// Access under these options. Nothing is connected yet.
    pub fn new(options: NetworkOptions) -> Network {
        let (anywhere, public) = (Clients::default(), Clients::default());
        let (private_hosts, machines) = (Mutex::default(), OnceLock::new());
        let inner = Arc::new(Inner { options, anywhere, public, private_hosts, machines });
        Network { inner, reach: Reach::Anywhere }
    }

    /// The same access for URLs that a file from `home` names: it refuses servers with private addresses, also where a redirect leads.
    /// Only the host of `home` may have one, if it was asked for there before, or if it is an address or `localhost` itself.
    ///
    /// The names that a proxy is asked for are resolved by the proxy, so that only addresses in URLs and `localhost` are refused then.
    #[must_use]
    pub fn public_only(&self, home: &Url) -> Network {
        Network { inner: Arc::clone(&self.inner), reach: Reach::Public { home: home.host_str().map(Arc::from) } }
    }

    /// The options.
    pub fn options(&self) -> &NetworkOptions {
        &self.inner.options
    }

    /// Whether every request is refused.
    pub fn is_offline(&self) -> bool {
        self.inner.options.offline
    }

    /// The attempts at one request, under the limits of the options.
    pub fn retries(&self) -> Retries {
        Retries::new(&self.inner.options)
    }

    /// Runs a future on the network's threads and waits for it, looking every now and then whether it is still wanted.
    ///
    /// # Errors
    /// Those of the future; [`NetworkError::Interrupted`] when `wanted` breaks.
    pub fn wait<T: Send + 'static, E: From<NetworkError> + Send + 'static>(
        &self,
        wanted: &dyn Fn() -> ControlFlow<()>,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let task = runtime()?.spawn(async move {
            let _ = sender.send(work.await);
        });
        loop {
            match receiver.recv_timeout(CHECK_INTERVAL) {
                Ok(result) => return result,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) if wanted().is_continue() => {}
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    task.abort();
                    return Err(NetworkError::Interrupted.into());
                }
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(NetworkError::internal("a network task ended early").into());
                }
            }
        }
    }

    /// The logins of the netrc file, which is read once.
    fn machines(&self) -> &[credentials::Machine] {
        self.inner.machines.get_or_init(|| self.inner.options.credentials.machines())
    }

    fn client(&self, url: &Url) -> Result<&reqwest::Client, NetworkError> {
        if self.inner.options.offline {
            return Err(NetworkError::Offline { url: address(url) });
        }
        let reach = match self.may_be_private(url) {
            true => Reach::Anywhere,
            false => self.reach.clone(),
        };
        let clients = match reach {
            Reach::Anywhere => &self.inner.anywhere,
            Reach::Public { .. } => {
                check_public(url)?;
                &self.inner.public
            }
        };
        let slot = if url.scheme() == "https" { &clients.https } else { &clients.http };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let client = send::client(&self.inner.options, url, &reach)?;
        Ok(slot.get_or_init(|| client))
    }

    /// Whether this URL's host may have a private address.
    fn may_be_private(&self, url: &Url) -> bool {
        let Reach::Public { home } = &self.reach else { return true };
        match (home.as_deref(), url.host_str()) {
            // The name alone is no reason: who has it can let it resolve to an address of ours from now on.
            (Some(home), Some(host)) if home == host => private::is_fixed(host) || self.private_hosts().contains(host),
            _ => false,
        }
    }

    /// Notes where a server is that the user named, and that had the file.
    fn note_address(&self, url: &Url, address: Option<std::net::SocketAddr>) {
        if let (Reach::Anywhere, Some(address), Some(host)) = (&self.reach, address, url.host_str())
            && is_private(address.ip())
        {
            self.private_hosts().insert(host.to_owned());
        }
    }

    fn private_hosts(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.inner.private_hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a URL whose host shows without a look at any resolver that it is private.
fn check_public(url: &Url) -> Result<(), NetworkError> {
    let refuse = |at: String| Err(NetworkError::Private { url: address(url), at });
    match (private::of_url(url), url.host_str()) {
        (Some(at), _) => refuse(at),
        // It may have a private address, because the user named it, but not for this.
        (None, Some(host)) if private::proxies().contains(host) => refuse("the host of a proxy".to_owned()),
        (None, _) => Ok(()),
    }
}

/// The threads that all requests of this process run on.
///
/// # Errors
/// The operating system gives no threads.
pub(crate) fn runtime() -> Result<&'static Runtime, NetworkError> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let n_threads = std::thread::available_parallelism().map_or(2, |n| n.get()).clamp(2, 4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(n_threads)
        .thread_name("carton-network")
        .enable_io()
        .enable_time()
        .build()
        .map_err(|source| NetworkError::internal(format!("cannot start threads: {source}")))?;
    Ok(RUNTIME.get_or_init(|| runtime))
}
