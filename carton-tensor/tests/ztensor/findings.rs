//! Violations of the stated version (spec/ztensor.md §2.7). For each rule there is a file that breaks only this rule.

use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{Attribute, Attributes, Reader, StoreAs, Version, VersionRule, Writer};

use crate::builders::{
    Text, changed_component, component, compressed, coo, csr, file_with, good, object, quantized, root, zstd,
};
use crate::container::tensor;
use crate::peers::{python, run_script};

/// Returns the rules that a file breaks, with their counts, and the text of the first finding.
fn found(bytes: Vec<u8>) -> (Vec<(VersionRule, usize)>, String) {
    let findings = Reader::new(bytes.into()).unwrap().findings().unwrap();
    let text = findings.first().map(ToString::to_string).unwrap_or_default();
    (findings.iter().map(|finding| (finding.rule(), finding.count())).collect(), text)
}

/// Replaces the version by another one of the same length.
fn stating(version: &str, mut bytes: Vec<u8>) -> Vec<u8> {
    let old = bytes.windows(5).position(|window| window == b"1.2.0").unwrap();
    bytes[old..old + 5].copy_from_slice(version.as_bytes());
    bytes
}

/// Checks that a file breaks this rule if it states one version, and no rule if it states the other.
fn check(bytes: &[u8], breaks: &str, keeps: &str, rule: VersionRule, expected: &str) {
    let (rules, text) = found(stating(breaks, bytes.to_vec()));
    assert_eq!((&rules[..], &text[..]), (&[(rule, 1)][..], expected));
    assert_eq!(found(stating(keeps, bytes.to_vec())).0, []);
}

#[test]
fn rules_of_1_2() {
    let data = "component `data` of object `x`";
    let frame = zstd(5);
    check(
        &compressed(&frame, &[5], None),
        "1.2.0",
        "1.1.0",
        VersionRule::UncompressedLength,
        &format!("{data}: zstd without `uncompressed_length`, which version `1.2.0` asks for [spec/ztensor.md §4.2]"),
    );
    let complex = root(vec![("x", object(&[1], "dense", vec![("data", component("complex64", 64, 8))]))]);
    check(
        &file_with(&[0; 8], &complex),
        "1.3.7",
        "1.1.0",
        VersionRule::StorageType,
        &format!("{data}: with a dtype of version 1.1, which version `1.3.7` does not have [spec/ztensor.md §3.1]"),
    );
    check(
        &coo("u32", [0_u32, 1, 2, 0].map(u32::to_le_bytes).concat()),
        "1.2.9",
        "1.1.9",
        VersionRule::IndexType,
        "component `coords` of object `x`: indices of another type than u64, which version `1.2.9` asks for [spec/ztensor.md §5.1]",
    );
    check(
        &quantized(|attributes, _, _| attributes.remove("group_size")),
        "1.2.0",
        "1.0.0",
        VersionRule::GroupAttributes,
        "object `x`: without `bits`, `group_size` or `packing`, which version `1.2.0` asks for [spec/ztensor.md §5.4]",
    );
    assert_eq!(found(csr(&[2, 3], &[0, 1, 2], &[0, 1, 3])).0, []);
    assert_eq!(found(quantized(|_, _, _| {})).0, []);
}

#[test]
fn rules_of_1_1() {
    let data = "component `data` of object `x`";
    let expected = format!(
        "{data}: with the field `type`, which version `1.1.0` does not have: its readers see the dtype alone [spec/ztensor.md §2.5]"
    );
    for logical in ["f8_e5m2", "unheard_of"] {
        let bytes = changed_component(|data| data.push("type", Text(logical)));
        check(&bytes, "1.1.0", "1.2.0", VersionRule::NoLogicalType, &expected);
    }
    let frame = zstd(5);
    check(
        &compressed(&frame, &[5], Some(5)),
        "1.1.0",
        "1.2.0",
        VersionRule::NoUncompressedLength,
        &format!(
            "{data}: with the field `uncompressed_length`, which version `1.1.0` does not have [spec/ztensor.md §2.5]"
        ),
    );
    // A `type` that equals the `dtype` does not count as a logical type.
    let same = changed_component(|data| data.push("type", Text("u8")));
    assert_eq!(found(stating("1.1.0", same)).0, []);
    // A version without a minor number implies no rules.
    let mut old = good();
    *old.field("version") = Text("1");
    old.field("objects").field("x").field("components").field("data").push("type", Text("f8_e5m2"));
    assert_eq!(found(file_with(&[1, 2], &old)).0, []);
}

#[test]
fn gaps_that_are_not_zeros() {
    let two = |first: u64, second: u64| {
        let data = |offset| object(&[2], "dense", vec![("data", component("u8", offset, 2))]);
        root(vec![("x", data(first)), ("y", data(second))])
    };
    let mut blobs = vec![0; 200];
    let clean = file_with(&blobs, &two(64, 128));
    assert_eq!(found(clean.clone()).0, []);
    blobs[2] = 7;
    blobs[199] = 7;
    let expected = "the gap with byte 66 and 1 more: not zeros, which version `1.2.0` asks for [spec/ztensor.md §1.5]";
    assert_eq!(found(file_with(&blobs, &two(64, 128))), (vec![(VersionRule::Padding, 2)], expected.to_owned()));
    // A gap before the first blob, and a file whose objects are in another order and share bytes.
    let mut before = clean;
    before[8] = 1;
    assert!(found(before).1.starts_with("the gap with byte 8: "));
    assert_eq!(found(file_with(&[0, 0], &two(64, 64))).0, []);
    blobs = vec![0; 200];
    blobs[0] = 7;
    blobs[65] = 7;
    assert_eq!(found(file_with(&blobs, &two(128, 64))).0, []);
    // The last byte of a long gap.
    let mut long = vec![0; 200_000];
    long[199_999] = 1;
    assert!(found(file_with(&long, &two(64, 128))).1.starts_with("the gap with byte 200063: "));
}

#[test]
fn a_rule_that_is_broken_often_is_one_finding() {
    let bytes = parts_of_indices();
    let expected = "component `indices` of object `x` and 1 more: indices of another type than u64, which version `1.2.0` asks for \
                    [spec/ztensor.md §5.1]";
    assert_eq!(found(bytes), (vec![(VersionRule::IndexType, 2)], expected.to_owned()));
}

fn parts_of_indices() -> Vec<u8> {
    let components = vec![
        ("indices", component("u8", 64, 1)),
        ("indptr", component("i16", 128, 4)),
        ("values", component("u8", 192, 1)),
    ];
    let mut blobs = vec![0; 129];
    blobs[66] = 1;
    file_with(&blobs, &root(vec![("x", object(&[1, 1], "sparse_csr", components))]))
}

/// The files that we write break no rule, in either version.
#[test]
fn written_files_have_no_findings() {
    for version in [Version::V1_1, Version::V1_2] {
        let mut writer = Writer::with_version(Vec::new(), version).unwrap();
        for dtype in ElementType::ALL.into_iter().filter(|dtype| version.has(*dtype)) {
            for (how, store_as) in [("raw", StoreAs::RAW), ("zstd", StoreAs::RAW.zstd(1))] {
                let name = format!("{dtype} {how}");
                writer.add(&name, &tensor(dtype, &[2, 4]), store_as).unwrap();
                if dtype.bits() >= 8 {
                    writer
                        .add_sparse(&format!("{name} sparse"), &tensor(dtype, &[2, 4]), &Attributes::new(), store_as)
                        .unwrap();
                }
            }
        }
        assert_eq!(found(writer.finish().unwrap()).0, [], "{version}");
    }
}

/// Version 1.2.3 of the peer writes any type of indices it is given, and appends fields of 1.2 to a file that states 1.1.
#[test]
fn findings_in_files_of_peers() {
    let Some(python) = python() else { return };
    let place = tempfile::tempdir().unwrap();
    run_script(&python, "tests/ztensor_peers.py", &["make", "1.1"], place.path());
    for name in ["peer-raw.zt", "peer-zstd.zt"] {
        assert_eq!(found(std::fs::read(place.path().join(name)).unwrap()).0, [], "{name}");
    }
    run_script(&python, "tests/ztensor_peers.py", &["make", "1.2"], place.path());
    for name in ["peer-raw.zt", "peer-zstd.zt"] {
        // Three of four types of indices are not u64: two components of a matrix, and one of coordinates.
        let expected = [(VersionRule::IndexType, 9)];
        assert_eq!(found(std::fs::read(place.path().join(name)).unwrap()).0, expected, "{name}");
    }
}

/// Only the presence of attributes is checked, so an unknown packing is not a finding.
#[test]
fn attributes_that_are_there_are_enough() {
    let attributes = Attributes::from([
        ("bits".to_owned(), Attribute::Integer(3)),
        ("group_size".to_owned(), Attribute::Integer(-1)),
        ("packing".to_owned(), Attribute::Text("of_another_kind".to_owned())),
    ]);
    let mut writer = Writer::new(Vec::new()).unwrap();
    let part = tensor(ElementType::Int32, &[1]);
    let parts = ["packed_weight", "scales", "zeros"].map(|role| (role, &part, StoreAs::RAW));
    writer.object("x", &[8, 1], "quantized_group", &attributes, &parts).unwrap();
    assert_eq!(found(writer.finish().unwrap()).0, []);
}
