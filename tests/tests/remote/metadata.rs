//! Opening a remote carton: the number of bytes fetched, and the metadata.

use std::fs;

use carton_core::ErrorKind;
use carton_test_server::nginx::Nginx;
use carton_test_server::{Answer, Content, File};
use carton_tests::weights;

use crate::setting::{Setting, chain};

#[tokio::test]
async fn one_request_shows_a_carton() {
    let Some(nginx) = Nginx::start("") else { return };
    let setting = Setting::new();
    let packed = setting.pack("large", &[("weights.bin", &weights::bytes(20 << 20, 1))]).await;
    fs::copy(&packed.path, nginx.root().join("large.carton")).unwrap();

    let url = nginx.url("large.carton");
    let info = setting.info(&url).await.unwrap();
    let local = setting.info(&packed.path).await.unwrap();
    assert_eq!(info, local);
    let requests = nginx.requests();
    let asked: Vec<_> = requests.iter().map(|request| (request.method.as_str(), request.range.as_str())).collect();
    assert_eq!(asked, [("GET", "bytes=-65536")]);

    // A carton smaller than that is fetched as a whole.
    let packed = setting.pack("small", &[("weights.bin", b"w")]).await;
    fs::copy(&packed.path, nginx.root().join("small.carton")).unwrap();
    nginx.forget_requests();
    setting.must_load(&nginx.url("small.carton")).await;
    assert_eq!(nginx.requests().len(), 1, "{:#?}", nginx.requests());
}

#[tokio::test]
async fn more_is_asked_for_only_when_metadata_is_larger() {
    let Some(nginx) = Nginx::start("") else { return };
    let setting = Setting::new();
    let names: Vec<String> = (0..3000).map(|n| format!("a-rather-long-name-of-a-file-{n:05}.bin")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), name.as_bytes())).collect();
    let packed = setting.pack("many", &files).await;
    fs::copy(&packed.path, nginx.root().join("many.carton")).unwrap();
    let length = fs::metadata(&packed.path).unwrap().len();

    let info = setting.info(nginx.url("many.carton")).await.unwrap();
    assert!(info.files.len() > 3000);
    let requests = nginx.requests();
    let bytes: u64 = requests.iter().map(|request| request.body_bytes).sum();
    assert!(requests.len() <= 4, "{requests:#?}");
    assert!(bytes < length, "{bytes} of {length} bytes");

    // Three thousand small files do not cost three thousand requests.
    nginx.forget_requests();
    setting.must_load(&nginx.url("many.carton")).await;
    let requests = nginx.requests();
    assert!(requests.len() <= 12, "{} requests", requests.len());
    assert_eq!(setting.n_cached(&files), 3000);
}

#[tokio::test]
async fn ranges_from_the_end_need_not_be_understood() {
    let setting = Setting::new();
    let files: [(&str, &[u8]); 1] = [("weights.bin", &weights::bytes(3 << 20, 1))];
    let packed = setting.pack("model", &files).await;
    for status in [416, 400, 501, 200] {
        let file = File::new(Content::open(&packed.path));
        let path = format!("/{status}");
        setting.server.route(&path, move |request| match (request.is_suffix(), status) {
            (true, 200) => File { suffix_ranges: false, ..file.clone() }.answer(request),
            (true, _) => Answer::status(status),
            (false, _) => file.answer(request),
        });
        let info = setting.info(setting.server.url(&path)).await;
        let info = info.unwrap_or_else(|error| panic!("{status}: {}", chain(&error)));
        assert_eq!(info.manifest_sha256, Some(packed.manifest_sha256));
        assert!(setting.server.exchanges_for(&path).len() <= 4);
    }
}

#[tokio::test]
async fn what_is_no_carton_is_told_apart_from_what_cannot_be_had() {
    let setting = Setting::new();
    let check = async |file: Vec<u8>, kind: ErrorKind| {
        setting.server.serve("/file", File::new(file));
        let error = setting.info(setting.server.url("/file")).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{}", chain(&error));
        let text = chain(&error);
        assert!(text.contains(&setting.server.url("/file")), "{text}");
    };
    check(Vec::new(), ErrorKind::Integrity).await;
    check(b"<html>Not here</html>".to_vec(), ErrorKind::Integrity).await;
    check(weights::bytes(1 << 20, 1), ErrorKind::Integrity).await;

    let check = async |answer: Answer, expected: &str| {
        setting.server.route("/file", move |_| answer.clone());
        let url = setting.server.url("/file");
        let error = setting.info(&url).await.unwrap_err();
        let text = chain(&error);
        assert_eq!(error.kind(), ErrorKind::Network, "{text}");
        assert!(text.contains(expected) && text.contains(&url), "{text}");
    };
    check(Answer::status(404), "404").await;
    check(Answer::status(403), "403").await;
    check(Answer::status(410), "410").await;
    check(Answer::status(500), "500").await;
    check(Answer::raw("SSH-2.0-OpenSSH_9.2\r\n"), "").await;
    check(Answer::raw(format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(4 << 20))), "").await;
    check(Answer::redirect(302, "/file"), "circle").await;
    let error = setting.info("http://127.0.0.1:9/file").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network, "{}", chain(&error));
}

#[tokio::test]
async fn a_file_url_is_a_path() {
    let setting = Setting::new();
    let packed = setting.pack("a model", &[("weights.bin", b"w")]).await;
    for prefix in ["file://", "file://localhost"] {
        let url = format!("{prefix}{}", packed.path.display().to_string().replace(' ', "%20"));
        setting.must_load(&url).await;
        setting.must_load(&format!("{url}#sha256={}", packed.manifest_sha256)).await;
    }
}

#[tokio::test]
async fn offline_is_what_the_cache_has() {
    let setting = Setting::new();
    let packed = setting.pack("model", &[("weights.bin", &weights::bytes(1 << 20, 1))]).await;
    let url = setting.serve("/model.carton", &packed.path);

    let error = setting.loading_offline(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network, "{}", chain(&error));
    assert!(error.hint().is_some() || chain(&error).contains("network"), "{}", chain(&error));
    assert!(setting.server.exchanges().is_empty());

    setting.must_load(&url).await;
    setting.server.forget();
    for url in [&url, &format!("{url}#sha256={}", packed.manifest_sha256)] {
        crate::setting::run(setting.loading_offline(url)).await.unwrap();
    }
    assert!(setting.server.exchanges().is_empty());

    // Opening a carton does not fetch its files, so they are missing later.
    let packed = setting.pack("other", &[("weights.bin", &weights::bytes(1 << 20, 2))]).await;
    let url = setting.serve("/other.carton", &packed.path);
    setting.info(&url).await.unwrap();
    let error = setting.loading_offline(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network, "{}", chain(&error));
}

#[tokio::test]
async fn a_pinned_carton_needs_no_server() {
    let mut setting = Setting::new();
    let packed = setting.pack("model", &[("weights.bin", &weights::bytes(1 << 20, 1))]).await;
    let url = setting.serve("/model.carton", &packed.path);
    let pinned = format!("{url}#sha256={}", packed.manifest_sha256);
    let other = format!("{url}#sha256={}", "ab".repeat(32));

    setting.must_fail(&other, ErrorKind::Integrity).await;
    setting.must_load(&pinned).await;
    setting.server.forget();
    setting.must_load(&pinned).await;
    assert!(setting.server.exchanges().is_empty(), "a pinned carton was asked for again");
    setting.must_fail(&other, ErrorKind::Integrity).await;

    setting.server.stop();
    setting.must_load(&pinned).await;
    setting.must_fail(&url, ErrorKind::Network).await;
    setting.must_fail(&other, ErrorKind::Network).await;
}

#[tokio::test]
async fn a_carton_that_changed_is_fetched_anew() {
    let setting = Setting::new();
    let first = setting.pack("first", &[("weights.bin", &weights::bytes(1 << 20, 1))]).await;
    let second = setting.pack("second", &[("weights.bin", &weights::bytes(1 << 20, 2))]).await;
    let url = setting.serve("/model.carton", &first.path);
    let hash = async || setting.info(&url).await.unwrap().manifest_sha256.unwrap();
    setting.must_load(&url).await;
    assert_eq!(hash().await, first.manifest_sha256);
    setting.serve("/model.carton", &second.path);
    assert_eq!(hash().await, second.manifest_sha256);
    setting.must_load(&url).await;
    // The first version is still available by its hash.
    setting.server.forget();
    setting.must_load(&format!("{url}#sha256={}", first.manifest_sha256)).await;
    assert!(setting.server.exchanges().is_empty());
}
