//! Resolves host names, and leaves out the addresses that may not be connected to.

use std::collections::BTreeSet;
use std::net::ToSocketAddrs;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::named_hosts::NamedHosts;
use super::private::allowed_of;

/// The addresses of a name that may be connected to.
#[derive(Clone)]
pub(super) enum Addresses {
    /// All, because the user named the host. Private ones are recorded.
    All,
    /// Public ones.
    Public,
    /// For the host with this name, public ones and those from which the carton may have come. For other names, public ones.
    CartonHost(String),
}

/// Resolves names.
pub(super) struct Resolver {
    pub(super) addresses: Addresses,
    pub(super) named: Arc<NamedHosts>,
    /// The hosts of the proxies that requests may go through.
    pub(super) proxies: BTreeSet<String>,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (addresses, named) = (self.addresses.clone(), Arc::clone(&self.named));
        let name = name.as_str().to_ascii_lowercase();
        let is_proxy = self.proxies.contains(&name);
        Box::pin(async move {
            let host = name.clone();
            let found = tokio::task::spawn_blocking(move || {
                Ok::<_, std::io::Error>((host.as_str(), 0).to_socket_addrs()?.collect::<Vec<_>>())
            });
            let found = found.await??;
            let usable = match addresses {
                Addresses::All => {
                    named.note_resolved(&name, &found);
                    found
                }
                Addresses::CartonHost(host) if host == name => named.usable(&name, found)?,
                // The user chose the proxy. It resolves the names of its requests itself.
                _ if is_proxy => found,
                _ => allowed_of(found, |_| false)?,
            };
            Ok(Box::new(usable.into_iter()) as Addrs)
        })
    }
}
