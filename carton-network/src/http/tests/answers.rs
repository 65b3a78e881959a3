//! Each kind of answer, and what it is taken for.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use carton_test_server::{Answer, Server};

use super::{answer, network, serve, url};
use crate::http::{Activity, Extent, Fetched, NetworkError, Part, Version, Wanted};

const FILE: &str = "0123456789abcdef";

fn wanted(server: &Server, part: Part) -> Wanted {
    Wanted { url: url(server), part, version: None, known: None, limit: 1 << 20 }
}

fn read(server: &Server, part: Part) -> Result<Fetched, NetworkError> {
    network().read(wanted(server, part), &Arc::default())
}

/// The answer 206 with a part of `FILE`.
fn part(from: usize, to: usize) -> Answer {
    answer(&format!("206 Partial Content\r\nContent-Range: bytes {from}-{}/{}", to - 1, FILE.len()), &FILE[from..to])
}

fn whole() -> Answer {
    answer(&format!("200 OK\r\nContent-Length: {}", FILE.len()), FILE)
}

/// The text of an error without the URL.
fn text(server: &Server, error: &NetworkError) -> String {
    error.to_string().replace(url(server).expose_str(), "URL")
}

fn version(etag: &str, length: u64) -> Version {
    Version { etag: Some(etag.to_owned()), last_modified: None, length: Some(length) }
}

#[test]
fn parts_are_what_was_asked_for() {
    let check = |answers: &[Answer], part: Part, expected: Result<&str, &str>| {
        let server = serve(answers);
        let result = read(&server, part.clone());
        let result = result.map(|fetched| String::from_utf8(fetched.bytes).unwrap());
        let result = result.map_err(|error| text(&server, &error));
        assert_eq!(result.as_deref().map_err(String::as_str), expected, "{part:?} {answers:?}");
    };
    let range = || Part::Range(2..6);
    check(&[part(2, 6)], range(), Ok("2345"));
    check(&[part(10, 16)], Part::Range(10..99), Ok("abcdef"));
    check(&[part(10, 16)], Part::Suffix(6), Ok("abcdef"));
    check(&[part(0, 16)], Part::Suffix(99), Ok(FILE));
    check(&[whole()], range(), Ok(FILE));
    check(&[whole()], Part::Suffix(6), Ok(FILE));
    check(&[whole()], Part::Whole, Ok(FILE));
    check(&[part(3, 7)], range(), Err("`URL`: expected bytes 2-5, found bytes 3-6 of 16"));
    check(&[part(2, 5)], range(), Err("`URL`: expected bytes 2-5, found bytes 2-4 of 16"));
    check(&[part(0, 16)], Part::Whole, Err("`URL`: expected the whole file, found bytes 0-15"));
    check(&[answer("206 OK", FILE)], range(), Err("`URL`: expected a Content-Range, found none"));
    check(
        &[answer("206 OK\r\nContent-Range: bytes 2-5/*", FILE)],
        range(),
        Err("`URL`: expected a Content-Range with bytes and a length, found `bytes 2-5/*`"),
    );
    check(
        &[answer("206 OK\r\nContent-Type: Multipart/ByteRanges; boundary=x", FILE)],
        range(),
        Err("`URL`: expected one range, found several, as multipart/byteranges"),
    );
    check(
        &[answer("206 OK\r\nContent-Range: bytes 2-5/16\r\nContent-Length: 16", FILE)],
        range(),
        Err("`URL`: expected 4 bytes for bytes 2-5, found a Content-Length of 16"),
    );
    check(
        &[answer("416 No\r\nContent-Range: bytes */16", "")],
        Part::Range(16..20),
        Err("`URL`: expected bytes 16-19, found a file of 16 bytes"),
    );
    check(&[answer("304 Not Modified", "")], range(), Err("`URL`: expected the file, found that it was not modified"));
    check(&[answer("404 Not Found", "secret")], range(), Err("`URL` answered 404 Not Found"));
    check(&[answer("204 No Content", "")], range(), Err("`URL` answered 204 No Content"));
    // More than the range that was announced.
    check(&[answer("206 OK\r\nContent-Range: bytes 2-5/16", "23456789")], range(), Ok("2345"));
}

#[test]
fn the_end_is_asked_for_by_position_where_it_must() {
    let refusals = [
        answer("400 Bad Request", ""),
        answer("416 No", ""),
        answer("416 No\r\nContent-Range: bytes */16", ""),
        answer("501 Not Implemented", ""),
        // Understood as a request for the first bytes.
        part(0, 4),
        answer(&format!("200 OK\r\nAccept-Ranges: bytes\r\nContent-Length: {}", 2 << 20), "…"),
    ];
    for refusal in refusals {
        let server = serve(&[refusal.clone(), part(0, 1), part(12, 16)]);
        let fetched = read(&server, Part::Suffix(4)).unwrap();
        assert_eq!(fetched.bytes, b"cdef", "{refusal:?}");
        assert_eq!(fetched.extent, Extent::Part { range: 12..16, total: 16 });
        let requests = server.requests();
        let ranges: Vec<_> = requests.iter().filter_map(|request| request.header("range")).collect();
        assert_eq!(ranges, ["bytes=-4", "bytes=0-0", "bytes=12-15"]);
    }
    // The refusal was not about the end of the file.
    let server = serve(&[answer("400 Bad Request", "")]);
    assert!(matches!(read(&server, Part::Suffix(4)), Err(NetworkError::Status { status, .. }) if status.code() == 400));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn an_empty_file_has_an_end() {
    let empty = answer("416 No\r\nContent-Range: bytes */0\r\nContent-Length: 5", "error");
    let nothing = Extent::Part { range: 0..0, total: 0 };
    for answers in [vec![empty.clone()], vec![answer("400 Bad Request", ""), empty]] {
        let fetched = read(&serve(&answers), Part::Suffix(4)).unwrap();
        assert_eq!((fetched.bytes.len(), &fetched.extent, fetched.version.length), (0, &nothing, Some(0)));
    }
    let fetched = read(&serve(&[answer("200 OK\r\nContent-Length: 0", "")]), Part::Suffix(4)).unwrap();
    assert_eq!((fetched.bytes.len(), fetched.extent), (0, Extent::Whole));
}

#[test]
fn a_large_file_without_ranges_is_not_read() {
    let flood = || Answer::endless(200, *b"x");
    for (answer, length) in [(flood().claiming(9_999_999_999), Some(9_999_999_999)), (flood(), None)] {
        let server = serve(&[answer]);
        let activity = Arc::new(Activity::default());
        let error = network().read(wanted(&server, Part::Suffix(4)), &activity).unwrap_err();
        assert!(matches!(error, NetworkError::NoRanges { length: found, .. } if found == length), "{error:?}");
        assert!(activity.received() < 2 << 20);
        let error = network().read(wanted(&server, Part::Whole), &activity).unwrap_err();
        assert!(matches!(error, NetworkError::TooLarge { limit: 1_048_576, .. }), "{error:?}");
    }
}

#[test]
fn no_head_is_too_large() {
    let flood = Answer::endless(200, *b"X-More: and more and more\r\n").with_raw_head("HTTP/1.1 200 OK\r\n");
    let error = read(&serve(&[flood]), Part::Whole).unwrap_err();
    assert!(matches!(error, NetworkError::Connection { action: "get an answer from", .. }), "{error:?}");
}

#[test]
fn another_version_is_told() {
    let check = |expected: Version, head: &str, changed: bool| {
        let server = serve(&[answer(head, FILE)]);
        let wanted = Wanted { version: Some(expected), ..wanted(&server, Part::Range(0..16)) };
        let result = network().read(wanted, &Arc::default());
        assert_eq!(matches!(result, Err(NetworkError::Changed { .. })), changed, "{head} {result:?}");
        assert_eq!(server.requests().len(), 1);
    };
    let range = "206 OK\r\nContent-Range: bytes 0-15/16\r\n";
    let dated = |date: &str| Version { etag: None, last_modified: Some(date.to_owned()), length: Some(16) };
    let today = "Sat, 21 Nov 2026 10:00:00 GMT";
    check(version("\"a\"", 16), &format!("{range}ETag: \"a\""), false);
    check(version("\"a\"", 16), &format!("{range}ETag: W/\"a\""), false);
    check(version("W/\"a\"", 16), &format!("{range}ETag: W/\"b\""), true);
    check(version("\"a\"", 16), &format!("{range}ETag: \"b\""), true);
    check(version("\"a\"", 17), &format!("{range}ETag: \"a\""), true);
    check(version("\"a\"", 16), range.trim_end(), false);
    check(dated(today), &format!("{range}Last-Modified: {today}"), false);
    check(dated(today), &format!("{range}Last-Modified: Sat, 21 Nov 2026 10:00:01 GMT"), true);
    // No range because the version is another one, or because the server has none.
    check(version("\"a\"", 16), "200 OK\r\nContent-Length: 16\r\nETag: \"b\"", true);
    check(version("\"a\"", 16), "200 OK\r\nContent-Length: 17\r\nETag: \"a\"", true);
    check(version("\"a\"", 16), "200 OK\r\nContent-Length: 16\r\nETag: \"a\"", false);
    check(version("\"a\"", 16), "200 OK\r\nContent-Length: 16", false);
    check(version("\"a\"", 16), "416 No\r\nContent-Range: bytes */9", true);
}

#[test]
fn validators_are_sent() {
    let today = "Sat, 21 Nov 2026 10:00:00 GMT";
    let check = |etag: Option<&str>, expected: Option<&str>| {
        let version =
            Version { etag: etag.map(str::to_owned), last_modified: Some(today.to_owned()), length: Some(16) };
        let server = serve(&[part(2, 6)]);
        network()
            .read(Wanted { version: Some(version), ..wanted(&server, Part::Range(2..6)) }, &Arc::default())
            .unwrap();
        let request = &server.requests()[0];
        assert_eq!(request.header("if-range"), expected, "{request:?}");
        assert_eq!(request.header("accept-encoding"), Some("identity"));
    };
    check(Some("\"a\""), Some("\"a\""));
    check(Some("W/\"a\""), Some(today));
    check(None, Some(today));
}

#[test]
fn what_was_not_modified_is_not_sent_again() {
    // Some servers repeat the header of the file.
    let head = "304 Not Modified\r\nContent-Length: 0\r\nContent-Encoding: gzip\r\nETag: \"a\"";
    let server = serve(&[answer(head, "")]);
    let known = version("\"a\"", 16);
    let wanted =
        Wanted { known: Some(known.clone()), version: Some(known.clone()), ..wanted(&server, Part::Suffix(4)) };
    let fetched = network().read(wanted, &Arc::default()).unwrap();
    assert_eq!((fetched.extent, fetched.version, fetched.bytes.len()), (Extent::NotModified, known, 0));
    assert_eq!(server.requests()[0].header("if-none-match"), Some("\"a\""));
}

#[test]
fn encodings_nobody_asked_for_are_undone_or_refused() {
    let encoded =
        |head: &str| answer(&format!("{head}\r\nContent-Encoding: Gzip, identity\r\nContent-Encoding: br"), FILE);
    let file = |bytes: &[u8]| {
        let server = Server::start();
        let answer = Answer::bytes(200, bytes).header("Content-Encoding", "Gzip, identity, zstd");
        server.route("/a/file", move |_| answer.clone());
        server
    };
    let twice = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(bytes).unwrap();
        zstd::encode_all(&gzip.finish().unwrap()[..], 1).unwrap()
    };
    let fetched = read(&file(&twice(FILE.as_bytes())), Part::Whole).unwrap();
    assert_eq!(fetched.bytes, FILE.as_bytes());
    let refuse = |bytes: &[u8], expected: &str| {
        let error = read(&file(bytes), Part::Whole).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refuse(FILE.as_bytes(), "not valid zstd");
    refuse(&twice(&vec![0; 10 << 20]), "found");
    for head in ["200 OK", "206 OK\r\nContent-Range: bytes 2-5/16"] {
        let server = serve(&[encoded(head)]);
        let error = read(&server, Part::Range(2..6)).unwrap_err();
        assert_eq!(
            text(&server, &error),
            "`URL`: expected bytes of the file as it is, found the file encoded as gzip, br, which has other bytes"
        );
    }
}

#[test]
fn bodies_that_break_off_are_tried_again() {
    let broken = [
        answer("200 OK\r\nContent-Length: 20", FILE),
        answer("200 OK\r\nTransfer-Encoding: chunked", "10\r\n0123456789abcdef\r\n"),
        answer("503 Busy\r\nRetry-After: 0", ""),
        answer("nonsense", ""),
        Answer::raw(""),
    ];
    for answer in broken {
        let server = serve(&[answer.clone(), answer.clone(), whole()]);
        assert_eq!(read(&server, Part::Whole).unwrap().bytes, FILE.as_bytes(), "{answer:?}");
        let server = serve(std::slice::from_ref(&answer));
        read(&server, Part::Whole).unwrap_err();
        assert_eq!(server.requests().len(), 3, "{answer:?}");
    }
    let server = serve(&[answer("200 OK\r\nContent-Length: 20", FILE)]);
    assert_eq!(text(&server, &read(&server, Part::Whole).unwrap_err()), "`URL` sent 16 bytes, expected 20");
}

#[test]
fn what_is_too_slow_has_stalled() {
    let drip = |text: &'static [u8]| Answer::endless(200, text).paced(text.len() as u64, Duration::from_millis(20));
    let check = |answer: Answer, expected: &str| {
        let server = serve(&[answer]);
        let error = read(&server, Part::Whole).unwrap_err();
        assert!(text(&server, &error).starts_with(expected), "{error}");
        assert_eq!(server.requests().len(), 3);
    };
    check(Answer::raw("").stall_after(0), "`URL` sent nothing in 0.3 s");
    check(Answer::raw("HTTP/1.1 200 OK\r\n\r\n").stall_after(0), "`URL` sent nothing in 0.3 s");
    check(drip(b"x"), "`URL` sent only ");
    check(drip(b"A: b\r\n").with_raw_head("HTTP/1.1 200 OK\r\n"), "`URL` sent nothing in");
}

#[test]
fn a_slow_body_of_which_enough_comes_is_read() {
    // 600 bytes in 100 ms are above 1 KiB in 300 ms; the whole takes longer than that.
    let server = serve(&[Answer::bytes(200, [b'x'; 6000]).paced(600, Duration::from_millis(60))]);
    assert_eq!(read(&server, Part::Whole).unwrap().bytes.len(), 6000);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_cannot_be_reached_is_told() {
    let error_of = |url: &str| {
        let wanted = Wanted { url: url.parse().unwrap(), part: Part::Whole, version: None, known: None, limit: 1 };
        let error = network().read(wanted, &Arc::default()).unwrap_err();
        carton_format::causes::in_one_line(&error)
    };
    assert_eq!(
        error_of("http://127.0.0.1:1/x"),
        "cannot connect to `http://127.0.0.1:1/x`: Connection refused (os error 111)"
    );
    // A resolver rejects a name longer than the limit without a query.
    let unknown = format!("http://{}.invalid/x", "x".repeat(64));
    let error = error_of(&unknown);
    assert!(error.starts_with(&format!("cannot find the host of `{unknown}`: failed to lookup")), "{error}");
    let silent = Server::start();
    silent.greet("");
    let error = error_of(&url(&silent).expose_str().replace("http:", "https:"));
    assert!(error.starts_with("cannot connect to `https://"), "{error}");
}

#[test]
fn redirects_take_the_request_along() {
    let last = serve(&[part(2, 6)]);
    let first = serve(&[answer(&format!("307 Elsewhere\r\nLocation: {}?signature=s", url(&last)), "…")]);
    assert_eq!(read(&first, Part::Range(2..6)).unwrap().bytes, b"2345");
    assert_eq!(last.requests()[0].header("range"), Some("bytes=2-5"));
    let circle = serve(&[answer("302 Found\r\nLocation: /b", ""), answer("302 Found\r\nLocation: /a/file", "")]);
    let error = read(&circle, Part::Whole).unwrap_err();
    assert!(error.to_string().ends_with("which led there: a circle"), "{error}");
    assert_eq!(circle.requests().len(), 2);
    let nowhere = serve(&[answer("302 Found", "")]);
    assert_eq!(text(&nowhere, &read(&nowhere, Part::Whole).unwrap_err()), "`URL` answered 302 Found");
}
