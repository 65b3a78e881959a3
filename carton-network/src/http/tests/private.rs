//! URLs that a carton names, and the addresses to which they may not lead.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use carton_format::url::Url;
use carton_test_server::Answer;

use super::{answer, changed, network, serve, serve_at, url};
use crate::http::private::is_private;
use crate::http::{Network, NetworkError, Part, Wanted};

fn read(network: &Network, url: &Url) -> Result<Vec<u8>, NetworkError> {
    let wanted = Wanted { url: url.clone(), part: Part::Whole, version: None, known: None, limit: 1 << 20 };
    network.read(wanted, &Arc::default()).map(|fetched| fetched.bytes)
}

fn ok() -> Answer {
    answer("200 OK\r\nContent-Length: 2", "ok")
}

fn with_host(url: &Url, host: &str) -> Url {
    changed(url, |url| url.set_host(Some(host)).unwrap())
}

fn refused(result: Result<Vec<u8>, NetworkError>) -> String {
    match result {
        Err(error @ NetworkError::Private { .. }) => error.to_string(),
        other => format!("expected a refusal, found {other:?}"),
    }
}

#[test]
fn private_addresses_are_asked_for_their_own_cartons_only() {
    let server = serve(&[ok()]);
    let elsewhere = Url::parse("https://example.com/model.carton").unwrap();
    let network = network();
    let from_elsewhere = network.public_only(&elsewhere);
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"] {
        let url = with_host(&url(&server), host);
        let message = refused(read(&from_elsewhere, &url));
        assert!(message.contains("which is not a public IP address"), "{host}: {message}");
    }
    assert_eq!(server.requests().len(), 0, "no request went out");
    // The same host on any port.
    let other_port = Url::parse("http://127.0.0.1:9/model.carton").unwrap();
    assert_eq!(read(&network.public_only(&other_port), &url(&server)).unwrap(), b"ok");
    assert_eq!(read(&network, &url(&server)).unwrap(), b"ok", "the user may name it");
}

#[test]
fn redirects_to_private_addresses_are_refused() {
    let inside = serve(&[ok()]);
    let target = with_host(&url(&inside), "127.0.0.2");
    let outside = serve(&[answer(&format!("302 Found\r\nLocation: {target}"), "")]);
    let message = refused(read(&network().public_only(&url(&outside)), &url(&outside)));
    assert_eq!(message, format!("`{target}` leads to 127.0.0.2, which is not a public IP address"));
    assert_eq!((outside.requests().len(), inside.requests().len()), (1, 0));
    // The user named the server that leads there.
    let target = url(&inside);
    let outside = serve(&[answer(&format!("302 Found\r\nLocation: {target}"), "")]);
    assert_eq!(read(&network(), &url(&outside)).unwrap(), b"ok");
}

/// The name of this machine, if it resolves to one IPv4 address, which is private.
fn name_of_this_machine() -> Option<(String, IpAddr)> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?.trim().to_ascii_lowercase();
    let addresses = (name.as_str(), 0).to_socket_addrs().ok()?.map(|address| address.ip());
    let mut addresses: Vec<IpAddr> = addresses.collect();
    addresses.dedup();
    match addresses[..] {
        [address] if name != "localhost" && address.is_ipv4() && is_private(address) => Some((name, address)),
        _ => None,
    }
}

#[test]
fn the_address_that_a_name_has_now_decides() {
    let Some((name, address)) = name_of_this_machine() else {
        println!("skipped: the host name of this machine does not resolve to one private IPv4 address");
        return;
    };
    let server = serve_at("0.0.0.0", &[ok()]);
    let named = with_host(&url(&server), &name);
    let network = network();
    let elsewhere = Url::parse("https://example.com/model.carton").unwrap();
    let message = refused(read(&network.public_only(&elsewhere), &named));
    assert_eq!(message, format!("`{named}` leads to {address}, which is not a public IP address"));
    // A name that was public when the carton came from it may resolve to a private address later.
    network.inner.named.note_answer(&name, "1.1.1.1".parse().ok());
    let message = refused(read(&network.public_only(&named), &named));
    assert_eq!(message, format!("`{named}` leads to {address}, which is not a public IP address"));
    assert_eq!(server.requests().len(), 0);
    assert_eq!(read(&network, &named).unwrap(), b"ok");
    assert_eq!(read(&network.public_only(&named), &named).unwrap(), b"ok");
    let message = refused(read(&network.public_only(&elsewhere), &named));
    assert!(message.contains("leads to"), "the connections of other requests are not used again: {message}");
}

#[test]
fn a_host_that_redirected_the_user_may_be_linked_to() {
    let Some((name, _)) = name_of_this_machine() else {
        println!("skipped: the host name of this machine does not resolve to one private IPv4 address");
        return;
    };
    let end = serve(&[ok()]);
    let way = format!("302 Found\r\nLocation: {}", url(&end));
    let server = serve_at("0.0.0.0", &[answer(&way, ""), ok()]);
    let named = with_host(&url(&server), &name);
    let network = network();
    assert_eq!(read(&network, &named).unwrap(), b"ok");
    assert_eq!((server.requests().len(), end.requests().len()), (1, 1));
    assert_eq!(read(&network.public_only(&named), &named).unwrap(), b"ok");
}

#[test]
fn an_answer_through_a_proxy_makes_no_address_usable() {
    const NAME: &str = "http::tests::private::an_answer_through_a_proxy_makes_no_address_usable";
    let named = Url::parse("http://models.example/model.carton").unwrap();
    // The HTTP library reads the variable when it is set up, and no other test may see it, so this test runs itself again in a process.
    if std::env::var_os("CARTON_TEST_BEHIND_PROXY").is_none() {
        let proxy = serve(&[ok()]);
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        for variable in ["ALL_PROXY", "all_proxy", "HTTP_PROXY", "NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
            again.env_remove(variable);
        }
        let proxy_url = url(&proxy).origin().ascii_serialization();
        again.env("http_proxy", proxy_url).env("CARTON_TEST_BEHIND_PROXY", "1");
        let output = again.args(["--exact", NAME]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(proxy.requests().len(), 1, "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let network = network();
    assert_eq!(read(&network, &named).unwrap(), b"ok");
    for address in ["127.0.0.1:0", "10.0.0.1:0"] {
        assert!(network.inner.named.usable("models.example", vec![address.parse().unwrap()]).is_err(), "{address}");
    }
}
