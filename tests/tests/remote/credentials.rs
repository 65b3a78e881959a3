//! Credentials are sent to the servers that they are for, and to no others.

use std::fs;

use carton_core::{Carton, ErrorKind};
use carton_test_server::{Answer, Content, File, Request, Server};
use carton_tests::weights;

use crate::setting::{Setting, chain};

/// The value of the header for `me:hunter2`.
const BASIC: &str = "Basic bWU6aHVudGVyMg==";

fn guarded(file: File) -> impl Fn(&Request) -> Answer + Send + Sync {
    move |request| match request.header("authorization") {
        Some(BASIC) => file.answer(request),
        _ => Answer::status(401).header("WWW-Authenticate", "Basic realm=\"models\""),
    }
}

async fn setting() -> (Setting, File) {
    let setting = Setting::new();
    let packed = setting.pack("model", &[("weights.bin", &weights::bytes(2 << 20, 1))]).await;
    let file = File::new(Content::open(&packed.path));
    (setting, file)
}

#[tokio::test]
async fn a_password_in_a_url_opens_and_is_never_shown() {
    let (setting, file) = setting().await;
    setting.server.route("/model.carton", guarded(file));
    let authority = setting.server.authority();
    let text =
        setting.must_fail(&format!("http://me:wrong@{authority}/model.carton?key=s3cret"), ErrorKind::Network).await;
    assert!(text.contains("401") && text.contains("/model.carton"), "{text}");
    assert!(!text.contains("wrong") && !text.contains("s3cret"), "{text}");

    setting.must_load(&format!("http://me:hunter2@{authority}/model.carton?key=s3cret")).await;
    for path in setting.cache_files().keys() {
        assert!(!path.to_string_lossy().contains("hunter2"), "{}", path.display());
        let bytes = fs::read(path).unwrap();
        for secret in ["hunter2", "s3cret", "bWU6aHVudGVyMg"] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} is in {}", path.display());
        }
    }
}

#[tokio::test]
async fn a_location_shows_no_secret() {
    let location = carton_core::Location::from("https://me:hunter2@host/model.carton?key=s3cret#sha256=12");
    for text in [location.to_string(), format!("{location:?}")] {
        assert!(!text.contains("hunter2") && !text.contains("s3cret"), "{text}");
    }
    let error = Carton::open("https://me:hunter2@host:99999/model?key=s3cret").await.unwrap_err();
    let text = chain(&error);
    assert!(!text.contains("hunter2") && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn a_redirect_to_another_host_gets_no_password() {
    let (setting, file) = setting().await;
    let other = Server::start();
    other.serve("/model.carton", file.clone());
    // By its name, another host than 127.0.0.1.
    let port = other.authority().split(':').next_back().unwrap().to_owned();
    let target = format!("http://localhost:{port}/model.carton");
    setting.server.route("/model.carton", move |_| Answer::redirect(302, target.as_str()));
    // `localhost` may be ::1, where no server listens: then nothing reaches the other server either.
    let _ = setting.load(&format!("http://me:hunter2@{}/model.carton", setting.server.authority())).await;
    assert!(setting.server.exchanges().iter().all(|exchange| exchange.request.header("authorization") == Some(BASIC)));
    for exchange in other.exchanges() {
        assert_eq!(exchange.request.header("authorization"), None);
    }

    // The same name with another port is another server too.
    let target = other.url("/model.carton");
    setting.server.route("/model.carton", move |_| Answer::redirect(302, target.as_str()));
    setting.must_load(&format!("http://me:hunter2@{}/model.carton", setting.server.authority())).await;
    assert!(!other.exchanges().is_empty());
    for exchange in other.exchanges() {
        assert_eq!(exchange.request.header("authorization"), None);
    }
}

#[tokio::test]
async fn credentials_of_a_carton_do_not_go_to_its_links() {
    let (setting, _) = setting().await;
    let other = Server::start();
    let weights = weights::bytes(2 << 20, 1);
    other.serve("/weights", File::new(weights.clone()));
    let carton = setting.place.path().join("model.carton");
    let linked = crate::links::link(&carton, "model/weights.bin", &weights, &[other.url("/weights")]);
    setting.server.route("/model.carton", guarded(File::new(Content::open(&linked))));
    setting.must_load(&format!("http://me:hunter2@{}/model.carton", setting.server.authority())).await;
    assert!(!other.exchanges().is_empty());
    for exchange in other.exchanges() {
        assert_eq!(exchange.request.header("authorization"), None);
    }
}
