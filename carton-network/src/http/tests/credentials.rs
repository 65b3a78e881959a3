//! Which server receives which credentials.

use std::collections::BTreeMap;
use std::sync::Arc;

use carton_format::url::Url;
use carton_test_server::Server;

use super::{answer, changed, network, serve, url};
use crate::http::{Credentials, HostToken, NetrcFile, Network, NetworkError, NetworkOptions, Part, Secret, Wanted};

/// A network with a token for 127.0.0.1 from the environment.
fn with_variable(token: &str) -> Network {
    let variables = BTreeMap::from([("CARTON_TOKEN_127_0_0_1".to_owned(), Secret::new(token))]);
    with(Credentials { variables, ..Credentials::default() })
}

fn with(credentials: Credentials) -> Network {
    Network::new(NetworkOptions { credentials, ..network().options().clone() })
}

fn host_token(host: &str, allow_http: bool) -> HostToken {
    HostToken { host: host.to_owned(), token: Some(Secret::new("config")), variable: None, allow_http }
}

fn get(network: &Network, url: &Url) -> Result<(), NetworkError> {
    let wanted = Wanted { url: url.clone(), part: Part::Whole, version: None, known: None, limit: 100 };
    network.read(wanted, &Arc::default()).map(drop)
}

/// The `Authorization` that a server receives.
fn told(network: &Network, change: impl FnOnce(&mut url::Url)) -> Option<String> {
    let server = serve(&[answer("200 OK", "")]);
    get(network, &changed(&url(&server), change)).unwrap();
    server.requests()[0].header("authorization").map(str::to_owned)
}

#[test]
fn the_first_that_knows_the_host_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netrc");
    std::fs::write(&path, "machine a password p\nmachine 127.0.0.1 login me password secret\n").unwrap();
    let netrc = Some(NetrcFile::new(path));
    let variables = BTreeMap::from([("CARTON_TOKEN_127_0_0_1".to_owned(), Secret::new("variable"))]);
    let mut credentials =
        Credentials { variables, tokens: vec![host_token("127.0.0.1", false)], netrc, ..Credentials::default() };
    let user = |url: &mut url::Url| {
        url.set_username("a%40b").unwrap();
        url.set_password(Some("p w")).unwrap();
    };
    assert_eq!(told(&with(credentials.clone()), user).as_deref(), Some("Basic YUBiOnAgdw=="));
    assert_eq!(told(&with(credentials.clone()), |_| ()).as_deref(), Some("Bearer variable"));
    credentials.variables.clear();
    assert_eq!(told(&with(credentials.clone()), |_| ()).as_deref(), Some("Bearer config"));
    credentials.tokens.clear();
    assert_eq!(told(&with(credentials.clone()), |_| ()).as_deref(), Some("Basic bWU6c2VjcmV0"));
    credentials.netrc = None;
    assert_eq!(told(&with(credentials), |_| ()), None);
}

#[test]
fn only_the_host_itself_is_told() {
    // The default of a netrc file is used for no host.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netrc");
    std::fs::write(&path, "default login me password secret\n").unwrap();
    let netrc = Some(NetrcFile::new(path));
    let tokens = vec![host_token("127.0.0.2", true), host_token("127.0.0.1:1", true), host_token("localhost", true)];
    assert_eq!(told(&with(Credentials { netrc, tokens, ..Credentials::default() }), |_| ()), None);
    let port =
        |server: &Server| host_token(&format!("127.0.0.1:{}", url(server).port_or_known_default().unwrap()), false);
    let server = serve(&[answer("200 OK", "")]);
    get(&with(Credentials { tokens: vec![port(&server)], ..Credentials::default() }), &url(&server)).unwrap();
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer config"));
}

#[test]
fn a_redirect_takes_credentials_along_only_to_the_same_server() {
    let elsewhere = serve(&[answer("200 OK", "")]);
    for location in
        [url(&elsewhere).expose_str(), &url(&elsewhere).expose_str().replace("http://", "http://me:secret@")]
    {
        let first = serve(&[answer(&format!("302 Found\r\nLocation: {location}"), "")]);
        get(&with_variable("secret"), &url(&first)).unwrap();
        assert_eq!(first.requests()[0].header("authorization"), Some("Bearer secret"));
        assert_eq!(elsewhere.requests().last().unwrap().header("authorization"), None);
    }
    let same = serve(&[answer("302 Found\r\nLocation: /b", ""), answer("200 OK", "")]);
    get(&with_variable("secret"), &url(&same)).unwrap();
    assert_eq!(same.requests()[1].header("authorization"), Some("Bearer secret"));
    assert_eq!(same.requests()[1].header("referer"), None);
}

#[test]
fn no_credentials_are_sent_unencrypted_unless_the_user_says_so() {
    let found = |url: &str, credentials: &Credentials| {
        let authorization = credentials.find(&url.parse().unwrap(), || &[]);
        format!("{authorization:?}")
    };
    let variables = BTreeMap::from([("CARTON_TOKEN_A_EXAMPLE".to_owned(), Secret::new("secret"))]);
    let variables = Credentials { variables, ..Credentials::default() };
    let some = |url: &str, credentials: &Credentials| found(url, credentials).contains("Some");
    assert!(some("https://a.example/x", &variables));
    assert!(!some("http://a.example/x", &variables));
    assert!(!some("https://a.example.b/x", &variables) && !some("https://b.a.example/x", &variables));
    let config =
        |allow_http| Credentials { tokens: vec![host_token("a.example", allow_http)], ..Credentials::default() };
    assert!(some("https://a.example/x", &config(false)) && !some("http://a.example/x", &config(false)));
    assert!(some("http://a.example:8080/x", &config(true)));
    assert!(some("http://me@a.example/x", &Credentials::default()));
}

#[test]
fn every_host_has_a_variable_of_its_own() {
    let check =
        |host: &str, expected: Option<&str>| assert_eq!(Credentials::variable(host).as_deref(), expected, "{host}");
    check("Models.Example.com", Some("CARTON_TOKEN_models_example_com"));
    check("models-example.com", Some("CARTON_TOKEN_models__example_com"));
    check("127.0.0.1", Some("CARTON_TOKEN_127_0_0_1"));
    for none in ["a_b.example", "a..example", "a-.example", "a.-example", "a.example.", "[::1]", "", "ä.example"] {
        check(none, None);
    }
}

#[test]
fn a_refusal_names_what_to_do() {
    let hint = |network: &Network, status: &str, change: fn(Url) -> Url| {
        let server = serve(&[answer(status, "")]);
        get(network, &change(url(&server))).unwrap_err().hint()
    };
    let same = |url| url;
    let named = "set CARTON_TOKEN_127_0_0_1 to a token, or put a token for `127.0.0.1` into the configuration's \
                 [[credentials]], or a login into ~/.netrc";
    assert_eq!(hint(&network(), "401 No", same).as_deref(), Some(named));
    assert_eq!(hint(&network(), "403 No", same).as_deref(), Some(named));
    assert_eq!(hint(&network(), "404 No", same), None);
    let refused = "the server does not accept the credentials from CARTON_TOKEN_127_0_0_1";
    assert_eq!(hint(&with_variable("secret"), "403 No", same).as_deref(), Some(refused));
    let elsewhere = serve(&[answer("401 No", "")]);
    let first = serve(&[answer(&format!("302 Found\r\nLocation: {}", url(&elsewhere)), "")]);
    let redirected = get(&with_variable("secret"), &url(&first)).unwrap_err().hint().unwrap();
    assert!(redirected.starts_with("the URL leads to another server"), "{redirected}");
}

#[test]
fn a_token_that_no_header_can_have_is_told() {
    let error = get(&with_variable("sec\nret"), &"http://127.0.0.1:1/x".parse().unwrap()).unwrap_err();
    let expected =
        "the token for `http://127.0.0.1:1/x` from CARTON_TOKEN_127_0_0_1 has characters that a token cannot have";
    assert_eq!(error.to_string(), expected);
}
