//! Shrunk cartons, without their large files: making, loading, and resolving them.

use std::fs;

use carton_test_server::nginx::Nginx;
use carton_tests::weights;

use super::{cache, hash_of, room, sent};
use crate::sandbox::{Sandbox, names};

const GIBIBYTE: u64 = 1 << 30;

#[test]
fn a_gigabyte_that_two_cartons_share_is_fetched_and_stored_once() {
    let Some(nginx) = Nginx::start("") else { return };
    let sandbox = Sandbox::new();
    let files = nginx.root().join("files");
    for name in ["one", "two"] {
        let model = sandbox.work().join(name);
        fs::create_dir(&model).unwrap();
        weights::sparse_file(&model.join("shared.bin"), GIBIBYTE);
        fs::write(model.join("own.bin"), name).unwrap();
        // Zeros compress to almost nothing, so this is fast.
        sandbox.carton(&format!("pack {name} --runner noop --compression zstd")).expect_code(0);
        let output = nginx.root().join(format!("{name}.carton"));
        let prefix = nginx.url("files");
        let carton = format!("{name}.carton");
        let arguments = ["shrink", &carton, "--url-prefix", &prefix, "--save-files", files.to_str().unwrap(), "-o"];
        sandbox.run(arguments.into_iter().chain([output.to_str().unwrap()])).expect_code(0);
        fs::remove_dir_all(model).unwrap();
        assert!(fs::metadata(output).unwrap().len() < 1 << 20);
    }
    assert_eq!(names(&files).len(), 1, "{:?}", names(&files));

    let _ = fs::remove_dir_all(cache(&sandbox));
    for name in ["one", "two"] {
        sandbox.run(["run", &nginx.url(&format!("{name}.carton"))]).expect_code(0);
    }
    let fetched = sent(&nginx.requests_for("/files/"));
    assert_eq!(fetched, GIBIBYTE);
    let room = room(&cache(&sandbox));
    assert!(room < GIBIBYTE + (16 << 20), "the cache takes {room} bytes");
    println!("two cartons, one shared file of {GIBIBYTE} bytes: {fetched} bytes fetched, {room} in the cache");
}

#[test]
fn what_was_left_out_comes_back() {
    let Some(mut nginx) = Nginx::start("") else { return };
    let sandbox = Sandbox::new();
    let bytes = weights::bytes(3 << 20, 1);
    sandbox.write("model/deep/weights.bin", &bytes);
    sandbox.write("model/vocabulary.txt", "one two three");
    sandbox.carton("pack model --runner noop").expect_code(0);
    fs::copy(sandbox.work().join("model.carton"), nginx.root().join("whole.carton")).unwrap();
    let hash = hash_of(&sandbox, &nginx, "whole.carton");
    let files = nginx.root().join("files");
    let prefix = nginx.url("files");

    // From a path and from a URL, with the same result.
    for (number, model) in ["model.carton".to_owned(), nginx.url("whole.carton")].into_iter().enumerate() {
        let output = format!("small-{number}.carton");
        let arguments = ["shrink", &model, "--url-prefix", &prefix, "--save-files", files.to_str().unwrap()];
        sandbox.run(arguments.into_iter().chain(["-o", &output])).expect_code(0);
        assert!(sandbox.run(["hash", &output]).expect_code(0).stdout.contains(&hash));
    }
    let small = fs::read(sandbox.work().join("small-0.carton")).unwrap();
    assert!(small.len() < 10_000, "{} bytes", small.len());
    assert_eq!(small, fs::read(sandbox.work().join("small-1.carton")).unwrap());
    fs::write(nginx.root().join("small.carton"), small).unwrap();

    for (number, model) in ["small-0.carton".to_owned(), nginx.url("small.carton")].iter().enumerate() {
        let _ = fs::remove_dir_all(cache(&sandbox));
        let (folder, whole) = (format!("unpacked-{number}"), format!("whole-{number}.carton"));
        sandbox.run(["unpack", model, "-o", &folder]).expect_code(0);
        assert!(fs::read(sandbox.work().join(&folder).join("model/deep/weights.bin")).unwrap() == bytes);
        sandbox.run(["verify", &folder]).expect_code(0);
        let _ = fs::remove_dir_all(cache(&sandbox));
        sandbox.run(["pack", "--resolve", model, "-o", &whole]).expect_code(0);
        assert!(sandbox.run(["hash", &whole]).expect_code(0).stdout.contains(&hash));
    }
    let _ = fs::remove_dir_all(cache(&sandbox));
    let offline = sandbox.run(["run", "small-0.carton", "--offline"]).expect_code(7);
    assert!(offline.stderr.contains("weights.bin"), "{offline}");
    nginx.stop();
    sandbox.run(["run", "whole-0.carton"]).expect_code(0);
    sandbox.run(["run", "whole-1.carton", "--offline"]).expect_code(0);
}

#[test]
fn every_url_is_named_when_none_helps() {
    let Some(nginx) = Nginx::start("location /forbidden { return 403; }") else { return };
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", weights::bytes(1 << 20, 1));
    sandbox.carton("pack model.bin --runner noop").expect_code(0);
    let listed = sandbox.carton("ls model.carton --json").expect_code(0).json();
    let file = listed["files"].as_array().unwrap().iter().find(|file| file["path"] == "model/model.bin").unwrap();
    let digest = file["sha256"].as_str().unwrap();
    nginx.write("wrong", weights::bytes(1 << 20, 2));
    let urls: Vec<String> = ["missing", "forbidden", "wrong"].iter().map(|path| nginx.url(path)).collect();
    sandbox.write("LINKS.toml", format!("version = 1\n[urls]\n{digest} = {urls:?}\n"));
    sandbox.carton("shrink model.carton --links LINKS.toml -o small.carton").expect_code(0);
    let failed = sandbox.carton("run small.carton").expect_code(4);
    for part in urls.iter().map(String::as_str).chain(["404", "403", digest]) {
        assert!(failed.stderr.contains(part), "{part} is not in {failed}");
    }
    let error = sandbox.carton("run small.carton --json").expect_code(4).json();
    assert_eq!(error["error"]["kind"], "integrity");
}
