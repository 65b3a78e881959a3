//! The servers that have a repository: the registry itself, and its mirrors.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carton_format::url::{ShownUrl, Url};

use super::error::refused;
use super::{OciError, Reference, RegistryConfig};
use crate::http::{Activity, Call, CallBody, Method, Network, NetworkError, RegistryLogin};

/// The longest answer that is read where none is needed, in bytes. It may say why the registry refuses.
pub(super) const MAX_ANSWER: u64 = 64 << 10;

/// How long a registry on this machine may take to show whether it wants encryption. A carton that is in the cache may not need it at all.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// Docker's own registry, by its names, and the host that it has.
const DOCKER_HUB: [&str; 2] = ["docker.io", "index.docker.io"];
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";
/// Where it gives tokens.
const DOCKER_HUB_TOKENS: &str = "auth.docker.io";

/// What the registry is asked to allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryAccess {
    /// Artifacts are read.
    Read,
    /// Artifacts are read and written.
    Write,
}

/// A server that has a repository.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// With the login for the server.
    pub network: Network,
    /// `https://example.com/`, or `https://example.com/below/`.
    base: Url,
    repository: String,
    /// Requests to a mirror are not tried again: the registry itself is next.
    pub(super) is_mirror: bool,
}

/// The servers that have the repository of `reference`, in the order to ask them. The last one is the registry itself.
pub(super) fn endpoints(
    network: &Network,
    servers: &[RegistryConfig],
    reference: &Reference,
    access: RegistryAccess,
    sources: &[String],
    activity: &Arc<Activity>,
) -> Result<Vec<Endpoint>, OciError> {
    let host = reference.host();
    let server = servers.iter().find(|server| server.host.eq_ignore_ascii_case(host));
    let (host, repository) = match reference.repository() {
        // Its own repositories have no owner in their names.
        repository if DOCKER_HUB.contains(&host) && !repository.contains('/') => {
            (DOCKER_HUB_HOST, format!("library/{repository}"))
        }
        repository if DOCKER_HUB.contains(&host) => (DOCKER_HUB_HOST, repository.to_owned()),
        repository => (host, repository.to_owned()),
    };
    let base = |text: &str| {
        Url::parse(text).map_err(|error| {
            let url = ShownUrl::of_text(text);
            refused("use", reference)(NetworkError::Url { url, reason: error.to_string() })
        })
    };
    let mut endpoints = Vec::new();
    if access == RegistryAccess::Read {
        for mirror in server.iter().flat_map(|server| &server.mirrors) {
            let base = base(&format!("{}/", mirror.trim_end_matches('/')))?;
            let endpoint = Endpoint::new(network, base, &repository, access, &[], Vec::new());
            endpoints.push(Endpoint { is_mirror: true, ..endpoint });
        }
    }
    let (plain, encrypted) = (base(&format!("http://{host}/"))?, base(&format!("https://{host}/"))?);
    let is_plain = match server.and_then(|server| server.plain_http) {
        Some(is_plain) => is_plain,
        None => plain.is_this_machine() && !network.is_offline() && !wants_encryption(network, &plain, activity),
    };
    let mut token_servers = server.map(|server| server.token_servers.clone()).unwrap_or_default();
    if host == DOCKER_HUB_HOST {
        token_servers.push(DOCKER_HUB_TOKENS.to_owned());
    }
    let base = if is_plain { plain } else { encrypted };
    endpoints.push(Endpoint::new(network, base, &repository, access, sources, token_servers));
    Ok(endpoints)
}

impl Endpoint {
    fn new(
        network: &Network,
        base: Url,
        repository: &str,
        access: RegistryAccess,
        sources: &[String],
        token_servers: Vec<String>,
    ) -> Self {
        let actions = if access == RegistryAccess::Write { "pull,push" } else { "pull" };
        let own = format!("repository:{repository}:{actions}");
        let scopes = std::iter::once(own).chain(sources.iter().map(|source| format!("repository:{source}:pull")));
        let login = RegistryLogin::new(base.clone(), repository.to_owned(), scopes.collect(), token_servers);
        Self { network: network.with_registry(login), base, repository: repository.to_owned(), is_mirror: false }
    }

    /// The URL that the names of blobs are appended to.
    pub fn blobs(&self) -> Url {
        self.url("blobs/")
    }

    pub(super) fn url(&self, rest: &str) -> Url {
        let joined = self.base.join(&format!("v2/{}/{rest}", self.repository));
        // Repository, tags and digests were checked, and have no character with a meaning in URLs.
        joined.unwrap_or_else(|_| self.base.clone())
    }

    /// Whether what is sent to `url` is encrypted if what is sent here is.
    pub(super) fn is_as_safe(&self, url: &Url) -> bool {
        matches!((self.base.scheme(), url.scheme()), (_, "https") | ("http", "http"))
    }
}

/// Whether the registry at this unencrypted URL of this machine wants to be asked with encryption. Returns `false` if it cannot be asked;
/// the first real request then has the error.
fn wants_encryption(network: &Network, plain: &Url, activity: &Arc<Activity>) -> bool {
    let (shared, url) = (network.clone(), plain.join("v2/").unwrap_or_else(|_| plain.clone()));
    let asked = network.wait(activity, async move {
        let body = CallBody::Bytes(Bytes::new());
        // Any method would do. A HEAD follows no redirect.
        let call = Call { method: Method::HEAD, url: &url, headers: &[], body, is_anonymous: true, limit: MAX_ANSWER };
        let silent = || NetworkError::Stalled { url: url.shown(), after: LONGEST_LOOK, found: 0 };
        tokio::time::timeout(LONGEST_LOOK, shared.call(call)).await.unwrap_or_else(|_| Err(silent()))
    });
    match asked {
        // A TLS server answers a request in plain text with 400.
        Ok(answer) => answer.status.code() == 400,
        Err(error) => matches!(error, NetworkError::Connection { action: "get an answer from" | "read", .. }),
    }
}
