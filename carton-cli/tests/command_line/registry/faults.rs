//! Names, registries and artifacts that are wrong, and transfers that are interrupted.

use std::fs;

use carton_test_server::registry::Registry;
use carton_test_server::{Answer, File, Server};

use super::*;

#[test]
fn wrong_names_are_named() {
    let sandbox = Sandbox::new();
    pack(&sandbox, "model", b"1");
    for (arguments, code, expected) in [
        ("push model.carton model:1", 2, "expected `oci://`"),
        ("push model.carton oci://host/Model:1", 2, "`Model` is not the name of a repository"),
        ("push model oci://host/model:1 --offline", 1, ""),
        ("info oci://host/Model", 2, "`Model` is not the name of a repository"),
        ("info oci://me:secret@host/model", 2, "a user or a password"),
        ("info oci://localhost:1/model", 7, "connect to"),
        ("pull oci://localhost:1/model", 7, "`--offline` takes it from there"),
        ("pull oci://localhost:1/model -o -", 2, "cannot be written to standard output"),
        ("registry ls oci://localhost:1/model:1", 2, "all artifacts of a repository are listed"),
        ("pull oci://localhost:1/model#sha256=ab", 2, "`--expect HASH`"),
        ("registry ls oci://localhost:1/model", 7, "cannot list the tags of `oci://localhost:1/model`"),
    ] {
        let outcome = sandbox.carton(arguments);
        assert!(outcome.stderr.contains(expected) && !outcome.stderr.contains("secret"), "{arguments}: {outcome}");
        if !expected.is_empty() {
            outcome.expect_code(code);
        }
    }
}

#[test]
fn what_is_not_there_or_no_carton_is_named() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    pack(&sandbox, "model", b"1");
    sandbox.carton(&format!("push model.carton {}", registry.artifact("model:1"))).expect_code(0);
    for name in ["model:2", "other:1"] {
        let outcome = sandbox.carton(&format!("info {}", registry.artifact(name))).expect_code(7);
        assert!(outcome.stderr.contains(&format!("there is no `{}`", registry.artifact(name))), "{outcome}");
    }
    let digest = "ab".repeat(32);
    sandbox.carton(&format!("info {}@sha256:{digest}", registry.artifact("model"))).expect_code(7);
    let other = format!("hash {} --expect {digest}", registry.artifact("model:1"));
    sandbox.carton(&other).expect_code(4);
}

/// Blobs, and the digests that they are served under.
type Blobs = Vec<(String, Vec<u8>)>;

/// A registry with one artifact, whose manifest and blobs are given.
fn serving(manifest: Vec<u8>, blobs: &[(String, Vec<u8>)]) -> Server {
    let server = Server::start();
    server.route("/v2/", |_| Answer::bytes(200, "{}"));
    server.route("/v2/model/manifests/1", move |_| Answer::bytes(200, manifest.clone()));
    for (digest, bytes) in blobs {
        let file = File::new(bytes.clone());
        server.route(&format!("/v2/model/blobs/sha256:{digest}"), move |request| file.answer(request));
    }
    server
}

/// The manifest and the blobs of a carton as a registry stores them.
fn stored(sandbox: &Sandbox) -> Option<(Vec<u8>, Blobs)> {
    let registry = Registry::start("")?;
    pack(sandbox, "model", &noise(1, LARGE));
    let pushed =
        sandbox.carton(&format!("push model.carton {} --json", registry.artifact("model:1"))).expect_code(0).json();
    let bytes = fs::read(registry.blob(pushed["digest"].as_str().unwrap())).unwrap();
    let layers: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let blob = |layer: &serde_json::Value| {
        let digest = layer["digest"].as_str().unwrap()["sha256:".len()..].to_owned();
        let bytes = fs::read(registry.blob(&digest)).unwrap();
        (digest, bytes)
    };
    let blobs = layers["layers"].as_array().unwrap().iter().map(blob).collect();
    Some((bytes, blobs))
}

#[test]
fn a_registry_that_lies_is_found_out() {
    let sandbox = Sandbox::new();
    let Some((manifest, blobs)) = stored(&sandbox) else { return };
    let artifact = |server: &Server| server.url("/model:1").replace("http://", "oci://");
    let check = |manifest: &[u8], blobs: &[(String, Vec<u8>)], command: &str, code: i32, expected: &str| {
        forget(&sandbox);
        let server = serving(manifest.to_vec(), blobs);
        let outcome = sandbox.carton(&format!("{command} {}", artifact(&server)));
        assert!(outcome.stderr.contains(expected), "{expected}: {outcome}");
        outcome.expect_code(code);
    };
    check(&manifest, &blobs, "verify", 0, "");
    check(b"{", &blobs, "info", 4, "its manifest is malformed");
    check(br#"{"schemaVersion":2,"layers":[]}"#, &blobs, "info", 4, "none of which is a carton");
    check(&vec![b' '; 5 << 20], &blobs, "info", 7, "at most 4194304 bytes are accepted");
    let text = String::from_utf8(manifest.clone()).unwrap();
    // Another size than the blob has.
    let size = format!("\"size\":{}", blobs[0].1.len());
    check(text.replacen(&size, "\"size\":7", 1).as_bytes(), &blobs, "info", 7, "at most 7 bytes");
    let size = format!("\"size\":{LARGE}");
    check(text.replacen(&size, "\"size\":99999", 1).as_bytes(), &blobs, "run -i x=1", 4, "expected exactly 99999");
    // Another carton than the annotation says.
    let hash = hash(&sandbox, "model.carton");
    check(text.replacen(&hash, &"ab".repeat(32), 1).as_bytes(), &blobs, "info", 4, "manifest");
    // Other bytes than the digest says.
    for at in 0..blobs.len() {
        let mut wrong = blobs.clone();
        let middle = wrong[at].1.len() / 2;
        wrong[at].1[middle] ^= 1;
        check(&manifest, &wrong, "run -i x=1", 4, "mismatch");
        wrong.remove(at);
        check(&manifest, &wrong, "run -i x=1", 7, "404");
    }
}

#[test]
fn a_manifest_with_another_digest_is_refused() {
    let sandbox = Sandbox::new();
    let Some((manifest, blobs)) = stored(&sandbox) else { return };
    let digest = "ab".repeat(32);
    let server = serving(manifest.clone(), &blobs);
    server.route(&format!("/v2/model/manifests/sha256:{digest}"), move |_| Answer::bytes(200, manifest.clone()));
    let artifact = server.url(&format!("/model@sha256:{digest}")).replace("http://", "oci://");
    let outcome = sandbox.carton(&format!("info {artifact}")).expect_code(4);
    assert!(outcome.stderr.contains("has the SHA-256"), "{outcome}");
}

#[test]
fn a_broken_download_goes_on_where_it_was() {
    let sandbox = Sandbox::new();
    let Some((manifest, blobs)) = stored(&sandbox) else { return };
    forget(&sandbox);
    let server = serving(manifest, &blobs);
    let file = File::new(blobs[1].1.clone());
    server.route(&format!("/v2/model/blobs/sha256:{}", blobs[1].0), move |request| {
        let answer = file.answer(request);
        if request.number == 0 { answer.cut_after(LARGE as u64 / 2) } else { answer }
    });
    let artifact = server.url("/model:1").replace("http://", "oci://");
    sandbox.carton(&format!("verify {artifact}")).expect_code(0);
    let of_blob = |exchange: &&carton_test_server::Exchange| exchange.request.target.contains(&blobs[1].0);
    let sent: u64 = server.exchanges().iter().filter(of_blob).map(|exchange| exchange.written).sum();
    assert!(sent < LARGE as u64 + 10_000, "{sent} bytes were sent of a file of {LARGE}");
}

#[test]
fn a_registry_gets_nobody_elses_login() {
    let sandbox = Sandbox::new();
    pack(&sandbox, "model", &noise(1, LARGE));
    let victim = Server::start();
    victim.route("/stolen", |_| Answer::bytes(201, ""));
    let elsewhere = victim.url("/stolen").replace("127.0.0.1", "localhost");
    let server = Server::start();
    server.route("/v2/", |_| Answer::bytes(200, "{}"));
    let place = elsewhere.clone();
    server.route("/v2/model/blobs/uploads/", move |_| Answer::bytes(202, "").header("Location", place.clone()));
    let next = elsewhere.clone();
    server.route("/v2/model/tags/list", move |_| {
        Answer::bytes(200, "{\"tags\":[]}").header("Link", format!("<{next}>; rel=\"next\""))
    });
    let config = sandbox.write("config.toml", "[[credentials]]\nhost = \"localhost\"\ntoken = \"secret-token\"\n");
    let artifact = server.url("/model:1").replace("http://", "oci://");
    let run = |arguments: &[&str]| sandbox.run(arguments.iter().copied().chain(["--config", config.to_str().unwrap()]));
    run(&["push", "model.carton", &artifact]).expect_code(7);
    let repository = artifact.strip_suffix(":1").unwrap();
    let listed = run(&["registry", "ls", repository]).expect_code(7);
    assert!(listed.stderr.contains("the next page at the same server"), "{listed}");
    assert!(!victim.requests().is_empty(), "uploads may be elsewhere");
    for request in victim.requests() {
        assert_eq!(request.header("authorization"), None, "{request:?}");
    }
    // A server of tokens on another host gets no password without encryption.
    let realm = format!("Bearer realm=\"{}\"", "http://192.0.2.1/token");
    server.route("/v2/model/manifests/1", move |_| Answer::bytes(401, "").header("WWW-Authenticate", realm.clone()));
    let refused = run(&["info", &artifact]).expect_code(7);
    assert!(refused.stderr.contains("a realm on another host without encryption"), "{refused}");
}

#[test]
fn a_name_with_a_digest_is_not_pushed_to() {
    let sandbox = Sandbox::new();
    pack(&sandbox, "model", b"1");
    let artifact = format!("oci://localhost:1/model@sha256:{}", "ab".repeat(32));
    let outcome = sandbox.run(["push", "model.carton", &artifact]).expect_code(1);
    assert!(outcome.stderr.contains("has a digest"), "{outcome}");
}

#[test]
fn a_manifest_that_comes_byte_by_byte_is_given_up() {
    let sandbox = Sandbox::new();
    let server = Server::start();
    server.route("/v2/", |_| Answer::bytes(200, "{}"));
    server.route("/v2/model/manifests/1", |_| {
        Answer::bytes(200, vec![b' '; 100_000]).paced(1, std::time::Duration::from_millis(50))
    });
    sandbox.write("config.toml", "[network]\nidle_timeout = 0.3\nmax_retries = 0\n");
    let artifact = server.url("/model:1").replace("http://", "oci://");
    let outcome = sandbox.run(["info", &artifact, "--config", "config.toml"]).expect_code(7);
    assert!(outcome.stderr.contains("sent only") && outcome.stderr.contains("bytes in 0.3 s"), "{outcome}");
}

#[test]
fn a_tag_that_is_refused_does_not_hide_the_others() {
    let sandbox = Sandbox::new();
    let Some((manifest, _)) = stored(&sandbox) else { return };
    let server = serving(manifest, &[]);
    server.route("/v2/model/tags/list", |_| Answer::bytes(200, "{\"tags\":[\"1\",\"2\",\"3\"]}"));
    server.route("/v2/model/manifests/2", |_| {
        Answer::bytes(403, "{\"errors\":[{\"code\":\"DENIED\",\"message\":\"quarantined\"}]}")
    });
    let repository = server.url("/model").replace("http://", "oci://");
    let listed = sandbox.run(["registry", "ls", &repository, "--json"]).expect_code(0);
    assert!(listed.stderr.contains("quarantined"), "{listed}");
    let is_known: Vec<bool> =
        listed.json().as_array().unwrap().iter().map(|listed| !listed["digest"].is_null()).collect();
    assert_eq!(is_known, [true, false, false]);
    let text = sandbox.run(["registry", "ls", &repository]).expect_code(0);
    assert_eq!(text.stdout.matches("not readable").count(), 2, "{text}");
    // A registry that wants another login refuses the whole list.
    server.route("/v2/model/manifests/2", |_| Answer::bytes(401, ""));
    sandbox.run(["registry", "ls", &repository]).expect_code(7);
}

#[test]
fn a_manifest_that_is_said_to_be_too_large_is_not_waited_for() {
    let sandbox = Sandbox::new();
    let server = Server::start();
    server.route("/v2/", |_| Answer::bytes(200, "{}"));
    server.route("/v2/model/manifests/1", |_| Answer::bytes(200, vec![b' '; 100]).claiming(1 << 40).stall_after(100));
    let artifact = server.url("/model:1").replace("http://", "oci://");
    let begin = std::time::Instant::now();
    let outcome = sandbox.run(["info", &artifact]).expect_code(7);
    assert!(outcome.stderr.contains("at most 4194304 bytes are accepted"), "{outcome}");
    // The idle timeout alone is 30 s.
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
    assert_eq!(server.exchanges_for("/v2/model/manifests/1").len(), 1);
    // The reasons of a refusal may be long: the status counts.
    server.route("/v2/model/manifests/1", |_| Answer::bytes(403, vec![b' '; 5 << 20]));
    let refused = sandbox.run(["info", &artifact]).expect_code(7);
    assert!(refused.stderr.contains("403"), "{refused}");
}
