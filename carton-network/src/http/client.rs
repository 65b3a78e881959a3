//! Access to servers: the HTTP clients that own the connections, separated by the addresses to which they may connect.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use carton_format::url::Url;

use super::named_hosts::NamedHosts;
use super::private;
use super::registry::RegistryLogin;
use super::resolver::{Addresses, Resolver};
use super::{NetworkError, NetworkOptions, credentials};

/// A host that does not accept the connection is given up sooner than one that is preparing an answer.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);

/// Access to HTTP servers, or the refusal of it. Clones share connections and limits.
#[derive(Clone, Debug)]
pub struct Network {
    pub(super) inner: Arc<Inner>,
    reach: Reach,
    /// The login at the registry whose blobs are read or written.
    pub(super) registry: Option<Arc<RegistryLogin>>,
}

pub(super) struct Inner {
    options: NetworkOptions,
    /// For servers that the user named.
    anywhere: Clients,
    /// For servers that a carton named. They share no connections with the others.
    public: Clients,
    pub(super) named: Arc<NamedHosts>,
    machines: OnceLock<Vec<credentials::Machine>>,
}

#[derive(Default)]
struct Clients {
    http: OnceLock<reqwest::Client>,
    /// A client of its own, because reading this machine's certificates takes longer than a request to a nearby server.
    https: OnceLock<reqwest::Client>,
}

/// The servers to which requests may go.
#[derive(Clone, Debug)]
enum Reach {
    /// All servers: the user named them.
    Anywhere,
    /// Servers with public addresses, and the one from which the carton came.
    Public(Arc<CartonHost>),
}

/// The host from which the user loads a carton.
struct CartonHost {
    /// The host as written in the URL.
    name: Option<String>,
    /// For links to this host only. Its connections may lead to private addresses, so no other request may use them.
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
    /// Access under these options. Opens no connection yet.
    pub fn new(options: NetworkOptions) -> Network {
        let (anywhere, public) = (Clients::default(), Clients::default());
        let (named, machines) = (Arc::default(), OnceLock::new());
        let inner = Arc::new(Inner { options, anywhere, public, named, machines });
        Network { inner, reach: Reach::Anywhere, registry: None }
    }

    /// Restricts access to what links of a carton from `carton` may use: servers with private addresses are refused, also where a
    /// redirect leads. Only the host of `carton` may have one, at any port: if it is an address or `localhost` itself, or if this network
    /// got an answer for the user from the host at that address. A host that has not answered yet keeps the site-local addresses (RFC
    /// 1918, RFC 4193) that it resolves to first.
    ///
    /// A proxy resolves the names of its requests itself; with a proxy, only addresses in URLs and `localhost` are refused.
    #[must_use]
    pub fn public_only(&self, carton: &Url) -> Network {
        let carton_host = CartonHost { name: carton.host_str().map(str::to_owned), clients: Clients::default() };
        Network { inner: Arc::clone(&self.inner), reach: Reach::Public(Arc::new(carton_host)), registry: None }
    }

    /// The same access, whose requests to a registry have this login instead of the usual credentials.
    #[must_use]
    pub(crate) fn with_registry(&self, login: Arc<RegistryLogin>) -> Network {
        Network { registry: Some(login), ..self.clone() }
    }

    /// The user's credentials for a repository of the registry that `registry` is a URL of, and where they are from. May run a program
    /// that holds them.
    pub(super) async fn registry_credential(
        &self,
        registry: &Url,
        repository: &str,
    ) -> Result<Option<(credentials::RegistryCredential, String)>, NetworkError> {
        let (network, registry, repository) = (self.clone(), registry.clone(), repository.to_owned());
        let find = move || {
            let credentials = &network.options().credentials;
            credentials.find_for_registry(&registry, &repository, || network.machines())
        };
        tokio::task::spawn_blocking(find).await.map_err(|error| NetworkError::internal(error.to_string()))
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
            return Err(NetworkError::Offline { url: url.shown() });
        }
        // Names of cartons in registries and stores are turned into web URLs before. An index of runners has no such name.
        if !matches!(url.scheme(), "http" | "https") {
            let reason = "is no web URL, which is expected here".to_owned();
            return Err(NetworkError::Url { url: url.shown(), reason });
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
                check_public(url, &self.inner.options)?;
                (&self.inner.public, Addresses::Public)
            }
        };
        let slot = if url.scheme() == "https" { &clients.https } else { &clients.http };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let proxies = self.inner.options.proxy.hosts();
        let resolver = Resolver { addresses, named: Arc::clone(&self.inner.named), proxies };
        let client = http_client(&self.inner.options, url, resolver)?;
        Ok(slot.get_or_init(|| client))
    }

    /// Records the addresses of all servers on the way to an answer for the user. Addresses on a way that failed are not recorded.
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
fn check_public(url: &Url, options: &NetworkOptions) -> Result<(), NetworkError> {
    let refuse = |at: String| Err(NetworkError::Private { url: url.shown(), at });
    match (private::of_url(url), url.host_str()) {
        (Some(at), _) => refuse(at),
        // The proxy may have a private address because the user named it, but not for this purpose.
        (None, Some(host)) if options.proxy.hosts().contains(host) => refuse("the host of a proxy".to_owned()),
        (None, _) => Ok(()),
    }
}

/// The client for URLs of this URL's scheme.
///
/// # Errors
/// The library cannot be set up; for `https`, there are no certificates to trust.
fn http_client(options: &NetworkOptions, url: &Url, resolver: Resolver) -> Result<reqwest::Client, NetworkError> {
    // Fails if the program installed a provider before; that one is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("carton/", env!("CARGO_PKG_VERSION")))
        // Less than the time for the whole answer, so that the error names the host that could not be reached.
        .connect_timeout((options.idle_timeout / 2).min(LONGEST_CONNECT))
        // Redirects are followed by this module: the library would allow one from `https` to `http`, and its errors show URLs.
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .dns_resolver(resolver);
    let needs_certificates = url.scheme() == "https";
    let builder = if needs_certificates { builder } else { builder.tls_certs_only([]) };
    options.apply_proxy(builder).and_then(reqwest::ClientBuilder::build).map_err(|error| {
        let reason = carton_format::causes::in_one_line(&error);
        // A small container may have no certificates, and may need none.
        if needs_certificates {
            NetworkError::NoTls { url: url.shown(), reason }
        } else {
            NetworkError::internal(format!("cannot set up HTTP: {reason}"))
        }
    })
}
