//! Files that break one rule each, with the section of the rule and the byte that the error must name.

use std::ops::ControlFlow;

use carton_tensor::context::CancelToken;
use carton_tensor::ztensor::Checks;
use carton_tensor::ztensor2::{Reader, ZTensor2Error};

use crate::builders::*;

/// Opens a file and reads all that it has in each way there is. Returns the first error. The ways must agree.
pub(crate) fn read_all(bytes: &[u8]) -> Result<(), ZTensor2Error> {
    const MAX_DENSE: u64 = 1 << 20;
    let reader = Reader::new(bytes.to_vec().into(), "x.zt", None)?.checking(Checks::ALL);
    let _ = reader.manifest().attributes()?;
    let mut first = Ok(());
    let mut has_failed = false;
    for object in reader.objects() {
        assert_eq!(reader.object(object.name()).unwrap().name(), object.name());
        let _ = object.attributes()?;
        for part in object.parts() {
            let whole = reader.read_part(&part, Checks::ALL);
            // Pieces that are no divisors of what a frame has.
            for n_bytes in [if part.decoded_length() < 10_000 { 7 } else { 40_009 }, 1 << 20] {
                let mut pieces = Vec::new();
                let visited = reader.visit_part(&part, Checks::ALL, n_bytes, &mut |piece| {
                    pieces.extend_from_slice(piece);
                    ControlFlow::Continue(())
                });
                match (&whole, &visited) {
                    (Ok(whole), Ok(())) => assert!(pieces == **whole && pieces.len() as u64 == part.decoded_length()),
                    (Err(whole), Err(visited)) => assert_eq!(whole.to_string(), visited.to_string()),
                    _ => panic!("{whole:?} {visited:?}"),
                }
            }
            has_failed |= whole.is_err();
            first = first.and(whole.map(drop));
        }
        let read = reader.read(&object, MAX_DENSE);
        if let Ok(tensor) = &read {
            assert_eq!((Some(tensor.dtype()), tensor.shape()), (object.element_type(), object.shape()));
        }
        has_failed |= read.as_ref().is_err_and(ZTensor2Error::is_malformed);
        first = first.and(read.map(drop));
    }
    let verified = reader.verify_some(|_| true, &CancelToken::default()).unwrap();
    if verified.unchecked.is_empty() {
        assert_eq!(verified.failures.is_empty(), !has_failed, "{:?}", verified.failures);
    }
    first
}

/// Checks that a file is refused by a rule of `section`, and that the message has `expected`.
fn check(bytes: &[u8], section: &str, expected: &str) {
    let error = read_all(bytes).expect_err(expected);
    let text = match &error {
        ZTensor2Error::Sparse(error) => error.to_string(),
        error => format!("{error}"),
    };
    assert!(text.contains(expected), "expected {expected:?}, found {text:?}");
    assert!(text.ends_with(&format!("§{section}]")), "expected section {section}, found {text:?}");
    assert!(error.is_malformed(), "{text}");
    assert!(!text.contains(char::is_control), "{text}");
}

/// Checks a change of the manifest with the one object `dense()`.
fn check_manifest(manifest: &Value, section: &str, expected: &str) {
    check(&file(&[&[1, 2, 3, 4]], manifest), section, expected);
}

fn good() -> Vec<u8> {
    file(&[&[1, 2, 3, 4]], &one(dense()))
}

#[test]
fn what_breaks_no_rule_is_read() {
    read_all(&good()).unwrap();
    read_all(&file(&[], &map([("objects", map([]))]))).unwrap();
    // Fields that are not known are ignored, whatever their keys are.
    let unknown = one(dense().with(&["more"], array(&[1])).with(&["parts", "data", "more"], "x"));
    let Value::Map(mut pairs) = unknown else { panic!("no map") };
    pairs.push((Value::Number(1), Value::Raw(vec![0xf9, 0x7e, 0x00])));
    read_all(&file(&[&[1, 2, 3, 4]], &Value::Map(pairs))).unwrap();
    // The reserved bytes of the footer are ignored, and so are those between blobs.
    let mut bytes = good();
    let at = bytes.len() - 12;
    (bytes[at], bytes[100]) = (1, 1);
    read_all(&bytes).unwrap();
    // Nothing has any place, and no bytes.
    let nothing = object("dense", &[0], [("data", part("u8", 4096, 0))]);
    read_all(&file(&[&[1, 2, 3, 4]], &one(nothing))).unwrap();
    let shared = map([("objects", map([("x", dense()), ("y", dense())]))]);
    read_all(&file(&[&[1, 2, 3, 4]], &shared)).unwrap();
    let stored = seekable(&[(frame(&[5; 8]), 8), (frame(&[6; 8]), 8), (frame(&[7; 3]), 3)]);
    read_all(&file(&[&stored], &one(compressed(&stored, 19)))).unwrap();
}

#[test]
fn containers() {
    let patched = |from_end: bool, at: usize, new: &[u8]| {
        let mut bytes = good();
        let at = if from_end { bytes.len() - at } else { at };
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    };
    let end = good().len();
    check(b"", "1.1", "at byte 0: the file has 0 bytes, expected at least 48");
    check(MAGIC, "1.1", "at byte 8: the file has 8 bytes");
    check(b"\x89ZT3\r\n\x1a\n", "1.1", "at byte 0: the file starts with `\\x89ZT3");
    check(&patched(false, 0, b"x"), "1.1", "at byte 0: the file starts with `xZT2");
    check(&patched(true, 8, b"x"), "1.1", &format!("at byte {}: the file ends with `xZT2", end - 8));
    check(&good()[..end - 1], "1.1", "the file ends with");
    check(&patched(true, 16, &[3]), "1.2", &format!("at byte {}: the footer has version 3, expected 2", end - 16));
    check(&patched(true, 24, &[0xff]), "1.2", "at byte 8192: the manifest has the XXH3");
    check(&patched(true, 32, &u64::MAX.to_le_bytes()), "1.2", "the manifest claims 18446744073709551615 bytes");
    check(&patched(true, 32, &0x4000_0000_u64.to_le_bytes()), "1.2", "expected them to end before the footer");
    check(&patched(true, 32, &[0; 8]), "1.2", "a footer without a manifest has an offset or a hash");
    check(
        &patched(true, 40, &100_u64.to_le_bytes()),
        "1.3",
        "the manifest starts at byte 100, expected a multiple of 4096",
    );
    check(&patched(true, 40, &[0; 8]), "1.3", "the manifest starts at byte 0");
    check(&patched(true, 40, &(u64::MAX << 12).to_le_bytes()), "1.2", "expected them to end before the footer");
    check(&patched(false, 8192, &[0xa2]), "1.2", "the manifest has the XXH3");
}

#[test]
fn places_of_blobs() {
    let at = |offset: u64, length: u64| one(dense().with(&["parts", "data", "blob"], array(&[offset, length])));
    check_manifest(&at(0, 4), "1.3", "starts at byte 0, expected a multiple of 4096");
    check_manifest(&at(4100, 4), "1.3", "part `data` of object `x` starts at byte 4100");
    check_manifest(&at(1 << 40, 4), "1.3", "has 4 bytes from byte 1099511627776 on");
    check_manifest(&at(u64::MAX << 12, 4), "1.3", "from byte 18446744073709547520 on");
    let large = object("dense", &[4100], [("data", part("u8", 4096, 4100))]);
    check_manifest(&one(large), "1.4", "a blob starts at byte 8192, inside of the 4100 bytes from byte 4096 on");
    // Bytes of the manifest itself.
    check_manifest(
        &one(dense().with(&["parts", "data", "blob"], array(&[8192, 4]))),
        "1.4",
        "a blob starts at byte 8192",
    );
    let overlapping = map([
        ("x", object("dense", &[4097], [("data", part("u8", 4096, 4097))])),
        ("y", object("dense", &[1], [("data", part("u8", 8192, 1))])),
    ]);
    check(&file(&[&[0; 5000]], &map([("objects", overlapping)])), "1.4", "a blob starts at byte 8192");
}

#[test]
fn cbor() {
    let raw = |manifest: &[u8], expected: &str| check(&raw_file(&[], manifest), "2.1", expected);
    raw(&[0x01], "at byte 4096: `manifest` is not a map");
    raw(&[0xa1], "items are claimed where the manifest has 0 more bytes");
    raw(&[0xbf, 0xff], "at byte 4096: an indefinite length");
    raw(&[0xa0, 0x00], "at byte 4097: 1 bytes follow the manifest's map");
    raw(&[0xb8, 0x00], "the number 0 in more bytes than it needs");
    raw(&[0xa1, 0x61, b'x', 0x18, 0x17], "at byte 4099: the number 23 in more bytes than it needs");
    raw(&[0xa1, 0x61, b'x', 0x1c], "a head with the reserved information 28");
    raw(&[0xa1, 0x61, b'x', 0xc0, 0x00], "at byte 4099: a tag, expected none");
    raw(&[0xa1, 0x61, b'x', 0xf7], "the simple value 23");
    raw(&[0xa1, 0x61, b'x', 0xf9, 0x7e, 0x01], "the float NaN in an encoding that is not its shortest");
    raw(&[0xa1, 0x61, b'x', 0xfa, 0x3f, 0xc0, 0, 0], "the float 1.5 in an encoding");
    raw(&[0xa1, 0x61, b'x', 0xfb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0], "the float 1.5 in an encoding");
    raw(&[0xa1, 0x61, 0xff, 0x00], "at byte 4097: text that is not UTF-8");
    raw(&[0xa2, 0x61, b'a', 0x00, 0x61, b'a', 0x00], "at byte 4100: a map has a key twice");
    raw(&[0xa2, 0x61, b'b', 0x00, 0x61, b'a', 0x00], "at byte 4100: the keys of a map are not in order");
    raw(&[0xa1, 0x61, b'x', 0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "items are claimed");
    raw(&[0xa1, 0x61, b'x', 0x5b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "bytes are claimed");
    let nested = |depth: usize| [&[0xa1, 0x61, b'x'][..], &vec![0x81; depth], &[0]].concat();
    raw(&nested(32), "values are nested more than 32 deep");
    check(&raw_file(&[], &nested(31)), "2.2", "no field `objects`");
    // Deep keys, of which each is compared with the one before.
    raw(&[&[0xa1][..], &[0xa1; 40], &[0; 41]].concat(), "values are nested more than 32 deep");
}

#[test]
fn fields() {
    let data = |path: &str, value: Value| one(dense().with(&["parts", "data", path], value));
    check_manifest(&map([]), "2.2", "at byte 8192: the manifest has no field `objects`");
    check_manifest(&map([("objects", array(&[]))]), "2.1", "`objects` is not a map");
    for (field, section) in [("shape", "2.3"), ("layout", "2.3"), ("parts", "2.3")] {
        check_manifest(&one(dense().without(&[field])), section, &format!("object `x` has no field `{field}`"));
        check_manifest(&one(dense().with(&[field], 1)), "2.1", &format!("`{field}` is not"));
    }
    for field in ["dtype", "blob"] {
        check_manifest(
            &one(dense().without(&["parts", "data", field])),
            "2.4",
            "part `data` of object `x` has no field",
        );
        check_manifest(&data(field, 1.into()), "2.1", "is not");
    }
    check_manifest(&one(dense().with(&["parts"], map([]))), "2.3", "object `x` has no parts");
    check_manifest(&one(dense().with(&["shape"], array(&[1; 65]))), "2.3", "65 dimensions, expected at most 64");
    check_manifest(
        &one(dense().with(&["shape"], array(&[1 << 32, 1 << 32]))),
        "2.3",
        "more elements than 64 bits can count",
    );
    check_manifest(&one(dense().with(&["shape"], array(&[1 << 32, 1 << 32, 0]))), "2.3", "more elements than 64 bits");
    check_manifest(&data("blob", array(&[4096, 4, 0])), "2.4", "has 3 numbers, expected 2");
    check_manifest(&data("encoding", ZSTD.into()), "2.4", "one of `encoding` and `decoded_length` without the other");
    check_manifest(
        &data("decoded_length", 4.into()),
        "2.4",
        "one of `encoding` and `decoded_length` without the other",
    );
    check_manifest(&data("type", 4.into()), "2.1", "`type` is not text");
    check_manifest(&data("shard", "one".into()), "2.4", "in a shard that the manifest does not list");
    check_manifest(&data("digest", "xxh3:ABCD".into()), "4.3", "the digest `xxh3:ABCD`");
    check_manifest(&data("digest", "abcd".into()), "4.3", "the digest `abcd`");
    check_manifest(&data("digest", "xxh3:abcd".into()), "4.3", "expected 16 hexadecimal digits");
    check_manifest(&data("digest", "sha256:abcd".into()), "4.3", "expected 64 hexadecimal digits");
    check_manifest(&data("digest", xxh3(&[1]).as_str().into()), "4.3", "digest mismatch for part `data` of object `x`");
    check_manifest(&data("dtype", "f8".into()), "3.1", "the unknown dtype `f8`");
    check_manifest(&data("dtype", "bool".into()), "3.1", "the unknown dtype `bool`");
    check_manifest(
        &data("dtype", "i8".into()).with(&["objects", "x", "parts", "data", "type"], "bool"),
        "3.2",
        "the type `bool` over int8",
    );
    check_manifest(&data("type", "complex64".into()), "3.2", "over uint8, expected float32");
}

#[test]
fn names_and_attributes() {
    let named = |name: &str| map([("objects", map([(name, dense())]))]);
    check_manifest(&named(""), "2.5", "the name of an object is ``, expected 1 to 1024 bytes");
    check_manifest(&named("a\0"), "2.5", "the name of an object is `a\\0`");
    check_manifest(&named(&"a".repeat(1025)), "2.5", "found 1025 bytes");
    read_all(&file(&[&[1, 2, 3, 4]], &named(&"a".repeat(1024)))).unwrap();
    let number = Value::Map(vec![(Value::Number(1), dense())]);
    check_manifest(&map([("objects", number)]), "2.5", "the name of an object is not text");
    check_manifest(&one(dense().with(&["parts"], map([("", part("u8", 4096, 4))]))), "2.5", "the name of a part is ``");
    check_manifest(&one(dense()).with(&["attributes"], "x"), "2.1", "`attributes` is not a map");
    check_manifest(&one(dense()).with(&["attributes"], map([("", 1.into())])), "2.5", "the name of an attribute is ``");
    let keyed = Value::Map(vec![(Value::Number(1), Value::Number(1))]);
    check_manifest(&one(dense().with(&["attributes"], keyed)), "2.5", "the name of an attribute is not text");
}

#[test]
fn layouts() {
    check_manifest(
        &one(dense().with(&["shape"], array(&[5]))),
        "5.1",
        "has 4 bytes, expected 5 for 5 elements of uint8",
    );
    check_manifest(&one(dense().with(&["parts", "data", "dtype"], "u16")), "5.1", "expected 8 for 4 elements");
    check_manifest(&one(object("dense", &[4], [("datum", part("u8", 4096, 4))])), "5.1", "expected one part, `data`");
    let two = object("dense", &[4], [("data", part("u8", 4096, 4)), ("more", part("u8", 4096, 4))]);
    check_manifest(&one(two), "5.1", "expected one part, `data`");
    let huge = object("dense", &[1 << 62], [("data", part("f64", 4096, 4))]);
    check_manifest(&one(huge), "5.1", "expected more than 64 bits can count");
    let csr = || {
        let index = |offset, length| part("u32", offset, length);
        object(
            "zt.sparse_csr/1",
            &[2, 3],
            [("values", part("u8", 4096, 2)), ("indices", index(8192, 8)), ("indptr", index(12288, 12))],
        )
    };
    let with = |indices: [u32; 2], indptr: [u32; 3]| {
        let bytes = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        file(&[&[1, 2], &bytes(&indices), &bytes(&indptr)], &one(csr()))
    };
    read_all(&with([0, 2], [0, 2, 2])).unwrap();
    check(&with([2, 0], [0, 2, 2]), "5.2", "columns that do not rise in row 0");
    check(&with([1, 1], [0, 2, 2]), "5.2", "columns that do not rise in row 0");
    read_all(&with([2, 0], [0, 1, 2])).unwrap();
    check(&with([0, 3], [0, 2, 2]), "5.1", "expected 0 to 3 exclusive");
    check(&with([0, 1], [1, 2, 2]), "5.2", "as row pointer 0, expected 0");
    check(&with([0, 1], [0, 2, 1]), "5.2", "row pointer");
    let check_csr = |object: Value, expected: &str| {
        check(&file(&[&[1, 2], &[0; 8], &[0; 12]], &one(object)), "5.2", expected);
    };
    check_csr(csr().with(&["shape"], array(&[2, 3, 1])), "3 dimensions, expected 2");
    check_csr(csr().without(&["parts", "values"]), "expected the parts `values`, `indices` and `indptr`");
    check_csr(csr().with(&["parts", "more"], part("u8", 4096, 2)), "and no other");
    check_csr(csr().with(&["parts", "indices", "dtype"], "i32"), "not plain `u32` or `u64`");
    check_csr(csr().with(&["parts", "indptr", "dtype"], "u64"), "has another type than `indices`");
    check_csr(csr().with(&["shape"], array(&[3, 3])), "expected 16 for 4 elements");
    check_csr(csr().with(&["parts", "values", "blob"], array(&[4096, 1])), "has 1 bytes, expected 2");
    check_csr(csr().with(&["parts", "indices", "blob"], array(&[8192, 7])), "expected a multiple of 4");
    let coo =
        || object("zt.sparse_coo/1", &[2, 3], [("values", part("u8", 4096, 2)), ("coords", part("u32", 8192, 16))]);
    let with = |object: Value, coords: [u32; 4]| {
        let coords: Vec<u8> = coords.iter().flat_map(|number| number.to_le_bytes()).collect();
        file(&[&[1, 2], &coords], &one(object))
    };
    read_all(&with(coo(), [1, 0, 2, 2])).unwrap();
    check(&with(coo(), [1, 1, 2, 2]), "5.3", "two values at one place");
    check(&with(coo(), [1, 2, 2, 2]), "5.1", "expected 0 to 2 exclusive");
    check(&with(coo().without(&["parts", "values"]), [1, 0, 2, 2]), "5.3", "expected the parts `values` and `coords`");
    check(&with(coo().without(&["parts", "coords"]), [1, 0, 2, 2]), "5.3", "expected the parts `values` and `coords`");
    check(&with(coo().with(&["shape"], array(&[2, 1, 3])), [1, 0, 0, 2]), "5.3", "4 coordinates in 3 dimensions");
    check(
        &with(coo().with(&["parts", "values", "blob"], array(&[4096, 1])), [1, 0, 2, 2]),
        "5.3",
        "has 1 bytes, expected 2",
    );
    check(&with(coo().with(&["parts", "coords", "dtype"], "f32"), [1, 0, 2, 2]), "5.3", "not plain `u32` or `u64`");
}

#[test]
fn elements() {
    let bools = one(dense().with(&["parts", "data", "type"], "bool"));
    check(
        &file(&[&[0, 1, 2, 1]], &bools),
        "3.3",
        "at byte 4098: part `data` of object `x` has the bool 2 at position 2",
    );
    let nibbles = one(object("dense", &[3], [("data", part("u8", 4096, 2).with(&["type"], "f4_e2m1"))]));
    check(
        &file(&[&[0x21, 0x13]], &nibbles),
        "3.3",
        "at byte 4097: part `data` of object `x` has bits after its last element",
    );
    let stored = seekable(&[(frame(&[0, 1, 2]), 3)]);
    let compressed = one(compressed(&stored, 3).with(&["parts", "data", "type"], "bool"));
    check(&file(&[&stored], &compressed), "3.3", "has the bool 2 at position 2");
    // Damaged bytes are called damaged.
    let damaged = bools.with(&["objects", "x", "parts", "data", "digest"], xxh3(&[0, 1, 1, 1]).as_str());
    check(&file(&[&[0, 1, 2, 1]], &damaged), "4.3", "digest mismatch");
}

#[test]
fn compressed_bytes() {
    let check_stored = |stored: &[u8], length: u64, expected: &str| {
        check(&file(&[stored], &one(compressed(stored, length))), "4.2", expected);
    };
    let good = seekable(&[(frame(&[5; 8]), 8), (frame(&[6; 3]), 3)]);
    let patched = |from_end: usize, new: u8| {
        let mut stored = good.clone();
        let at = stored.len() - from_end;
        stored[at] = new;
        stored
    };
    check_stored(&[], 1, "at byte 4096: part `data` of object `x`: 0 bytes, expected a table of frames");
    check_stored(&frame(&[5; 400]), 400, "no table of frames at the end");
    check_stored(&patched(1, 0), 11, "no table of frames at the end");
    check_stored(&patched(5, 1), 11, "the table has the flags 0x01");
    check_stored(&patched(5, 0x80), 11, "not in a skippable frame of its size");
    check_stored(&patched(6, 0x80), 11, "whose table takes more bytes than there are");
    check_stored(&patched(33, 0), 11, "not in a skippable frame of its size");
    check_stored(&good, 12, "its frames have 11 bytes, expected the 12 that the manifest states");
    check_stored(&patched(25, 0xff), 11, "compressed bytes, expected the");
    check_stored(&seekable(&[(frame(&[5; 8]), 3), (frame(&[6; 3]), 8)]), 11, "that is not valid zstd");
    check_stored(&seekable(&[(frame(&[5; 8]), 9)]), 9, "a frame of 8 bytes, expected 9");
    check_stored(
        &seekable(&[(frame(&[1; 3]), 3), (frame(&[5; 8]), 8), (frame(&[6; 3]), 3)]),
        14,
        "frames of different sizes",
    );
    check_stored(&seekable(&[(frame(&[5; 8]), u32::MAX)]), u64::from(u32::MAX), "expected at most 16777216");
    check_stored(&seekable(&[(zstd::encode_all(&[5; 8][..], 3).unwrap(), 8)]), 8, "a frame without a checksum");
    check_stored(&seekable(&[([frame(&[5; 4]), frame(&[5; 4])].concat(), 8)]), 8, "bytes, expected");
    check_stored(&seekable(&[(b"notzstd".to_vec(), 8)]), 8, "no frame of zstd where the table has one");
    let mut damaged = frame(&[5; 80]);
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    check_stored(&seekable(&[(damaged, 80)]), 80, "that is not valid zstd");
    // A checksum of the table, which is the lower half of the XXH64 of a frame.
    let mut with_checksums = frame(&[5; 8]);
    let length = with_checksums.len() as u32;
    for number in [0x184D_2A5E, 21, length, 8, 0x1234_5678, 1] {
        with_checksums.extend(u32::to_le_bytes(number));
    }
    with_checksums.push(0x80);
    with_checksums.extend(0x8F92_EAB1_u32.to_le_bytes());
    check_stored(&with_checksums, 8, "does not match its checksum in the table");
    let unknown = one(compressed(&good, 11).with(&["parts", "data", "encoding"], "vendor.xz/1"));
    let error = read_all(&file(&[&good], &unknown)).unwrap_err();
    assert!(matches!(error, ZTensor2Error::Unsupported { section: "4.1", .. }), "{error}");
}

#[test]
fn shards() {
    let shard = |size: u64| map([("size", size.into()), ("digest", "xxh3:0000000000000000".into())]);
    let with = |name: &str, shard: Value| one(dense()).with(&["shards"], map([(name, shard)]));
    for name in ["", ".a", "a/b", "..", "a b", &"a".repeat(65)] {
        check_manifest(&with(name, shard(48)), "6.1", "the name of a shard is");
    }
    check_manifest(&with("a", shard(47)), "6.1", "shard `a` has 47 bytes, expected at least 48");
    check_manifest(&with("a", shard(48).without(&["size"])), "6.1", "shard `a` has no field `size`");
    check_manifest(&with("a", shard(48).without(&["digest"])), "6.1", "shard `a` has no field `digest`");
    check_manifest(&with("a", shard(48).with(&["digest"], "x")), "4.3", "the digest `x`");
    let inside = |offset: u64, length: u64| {
        with("a", shard(8192 + 40))
            .with(&["objects", "x", "parts", "data", "shard"], "a")
            .with(&["objects", "x", "parts", "data", "blob"], array(&[offset, length]))
    };
    check_manifest(&inside(8192, 4), "1.3", "expected them to end before the footer at byte 8192");
    let error = read_all(&file(&[&[1, 2, 3, 4]], &inside(4096, 4))).unwrap_err();
    assert!(matches!(error, ZTensor2Error::Unsupported { section: "6.3", .. }), "{error}");
}

/// A manifest must not make a reader compare each part with each shard, or each name with each other.
#[test]
fn many_objects_and_shards_take_little_time() {
    let shard = map([("size", 48.into()), ("digest", "xxh3:0".into())]);
    let shards: Vec<_> = (0..100_000).map(|number| (Value::Text(format!("{number:06}")), shard.clone())).collect();
    let object = object("dense", &[0], [("data", part("u8", 4096, 0))]);
    let objects: Vec<_> = (0..100_000).map(|number| (Value::Text(format!("{number:06}")), object.clone())).collect();
    let manifest = map([("shards", Value::Map(shards)), ("objects", Value::Map(objects))]);
    let started = std::time::Instant::now();
    let error = read_all(&file(&[], &manifest)).unwrap_err();
    assert!(error.to_string().contains("at most 1000 are opened"), "{error}");
    assert!(started.elapsed().as_secs() < 60);
}
