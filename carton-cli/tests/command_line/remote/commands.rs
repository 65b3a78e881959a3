//! Every command that takes a path takes a URL, too.

use std::fs;

use carton_test_server::nginx::Nginx;
use carton_tests::weights;

use super::{cache, hash_of, publish};
use crate::sandbox::{Sandbox, names};

fn published(nginx: &Nginx) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", weights::bytes(2 << 20, 1));
    sandbox.write("model/vocabulary.txt", "one two three");
    let url = publish(&sandbox, nginx, &sandbox.work().join("model"), "model.carton");
    (sandbox, url)
}

#[test]
fn a_url_does_what_a_path_does() {
    let Some(nginx) = Nginx::start("") else { return };
    let (sandbox, url) = published(&nginx);
    let path = nginx.root().join("model.carton");
    for command in ["info", "ls", "hash", "verify", "run"] {
        let mut local = sandbox.run([command, path.to_str().unwrap(), "--json"]).expect_code(0).json();
        let mut remote = sandbox.run([command, &url, "--json"]).expect_code(0).json();
        // It names the place where a signature was looked for. `info` asks a server only if somebody is trusted.
        for answer in [&mut local, &mut remote] {
            answer.as_object_mut().unwrap().remove("signing");
        }
        if command == "run" {
            assert_eq!(local["outputs"], remote["outputs"]);
        } else {
            assert_eq!(local, remote, "{command}");
        }
    }
    sandbox.run(["unpack", &url, "-o", "unpacked"]).expect_code(0);
    let unpacked = sandbox.work().join("unpacked/model");
    assert_eq!(names(&unpacked), names(&sandbox.work().join("model")));
    assert_eq!(fs::read(unpacked.join("weights.bin")).unwrap(), weights::bytes(2 << 20, 1));
}

#[test]
fn the_network_can_be_forbidden() {
    let Some(mut nginx) = Nginx::start("") else { return };
    let (sandbox, url) = published(&nginx);
    sandbox.write("config.toml", "offline = true\n");
    let forbidden: [&[&str]; 2] = [&["--offline"], &["--config", "config.toml"]];
    for arguments in forbidden {
        for command in ["info", "run", "verify"] {
            let error = sandbox.run([command, &url, "--json"].iter().chain(arguments)).expect_code(7).json();
            assert_eq!(error["error"]["kind"], "network", "{error}");
        }
    }
    assert_eq!(nginx.requests(), []);

    let hash = hash_of(&sandbox, &nginx, "model.carton");
    let pinned = format!("{url}#sha256={hash}");
    sandbox.run(["run", &url]).expect_code(0);
    nginx.stop();
    for arguments in forbidden {
        for command in ["info", "run", "verify"] {
            sandbox.run([command, &url].iter().chain(arguments)).expect_code(0);
        }
    }
    // A pinned carton in the cache needs no server.
    sandbox.run(["run", &pinned]).expect_code(0);
    sandbox.run(["run", &url, "--expect", &hash]).expect_code(0);
    sandbox.run(["run", &url]).expect_code(7);
    let another = format!("{url}#sha256={}", "ab".repeat(32));
    sandbox.run(["run", &another]).expect_code(7);
}

#[test]
fn failures_of_the_network_have_a_code() {
    let Some(nginx) = Nginx::start("location /gone { return 410; } location /page { return 200 'hello'; }") else {
        return;
    };
    let sandbox = Sandbox::new();
    let check = |path: &str, code: i32, expected: &str| {
        let outcome = sandbox.run(["info", &nginx.url(path)]).expect_code(code);
        assert!(outcome.stderr.contains(expected), "{outcome}");
        assert!(outcome.stderr.contains(&nginx.url(path)), "{outcome}");
        assert_eq!(outcome.stdout, "");
    };
    check("nothing.carton", 7, "404");
    check("gone", 7, "410");
    check("page", 4, "");
    nginx.write("text.carton", "this is no carton, but longer than one might think ".repeat(10_000));
    check("text.carton", 4, "");
    assert!(cache(&sandbox).exists());

    let url = nginx.url("nothing.carton");
    drop(nginx);
    let outcome = sandbox.run(["info", &url, "--config", "impatient.toml"]).expect_code(1);
    assert!(outcome.stderr.contains("impatient.toml"), "{outcome}");
    sandbox.write("impatient.toml", "max_retries = 0\n");
    sandbox.run(["info", &url, "--config", "impatient.toml"]).expect_code(7);
}
