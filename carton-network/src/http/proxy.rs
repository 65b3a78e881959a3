//! Proxies: one of the configuration, or those of the environment.

use std::collections::BTreeSet;

use carton_format::url::Url;

use super::NetworkOptions;

/// The variables with proxies that the HTTP library reads, and that package managers read.
const VARIABLES: [&str; 6] = ["ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"];

/// The variables with hosts that are reached without a proxy.
const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The hosts that mean this machine, which no proxy on another one can reach.
const THIS_MACHINE: &str = "localhost,127.0.0.0/8,::1";

/// Which proxy requests go through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyConfig {
    /// Those of the variables `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY`, except for the hosts in `NO_PROXY`.
    #[default]
    Environment,
    /// None, whatever the environment has.
    Direct,
    /// One for all requests but those to this machine, whatever the environment has.
    Through {
        /// The proxy: an `http` or `https` URL, which may have a user and a password.
        proxy: Url,
        /// The hosts that are reached without it: names, which stand for the names below them as well, addresses, and networks such as
        /// `10.0.0.0/8`.
        except: Vec<String>,
    },
}

impl ProxyConfig {
    /// Whether `proxy` can be used as one.
    pub fn is_proxy(proxy: &Url) -> bool {
        let url = proxy.expose();
        matches!(url.scheme(), "http" | "https")
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
    }

    /// The hosts of the proxies that requests may go through.
    pub(super) fn hosts(&self) -> BTreeSet<String> {
        match self {
            Self::Environment => {
                let values = VARIABLES.into_iter().filter_map(|variable| std::env::var(variable).ok());
                values.filter_map(|value| host_of(&value)).collect()
            }
            Self::Direct => BTreeSet::new(),
            Self::Through { proxy, .. } => proxy.host_str().map(str::to_ascii_lowercase).into_iter().collect(),
        }
    }

    /// What the variables of the environment are to be for another program that makes requests, if not those of this process: each name
    /// with its value, or with `None` if it must not be set. The values may have a password.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, Option<String>)> {
        let all = |proxy: Option<&str>, exceptions: Option<&str>| {
            let proxies = VARIABLES.into_iter().map(|name| (name, proxy.map(str::to_owned)));
            proxies.chain(EXCEPTIONS.map(|name| (name, exceptions.map(str::to_owned)))).collect()
        };
        match self {
            Self::Environment => Vec::new(),
            Self::Direct => all(None, None),
            Self::Through { proxy, except } => all(Some(proxy.expose_str()), Some(&exceptions(except))),
        }
    }
}

/// The servers of clouds that give credentials to their machines: no proxy can reach them for another machine.
#[cfg(feature = "object-store")]
const METADATA_SERVERS: &str = "169.254.0.0/16,fd00:ec2::254,metadata.google.internal";

/// The hosts that are reached without a proxy, as the variables and the libraries have them.
fn exceptions(except: &[String]) -> String {
    let mut exceptions = THIS_MACHINE.to_owned();
    for host in except {
        exceptions.push(',');
        exceptions.push_str(host);
    }
    exceptions
}

impl NetworkOptions {
    /// Sets the proxy of a client.
    ///
    /// # Errors
    /// The proxy's URL cannot be used.
    pub(super) fn apply_proxy(&self, builder: reqwest::ClientBuilder) -> reqwest::Result<reqwest::ClientBuilder> {
        match &self.proxy {
            // The library reads the environment by itself.
            ProxyConfig::Environment => Ok(builder),
            ProxyConfig::Direct => Ok(builder.no_proxy()),
            ProxyConfig::Through { proxy, except } => {
                let exceptions = reqwest::NoProxy::from_string(&exceptions(except));
                Ok(builder.proxy(reqwest::Proxy::all(proxy.expose().clone())?.no_proxy(exceptions)))
            }
        }
    }

    /// The proxy for the library that asks servers for credentials of object stores, and the hosts that are reached without it. `None` if
    /// it is for that library to read the environment.
    #[cfg(feature = "object-store")]
    pub(crate) fn proxy_for_credentials(&self) -> Option<(&str, String)> {
        match &self.proxy {
            ProxyConfig::Through { proxy, except } => {
                Some((proxy.expose_str(), format!("{},{METADATA_SERVERS}", exceptions(except))))
            }
            // The library takes the environment's unless it is given one. All hosts are reached without this one.
            ProxyConfig::Direct => Some(("http://127.0.0.1:9", "*".to_owned())),
            ProxyConfig::Environment => None,
        }
    }
}

fn host_of(value: &str) -> Option<String> {
    let url = if value.contains("://") { Url::parse(value) } else { Url::parse(&format!("http://{value}")) };
    Some(url.ok()?.host_str()?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_host_of_a_proxy_is_found() {
        let check = |value: &str, expected: Option<&str>| assert_eq!(host_of(value).as_deref(), expected, "{value}");
        check("http://Proxy.corp:3128", Some("proxy.corp"));
        check("proxy.corp:3128", Some("proxy.corp"));
        check("http://me:secret@10.0.0.1:3128/", Some("10.0.0.1"));
        check("", None);
    }

    #[test]
    fn other_programs_get_the_proxy_in_their_variables() {
        assert_eq!(ProxyConfig::Environment.variables(), []);
        assert!(ProxyConfig::Direct.variables().iter().all(|(_, value)| value.is_none()));
        let proxy = Url::parse("http://me:secret@proxy.corp:3128").unwrap();
        let variables = ProxyConfig::Through { proxy, except: vec!["corp".to_owned()] }.variables();
        let value = |name| variables.iter().find(|(found, _)| *found == name).unwrap().1.as_deref();
        for name in VARIABLES {
            assert_eq!(value(name), Some("http://me:secret@proxy.corp:3128/"));
        }
        assert_eq!(value("no_proxy"), Some("localhost,127.0.0.0/8,::1,corp"));
    }
}
