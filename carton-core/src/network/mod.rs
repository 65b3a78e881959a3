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
#[cfg(fuzzing)]
pub mod fuzzing;
mod named_hosts;
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

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use named_hosts::NamedHosts;
use private::{Addresses, CartonHost, Reach, Resolver};
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
    named: Arc<NamedHosts>,
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
        let (named, machines) = (Arc::default(), OnceLock::new());
        let inner = Arc::new(Inner { options, anywhere, public, named, machines });
        Network { inner, reach: Reach::Anywhere }
    }

    /// The same access for URLs that a carton from `carton` names: it refuses servers with private addresses, also where a redirect
    /// leads. Only the host of `carton` may have one, at any port: if it is an address or `localhost` itself, or if this network got an
    /// answer for the user from the host at that address. A host that has not answered yet keeps the site-local addresses (RFC 1918, RFC
    /// 4193) that it resolves to first.
    ///
    /// The names that a proxy is asked for are resolved by the proxy, so that only addresses in URLs and `localhost` are refused then.
    #[must_use]
    pub fn public_only(&self, carton: &Url) -> Network {
        let carton_host = CartonHost { name: carton.host_str().map(str::to_owned), clients: Clients::default() };
        Network { inner: Arc::clone(&self.inner), reach: Reach::Public(Arc::new(carton_host)) }
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
        let (clients, addresses) = match (&self.reach, url.host_str()) {
            (Reach::Anywhere, _) => (&self.inner.anywhere, Addresses::All),
            (Reach::Public(carton), Some(host)) if carton.name.as_deref() == Some(host) => {
                match private::is_fixed(host) {
                    true => (&self.inner.anywhere, Addresses::All),
                    false => (&carton.clients, Addresses::CartonHost(host.to_owned())),
                }
            }
            (Reach::Public(_), _) => {
                check_public(url)?;
                (&self.inner.public, Addresses::Public)
            }
        };
        let slot = if url.scheme() == "https" { &clients.https } else { &clients.http };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let resolver = Resolver { addresses, named: Arc::clone(&self.inner.named) };
        let client = send::client(&self.inner.options, url, resolver)?;
        Ok(slot.get_or_init(|| client))
    }

    /// Records the addresses of all servers on the way to what the user asked for. An address on a way that led nowhere does not count.
    fn note_answer(&self, hops: &[(Url, Option<SocketAddr>)]) {
        if !matches!(self.reach, Reach::Anywhere) {
            return;
        }
        for (url, address) in hops {
            if let Some(host) = url.host_str() {
                self.inner.named.note_answer(host, address.map(|address| address.ip()));
            }
        }
    }
}

/// Refuses a URL whose host is known to be private without a lookup.
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
