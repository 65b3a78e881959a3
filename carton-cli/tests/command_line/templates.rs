//! Files of frameworks, which `carton pack` packs with the Python model that runs them.

use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;

use crate::python_environments::Site;
use crate::sandbox::Sandbox;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../carton-templates/tests/fixtures").join(name)
}

#[test]
fn the_file_of_a_framework_is_packed_with_its_signature_and_a_self_test() {
    let Some(site) = Site::new() else { return };
    fs::copy(fixture("tabular/lightgbm.txt"), site.sandbox.work().join("booster")).unwrap();
    let packed = site.carton(&["pack", "booster"]).expect_code(0);
    assert_snapshot!(packed.stderr, @"a LightGBM model (text, version v4) is packed with the Python model that runs it (lightgbm>=4); --eject FOLDER writes that model, to change it");
    assert!(packed.stdout.contains("1 self-test passed"), "{packed}");
    let tested = site.carton(&["run", "booster.carton", "--self-test"]).expect_code(0);
    assert!(tested.stdout.contains("largest difference 0"), "{tested}");
    let info: serde_json::Value = site.carton(&["info", "booster.carton", "--json"]).expect_code(0).json();
    let input = &info["inputs"][0];
    assert_eq!((&input["name"], &input["dtype"]), (&"features".into(), &"float64".into()));
    assert!(input["description"].as_str().unwrap().starts_with("Columns: "), "{input}");
    // What is written for the user is packed as the file itself was.
    let ejected = site.carton(&["pack", "booster", "--eject", "mine"]).expect_code(0);
    assert_snapshot!(ejected.stdout, @"
    wrote mine: a LightGBM model (text, version v4)
    pack it with `carton pack mine`
    ");
    let packed_again = site.carton(&["pack", "mine", "-o", "mine.carton"]).expect_code(0);
    let hash = |outcome: &str| outcome.lines().find(|line| line.starts_with("manifest")).map(str::to_owned);
    assert_eq!(hash(&packed_again.stdout), hash(&packed.stdout), "{packed_again}");
    // A folder that is not empty stays as it is.
    let refused = site.carton(&["pack", "booster", "--eject", "mine"]).expect_code(1);
    assert!(refused.stderr.contains("`mine` is not empty"), "{refused}");
}

#[test]
fn what_nothing_runs_is_named() {
    let sandbox = Sandbox::new();
    let weights = fixture("torch/weights.safetensors");
    let refused = sandbox.carton(&format!("pack {}", weights.display())).expect_code(1);
    assert!(refused.stderr.contains("which nothing runs as it is") && refused.stderr.contains("hint: "), "{refused}");
    let refused = sandbox.carton("pack gone --eject folder").expect_code(1);
    assert!(refused.stderr.contains("cannot open `gone`"), "{refused}");
    sandbox.write("model.onnx", "\x08\x08\x12\x07pytorch");
    let refused = sandbox.carton("pack model.onnx --eject folder").expect_code(1);
    assert!(refused.stderr.contains("no template runs `model.onnx`"), "{refused}");
    assert!(!sandbox.work().join("folder").exists());
}
