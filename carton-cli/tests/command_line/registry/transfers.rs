//! The blobs that a registry stores, and the bytes that pushing and pulling transfer.

use std::fs;

use carton_test_server::registry::Registry;
use insta::assert_snapshot;

use super::*;
use crate::sandbox::outcome;

#[test]
fn a_carton_comes_back_as_it_was() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    let hash = pack(&sandbox, "model", &noise(1, LARGE));
    let artifact = registry.artifact("team/model:1.0");
    let pushed = sandbox.carton(&format!("push model.carton {artifact} --json")).expect_code(0).json();
    assert_eq!((&pushed["manifest_sha256"], &pushed["blobs"]), (&hash.as_str().into(), &2.into()));
    assert!(
        pushed["sent"].as_u64().unwrap() > LARGE as u64 && pushed["mounted"] == 0 && pushed["present"] == 0,
        "{pushed}"
    );
    forget(&sandbox);
    assert_eq!(super::hash(&sandbox, &artifact), hash);
    sandbox.carton(&format!("verify {artifact}")).expect_code(0);
    sandbox.carton(&format!("run {artifact} -i x=1")).expect_code(0);
    sandbox.carton(&format!("pull {artifact} -o back.carton")).expect_code(0);
    assert_eq!(super::hash(&sandbox, "back.carton"), hash);
    sandbox.carton("verify back.carton").expect_code(0);
    sandbox.carton("unpack back.carton -o back").expect_code(0);
    assert_eq!(fs::read(sandbox.work().join("back/model/weights.bin")).unwrap(), noise(1, LARGE));
    // By digest, the tag does not matter.
    let by_digest = pushed["artifact"].as_str().unwrap();
    sandbox.carton(&format!("verify {by_digest}")).expect_code(0);
    assert_eq!(fs::read_dir(sandbox.temporary()).unwrap().count(), 0, "temporary files are left");
}

#[test]
fn large_files_are_blobs_under_the_digests_of_the_manifest() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    pack(&sandbox, "model", &noise(1, LARGE));
    let pushed =
        sandbox.carton(&format!("push model.carton {} --json", registry.artifact("model"))).expect_code(0).json();
    let manifest = manifest(&registry, pushed["digest"].as_str().unwrap());
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 2);
    assert_eq!(layers[1]["annotations"]["org.cncf.model.filepath"], "model/weights.bin");
    let files = sandbox.carton("ls model.carton --json").expect_code(0).json();
    let weights = files["files"].as_array().unwrap().iter().find(|file| file["path"] == "model/weights.bin").unwrap();
    let digest = weights["sha256"].as_str().unwrap();
    assert_eq!(layers[1]["digest"], format!("sha256:{digest}"));
    assert_eq!(fs::read(registry.blob(digest)).unwrap(), noise(1, LARGE));
}

#[test]
fn looking_at_a_carton_costs_its_manifest_and_one_blob() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    pack(&sandbox, "model", &noise(1, 3_000_000));
    let artifact = registry.artifact("model:1");
    sandbox.carton(&format!("push model.carton {artifact}")).expect_code(0);
    forget(&sandbox);
    let asked = |command: &str| {
        registry.forget_requests();
        sandbox.carton(&format!("{command} {artifact}")).expect_code(0);
        // A registry on this machine is asked whether it wants encryption.
        registry.requests().into_iter().filter(|request| request.target != "/v2/").collect::<Vec<_>>()
    };
    let first = asked("info");
    assert_eq!(first.len(), 2, "{first:?}");
    assert_eq!(first[0].target, "/v2/model/manifests/1");
    assert!(first[1].body_bytes < 10_000, "{first:?}");
    assert_eq!(asked("info").len(), 1, "the blob is in the cache");
    let run = asked("verify");
    let fetched: u64 = run.iter().map(|request| request.body_bytes).sum();
    assert!((3_000_000..3_010_000).contains(&fetched), "{run:?}");
    assert_eq!(asked("ls").len(), 1);
    // Whether there is a signature costs two more, because this registry does not keep track of what refers to what.
    assert_eq!(asked("verify").len(), 3);
}

#[test]
fn what_is_there_is_not_sent_again() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    let base = noise(1, LARGE);
    pack(&sandbox, "one", &base);
    pack(&sandbox, "two", &base);
    let push = |model: &str, name: &str| {
        sandbox.carton(&format!("push {model}.carton {} --json", registry.artifact(name))).expect_code(0).json()
    };
    push("one", "base");
    // The same file in the same repository.
    let second = push("two", "base:two");
    assert_eq!(second["present"], LARGE);
    assert!(second["sent"].as_u64().unwrap() < 5000, "{second}");
    // In another repository the registry takes it over.
    let other = push("two", "fine/tuned");
    assert_eq!(other["mounted"], LARGE);
    assert!(other["sent"].as_u64().unwrap() < 5000, "{other}");
    // The same carton once more changes and sends nothing.
    registry.forget_requests();
    let again = push("two", "fine/tuned");
    assert_eq!((&again["sent"], &again["artifact"]), (&0.into(), &other["artifact"]));
    assert!(
        with_method(&registry.requests(), "PATCH").is_empty() && with_method(&registry.requests(), "POST").is_empty()
    );
    // A machine that does not know where blobs are can be told.
    forget(&sandbox);
    let told = format!("push two.carton {} --mount-from base --json", registry.artifact("third"));
    assert_eq!(sandbox.carton(&told).expect_code(0).json()["mounted"], LARGE);
    // A wrong repository costs nothing but the blob.
    forget(&sandbox);
    let wrong = format!("push two.carton {} --mount-from nowhere --json", registry.artifact("fourth"));
    assert!(sandbox.carton(&wrong).expect_code(0).json()["sent"].as_u64().unwrap() > LARGE as u64);
    let invalid = format!("push two.carton {} --mount-from Base:1", registry.artifact("fifth"));
    let refused = sandbox.carton(&invalid).expect_code(1);
    assert!(refused.stderr.contains("`Base:1` is not a repository of a registry"), "{refused}");
}

#[test]
fn what_was_opened_by_tag_is_there_by_digest() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    pack(&sandbox, "model", &noise(1, LARGE));
    let tagged = registry.artifact("team/model:1");
    let pushed = sandbox.run(["push", "model.carton", &tagged, "--json"]).expect_code(0).json();
    let by_digest = pushed["artifact"].as_str().unwrap();
    forget(&sandbox);
    sandbox.run(["--offline", "verify", by_digest]).expect_code(7);
    sandbox.run(["verify", &tagged]).expect_code(0);
    sandbox.run(["--offline", "verify", by_digest]).expect_code(0);
    // The tag under which clients keep the signatures of an artifact is no name for a carton.
    let kept = by_digest.rsplit_once("sha256:").unwrap().1;
    let refused = sandbox.run(["tag", &tagged, &format!("sha256-{kept}")]).expect_code(2);
    assert!(refused.stderr.contains("not the name of a list of referrers"), "{refused}");
}

#[test]
fn two_artifacts_of_one_carton_are_both_known() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    let hash = pack(&sandbox, "model", &noise(1, LARGE));
    let places = [registry.artifact("model:large-apart"), registry.artifact("model:all-in-one")];
    for (place, min_size) in places.iter().zip(["1", "1GiB"]) {
        sandbox.run(["push", "model.carton", place, "--min-size", min_size]).expect_code(0);
    }
    forget(&sandbox);
    for place in &places {
        sandbox.run(["verify", place]).expect_code(0);
    }
    drop(registry);
    for place in &places {
        sandbox.run(["--offline", "verify", place, "--expect", &hash]).expect_code(0);
        sandbox.run(["--offline", "verify", place]).expect_code(0);
    }
}

#[test]
fn twenty_fine_tunes_store_and_transfer_their_base_once() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    let base = noise(1, 2_000_000);
    let mut sent = 0;
    for number in 0..20 {
        let name = format!("tune{number}");
        pack(&sandbox, &name, &base);
        let artifact = registry.artifact(&format!("team/{name}:1"));
        sent += sandbox.carton(&format!("push {name}.carton {artifact} --json")).expect_code(0).json()["sent"]
            .as_u64()
            .unwrap();
    }
    assert!((2_000_000..2_100_000).contains(&sent), "{sent}");
    forget(&sandbox);
    registry.forget_requests();
    for number in 0..20 {
        sandbox.carton(&format!("verify {}", registry.artifact(&format!("team/tune{number}:1")))).expect_code(0);
    }
    let received: u64 = registry.requests().iter().map(|request| request.body_bytes).sum();
    assert!((2_000_000..2_200_000).contains(&received), "{received}");
}

#[test]
fn tags_are_set_and_listed() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    let (one, two) = (pack(&sandbox, "one", b"1"), pack(&sandbox, "two", b"2"));
    sandbox.carton(&format!("push one.carton {}", registry.artifact("model:1"))).expect_code(0);
    sandbox.carton(&format!("push two.carton {}", registry.artifact("model:2"))).expect_code(0);
    sandbox.carton(&format!("tag {} stable", registry.artifact("model:1"))).expect_code(0);
    let listed = || {
        let listed =
            sandbox.carton(&format!("registry ls {} --json", registry.artifact("model"))).expect_code(0).json();
        let pair = |entry: &serde_json::Value| {
            (entry["tag"].as_str().unwrap().to_owned(), entry["manifest_sha256"].as_str().unwrap().to_owned())
        };
        listed.as_array().unwrap().iter().map(pair).collect::<Vec<_>>()
    };
    let entry = |tag: &str, hash: &String| (tag.to_owned(), hash.clone());
    assert_eq!(listed(), [entry("1", &one), entry("2", &two), entry("stable", &one)]);
    assert_eq!(super::hash(&sandbox, &registry.artifact("model:stable")), one);
    sandbox.carton(&format!("tag {} stable", registry.artifact("model:2"))).expect_code(0);
    assert_eq!(super::hash(&sandbox, &registry.artifact("model:stable")), two, "the cache does not keep an old tag");
    sandbox.carton(&format!("tag {} -x", registry.artifact("model:2"))).expect_code(2);
    let text = sandbox.carton(&format!("registry ls {}", registry.artifact("model"))).expect_code(0).stdout;
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn a_known_carton_needs_no_registry() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    let hash = pack(&sandbox, "model", &noise(1, LARGE));
    let artifact = registry.artifact("model:1");
    let pushed = sandbox.carton(&format!("push model.carton {artifact} --json")).expect_code(0).json();
    let by_digest = pushed["artifact"].as_str().unwrap().to_owned();
    for place in [&artifact, &by_digest] {
        sandbox.carton(&format!("verify {place}")).expect_code(0);
    }
    // Without a cache, the files have nowhere to go.
    let mut pull = sandbox.command(["pull", &artifact, "-o", "pulled.carton"]);
    let refused = outcome(pull.env("CARTON_CACHE_DIR", "/proc/cache")).expect_code(1);
    assert!(refused.stderr.contains("there is no cache") && refused.stderr.contains("CARTON_CACHE_DIR"), "{refused}");
    let pinned = by_digest.clone();
    drop(registry);
    for place in [format!("{artifact} --offline"), by_digest, format!("{artifact} --expect {hash}")] {
        sandbox.carton(&format!("run {place} -i x=1")).expect_code(0);
    }
    sandbox.carton(&format!("verify {artifact}")).expect_code(7);
    // No rule requires a signature, so a registry that cannot be asked for one is no error.
    let unasked = sandbox.carton(&format!("verify {pinned}")).expect_code(0);
    assert!(unasked.stderr.contains("whether the carton is signed is unknown"), "{unasked}");
    let other = "ab".repeat(32);
    sandbox.carton(&format!("hash {artifact} --offline --expect {other}")).expect_code(7);
}

#[test]
fn files_that_a_carton_links_to_stay_links() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    let hash = pack(&sandbox, "model", &noise(1, LARGE));
    sandbox.carton("shrink model.carton --url-prefix https://example.com/files -o small.carton").expect_code(0);
    let artifact = registry.artifact("model:small");
    let pushed = sandbox.carton(&format!("push small.carton {artifact} --json")).expect_code(0).json();
    assert_eq!(pushed["blobs"], 1);
    sandbox.carton(&format!("pull {artifact} -o back.carton")).expect_code(0);
    assert_eq!(super::hash(&sandbox, "back.carton"), hash);
    let files = sandbox.carton("ls back.carton --json").expect_code(0).json();
    let weights = files["files"].as_array().unwrap().iter().find(|file| file["path"] == "model/weights.bin").unwrap();
    assert_eq!(weights["linked"], true);
}

#[test]
fn the_output_is_for_people() {
    let (sandbox, Some(registry)) = (Sandbox::new(), Registry::start("")) else { return };
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"127\.0\.0\.1:\d+", "[REGISTRY]");
    settings.add_filter(r"\d+(\.\d+)? (KiB|kB|B)\b", "[SIZE]");
    let _filters = settings.bind_to_scope();
    pack(&sandbox, "model", &noise(1, LARGE));
    let (artifact, repository) = (registry.artifact("model:1"), registry.artifact("model"));
    assert_snapshot!(sandbox.carton(&format!("push model.carton {artifact}")), @"
    exit code: 0
    ----- stdout -----
    2 blobs: [SIZE] sent
    pushed oci://[REGISTRY]/model@sha256:[HASH]
    manifest sha256:[HASH]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton(&format!("pull {artifact} -o back.carton")), @"
    exit code: 0
    ----- stdout -----
    pulled back.carton ([SIZE])
    manifest sha256:[HASH]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton(&format!("registry ls {repository}")), @"
    exit code: 0
    ----- stdout -----
    1  [SIZE]  [HASH]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton(&format!("tag {artifact} stable")), @"
    exit code: 0
    ----- stdout -----
    oci://[REGISTRY]/model:stable
    ----- stderr -----
    ");
}
