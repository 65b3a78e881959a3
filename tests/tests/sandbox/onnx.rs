//! ONNX models whose external data is outside of the model's folder, and one that asks for memory without end.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use carton_core::runner::LaunchPolicy;
use carton_core::sandbox::{Limits, SandboxMode};
use carton_core::{Carton, Error, ErrorKind, Inputs};
use carton_tests::place::TestPlace;

use crate::permissions::chain;
use crate::setting::is_root;
use crate::sources::test_runner;

const MIB: u64 = 1 << 20;
const SECRET: &[u8] = b"a secret of the user";

/// A field of a protobuf message that holds bytes or another message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        field.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    field.push(u8::try_from(length).unwrap());
    field.extend(bytes);
    field
}

/// A model of one graph.
fn model(graph: &[Vec<u8>]) -> Vec<u8> {
    let operator_set = field(8, &[0x10, 17]);
    [vec![0x08, 8], field(7, &graph.concat()), operator_set].concat()
}

/// An output `y` of elements of this type.
fn output(element_type: u8) -> Vec<u8> {
    let kind = field(1, &[vec![0x08, element_type], field(2, &field(1, &field(2, b"n")))].concat());
    field(12, &[field(1, b"y"), field(2, &kind)].concat())
}

/// A model whose output is `size` bytes of its external data.
fn model_of_external_data(location: &str, size: usize) -> Vec<u8> {
    let entry = |key: &str, value: &str| field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat());
    let (uint8, external) = (2_u8, 1_u8);
    let weights = [
        vec![0x08, u8::try_from(size).unwrap(), 0x10, uint8],
        field(8, b"w"),
        entry("location", location),
        vec![0x70, external],
    ];
    let node = [field(1, b"w"), field(2, b"y"), field(4, b"Identity")].concat();
    model(&[field(1, &node), field(2, b"g"), field(5, &weights.concat()), output(uint8)])
}

/// The path of `to` as one below `from`.
fn relative(from: &Path, to: &Path) -> String {
    "../".repeat(from.components().count()) + to.strip_prefix("/").unwrap().to_str().unwrap()
}

fn place() -> (TestPlace, PathBuf) {
    let place = TestPlace::new(test_runner().to_str().unwrap());
    let secret = place.path().join("secret");
    fs::write(&secret, SECRET).unwrap();
    (place, secret)
}

async fn load(place: &TestPlace, folder: &Path, mode: SandboxMode) -> Result<Vec<u8>, Error> {
    let loaded = Carton::load_bare(folder, "onnx").config(place.config()).sandbox(mode).await?;
    let outputs = loaded.infer(Inputs::none()).await?;
    Ok(outputs.as_tensors()["y"].as_numeric().unwrap().bytes().to_vec())
}

/// The runner itself refuses paths that leave the folder, with the sandbox and without it.
#[tokio::test]
async fn paths_out_of_the_folder_are_refused() {
    let (place, secret) = place();
    let folder = place.path().join("bare");
    fs::create_dir(&folder).unwrap();
    for location in [secret.to_str().unwrap().to_owned(), relative(&folder, &secret), "./../secret".to_owned()] {
        fs::write(folder.join("model.onnx"), model_of_external_data(&location, SECRET.len())).unwrap();
        for mode in [SandboxMode::Off, SandboxMode::On] {
            let error = load(&place, &folder, mode).await.unwrap_err();
            assert!(chain(&error).contains("external data at"), "{location}: {}", chain(&error));
        }
    }
}

/// A folder that is not a carton may have links, which lead anywhere. Those that leave it are followed where the user allows that. The host
/// refuses others, because it opens files for runners that take open files.
#[tokio::test]
async fn links_of_a_bare_model_lead_to_no_file_of_the_user() {
    let (place, secret) = place();
    let folder = place.path().join("bare");
    fs::create_dir(&folder).unwrap();
    symlink(&secret, folder.join("weights.bin")).unwrap();
    fs::write(folder.join("model.onnx"), model_of_external_data("weights.bin", SECRET.len())).unwrap();
    for files in ["directory", "ranges"] {
        place.describe("onnx", &["__carton-runner", "onnx"], files);
        assert_eq!(load(&place, &folder, SandboxMode::Off).await.unwrap(), SECRET, "{files}");
        let error = load(&place, &folder, SandboxMode::On).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let (link, secret) = (folder.join("weights.bin"), secret.canonicalize().unwrap());
        let expected =
            format!("the link `{}` leads out of the model's folder, to `{}`", link.display(), secret.display());
        assert_eq!(error.to_string(), expected, "{files}");
        assert!(error.hint().unwrap().contains("allow the model to read that"));
        // By the caller, and by the configuration.
        let load = || Carton::load_bare(&folder, "onnx").sandbox(SandboxMode::On);
        let mut allowing = place.config();
        // The cache is in this folder, too.
        allowing.sandbox.allow.read.push(place.path().to_path_buf());
        allowing.sandbox.allow.private = true;
        for load in [load().config(place.config()).allow_read(&secret), load().config(allowing)] {
            let outputs = load.await.unwrap().infer(Inputs::none()).await.unwrap();
            assert_eq!(outputs.as_tensors()["y"].as_numeric().unwrap().bytes(), SECRET, "{files}");
        }
    }
    // A link that the user named is the model.
    let (named, real) = (place.path().join("named.onnx"), place.path().join("real"));
    fs::write(&real, model(&[])).unwrap();
    symlink(&real, &named).unwrap();
    let error = load(&place, &named, SandboxMode::On).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Model && error.is_of_start(), "{error}");
}

/// A carton has no links that leave it: they are refused before a runner starts.
#[tokio::test]
async fn links_of_an_unpacked_carton_are_refused() {
    let (place, secret) = place();
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("weights.bin"), SECRET).unwrap();
    fs::write(source.join("model.onnx"), model_of_external_data("weights.bin", SECRET.len())).unwrap();
    let packed = place.path().join("model.carton");
    place.pack(&source, "onnx", &packed).check(false).await.unwrap();
    let unpacked = place.path().join("unpacked");
    place.open(&packed).await.unwrap().unpack(&unpacked).await.unwrap();
    fs::remove_file(unpacked.join("model/weights.bin")).unwrap();
    symlink(&secret, unpacked.join("model/weights.bin")).unwrap();
    for mode in [SandboxMode::Off, SandboxMode::On] {
        let error = place.load(&unpacked).sandbox(mode).await.err().unwrap();
        assert!(chain(&error).contains("link"), "sandbox {mode}: {}", chain(&error));
    }
}

/// A few bytes of a model can ask for any size of memory.
#[tokio::test]
async fn memory_is_limited() {
    let place = TestPlace::new(test_runner().to_str().unwrap());
    let path = place.path().join("bomb.onnx");
    // A tensor of more than a gigabyte, of which the output is one element.
    let shape = [vec![0x08, 1, 0x10, 7], field(8, b"shape"), field(9, &1_200_000_000_i64.to_le_bytes())].concat();
    let axes = [vec![0x08, 1, 0x10, 7], field(8, b"axes"), field(9, &0_i64.to_le_bytes())].concat();
    let value = [vec![0x08, 1, 0x10, 2], field(9, &[1])].concat();
    let attribute = [field(1, b"value"), field(5, &value), vec![0xa0, 0x01, 4]].concat();
    let fill = [field(1, b"shape"), field(2, b"w"), field(4, b"ConstantOfShape"), field(5, &attribute)].concat();
    let gather = [field(1, b"w"), field(1, b"axes"), field(2, b"y"), field(4, b"Gather")].concat();
    let graph = [field(1, &fill), field(1, &gather), field(2, b"g"), field(5, &shape), field(5, &axes), output(2)];
    fs::write(&path, model(&graph)).unwrap();
    let run = async |mode, limit: Option<u64>| -> Result<Vec<u8>, Error> {
        let mut policy = LaunchPolicy::default();
        let mut limits = Limits::default();
        limits.memory = limit;
        policy.limits = limits;
        let load = Carton::load_bare(&path, "onnx").config(place.config());
        let outputs = load.policy(policy).sandbox(mode).await?.infer(Inputs::none()).await?;
        Ok(outputs.as_tensors()["y"].as_numeric().unwrap().bytes().to_vec())
    };
    assert_eq!(run(SandboxMode::Off, None).await.unwrap(), [1]);
    let error = run(SandboxMode::On, Some(1024 * MIB)).await.unwrap_err();
    let hint = error.hint().unwrap_or_default();
    assert!(hint.contains("the limit `memory` of 1073741824 bytes may be too low"), "{hint}: {}", chain(&error));
}

/// A runner that cannot even be started says which limit is too low, and no other reason.
#[tokio::test]
async fn a_limit_that_is_too_low_to_start_is_named() {
    let place = TestPlace::new(test_runner().to_str().unwrap());
    let path = place.path().join("model.onnx");
    fs::write(&path, model(&[])).unwrap();
    let check = async |name: &str, value: u64| {
        let mut limits = Limits::default();
        limits.set(name, value).unwrap();
        let load = Carton::load_bare(&path, "onnx").config(place.config()).limits(limits);
        let error = load.sandbox(SandboxMode::On).await.err().unwrap();
        let found: Vec<_> = error.suspected_limits().iter().map(|limit| (limit.name, limit.value)).collect();
        assert_eq!(found, [(name, value)], "{}", chain(&error));
        assert!(error.hint().unwrap().contains(&format!("`{name}` of {value}")));
    };
    check("memory", 10 * MIB).await;
    for number in 1..=4 {
        check("open_files", number).await;
    }
    if !is_root() {
        check("processes", 1).await;
    }
}
