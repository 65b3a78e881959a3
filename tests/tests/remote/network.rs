//! Single requests: the network layer's handling of correct and wrong answers.

use std::sync::Arc;
use std::time::Duration;

use carton_format::url::Url;
use carton_network::http::NetworkError;
use carton_network::http::{Activity, Extent, Fetched, Network, NetworkOptions, Part, Wanted};
use carton_test_server::nginx::Nginx;
use carton_test_server::{Answer, File, Request, Server};

const LENGTH: u64 = 300_000;

fn bytes() -> Vec<u8> {
    (0..LENGTH).map(|i| (i * 7 % 251) as u8).collect()
}

/// Options with short timeouts, so that tests of stalls are short.
fn options() -> NetworkOptions {
    NetworkOptions {
        idle_timeout: Duration::from_millis(600),
        first_pause: Duration::from_millis(1),
        max_retries: 2,
        ..NetworkOptions::default()
    }
}

fn read(url: &str, part: Part) -> Result<Fetched, NetworkError> {
    let wanted = Wanted { url: Url::parse(url).unwrap(), part, version: None, known: None, limit: 1 << 20 };
    Network::new(options()).read(wanted, &Arc::new(Activity::default()))
}

fn check_parts(url: &str) {
    let expected = bytes();
    let check = |part: Part, from: usize, to: usize| {
        let fetched = read(url, part).unwrap();
        assert_eq!(fetched.bytes, expected[from..to]);
        assert_eq!(fetched.version.length, Some(LENGTH));
        assert!(fetched.version.etag.is_some(), "{:?}", fetched.version);
        fetched.extent
    };
    let length = LENGTH as usize;
    assert_eq!(check(Part::Whole, 0, length), Extent::Whole);
    let extent = check(Part::Suffix(1000), length - 1000, length);
    assert_eq!(extent, Extent::Part { range: LENGTH - 1000..LENGTH, total: LENGTH });
    assert_eq!(check(Part::Range(10..11), 10, 11), Extent::Part { range: 10..11, total: LENGTH });
    check(Part::Range(0..LENGTH), 0, length);
}

#[test]
fn nginx_answers_parts() {
    let Some(nginx) = Nginx::start("") else { return };
    nginx.write("a file", bytes());
    check_parts(&nginx.url("a%20file"));
    let requests = nginx.requests();
    let ranges: Vec<&str> = requests.iter().map(|request| request.range.as_str()).collect();
    assert_eq!(ranges, ["-", "bytes=-1000", "bytes=10-10", "bytes=0-299999"]);
    assert_eq!(requests.iter().map(|request| request.body_bytes).sum::<u64>(), 2 * LENGTH + 1001);
    assert!(requests.iter().all(|request| request.bytes > request.body_bytes && request.method == "GET"));
    nginx.forget_requests();
    assert_eq!(nginx.requests(), []);
}

#[test]
fn the_misbehaving_server_can_behave() {
    let server = Server::start();
    server.serve("/file", File::new(bytes()));
    check_parts(&server.url("/file"));
    let ranges: Vec<_> =
        server.exchanges_for("/file").iter().map(|e| e.request.header("range").map(str::to_owned)).collect();
    assert_eq!(ranges.iter().flatten().collect::<Vec<_>>(), ["bytes=-1000", "bytes=10-10", "bytes=0-299999"]);
    assert_eq!(server.written_for("/file"), 2 * LENGTH + 1001);
    assert!(
        matches!(read(&server.url("/nothing"), Part::Whole), Err(NetworkError::Status { status, .. }) if status.code() == 404)
    );
}

/// Serves the correct answer as `handler` changes it, and reads bytes 1000 to 2000.
fn read_wrong(
    handler: impl Fn(&Request, Answer) -> Answer + Send + Sync + 'static,
) -> (Server, Result<Vec<u8>, NetworkError>) {
    let server = Server::start();
    let file = File::new(bytes());
    server.route("/file", move |request| handler(request, file.answer(request)));
    let result = read(&server.url("/file"), Part::Range(1000..2000)).map(|fetched| fetched.bytes);
    if let Ok(bytes) = &result {
        assert_eq!(*bytes, self::bytes()[1000..2000]);
    }
    (server, result)
}

#[test]
fn what_passes_is_tried_again() {
    let check = |handler: fn(Answer) -> Answer| {
        let (server, result) =
            read_wrong(move |request, answer| if request.number < 2 { handler(answer) } else { answer });
        result.unwrap();
        assert_eq!(server.exchanges_for("/file").len(), 3);
    };
    check(|answer| answer.cut_after(999));
    check(|answer| answer.cut_after(0));
    check(|answer| answer.stall_after(500));
    check(|_| Answer::status(503));
    check(|_| Answer::status(429).header("Retry-After", "0"));
    check(|_| Answer::raw(""));
    check(|answer| answer.chunked().cut_after(10));
}

#[test]
fn retries_are_bounded() {
    let check = |handler: fn(Answer) -> Answer| {
        let (server, result) = read_wrong(move |_, answer| handler(answer));
        let error = result.unwrap_err();
        assert_eq!(server.exchanges_for("/file").len(), 3, "{error}");
        error
    };
    assert!(matches!(check(|_| Answer::status(500)), NetworkError::Status { .. }));
    assert!(matches!(check(|answer| answer.stall_after(0)), NetworkError::Stalled { .. }));
    assert!(matches!(check(|answer| answer.delayed(Duration::from_secs(2))), NetworkError::Stalled { .. }));
    check(|answer| answer.cut_after(1));
}

#[test]
fn wrong_answers_are_errors_at_once() {
    let check = |handler: fn(Answer) -> Answer| {
        let (server, result) = read_wrong(move |_, answer| handler(answer));
        let error = result.unwrap_err();
        assert_eq!(server.exchanges_for("/file").len(), 1, "{error}");
        error
    };
    for header in
        ["bytes 1001-2000/300000", "bytes 1000-1998/300000", "bytes 1000-1999/1500", "bytes 1000-1999/*", "bytes"]
    {
        let (_server, result) = read_wrong(move |_, answer| answer.header("Content-Range", header));
        assert!(matches!(result, Err(NetworkError::Answer { .. })), "{header}: {result:?}");
    }
    assert!(matches!(check(|answer| answer.without_header("Content-Range")), NetworkError::Answer { .. }));
    assert!(matches!(check(|answer| answer.header("Content-Encoding", "gzip")), NetworkError::Answer { .. }));
    for status in [401, 403, 404, 410] {
        let (server, result) = read_wrong(move |_, _| Answer::status(status));
        assert!(matches!(result, Err(NetworkError::Status { .. })), "{result:?}");
        assert_eq!(server.exchanges_for("/file").len(), 1);
    }
}

#[test]
fn a_body_that_does_not_end_is_cut_off() {
    for chunked in [false, true] {
        let (server, result) = read_wrong(move |_, _| {
            let answer = Answer::endless(200, *b"never ends");
            if chunked { answer.chunked() } else { answer.without_length() }
        });
        result.unwrap_err();
        let written: u64 = server.exchanges_for("/file").iter().map(|exchange| exchange.written).sum();
        // This includes the bytes that the operating system buffers between the two.
        assert!(written < 64 << 20, "{written} bytes were sent");
    }
}

#[test]
fn redirects_are_followed_but_not_for_ever() {
    let (server, other) = (Server::start(), Server::start());
    other.serve("/file", File::new(bytes()));
    for n in 0..5 {
        server.route(&format!("/{n}"), move |_| Answer::redirect(302, format!("/{}", n + 1)));
    }
    let target = other.url("/file");
    server.route("/5", move |_| Answer::redirect(307, target.as_str()));
    assert_eq!(read(&server.url("/0"), Part::Range(5..10)).unwrap().bytes, bytes()[5..10]);
    assert_eq!(other.exchanges_for("/file")[0].request.header("range"), Some("bytes=5-9"));

    server.route("/here", |_| Answer::redirect(302, "/there"));
    server.route("/there", |_| Answer::redirect(302, "/here"));
    let error = read(&server.url("/here"), Part::Whole).unwrap_err();
    assert!(error.to_string().contains("circle"), "{error}");

    for n in 0..20 {
        server.route(&format!("/long/{n}"), move |_| Answer::redirect(302, format!("/long/{}", n + 1)));
    }
    let error = read(&server.url("/long/0"), Part::Whole).unwrap_err();
    assert!(matches!(error, NetworkError::Redirects { .. }), "{error:?}");

    server.route("/passwd", |_| Answer::redirect(302, "file:///etc/passwd"));
    let error = read(&server.url("/passwd"), Part::Whole).unwrap_err();
    assert!(!matches!(error, NetworkError::Internal(_)), "{error:?}");
}
