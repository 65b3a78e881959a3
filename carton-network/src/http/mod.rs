//! HTTP as Carton uses it: ranges of files that must not change meanwhile, with limits on waiting and on retries.
//!
//! This layer knows neither cartons nor the cache. Requests run on its own threads, so that blocking code and any async runtime can use
//! it. A server is not trusted: its answers are compared with the request, and no size that it states is allocated in advance.
//!
//! - **Parts.** The answer is the requested part, or the whole file, or an error: a 206 needs one `Content-Range` with that range and a
//!   length ([RFC 9110], section 14). Servers that do not support ranges counted from the end are asked by position.
//! - **Versions.** All parts of a file must have the same `ETag`, `Last-Modified` and length, as far as the server states them; requests
//!   carry an `If-Range`. A different version is [`NetworkError::Changed`], and its body is not read.
//! - **Encodings.** Parts are requested without content encoding, and encoded parts are refused, because their bytes differ. Whole files
//!   may come encoded.
//! - **Waiting.** A server has the idle timeout for all the headers of its answer, and again for each 1 KiB of the body.
//! - **Retries.** Transient failures (a broken connection, a stall, 408, 425, 429, 500, 502, 503, 504) are retried after pauses that
//!   double and vary, or that the server asked for, 30 s at most. Only 256 KiB of new bytes reset the count of failures.
//! - **Redirects** are followed, from `https` only to `https`, neither in a circle nor more often than the limit.
//! - **Registries** let a [`Network`] in that has a login for them; it answers their challenges and renews its tokens.
//! - **Private addresses** are refused by a [`Network::public_only`], at every hop, and by the address that is connected to.
//! - **Credentials** go only to the scheme, host and port of the requested URL, see [`Credentials`].
//! - **Secrets.** Errors and log records of every level show a URL as a [`ShownUrl`]: without user, password and query. A [`Url`] shows no
//!   more of itself, and a [`Secret`] shows nothing.
//!
//! [RFC 9110]: https://www.rfc-editor.org/rfc/rfc9110
//! [`ShownUrl`]: carton_format::url::ShownUrl
//! [`Url`]: carton_format::url::Url

mod activity;
mod call;
mod client;
mod content_range;
mod credentials;
mod error;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod named_hosts;
mod options;
mod private;
mod proxy;
mod read;
mod redirect;
mod registry;
mod reply;
mod request;
mod resolver;
mod retries;
mod retry_after;
mod send;
mod status;
#[cfg(test)]
mod tests;
mod version;

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::Runtime;

pub use activity::Activity;
pub(crate) use call::{Answered, Call, CallBody, Method};
pub use client::Network;
pub use credentials::{Credentials, CredentialsSent, HostToken, NetrcFile, Secret, TOKEN_PREFIX};
pub use error::NetworkError;
pub use options::NetworkOptions;
pub use proxy::ProxyConfig;
pub use read::{Fetched, Wanted};
pub(crate) use registry::RegistryLogin;
pub use reply::Reply;
pub use request::{Extent, Part, Request};
pub use retries::Retries;
pub use status::HttpStatus;
pub use version::Version;

/// Interval at which a blocking caller checks whether its work was cancelled.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

impl Network {
    /// Whether every request is refused.
    pub fn is_offline(&self) -> bool {
        self.options().offline
    }

    /// The retry state of one request, under the limits of the options.
    pub fn retries(&self) -> Retries {
        Retries::new(self.options())
    }

    /// Runs a future on the network's threads and waits for it, checking regularly whether `activity` was cancelled.
    ///
    /// # Errors
    /// Those of the future; [`NetworkError::Interrupted`] when `activity` was cancelled.
    pub fn wait<T: Send + 'static, E: From<NetworkError> + Send + 'static>(
        &self,
        activity: &Activity,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let task = runtime()?.spawn(async move {
            let _ = sender.send(work.await);
        });
        loop {
            match receiver.recv_timeout(CHECK_INTERVAL) {
                Ok(result) => return result,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) if !activity.is_cancelled() => {}
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
}

/// The runtime whose threads run all requests of this process.
///
/// # Errors
/// The operating system cannot start threads.
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
