//! Cartons of other writers, and our cartons in other readers: Python's `zipfile` and Info-ZIP's `unzip`. A test whose tool is
//! missing prints that it is skipped, and passes.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::ErrorKind::NotFound;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use carton_core::metadata::Draft;
use carton_core::packing::Compression;
use carton_core::shrink::LeaveOut;
use carton_core::{Carton, ManifestHash, Sha256Digest};
use carton_tests::place::TestPlace;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");
const PYTHON_SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/digits");

/// Runs one of our Python scripts. Returns `None`, and prints the reason, without a Python that has `tomllib`.
fn python(script: &str, arguments: &[&str]) -> Option<Output> {
    let python = std::env::var("CARTON_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_tomllib = Command::new(&python).args(["-c", "import tomllib"]).output();
    if !has_tomllib.is_ok_and(|output| output.status.success()) {
        println!("not tested: `{python}` is no Python 3.11 or later");
        return None;
    }
    let script = Path::new(PYTHON_SCRIPTS).join(script);
    Some(Command::new(python).arg(script).args(arguments).output().unwrap())
}

/// Returns the output of a tool, which must have succeeded.
fn printed(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn a_carton_by_python_passes_its_self_tests() {
    let place = TestPlace::new(RUNNER);
    for arguments in [
        ["--compression", "deflate"].as_slice(),
        &["--compression", "stored"],
        &["--compression", "deflate", "--streamed"],
        &["--compression", "stored", "--streamed", "--directories"],
    ] {
        let path = place.path().join("by_python.carton");
        let Some(output) = python("make_carton.py", &[&[text(&path)], arguments].concat()) else { return };
        let hash: ManifestHash = printed(output).trim().parse().unwrap();
        let model = place.load(&path).await.unwrap();
        assert_eq!(model.package().manifest_sha256(), Some(hash), "{arguments:?}");
        let report = model.self_test().await.unwrap();
        assert!(report.passed, "{arguments:?}: {report:?}");
        assert_eq!(report.self_tests.len(), 2);
        assert!(report.self_tests.iter().all(|test| test.outputs.len() == 1));
        assert!(model.package().verify().await.unwrap().is_good());
    }
}

#[tokio::test]
async fn a_shrunk_carton_is_read_by_python() {
    let place = TestPlace::new(RUNNER);
    let (path, hash) = pack_digits(&place, Compression::Auto).await;
    let small = place.path().join("small.carton");
    let leave_out = LeaveOut::large_from("https://example.com/files", 1);
    Carton::shrink(&path, &small, leave_out).config(place.config()).await.unwrap();
    let Some(output) = python("read_shrunk_carton.py", &[text(&small)]) else { return };
    assert_eq!(printed(output).trim(), hash.to_string());
}

/// Packs the digits with their metadata.
async fn pack_digits(place: &TestPlace, compression: Compression) -> (PathBuf, ManifestHash) {
    let digits = Path::new(DIGITS);
    let output = place.path().join(format!("{compression:?}.carton"));
    let metadata = Draft::parse(&std::fs::read_to_string(digits.join("carton.toml")).unwrap()).unwrap();
    let pack = place
        .pack(digits.join("model.onnx"), "onnx", &output)
        .metadata(metadata)
        .metadata_folder(digits)
        .misc("a file/of=mine", digits.join("README.md"))
        .compression(compression);
    let packed = pack.await.unwrap();
    (output, packed.manifest_sha256)
}

#[tokio::test]
async fn python_reads_ours() {
    let place = TestPlace::new(RUNNER);
    for compression in [Compression::Auto, Compression::Stored, Compression::Deflate] {
        let (path, hash) = pack_digits(&place, compression).await;
        let Some(output) = python("read_carton.py", &[text(&path)]) else { return };
        let read: serde_json::Value = serde_json::from_str(&printed(output)).unwrap();
        assert_eq!(read["manifest_sha256"], hash.to_string(), "{compression:?}");
        let package = place.open(&path).await.unwrap();
        let sizes: BTreeMap<_, _> = package.files().into_iter().map(|file| (file.path, file.size)).collect();
        assert_eq!(read["files"], serde_json::to_value(sizes).unwrap(), "{compression:?}");
        let names: Vec<_> = package.tensors().names().collect();
        assert_eq!(read["tensors"].as_object().unwrap().keys().collect::<Vec<_>>(), names);
    }
}

#[tokio::test]
async fn unzip_reads_ours() {
    let place = TestPlace::new(RUNNER);
    for compression in [Compression::Auto, Compression::Stored, Compression::Deflate] {
        let (path, _) = pack_digits(&place, compression).await;
        match Command::new("unzip").arg("-t").arg(&path).output() {
            Err(error) if error.kind() == NotFound => return println!("not tested: there is no `unzip`"),
            output => assert!(printed(output.unwrap()).contains("No errors detected"), "{compression:?}"),
        }
        let folder = place.path().join(format!("{compression:?}"));
        printed(Command::new("unzip").arg("-q").arg(&path).arg("-d").arg(&folder).output().unwrap());
        let model = place.load(&folder).await.unwrap();
        assert!(model.self_test().await.unwrap().passed, "{compression:?}");
    }
}

/// Makes a model of every kind of file, in the given order, and packs it.
async fn pack_little(place: &TestPlace, name: &str, reversed: bool, compression: Compression) -> Vec<u8> {
    let model = place.path().join(name);
    std::fs::create_dir_all(model.join("folder/empty")).unwrap();
    let noise: Vec<u8> =
        (0..100_000_u32).map(|i| (i.wrapping_mul(i).wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut files = vec![
        ("text.txt", b"line of text\n".repeat(100)),
        ("tables.csv", b"1,2,3,4\n".repeat(20_000)),
        ("weights.bin", noise.clone()),
        ("folder/small.bin", noise[..200].to_vec()),
        ("folder/ünï.txt", b"x".to_vec()),
        ("empty", Vec::new()),
    ];
    if reversed {
        files.reverse();
    }
    for (path, data) in files {
        let path = model.join(path);
        std::fs::write(&path, data).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(if reversed { 0o600 } else { 0o755 })).unwrap();
    }
    symlink("../weights.bin", model.join("folder/link")).unwrap();
    let metadata = "model_name = 'little'\n[[input]]\nname = 'x'\ndtype = 'float32'\nshape = ['n', 2]\n\
                    [[output]]\nname = 'x'\ndtype = 'float32'\nshape = ['n', 2]\n\
                    [[self_test]]\ninputs = { x = '@tensor_data/x' }\nexpected_out = { x = '@tensor_data/x' }\n\
                    [runner.opts]\ndelay_ms = 0\n";
    let tensor = carton_tensor::NumericTensor::from_vec(vec![0.5_f32, -1.0], vec![1, 2]).unwrap();
    let words = carton_tensor::StringTensor::new(vec!["a".to_owned(), "b".to_owned()], vec![2]).unwrap();
    let output = place.path().join(format!("{name}.carton"));
    let pack = place
        .pack(&model, "noop", &output)
        .metadata(Draft::parse(metadata).unwrap())
        .framework_version("=1.0.0".parse().unwrap())
        .misc("note", model.join("text.txt"))
        .tensor("x", tensor)
        .tensor("words", words)
        .compression(compression);
    pack.await.unwrap();
    std::fs::read(output).unwrap()
}

/// The bytes that packing writes for the same input do not change as long as the layout and the compressors stay the same. A change
/// here affects everybody who compares cartons by their bytes: name it in the changelog.
#[tokio::test]
async fn the_same_input_gives_the_same_bytes() {
    let place = TestPlace::new(RUNNER);
    let mut hashes = Vec::new();
    for compression in [Compression::Auto, Compression::Stored, Compression::Deflate, Compression::Zstd] {
        let first = pack_little(&place, &format!("first {compression:?}"), false, compression).await;
        let second = pack_little(&place, &format!("second {compression:?}"), true, compression).await;
        assert!(first == second, "{compression:?}");
        hashes.push(Sha256Digest::of(&first).to_string());
    }
    let expected = [
        "9798c6611ec1a94fa345f181a71c67ab7a793918c34ef9c7a3a4670345d38041",
        "c254cf0e967b8fd35e28fc7dfd51f96a67b022ac314e0ff6de899aa2a1cff2ee",
        "796b9eb9e1e4c001c6656754bd423476f064db5d61e1f74a54809653f82be522",
        "ebe5452a81604ded0a94b60b21383a7d9690750ef7f21b01d44433b59c43fda5",
    ];
    assert_eq!(hashes, expected);
}
