//! Comparison with other implementations, PyPI's ztensor 1.1.1 and 1.2.3. We read their files as they do, and both of them read ours.
//! If content can be expressed in the same order, the files are byte-identical.
//!
//! Needs the environment that `tests/python/setup.sh` makes, named by `CARTON_TEST_PYTHON`, and is skipped without it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::ztensor::{
    Checks, Coo, Csr, DigestAlgorithm, Encoding, Format, Reader, StoreAs, Version, Writer, ZTensorError,
};
use serde_json::{Value, json};

use crate::container::tensor;

/// Returns the Python interpreter. Without one, prints that the test is skipped and returns `None`.
pub(crate) fn python() -> Option<OsString> {
    let python = std::env::var_os("CARTON_TEST_PYTHON");
    if python.is_none() {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has ztensor (tests/python/setup.sh makes one)");
    }
    python
}

fn run(python: &OsString, command: &str, version: &str, folder: &Path) -> String {
    run_script(python, "tests/ztensor_peers.py", &[command, version], folder)
}

pub(crate) fn run_script(python: &OsString, script: &str, arguments: &[&str], folder: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let output = Command::new(python).arg(script).args(arguments).arg(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|index| u8::from_str_radix(&text[index..index + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the tensor that the script describes.
fn described(value: &Value) -> RawTensor {
    let dtype = value["dtype"].as_str().unwrap();
    let dtype = ElementType::ALL.into_iter().find(|candidate| candidate.name() == dtype).unwrap();
    let shape = value["shape"].as_array().unwrap().iter().map(|size| size.as_u64().unwrap() as usize).collect();
    RawTensor::new(dtype, shape, unhex(value["bytes"].as_str().unwrap()).into()).unwrap()
}

fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_one = |path: &PathBuf| {
        path.extension().is_some_and(|it| it == "zt") && path.file_name().unwrap().to_str().unwrap().starts_with(prefix)
    };
    let mut files: Vec<PathBuf> = entries.filter(is_one).collect();
    files.sort();
    files
}

#[test]
fn files_of_both_peers_are_read_as_they_were_meant() {
    let Some(python) = python() else { return };
    for (version, n_files) in [("1.1", 2), ("1.2", 3)] {
        let place = tempfile::tempdir().unwrap();
        run(&python, "make", version, place.path());
        let files = files(place.path(), "peer-");
        assert_eq!(files.len(), n_files);
        for path in files {
            let content: Value = serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap();
            let tensors = content["tensors"].as_array().unwrap();
            assert!(tensors.len() > 70, "{}", tensors.len());
            for reader in [Reader::open(&path).unwrap(), Reader::map(&path).unwrap()] {
                let reader = reader.checking(Checks::ALL);
                assert_eq!(reader.objects().len(), tensors.len(), "{}", path.display());
                for value in tensors {
                    let (name, expected) = (value["name"].as_str().unwrap(), described(value));
                    let found = match reader.object(name).unwrap().format() {
                        Format::Dense => reader.read(name).unwrap(),
                        Format::SparseCsr => reader.csr(name).unwrap().to_dense().unwrap(),
                        Format::SparseCoo => reader.coo(name).unwrap().to_dense().unwrap(),
                        other => panic!("{other:?}"),
                    };
                    assert_eq!(found, expected, "{name} in {}", path.display());
                }
                let n_digests = tensors.iter().filter(|it| !matches!(it["checksum"].as_str(), None | Some("none")));
                let verified = reader.verify_all();
                assert_eq!((verified.n_verified, verified.failures.len()), (n_digests.count(), 0));
            }
            same_bytes(&path, tensors, version);
        }
    }
}

/// Writes the same content as the peer, in its order, and compares the files.
fn same_bytes(path: &Path, tensors: &[Value], version: &str) {
    let theirs = Reader::open(path).unwrap();
    let version = if version == "1.1" { Version::V1_1 } else { Version::V1_2 };
    let mut writer = Writer::with_version(Vec::new(), version).unwrap();
    for value in tensors {
        let name = value["name"].as_str().unwrap();
        let object = theirs.object(name).unwrap();
        if object.components().any(|component| component.unknown_type().is_some()) {
            assert!(path.ends_with("peer-appended.zt"));
            return;
        }
        let mut parts = Vec::new();
        let mut components: Vec<_> = object.components().collect();
        components.sort_by_key(|component| (component.stored().start, component.stored().end));
        for component in components {
            let bytes = theirs.read_component(&component, Checks::ALL).unwrap();
            let dtype = component.element_type();
            let shape = match object.format() {
                Format::Dense => object.shape().to_vec(),
                _ => vec![bytes.len() * 8 / dtype.bits()],
            };
            let digest = component.digest().unwrap().map(|digest| digest.algorithm());
            let zstd = (component.encoding() == Encoding::Zstd).then_some(3);
            parts.push((component.role(), RawTensor::new(dtype, shape, bytes).unwrap(), StoreAs { zstd, digest }));
        }
        let parts: Vec<_> = parts.iter().map(|(role, tensor, store_as)| (*role, tensor, *store_as)).collect();
        let attributes = object.attributes().unwrap();
        writer.object(name, object.shape(), object.format().name(), &attributes, &parts).unwrap();
    }
    let (ours, theirs) = (writer.finish().unwrap(), fs::read(path).unwrap());
    let differs = ours.iter().zip(&theirs).position(|(one, other)| one != other);
    assert_eq!((ours.len(), differs), (theirs.len(), None), "{}", path.display());
}

/// The errors of both peers for a type that they cannot read, raw or compressed, in a file of version 1.2. Another test covers the
/// storage types of 1.1, because the peers refuse a whole file that has one.
fn error_of(dtype: ElementType) -> Option<&'static str> {
    match dtype {
        // They expect as many floats as there are complex numbers.
        ElementType::Complex64 | ElementType::Complex128 => {
            Some("cannot reshape array|Zstd decompression error: failed to write whole buffer")
        }
        // They return bytes, which are fewer than elements; compressed ones are padded.
        _ if dtype.bits() < 8 => Some("cannot reshape array|(dtype('uint8'), '"),
        _ => None,
    }
}

#[test]
fn both_peers_read_our_files() {
    let Some(python) = python() else { return };
    for peer in ["1.1", "1.2"] {
        let place = tempfile::tempdir().unwrap();
        for version in [Version::V1_1, Version::V1_2] {
            for (name, store_as) in [
                ("raw", StoreAs::RAW),
                ("zstd", StoreAs::RAW.zstd(5)),
                ("sha256", StoreAs::RAW.digest(DigestAlgorithm::Sha256)),
                ("zstd-crc32c", StoreAs::RAW.zstd(1).digest(DigestAlgorithm::Crc32c)),
            ] {
                let path = place.path().join(format!("ours-{}-{name}.zt", version.name()));
                let tensors = write_ours(&path, version, store_as);
                fs::write(path.with_extension("json"), tensors.to_string()).unwrap();
            }
        }
        let lines = run(&python, "check", peer, place.path());
        assert_eq!(lines.lines().count(), 8, "{lines}");
        for line in lines.lines() {
            let counts: Value = serde_json::from_str(line).unwrap();
            let expected = if line.contains("1.2.0") { (76, 5) } else { (56, 0) };
            assert_eq!((counts["equal"].as_u64().unwrap(), counts["errors"].as_u64().unwrap()), expected, "{line}");
        }
    }
}

fn write_ours(path: &Path, version: Version, store_as: StoreAs) -> Value {
    let mut writer = Writer::with_version(fs::File::create(path).unwrap(), version).unwrap();
    let mut tensors = Vec::new();
    let entry = |name: &str, tensor: &RawTensor, format: &str, error: Option<&str>| {
        let bytes = hex(tensor.bytes());
        // The peers treat FP8 as bytes. Only the name of the type differs.
        let is_fp8 = tensor.dtype().bits() == 8 && tensor.dtype().is_float();
        let dtype = if is_fp8 { "uint8" } else { tensor.dtype().name() };
        json!({"name": name, "dtype": dtype, "shape": tensor.shape(), "bytes": bytes, "format": format, "error": error})
    };
    for dtype in ElementType::ALL {
        let has_it = match version {
            // A peer that does not know a dtype of 1.1 refuses the whole file; another test covers this.
            Version::V1_1 => {
                let is_v1 = dtype.data_type().is_some_and(|known| known.carrier() == known);
                is_v1 || dtype.bits() == 16 || dtype == ElementType::Bool
            }
            Version::V1_2 => true,
        };
        if !has_it {
            continue;
        }
        let error = error_of(dtype);
        let shapes: &[&[usize]] = if error.is_some() { &[&[2, 4]] } else { &[&[], &[0, 3], &[2, 4, 3], &[1000]] };
        for shape in shapes {
            let (name, tensor) = (format!("{dtype} {shape:?}"), tensor(dtype, shape));
            writer.add(&name, &tensor, store_as).unwrap();
            tensors.push(entry(&name, &tensor, "dense", error));
        }
    }
    for dtype in [ElementType::Float32, ElementType::Int64] {
        let mut bytes = vec![0; 12 * dtype.bits() / 8];
        for position in [0, 5, 6, 11] {
            bytes[position * dtype.bits() / 8 + 2] = 0x40 + position as u8;
        }
        let dense = RawTensor::new(dtype, vec![3, 4], bytes.into()).unwrap();
        let (csr, coo) = (format!("csr {dtype}"), format!("coo {dtype}"));
        writer.csr(&csr, &Csr::from_dense(&dense).unwrap(), store_as).unwrap();
        writer.coo(&coo, &Coo::from_dense(&dense).unwrap(), store_as).unwrap();
        tensors.push(entry(&csr, &dense, "sparse_csr", None));
        tensors.push(entry(&coo, &dense, "sparse_coo", None));
    }
    writer.finish().unwrap();
    Value::from(tensors)
}

#[test]
fn storage_types_of_version_1_1_are_read_only_by_us() {
    let Some(python) = python() else { return };
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("ours-1.1.zt");
    for dtype in [ElementType::Float8E4m3Fn, ElementType::Float8E5m2, ElementType::Complex64, ElementType::Complex128] {
        let data = tensor(dtype, &[2, 3]);
        let mut writer = Writer::with_version(fs::File::create(&path).unwrap(), Version::V1_1).unwrap();
        writer.add("x", &data, StoreAs::RAW).unwrap();
        writer.finish().unwrap();
        assert_eq!(Reader::open(&path).unwrap().read("x").unwrap(), data);
        for version in ["1.1", "1.2"] {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ztensor_peers.py");
            let output = Command::new(&python).arg(script).args(["check", version]).arg(place.path()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && text.contains("unknown variant"), "{version}, {dtype}: {text}");
        }
    }
}

#[test]
fn containers_of_other_versions_are_recognized() {
    for (magic, version) in [(&b"ZTEN0001"[..], "0.1"), (b"\x89ZT2\r\n\x1a\n", "2.x")] {
        let bytes = [magic, &[0; 100], magic].concat();
        let error = Reader::new(bytes.into()).unwrap_err();
        assert!(matches!(error, ZTensorError::OtherVersion { version: found } if found == version), "{error}");
    }
}
