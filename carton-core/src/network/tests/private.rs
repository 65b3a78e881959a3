//! URLs that somebody else named, and where they may not lead.

use std::net::ToSocketAddrs;
use std::sync::Arc;

use super::server::{Server, answer, network};
use crate::network::{Network, NetworkError, Part, Url, Wanted, is_private};

fn read(network: &Network, url: &Url) -> Result<Vec<u8>, NetworkError> {
    let wanted = Wanted { url: url.clone(), part: Part::Whole, version: None, known: None, limit: 1 << 20 };
    network.read(wanted, &Arc::default()).map(|fetched| fetched.bytes)
}

fn ok() -> super::server::Answer {
    answer("200 OK\r\nContent-Length: 2", "ok")
}

fn with_host(url: &Url, host: &str) -> Url {
    let mut url = url.clone();
    url.set_host(Some(host)).unwrap();
    url
}

fn refused(result: Result<Vec<u8>, NetworkError>) -> String {
    match result {
        Err(error @ NetworkError::Private { .. }) => error.to_string(),
        other => format!("expected a refusal, found {other:?}"),
    }
}

#[test]
fn private_addresses_are_asked_for_their_own_cartons_only() {
    let server = Server::start(&[ok()]);
    let elsewhere = Url::parse("https://example.com/model.carton").unwrap();
    let network = network();
    let from_elsewhere = network.public_only(&elsewhere);
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"] {
        let url = with_host(&server.url, host);
        let message = refused(read(&from_elsewhere, &url));
        assert!(message.contains("which is no public address"), "{host}: {message}");
    }
    assert_eq!(server.count(), 0, "no request went out");
    // The same host on any port.
    let other_port = Url::parse("http://127.0.0.1:9/model.carton").unwrap();
    assert_eq!(read(&network.public_only(&other_port), &server.url).unwrap(), b"ok");
    assert_eq!(read(&network, &server.url).unwrap(), b"ok", "the user may name it");
}

#[test]
fn redirects_to_private_addresses_are_refused() {
    let inside = Server::start(&[ok()]);
    let target = with_host(&inside.url, "127.0.0.2");
    let outside = Server::start(&[answer(&format!("302 Found\r\nLocation: {target}"), "")]);
    let message = refused(read(&network().public_only(&outside.url), &outside.url));
    assert_eq!(message, format!("`{target}` leads to 127.0.0.2, which is no public address"));
    assert_eq!((outside.count(), inside.count()), (1, 0));
    // The user named the server that leads there.
    let target = inside.url.clone();
    let outside = Server::start(&[answer(&format!("302 Found\r\nLocation: {target}"), "")]);
    assert_eq!(read(&network(), &outside.url).unwrap(), b"ok");
}

#[test]
fn the_address_that_a_name_has_now_decides() {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_ascii_lowercase();
    let is_usable = || {
        let mut addresses = (name.as_str(), 0).to_socket_addrs().ok()?.peekable();
        addresses.peek()?;
        Some(name != "localhost" && addresses.all(|address| address.ip().is_loopback() && address.is_ipv4()))
    };
    if is_usable() != Some(true) {
        println!("skipped: the host name `{name}` of this machine does not resolve to 127.x.x.x");
        return;
    }
    let server = Server::start(&[ok()]);
    let named = with_host(&server.url, &name);
    let network = network();
    let elsewhere = Url::parse("https://example.com/model.carton").unwrap();
    let message = refused(read(&network.public_only(&elsewhere), &named));
    assert!(message.starts_with(&format!("`{named}` leads to 127.")), "{message}");
    // A name that was not private when the carton came from it may have been made private since.
    let message = refused(read(&network.public_only(&named), &named));
    assert!(message.contains("leads to 127."), "{message}");
    assert_eq!(server.count(), 0);
    assert_eq!(read(&network, &named).unwrap(), b"ok");
    assert_eq!(read(&network.public_only(&named), &named).unwrap(), b"ok");
    assert!(is_private("127.0.0.1".parse().unwrap()));
    let message = refused(read(&network.public_only(&elsewhere), &named));
    assert!(message.contains("leads to 127."), "the connection of the other requests is not used again: {message}");
}
