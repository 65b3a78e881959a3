//! Access to servers: the clients that connections belong to, by what they may be connected to.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::named_hosts::NamedHosts;
use super::private;
use super::resolver::{Addresses, Resolver};
use super::{NetworkError, NetworkOptions, Url, address, credentials};

/// A host that does not even take the connection is given up sooner than one that works on an answer.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);

/// Access to HTTP servers, or the refusal of it. Clones share connections and limits.
#[derive(Clone, Debug)]
pub struct Network {
    pub(super) inner: Arc<Inner>,
    reach: Reach,
}

pub(super) struct Inner {
    options: NetworkOptions,
    /// For servers that the user named.
    anywhere: Clients,
    /// For servers that somebody else named. They share no connections with the others.
    public: Clients,
    pub(super) named: Arc<NamedHosts>,
    machines: OnceLock<Vec<credentials::Machine>>,
}

#[derive(Default)]
struct Clients {
    http: OnceLock<reqwest::Client>,
    /// Another one, because reading the certificates of this machine takes longer than a request to a server nearby.
    https: OnceLock<reqwest::Client>,
}

/// Which servers requests may go to.
#[derive(Clone, Debug)]
enum Reach {
    /// All of them: the user named them.
    Anywhere,
    /// Those with public addresses, and the one that the carton came from.
    Public(Arc<CartonHost>),
}

/// The host that the user named to get a carton from.
struct CartonHost {
    /// As in the URL.
    name: Option<String>,
    /// For links to this host only. Their connections may be to private addresses, so that no other request may use them.
    clients: Clients,
}

impl fmt::Debug for CartonHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CartonHost").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Network").field("options", &self.options).finish_non_exhaustive()
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

    /// The logins of the netrc file, which is read once.
    pub(super) fn machines(&self) -> &[credentials::Machine] {
        self.inner.machines.get_or_init(|| self.inner.options.credentials.machines())
    }

    pub(super) fn client(&self, url: &Url) -> Result<&reqwest::Client, NetworkError> {
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
        let client = http_client(&self.inner.options, url, resolver)?;
        Ok(slot.get_or_init(|| client))
    }

    /// Records the addresses of all servers on the way to what the user asked for. An address on a way that led nowhere does not count.
    pub(super) fn note_answer(&self, hops: &[(Url, Option<SocketAddr>)]) {
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

/// What sends requests to URLs of this URL's scheme.
///
/// # Errors
/// The library cannot be set up; for `https`, there are no certificates to trust.
fn http_client(options: &NetworkOptions, url: &Url, resolver: Resolver) -> Result<reqwest::Client, NetworkError> {
    // Fails when the program chose a provider before us, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("carton/", env!("CARGO_PKG_VERSION")))
        // Less than the time for the whole answer, so that the error says what could not be reached.
        .connect_timeout((options.idle_timeout / 2).min(LONGEST_CONNECT))
        // Followed here: the library would not refuse to give up encryption, and tells its own errors with URLs.
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .dns_resolver(resolver);
    let needs_certificates = url.scheme() == "https";
    let builder = if needs_certificates { builder } else { builder.tls_certs_only([]) };
    builder.build().map_err(|error| {
        let reason = crate::causes::in_one_line(&error);
        // A small container has no certificates, and may need none.
        if needs_certificates {
            NetworkError::NoTls { url: address(url), reason }
        } else {
            NetworkError::internal(format!("cannot set up HTTP: {reason}"))
        }
    })
}
