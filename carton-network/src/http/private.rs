//! Decides which addresses are private. Pure.
//!
//! A link in a foreign carton must not make this machine send requests to servers that only it or its network can reach: that is how a
//! cloud's metadata service is made to reveal its secrets. So the check applies to the address that is connected to, not only to the
//! name: a name can resolve to another address at the next lookup.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use carton_format::url::Url;
use url::Host;

/// Whether an address belongs to this machine, to a private network, or to no single machine at all.
///
/// These are the blocks of the IANA special-purpose address registries (RFC 6890) that are not globally reachable, except those for
/// documentation, which no machine has. 192.88.99.0/24, which the registries no longer judge, counts too. An IPv6 address that stands for
/// an IPv4 address is private if that one is.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        // "This network", a single class A network, loopback.
        (0 | 10 | 127, _, _) => true,
        // Shared by the customers of a carrier (RFC 6598).
        (100, 64..=127, _) => true,
        // Link-local, where clouds have their metadata services.
        (169, 254, _) => true,
        (172, 16..=31, _) | (192, 168, _) => true,
        // IETF protocol assignments, the former relays of 6to4 (RFC 7526), benchmarks between networks.
        (192, 0, 0) | (192, 88, 99) | (198, 18..=19, _) => true,
        // Multicast, reserved, broadcast.
        (224.., _, _) => true,
        _ => false,
    }
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let [first, second, third, fourth, _, _, seventh, eighth] = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // The unspecified and the loopback address are among those that stand for IPv4 addresses in 0.0.0.0/8.
        [0, 0, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0xFFFF, high, low] => embedded(high, low),
        // Translated (RFC 2765).
        [0, 0, 0, 0, 0xFFFF, 0, high, low] => embedded(high, low),
        // NAT64 (RFC 6052), and its form for use within a network (RFC 8215).
        [0x64, 0xFF9B, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x64, 0xFF9B, 1, ..] => true,
        // Discard-only (RFC 6666); benchmarks (RFC 5180); identifiers of segment routing (RFC 9602).
        [0x100, 0, 0, 0, ..] | [0x2001, 2, 0, ..] | [0x5F00, ..] => true,
        // 6to4 has the IPv4 address after its prefix; Teredo has the server's address there, and the client's, inverted, at the end.
        [0x2002, ..] => embedded(second, third),
        [0x2001, 0, ..] => embedded(third, fourth) || embedded(!seventh, !eighth),
        // Unique local; link-local and what was site-local; multicast.
        _ => first & 0xFE00 == 0xFC00 || first & 0xFF80 == 0xFE80 || first & 0xFF00 == 0xFF00,
    }
}

/// Whether a site assigns this address to its own machines (RFC 1918, RFC 4193). The metadata services of clouds have no such address,
/// except two in IPv6, which are left out.
pub(super) fn is_site_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => match address.segments() {
            // Those of Amazon and Google.
            [0xFD00, 0xEC2, ..] | [0xFD20, 0xCE, ..] => false,
            [first, ..] => first & 0xFE00 == 0xFC00,
        },
    }
}

/// The reason why this URL's host is known to be private without a lookup: it is a private address, or it names this machine.
pub(super) fn of_url(url: &Url) -> Option<String> {
    match url.host()? {
        Host::Ipv4(address) => is_private(address.into()).then(|| address.to_string()),
        Host::Ipv6(address) => is_private(address.into()).then(|| address.to_string()),
        Host::Domain(name) => names_this_machine(name).then(|| "this machine".to_owned()),
    }
}

/// Whether a host is an address, or a name that resolvers do not decide (RFC 6761).
pub(super) fn is_fixed(host: &str) -> bool {
    names_this_machine(host) || host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok()
}

fn names_this_machine(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// All addresses of a name are private.
#[derive(Debug, thiserror::Error)]
#[error("{address} is a private address")]
pub(super) struct PrivateName {
    pub(super) address: IpAddr,
}

/// The addresses that may be connected to: public ones, and private ones that are `usable`. An error if all are refused.
pub(super) fn allowed_of(
    addresses: impl IntoIterator<Item = SocketAddr>,
    usable: impl Fn(IpAddr) -> bool,
) -> Result<Vec<SocketAddr>, PrivateName> {
    let is_refused = |address: &SocketAddr| is_private(address.ip()) && !usable(address.ip());
    let (refused, allowed): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_refused);
    match refused.first() {
        Some(address) if allowed.is_empty() => Err(PrivateName { address: address.ip() }),
        _ => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn private_addresses_are_told_from_public_ones() {
        let check = |expected: bool, addresses: &[&str]| {
            for address in addresses {
                assert_eq!(is_private(address.parse().unwrap()), expected, "{address}");
            }
        };
        check(true, &["0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "127.0.0.1", "127.255.0.9"]);
        check(true, &["100.64.0.1", "100.127.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255"]);
        check(true, &["192.0.0.8", "192.168.0.1", "198.18.0.1", "198.19.255.255", "224.0.0.1", "239.1.2.3"]);
        check(true, &["240.0.0.1", "255.255.255.255", "192.88.99.0", "192.88.99.255"]);
        check(false, &["1.1.1.1", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "126.0.0.1"]);
        check(false, &["128.0.0.1", "169.253.0.1", "169.255.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1"]);
        check(false, &["192.167.0.1", "192.169.0.1", "198.17.0.1", "198.20.0.1", "223.255.255.255"]);
        check(true, &["::", "::1", "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.169.254", "::127.0.0.1"]);
        check(true, &["::ffff:0:10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "100::1", "2002:7f00:1::"]);
        check(true, &["2001:0:a00:1::", "2001:0:102:304::f5ff:fffe", "fc00::1", "fdff::1", "fe80::1", "fec0::1"]);
        check(true, &["ff02::1", "fd00:ec2::254", "2001:2::", "2001:2::1", "5f00::1", "5f00:ffff::1"]);
        check(false, &["192.88.98.255", "192.88.100.0", "2001:2:1::", "5eff::1", "5f01::1"]);
        // Blocks for documentation.
        check(false, &["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"]);
        check(false, &["2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::", "2a00::1"]);
        check(false, &["2001:0:101:101::fefe:fefe", "2001:4860:4860::8888"]);
    }

    #[test]
    fn a_host_shows_that_it_is_private_however_it_is_written() {
        let check = |url: &str, expected: Option<&str>| {
            assert_eq!(of_url(&Url::parse(url).unwrap()).as_deref(), expected, "{url}");
        };
        check("http://127.0.0.1/x", Some("127.0.0.1"));
        check("http://127.1/x", Some("127.0.0.1"));
        check("http://2130706433/x", Some("127.0.0.1"));
        check("http://0x7f.0.0.1/x", Some("127.0.0.1"));
        check("http://0251.0376.0251.0376/latest/meta-data", Some("169.254.169.254"));
        check("http://[::ffff:169.254.169.254]/x", Some("::ffff:169.254.169.254"));
        check("http://[::1]:8080/x", Some("::1"));
        check("https://localhost/x", Some("this machine"));
        check("https://LOCALHOST./x", Some("this machine"));
        check("https://a.b.localhost/x", Some("this machine"));
        check("https://localhost.example.com/x", None);
        check("https://1.1.1.1/x", None);
        check("https://example.com/x", None);
    }

    #[test]
    fn only_public_addresses_of_a_name_are_connected_to() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let mixed = addresses(&["127.0.0.1:0", "1.1.1.1:0", "[fe80::1]:0"]);
        assert_eq!(allowed_of(mixed, |_| false).unwrap(), addresses(&["1.1.1.1:0"]));
        let error = allowed_of(addresses(&["10.0.0.1:0", "[::1]:0"]), |_| false).unwrap_err();
        assert_eq!(error.to_string(), "10.0.0.1 is a private address");
        assert_eq!(allowed_of([], |_| false).unwrap(), []);
    }
}
