//! Nothing that may be a secret is ever shown: not by an error, its causes or its hint, nor by a record of any level.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, Once, PoisonError};

use carton_format::url::Url;
use carton_test_server::{Answer, Server};

use super::{answer, changed, network, serve, url};
use crate::http::{
    Activity, Credentials, HostToken, NetrcFile, Network, NetworkError, NetworkOptions, Part, Request, Secret, Version,
    Wanted,
};

/// Part of each secret.
const SECRET: &str = "KeepMeToYourself";

static RECORDS: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Records;

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        RECORDS.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl log::Log for Records {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let _ = writeln!(Records, "{} {}", record.target(), record.args());
    }

    fn flush(&self) {}
}

/// Records everything from now on that is reported through `tracing` and through `log`, which the HTTP libraries use.
fn record_everything() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let everything = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(|| Records);
        tracing::subscriber::set_global_default(everything.finish()).unwrap();
        log::set_logger(&Records).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    });
}

fn with_secrets(url: &Url) -> Url {
    changed(url, |url| {
        url.set_username(&format!("user-{SECRET}")).unwrap();
        url.set_password(Some(&format!("password-{SECRET}"))).unwrap();
        url.set_query(Some(&format!("signature={SECRET}")));
    })
}

fn wanted(url: &Url) -> Wanted {
    Wanted { url: with_secrets(url), part: Part::Range(0..4), version: None, known: None, limit: 4 }
}

#[track_caller]
fn check(what: &str, text: &str) {
    assert!(!text.contains(SECRET), "{what} shows a secret: {text}");
    // Base64 of the text before the colon, as in the header.
    assert!(!text.contains("dXNlci1LZWVw"), "{what} shows a header: {text}");
}

/// Reads, and searches the error.
#[track_caller]
fn fail(kind: &str, network: &Network, wanted: Wanted) {
    let error = network.read(wanted, &Arc::default()).unwrap_err();
    let debug = format!("{error:?}");
    assert!(debug.starts_with(kind), "expected {kind}, found {debug}");
    check(kind, &format!("{debug} {error:#?} {} {:?}", carton_format::causes::in_one_line(&error), error.hint()));
}

#[test]
fn no_failure_shows_a_secret() {
    record_everything();
    let answered = |kind: &str, answers: &[Answer]| fail(kind, &network(), wanted(&url(&serve(answers))));
    for status in ["400 No", "401 No", "403 No", "404 No", "407 No", "416 No", "429 No", "503 No", "302 Nowhere"] {
        answered("Status", &[answer(status, SECRET)]);
    }
    answered("Answer", &[answer("206 OK", "")]);
    answered("Answer", &[answer("206 OK\r\nContent-Range: bytes 1-2/9", "")]);
    answered("NoRanges", &[answer("200 OK\r\nContent-Length: 9", "")]);
    answered("Cut", &[answer("206 OK\r\nContent-Range: bytes 0-3/9\r\nContent-Length: 4", "ab")]);
    answered("Stalled", &[Answer::raw("").stall_after(0)]);
    answered("Connection", &[Answer::raw("nonsense\r\n\r\n")]);
    answered("Connection", &[Answer::raw("")]);
    let to = |location: &str| answer(&format!("302 Found\r\nLocation: {location}"), "");
    let elsewhere = format!("http://me:{SECRET}@127.0.0.1:1/x?y={SECRET}#{SECRET}");
    answered("Connection", &[to(&elsewhere)]);
    answered("Redirect", &[to(&format!("/a/file?signature={SECRET}"))]);
    answered("Redirect", &[to(&format!("ftp://me:{SECRET}@host/{SECRET}"))]);
    answered("Redirect", &[to(&format!("data:{SECRET}"))]);
    answered("Redirect", &[to(&format!("http://[{SECRET}"))]);
    let many: Vec<_> = (0..20).map(|n| to(&format!("/{n}?signature={SECRET}"))).collect();
    answered("Redirects", &many);

    let part = answer("206 OK\r\nContent-Range: bytes 0-3/9\r\nETag: \"b\"", "abcd");
    let version = Some(Version { etag: Some("\"a\"".to_owned()), last_modified: None, length: None });
    let server = serve(std::slice::from_ref(&part));
    fail("Changed", &network(), Wanted { version, ..wanted(&url(&server)) });
    fail("TooLarge", &network(), Wanted { limit: 1, ..wanted(&url(&server)) });
    let offline = Network::new(NetworkOptions { offline: true, ..NetworkOptions::default() });
    fail("Offline", &offline, wanted(&url(&server)));
    fail("Connection", &network(), wanted(&"http://127.0.0.1:1/x".parse().unwrap()));
    let unknown = format!("http://{}.invalid/x", "x".repeat(64));
    fail("Connection", &network(), wanted(&unknown.parse().unwrap()));
    let without_tls = Server::start();
    without_tls.greet("HTTP/1.1 400 Bad Request\r\n\r\n");
    fail("Tls", &network(), wanted(&without_tls.url("/x").replace("http:", "https:").parse().unwrap()));

    let records = RECORDS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let records = String::from_utf8_lossy(&records);
    // The libraries do report what they do, so this search could find a secret.
    for reporter in ["hyper_util::", "reqwest::", "carton_network::http::"] {
        assert!(records.contains(reporter), "{reporter}");
    }
    let found = records.lines().find(|line| line.contains(SECRET) || line.contains("dXNlci1LZWVw"));
    assert_eq!(found, None);
}

#[test]
fn tokens_and_logins_are_not_shown() {
    record_everything();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netrc");
    let token = || Secret::new(format!("token-{SECRET}"));
    let credentials = Credentials {
        variables: BTreeMap::from([("CARTON_TOKEN_localhost".to_owned(), token())]),
        tokens: vec![HostToken::new("a", token())],
        netrc: Some(NetrcFile::new(path.clone())),
        ..Credentials::default()
    };
    for netrc in [
        format!("machine 127.0.0.1 login {SECRET} password {SECRET}\n"),
        format!("machine 127.0.0.1 {SECRET}"),
        format!("machine a password \"{SECRET}"),
    ] {
        std::fs::write(&path, netrc).unwrap();
        let network = Network::new(NetworkOptions { credentials: credentials.clone(), ..network().options().clone() });
        let server = serve(&[answer("401 No", "")]);
        let wanted = Wanted { url: url(&server), part: Part::Whole, version: None, known: None, limit: 1 };
        let error = network.read(wanted, &Arc::default()).unwrap_err();
        assert!(matches!(error, NetworkError::Status { .. }));
        check("a refusal", &format!("{error:?} {:?}", error.hint()));
        check("Network", &format!("{network:?} {:#?} {:?}", network.options(), credentials));
    }
    let records = RECORDS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let records = String::from_utf8_lossy(&records);
    check("a record", &records.lines().filter(|line| line.contains(SECRET)).collect::<String>());
    assert!(records.contains("other users may read the passwords in"));
    assert!(records.contains("line 1: a quote is not closed"));
}

#[test]
fn no_debug_form_shows_a_secret() {
    let server = serve(&[answer("200 OK", "abc")]);
    let wanted = Wanted { part: Part::Whole, ..wanted(&url(&server)) };
    check("Wanted", &format!("{wanted:?}"));
    check("Request", &format!("{:?}", Request::new(&wanted.url, Part::Whole)));
    let network = network();
    let sender = network.clone();
    let url = wanted.url.clone();
    let shown = network.wait(&Activity::default(), async move {
        let reply = sender.send(&Request::new(&url, Part::Whole)).await?;
        Ok::<_, NetworkError>(format!("{reply:?}"))
    });
    check("Reply", &shown.unwrap());
}
