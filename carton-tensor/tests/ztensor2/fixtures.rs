//! Files that PyPI's ztensor 2.1.2 wrote (`tests/data/ztensor2/make.py`) are read as that library reads them, bit by bit.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use carton_tensor::any_file::{ElementOrder, TensorFile, TensorFileError, TensorFileFormat};
use carton_tensor::context::CancelToken;
use carton_tensor::files::{ElementType, FileBytes, RawTensor};
use carton_tensor::ztensor::{Attribute, Checks};
use carton_tensor::ztensor2::{Digest, Reader, ZTensor2Error};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ztensor2")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What `make.py` says about some bytes.
pub(crate) fn described(bytes: &[u8]) -> String {
    if bytes.len() <= 64 { hex(bytes) } else { format!("sha256:{}", hex(&Sha256::digest(bytes))) }
}

pub(crate) fn dtype_name(dtype: ElementType) -> &'static str {
    match dtype {
        ElementType::Float64 => "f64",
        ElementType::Float32 => "f32",
        ElementType::Float16 => "f16",
        ElementType::BFloat16 => "bf16",
        ElementType::Int64 => "i64",
        ElementType::Int32 => "i32",
        ElementType::Int16 => "i16",
        ElementType::Int8 => "i8",
        ElementType::Uint64 => "u64",
        ElementType::Uint32 => "u32",
        ElementType::Uint16 => "u16",
        ElementType::Uint8 => "u8",
        other => panic!("{other}"),
    }
}

fn expected() -> Value {
    serde_json::from_slice(&fs::read(folder().join("expected.json")).unwrap()).unwrap()
}

#[test]
fn every_part_is_what_the_library_reads() {
    let expected = expected();
    let expected = expected.as_object().unwrap();
    assert_eq!(expected.len(), 10);
    for (name, file) in expected {
        let reader = Reader::open(folder().join(name)).unwrap();
        let objects = file["objects"].as_object().unwrap();
        assert_eq!(reader.objects().map(|object| object.name()).collect::<Vec<_>>(), {
            let mut names: Vec<&str> = objects.keys().map(String::as_str).collect();
            names.sort_unstable();
            names
        });
        for (object_name, described_as) in objects {
            let object = reader.object(object_name).unwrap();
            assert_eq!(serde_json::to_value(object.shape()).unwrap(), described_as["shape"], "{object_name}");
            assert_eq!(object.layout().name(), described_as["layout"].as_str().unwrap());
            let parts = described_as["parts"].as_object().unwrap();
            assert_eq!(object.parts().len(), parts.len());
            for part in object.parts() {
                let expected = &parts[part.name()];
                assert_eq!(dtype_name(part.dtype()), expected["dtype"].as_str().unwrap());
                assert_eq!(part.logical(), expected["type"].as_str());
                let bytes = reader.read_part(&part, Checks::ALL).unwrap();
                assert_eq!(described(&bytes), expected["bytes"].as_str().unwrap(), "{name}, {object_name}");
                let mut pieces = Vec::new();
                let visited = reader.visit_part(&part, Checks::ALL, 5, &mut |piece| {
                    pieces.extend_from_slice(piece);
                    ControlFlow::Continue(())
                });
                visited.unwrap();
                assert!(pieces == *bytes);
            }
        }
        let verified = reader.verify_some(|_| true, &CancelToken::default()).unwrap();
        assert!(verified.failures.is_empty() && verified.unchecked.is_empty(), "{:?}", verified.failures);
        let of_shards = reader.shard_files().count() as u64;
        assert_eq!(verified.n_verified as u64, file["digests"].as_u64().unwrap() + of_shards, "{name}");
        assert_eq!((verified.n_without, verified.n_unknown), (0, 0));
    }
}

#[test]
fn tensors_have_their_types_and_elements() {
    let file = TensorFile::open(folder().join("types.zt")).unwrap();
    assert_eq!(file.format(), TensorFileFormat::ZTensor2);
    let all: Vec<_> = file.entries().collect();
    assert_eq!(all.len(), 24);
    for dtype in ElementType::ALL {
        let found: Vec<_> =
            all.iter().filter(|entry| entry.dtype() == Some(dtype) && entry.shape() == [2, 3]).collect();
        let expected = usize::from(!matches!(dtype, ElementType::Float6E2m3Fn | ElementType::Float6E3m2Fn));
        assert_eq!(found.len(), expected, "{dtype}");
        for entry in found {
            let tensor = entry.read().unwrap();
            assert_eq!((tensor.dtype(), tensor.shape()), (dtype, &[2, 3][..]));
            let mut pieces = Vec::new();
            let visited = entry.visit(ElementOrder::C, 1, |piece| {
                pieces.extend_from_slice(piece);
                Ok::<_, TensorFileError>(())
            });
            visited.unwrap();
            assert!(pieces == **tensor.bytes());
            // A bool is checked when it is read, so that nobody may take it from where it is.
            assert_eq!(entry.location().is_some(), dtype != ElementType::Bool);
            assert_eq!(entry.verify().unwrap(), 1);
        }
    }
    let complex = file.read("complex64").unwrap();
    assert_eq!(complex.bytes().len(), 48);
    assert_eq!(file.read("scalar").unwrap().shape(), [0_usize; 0]);
    assert_eq!(file.read("nothing").unwrap().bytes().len(), 0);
    assert_eq!(file.read("ünïcode\u{2028}").unwrap().shape(), [3]);
}

#[test]
fn sparse_objects_become_dense() {
    let file = TensorFile::open(folder().join("sparse.zt")).unwrap();
    let csr = file.read("csr").unwrap();
    let expected = [[1.0, 0.0, 0.0, 2.0], [0.0; 4], [0.0, 3.0, 0.0, 0.0]].concat();
    assert_eq!((csr.dtype(), csr.shape(), csr.to_f64()), (ElementType::Float32, &[3, 4][..], Some(expected)));
    assert_eq!(&**file.read("csr64").unwrap().bytes(), [0, 0x38, 0x40, 0]);
    let coo = file.read("coo").unwrap();
    let mut expected = vec![0.0; 24];
    // The value at (1, 2, 0), and the one at (0, 1, 3).
    (expected[20], expected[7]) = (-5.0, 6.0);
    assert_eq!((coo.shape(), coo.to_f64()), (&[2, 3, 4][..], Some(expected)));
    let small = TensorFile::open(folder().join("sparse.zt")).unwrap().with_max_dense(47);
    let error = small.read("csr").unwrap_err();
    assert!(!error.is_malformed(), "{error}");
}

#[test]
fn compressed_tensors_are_read_whole_and_in_pieces() {
    let file = TensorFile::open(folder().join("compressed.zt")).unwrap();
    let entry = file.entry("long").unwrap();
    assert_eq!((entry.encoding(), entry.n_bytes()), ("zstd", Some(2_800_000)));
    assert!(entry.location().is_none() && entry.stored_bytes() < 20_000);
    let expected: Vec<u8> = (0..700_000_u32).flat_map(|number| (number / 5000).to_le_bytes()).collect();
    assert!(**file.read("long").unwrap().bytes() == *expected);
    let mut sizes = Vec::new();
    let visited = entry.visit(ElementOrder::C, 100_000, |piece| {
        sizes.push(piece.len());
        Ok::<_, TensorFileError>(())
    });
    visited.unwrap();
    assert_eq!(sizes, [400_000; 7]);
}

#[test]
fn objects_that_are_no_tensors_say_why() {
    let file = TensorFile::open(folder().join("others.zt")).unwrap();
    let check = |name: &str, expected: &str| {
        let entry = file.entry(name).unwrap();
        assert_eq!((entry.dtype(), entry.not_numbers().as_deref()), (None, Some(expected)));
        let error = entry.read().unwrap_err();
        assert!(matches!(error, TensorFileError::NoTensor { .. }) && error.to_string().contains(expected), "{error}");
        assert!(entry.visit(ElementOrder::C, 1, |_| Ok::<_, TensorFileError>(())).is_err());
    };
    check("mx", "of the layout `zt.mx/1`");
    check("group", "of the layout `zt.quant_group/1`");
    check("type", "of elements of the type `vendor.u6`, which is not known");
    check("half", "an odd number of float4_e2m1fn, whose elements are half a byte");
    assert_eq!(file.read("plain").unwrap().shape(), [2]);
}

#[test]
fn attributes_are_decoded() {
    let reader = Reader::open(folder().join("canonical.zt")).unwrap();
    let attributes = reader.manifest().attributes().unwrap();
    assert_eq!(attributes["epochs"], Attribute::Integer(3));
    assert_eq!(attributes["rate"], Attribute::Float(0.1));
    assert_eq!(attributes["flags"], Attribute::Array(vec![Attribute::Bool(true), Attribute::Null]));
    let more =
        [("a".into(), Attribute::Integer(-1)), ("b".into(), Attribute::Array(vec![Attribute::Float(1.5), "x".into()]))];
    assert_eq!(attributes["more"], Attribute::Map(more.to_vec()));
    let file = TensorFile::open(folder().join("canonical.zt")).unwrap();
    assert_eq!(file.metadata().unwrap(), [("framework".to_owned(), "none".to_owned())]);
    let group = Reader::open(folder().join("others.zt")).unwrap();
    assert_eq!(group.object("group").unwrap().attributes().unwrap()["bits"], Attribute::Integer(4));
    // Both tensors are the same blob.
    let blobs: Vec<_> = reader.objects().map(|object| object.part("data").unwrap().stored()).collect();
    assert_eq!(blobs, [65536..65556, 65536..65556]);
}

#[test]
fn shards_are_opened_beside_their_root() {
    let file = TensorFile::open(folder().join("sharded.zt")).unwrap();
    assert_eq!(file.read("a").unwrap().shape(), [2, 2]);
    assert_eq!(&**file.read("b").unwrap().bytes(), [1, 8, 15, 22, 29, 36]);
    assert_eq!(file.read("c").unwrap().shape(), [5]);
    let read = |change: &(dyn Fn(&str, &mut Vec<u8>) + Sync)| {
        let open = |name: &str| {
            let mut bytes = fs::read(folder().join(name))?;
            change(name, &mut bytes);
            Ok(FileBytes::from(bytes))
        };
        Reader::new(open("sharded.zt").unwrap(), "https://host/sharded.zt?x=1", Some(&open))
    };
    assert_eq!(read(&|_, _| {}).unwrap().shard_files().collect::<Vec<_>>(), ["sharded-one.zt", "sharded-two.zt"]);
    let check = |change: &(dyn Fn(&str, &mut Vec<u8>) + Sync), expected: &str| {
        let error = read(change).unwrap_err();
        let ZTensor2Error::Shard { source, .. } = &error else { panic!("{error}") };
        assert!(source.to_string().contains(expected) && error.is_malformed(), "{source}");
    };
    check(
        &|name, bytes| bytes.truncate(if name == "sharded-two.zt" { 4000 } else { bytes.len() }),
        "expected 4142 bytes",
    );
    check(
        &|name, bytes| bytes[0] = if name == "sharded-one.zt" { b'x' } else { bytes[0] },
        "at byte 0: the file starts with `xZT2",
    );
    // What a shard has beside the parts is compared by its own digest.
    let damaged = |name: &str, bytes: &mut Vec<u8>| {
        if name == "sharded-one.zt" {
            bytes[100] = 1;
        }
    };
    let verified = read(&damaged).unwrap().verify_some(|_| true, &CancelToken::default()).unwrap();
    assert!(matches!(&verified.failures[..], [ZTensor2Error::DigestMismatch { section: "6.1", .. }]));
    assert_eq!(verified.n_verified, 4);
    let missing = Reader::new(fs::read(folder().join("sharded.zt")).unwrap().into(), "sharded.zt", None).unwrap_err();
    assert!(matches!(missing, ZTensor2Error::Unsupported { section: "6.3", .. }), "{missing}");
    let shard = Reader::open(folder().join("sharded-two.zt")).unwrap_err();
    assert!(matches!(shard, ZTensor2Error::Unsupported { section: "6.2", .. }), "{shard}");
}

/// The bits of a frame of zstd that mean nothing are not covered by a digest, because it is that of the decoded bytes.
#[test]
fn each_changed_byte_of_a_blob_is_found() {
    for name in ["types.zt", "compressed.zt", "sparse.zt", "others.zt"] {
        let bytes = fs::read(folder().join(name)).unwrap();
        let reader = Reader::new(bytes.clone().into(), name, None).unwrap();
        for part in reader.objects().flat_map(|object| object.parts()) {
            let blob = part.stored();
            for at in blob.clone().step_by((blob.end - blob.start).div_ceil(20).max(1) as usize) {
                let mut bytes = bytes.clone();
                bytes[at as usize] ^= 0x10;
                let damaged = Reader::new(bytes.into(), name, None).unwrap();
                let is_wanted = |name: &str| name == part.object().name();
                let verified = damaged.verify_some(is_wanted, &CancelToken::default()).unwrap();
                assert!(verified.failures.iter().all(ZTensor2Error::is_malformed));
                if verified.failures.is_empty() {
                    let read = |reader: &Reader| reader.read_part(&part, Checks::default()).unwrap().to_vec();
                    assert!(part.encoding().is_some() && read(&damaged) == read(&reader), "{name}, byte {at}");
                }
            }
        }
    }
}

#[test]
fn digests_are_those_of_the_decoded_bytes() {
    let reader = Reader::open(folder().join("compressed.zt")).unwrap();
    let part = reader.object("short").unwrap().part("data").unwrap();
    let bytes = reader.read_part(&part, Checks::default()).unwrap();
    let digest = part.digest().unwrap().unwrap();
    assert!(matches!(digest, Digest::Xxh3(_)) && digest.is_of(&bytes));
    let stored = reader.bytes().read(part.stored()).unwrap();
    assert!(!digest.is_of(&stored));
    let tensor: RawTensor = TensorFile::open(folder().join("compressed.zt")).unwrap().read("short").unwrap();
    assert!(**tensor.bytes() == *bytes);
}
