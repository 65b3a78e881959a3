//! Components that share the same bytes of a file (spec/ztensor.md §1.4), and the CBOR tag before a manifest (§2.1).

use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::ztensor::{Attributes, Checks, DigestAlgorithm, Reader, StoreAs, Writer, ZTensorError};

use crate::builders::{Text, Value, component, file, file_with, good, object, root, zstd_component};
use crate::container::{container, tensor};
use crate::peers::{python, run_script};

const BLOB: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];

fn digest_of(bytes: &[u8]) -> &'static str {
    Box::leak(DigestAlgorithm::Sha256.digest(bytes).to_string().into_boxed_str())
}

fn with_digest(mut component: Value, digest: &'static str) -> Value {
    component.push("digest", Text(digest));
    component
}

fn dense(shape: &[u64], data: Value) -> Value {
    object(shape, "dense", vec![("data", data)])
}

/// Tied weights, one of them with a digest; a third component with the same bytes as another type; and one object whose two components
/// are tied.
fn tied() -> Vec<u8> {
    let bytes = || component("u8", 64, 8);
    let twice = object(&[8], "dense", vec![("data", bytes()), ("more", bytes())]);
    file_with(
        BLOB,
        &root(vec![
            ("embed", dense(&[8], bytes())),
            ("head", dense(&[2, 4], with_digest(bytes(), digest_of(BLOB)))),
            ("numbers", dense(&[2], component("i32", 64, 8))),
            ("twice", twice),
        ]),
    )
}

fn ranges(reader: &Reader) -> Vec<(String, std::ops::Range<u64>)> {
    let components = |object: carton_tensor::ztensor::Object<'_>| {
        let name = object.name().to_owned();
        object.components().map(move |it| (format!("{name}/{}", it.role()), it.stored())).collect::<Vec<_>>()
    };
    reader.objects().flat_map(components).collect()
}

fn copy(reader: &Reader, checks: Checks, store_as: StoreAs) -> Result<Reader, ZTensorError> {
    let mut writer = Writer::new(Vec::new())?;
    for object in reader.objects() {
        writer.copy(object.name(), reader, &object, checks, |_| Ok(store_as))?;
    }
    Reader::new(writer.finish()?.into())
}

#[test]
fn the_same_bytes_are_read_as_each_component_says() {
    let reader = Reader::new(tied().into()).unwrap().checking(Checks::ALL);
    assert_eq!(&**reader.read("embed").unwrap().bytes(), BLOB);
    assert_eq!(reader.read("head").unwrap().shape(), [2, 4]);
    assert_eq!(reader.read("numbers").unwrap().dtype(), ElementType::Int32);
    assert_eq!(&*reader.component("twice", "more").unwrap(), BLOB);
    // The same bytes can also be a compressed component.
    let frame = zstd::stream::encode_all(BLOB, 1).unwrap();
    let stored = frame.len() as u64;
    let objects = vec![
        ("decoded", dense(&[8], zstd_component("u8", &frame, Some(8)))),
        ("frame", dense(&[stored], component("u8", 64, stored))),
    ];
    let reader = Reader::new(file_with(&frame, &root(objects)).into()).unwrap();
    assert_eq!(&**reader.read("decoded").unwrap().bytes(), BLOB);
    assert_eq!(**reader.read("frame").unwrap().bytes(), frame);
}

#[test]
fn copies_keep_shared_blobs() {
    let original = Reader::new(tied().into()).unwrap();
    for store_as in [StoreAs::RAW, StoreAs::RAW.zstd(3).digest(DigestAlgorithm::Crc32c)] {
        let copied = copy(&original, Checks::ALL, store_as).unwrap().checking(Checks::ALL);
        let found = ranges(&copied);
        let of = |name: &str| found.iter().find(|it| it.0 == name).unwrap().1.clone();
        for name in ["head/data", "twice/data", "twice/more"] {
            assert_eq!(of(name), of("embed/data"), "{name}");
        }
        // As numbers, the bytes are a separate blob.
        assert_ne!(of("numbers/data"), of("embed/data"));
        for object in original.objects() {
            assert_eq!(copied.read(object.name()).unwrap(), original.read(object.name()).unwrap());
        }
    }
    // Two files with bytes at the same position share nothing.
    let other = file_with(&[9; 8], &root(vec![("other", dense(&[8], component("u8", 64, 8)))]));
    let other = Reader::new(other.into()).unwrap();
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (reader, name) in [(&original, "embed"), (&other, "other"), (&original.clone(), "head")] {
        let object = reader.object(name).unwrap();
        writer.copy(object.name(), reader, &object, Checks::ALL, |_| Ok(StoreAs::RAW)).unwrap();
    }
    let copied = Reader::new(writer.finish().unwrap().into()).unwrap();
    assert_eq!(&**copied.read("other").unwrap().bytes(), [9; 8]);
    let found = ranges(&copied);
    assert_eq!((found[0].1 == found[1].1, found[0].1 == found[2].1), (true, false), "{found:?}");
}

/// A copy verifies a shared blob before it writes the digest again; otherwise damage would be written with a valid digest.
#[test]
fn a_wrong_digest_of_shared_bytes_is_found() {
    let bytes = || component("u8", 64, 8);
    let objects = |right: &'static str, wrong: &'static str| {
        root(vec![
            ("a", dense(&[8], with_digest(bytes(), right))),
            ("b", dense(&[8], with_digest(bytes(), wrong))),
            ("c", dense(&[8], with_digest(bytes(), right))),
        ])
    };
    let reader = Reader::new(file_with(BLOB, &objects(digest_of(BLOB), digest_of(b"other"))).into()).unwrap();
    let error = copy(&reader, Checks::ALL, StoreAs::RAW).unwrap_err();
    assert!(matches!(error, ZTensorError::DigestMismatch { .. }), "{error}");
    copy(&reader, Checks::default(), StoreAs::RAW).unwrap();
    let verified = reader.verify_all();
    assert_eq!((verified.n_verified, verified.n_without, verified.n_bytes), (2, 0, 8));
    let failures: Vec<String> = verified.failures.iter().map(ToString::to_string).collect();
    assert!(matches!(&failures[..], [one] if one.contains("`b`")), "{failures:?}");
    // Every component that shares the damaged blob is reported.
    let damaged = file_with(b"12345678", &objects(digest_of(BLOB), digest_of(BLOB)));
    let verified = Reader::new(damaged.into()).unwrap().verify_all();
    assert_eq!((verified.n_verified, verified.failures.len(), verified.n_bytes), (0, 3, 0));
}

#[test]
fn appending_keeps_shared_bytes_and_takes_the_tag_off() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tied.zt");
    std::fs::write(&path, tied()).unwrap();
    let before = ranges(&Reader::open(&path).unwrap());
    let append = |name: &str| {
        let mut writer = Writer::append(&path).unwrap();
        writer.add(name, &tensor(ElementType::Uint8, &[3]), StoreAs::RAW).unwrap();
        writer.finish().unwrap();
    };
    append("z");
    let reader = Reader::open(&path).unwrap();
    assert_eq!(ranges(&reader)[..before.len()], before);
    assert_eq!(&**reader.read("head").unwrap().bytes(), BLOB);

    std::fs::write(&path, self_described(b"\xd9\xd9\xf7")).unwrap();
    append("z");
    let bytes = std::fs::read(&path).unwrap();
    assert!(!bytes.windows(3).any(|window| window == b"\xd9\xd9\xf7"));
    let reader = Reader::new(bytes.into()).unwrap();
    assert_eq!(reader.objects().len(), 2);
    assert_eq!(&**reader.read("x").unwrap().bytes(), [1, 2]);
}

/// The smallest file, with a tag before its manifest.
fn self_described(tag: &[u8]) -> Vec<u8> {
    let mut cbor = tag.to_vec();
    good().write(&mut cbor);
    container(&[1, 2], &cbor)
}

#[test]
fn the_tag_of_cbor_may_stand_before_the_manifest() {
    let plain = Reader::new(file(&good()).into()).unwrap().read("x").unwrap();
    for tag in [&b"\xd9\xd9\xf7"[..], b"\xda\0\0\xd9\xf7", b"\xdb\0\0\0\0\0\0\xd9\xf7"] {
        let reader = Reader::new(self_described(tag).into()).unwrap();
        assert_eq!(reader.read("x").unwrap(), plain, "{tag:?}");
    }
}

/// Both peers read the tag, and components that share bytes, whether the file was built by hand or copied by us.
#[test]
fn peers_read_shared_bytes_and_the_tag() {
    let Some(python) = python() else { return };
    let place = tempfile::tempdir().unwrap();
    let reader = Reader::new(tied().into()).unwrap();
    let mut writer = Writer::with_version(Vec::new(), carton_tensor::ztensor::Version::V1_1).unwrap();
    for name in ["embed", "head"] {
        let object = reader.object(name).unwrap();
        writer.copy(object.name(), &reader, &object, Checks::ALL, |_| Ok(StoreAs::RAW.zstd(3))).unwrap();
    }
    let copied = writer.finish().unwrap();
    let two = ranges(&Reader::new(copied.clone().into()).unwrap());
    assert_eq!(two[0].1, two[1].1);
    let hex: String = BLOB.iter().map(|byte| format!("{byte:02x}")).collect();
    let described = |name: &str, shape: &[usize]| serde_json::json!({"name": name, "dtype": "uint8", "shape": shape, "bytes": hex, "format": "dense"});
    let tensors = serde_json::json!([described("embed", &[8]), described("head", &[2, 4])]);
    let raw =
        root(vec![("embed", dense(&[8], component("u8", 64, 8))), ("head", dense(&[2, 4], component("u8", 64, 8)))]);
    let mut tagged = b"\xd9\xd9\xf7".to_vec();
    raw.write(&mut tagged);
    let files = [("ours-raw", file_with(BLOB, &raw)), ("ours-zstd", copied), ("ours-tagged", container(BLOB, &tagged))];
    for (name, bytes) in files {
        std::fs::write(place.path().join(format!("{name}.zt")), bytes).unwrap();
        std::fs::write(place.path().join(format!("{name}.json")), tensors.to_string()).unwrap();
    }
    for version in ["1.1", "1.2"] {
        let lines = run_script(&python, "tests/ztensor_peers.py", &["check", version], place.path());
        assert_eq!(lines.matches("\"equal\": 2, \"errors\": 0").count(), 3, "{lines}");
    }
}

/// Content without shared components is written as it always was.
#[test]
fn equal_tensors_are_not_shared_unless_they_were() {
    let equal: RawTensor = tensor(ElementType::Uint8, &[64]);
    let mut writer = Writer::new(Vec::new()).unwrap();
    for name in ["a", "b"] {
        writer.object(name, &[64], "dense", &Attributes::new(), &[("data", &equal, StoreAs::RAW)]).unwrap();
    }
    let reader = Reader::new(writer.finish().unwrap().into()).unwrap();
    let found = ranges(&copy(&reader, Checks::ALL, StoreAs::RAW).unwrap());
    assert_ne!(found[0].1, found[1].1);
}
