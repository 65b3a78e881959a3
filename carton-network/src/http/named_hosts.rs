//! The hosts that the user named, and the private addresses at which links of a carton from such a host may reach it.
//!
//! The name of a host is no reason to trust its address: the owner of the name can let it resolve to another address at any time. So each
//! private address counts by itself, and only if the carton came from it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use parking_lot::Mutex;

use super::private::{PrivateName, allowed_of, is_private, is_site_local};

/// What the user's requests revealed about hosts.
#[derive(Default)]
pub(super) struct NamedHosts(Mutex<BTreeMap<String, NamedHost>>);

#[derive(Default)]
struct NamedHost {
    /// Private addresses to which the name resolved for the user's requests.
    resolved: BTreeSet<IpAddr>,
    /// Private addresses to which links may lead. `None` until the host has answered or is looked up for a link.
    usable: Option<BTreeSet<IpAddr>>,
}

impl NamedHosts {
    /// Records the addresses to which a host resolved for a request of the user.
    pub(super) fn note_resolved(&self, host: &str, found: &[SocketAddr]) {
        let private = found.iter().map(SocketAddr::ip).filter(|address| is_private(*address));
        self.with(host, |named| named.resolved.extend(private));
    }

    /// Records that a request of the user was answered over a connection to this address. The address counts only if the host resolved to
    /// it: a connection through a proxy has the proxy's address.
    pub(super) fn note_answer(&self, host: &str, address: Option<IpAddr>) {
        self.with(host, |named| {
            let served = address.filter(|address| named.resolved.contains(address));
            named.usable.get_or_insert_default().extend(served);
        });
    }

    /// The addresses, of those found, to which a link to this host may lead.
    ///
    /// A carton that is opened from the cache needs no request, so its host may not have answered. Then the site-local addresses of the
    /// first lookup are kept as those of the host.
    pub(super) fn usable(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, PrivateName> {
        self.with(host, |named| {
            let site_local = || found.iter().map(SocketAddr::ip).filter(|address| is_site_local(*address)).collect();
            let usable = named.usable.get_or_insert_with(site_local);
            allowed_of(found.iter().copied(), |address| usable.contains(&address))
        })
    }

    fn with<T>(&self, host: &str, act: impl FnOnce(&mut NamedHost) -> T) -> T {
        let mut hosts = self.0.lock();
        act(hosts.entry(host.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect()
    }

    fn usable(hosts: &NamedHosts, found: &[&str]) -> Result<Vec<SocketAddr>, String> {
        hosts.usable("a.corp", addresses(found)).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_private_addresses_that_answered_are_usable() {
        let hosts = NamedHosts::default();
        hosts.note_resolved("a.corp", &addresses(&["10.0.0.1", "10.0.0.2", "127.0.0.1", "1.1.1.1"]));
        hosts.note_answer("a.corp", "10.0.0.1".parse().ok());
        assert_eq!(usable(&hosts, &["10.0.0.1", "10.0.0.2"]).unwrap(), addresses(&["10.0.0.1"]));
        assert_eq!(usable(&hosts, &["127.0.0.1", "10.0.0.1"]).unwrap(), addresses(&["10.0.0.1"]));
        assert_eq!(usable(&hosts, &["1.1.1.1"]).unwrap(), addresses(&["1.1.1.1"]));
        assert_eq!(usable(&hosts, &["10.0.0.2"]).unwrap_err(), "10.0.0.2 is a private address");
        assert_eq!(usable(&hosts, &["127.0.0.1"]).unwrap_err(), "127.0.0.1 is a private address");
        assert!(hosts.usable("b.corp", addresses(&["127.0.0.1"])).is_err());
        // A loopback address counts too, if the carton came from it.
        hosts.note_answer("a.corp", "127.0.0.1".parse().ok());
        assert_eq!(usable(&hosts, &["127.0.0.1"]).unwrap(), addresses(&["127.0.0.1"]));
    }

    #[test]
    fn the_address_of_a_proxy_is_not_that_of_the_host() {
        let hosts = NamedHosts::default();
        hosts.note_resolved("proxy.corp", &addresses(&["10.0.0.9"]));
        hosts.note_answer("a.corp", "10.0.0.9".parse().ok());
        for found in ["10.0.0.9", "10.0.0.1", "127.0.0.1"] {
            assert!(usable(&hosts, &[found]).is_err(), "{found}");
        }
    }

    #[test]
    fn a_host_that_was_not_asked_keeps_the_site_local_addresses_of_its_first_lookup() {
        let hosts = NamedHosts::default();
        let first = ["10.0.0.1", "fd12::1", "127.0.0.1", "169.254.169.254", "100.100.100.200", "fd00:ec2::254"];
        assert_eq!(usable(&hosts, &first).unwrap(), addresses(&["10.0.0.1", "fd12::1"]));
        assert_eq!(usable(&hosts, &["10.0.0.1"]).unwrap(), addresses(&["10.0.0.1"]));
        assert!(usable(&hosts, &["10.0.0.2"]).is_err());
        let hosts = NamedHosts::default();
        assert!(usable(&hosts, &["127.0.0.1"]).is_err());
        assert!(usable(&hosts, &["10.0.0.1"]).is_err(), "the first lookup decided");
    }
}
