//! `carton tensor verify`.

use std::fs;
use std::path::Path;

use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{Attribute, Attributes, DigestAlgorithm, StoreAs, Version, Writer};
use insta::assert_snapshot;

use super::{example, floats, read, tensor, write_safetensors, write_ztensor};
use crate::sandbox::Sandbox;

#[test]
fn files_are_verified() {
    let sandbox = Sandbox::new();
    write_ztensor(&sandbox, "w.zt");
    assert_snapshot!(sandbox.carton("tensor verify w.zt"), @"
    exit code: 0
    ----- stdout -----
    OK w.zt: 5 tensors, 67 B, 7 digests right
    ----- stderr -----
    ");
    // Changes a byte of the first blob.
    let mut bytes = read(&sandbox, "w.zt");
    bytes[64] ^= 1;
    sandbox.write("damaged.zt", &bytes);
    assert_snapshot!(sandbox.carton("tensor verify damaged.zt"), @"
    exit code: 4
    ----- stdout -----
    BAD digest mismatch for component `data` of object `ids`: expected crc32c:0x7671B78E, found crc32c:0x3F4DCAA9 [spec/ztensor.md §4.3]
    damaged.zt: 1 problem
    ----- stderr -----
    ");
    let json = sandbox.carton("tensor verify damaged.zt --json").expect_code(4).json();
    assert_eq!((&json["passed"], json["problems"].as_array().unwrap().len()), (&false.into(), 1));
    // Removes the last byte.
    bytes.pop();
    sandbox.write("cut.zt", &bytes);
    assert_snapshot!(sandbox.carton("tensor verify cut.zt"), @r#"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `cut.zt` is not a valid zTensor file

    Caused by:
      the file ends with `\x00ZTEN100`, expected `ZTEN1000`: it is truncated, or was changed [spec/ztensor.md §1.1]
    "#);
    write_safetensors(&sandbox, "w.safetensors", &example());
    assert_snapshot!(sandbox.carton("tensor verify w.safetensors"), @"
    exit code: 0
    ----- stdout -----
    OK w.safetensors: 3 tensors, 28 B, no digests
    ----- stderr -----
    ");
    sandbox.write("long.safetensors", [read(&sandbox, "w.safetensors"), vec![0]].concat());
    sandbox.carton("tensor verify long.safetensors").expect_code(4);
    sandbox.carton("tensor convert w.safetensors ids.npz --only ids").expect_code(0);
    sandbox.carton("tensor verify ids.npz").expect_code(0);
    let mut bytes = read(&sandbox, "ids.npz");
    let at = bytes.windows(8).position(|window| window == 7_i64.to_le_bytes()).unwrap();
    bytes[at] = 8;
    sandbox.write("damaged.npz", bytes);
    sandbox.carton("tensor verify damaged.npz").expect_code(4);
}

/// Attributes, which are decoded only on request, are verified, too.
#[test]
fn attributes_are_verified() {
    let sandbox = Sandbox::new();
    let reject = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../carton-tensor/tests/reject/ztensor/two_attributes_spelt_apart.zt");
    sandbox.write("twice.zt", fs::read(reject).unwrap());
    let json = sandbox.carton("tensor verify twice.zt --json").expect_code(4).json();
    assert!(json["problems"].to_string().contains("[spec/ztensor.md §2.2]"), "{json}");
    let (words, numbers) = (tensor(ElementType::Int32, &[1], [0; 4]), floats(&[1.0], &[1]));
    let parts = [("packed_weight", &words), ("scales", &numbers), ("zeros", &numbers)];
    for (packing, bits, code) in
        [("8_per_i32", 4, 0), ("8_per_i32", 3, 4), ("16_per_i32", 4, 4), ("of_another_kind", 3, 0)]
    {
        let attributes = Attributes::from([
            ("bits".to_owned(), Attribute::Integer(bits)),
            ("group_size".to_owned(), Attribute::Integer(-1)),
            ("packing".to_owned(), Attribute::Text(packing.to_owned())),
        ]);
        let mut writer = Writer::new(Vec::new()).unwrap();
        let parts = parts.map(|(role, tensor)| (role, tensor, StoreAs::RAW));
        writer.object("w", &[8, 1], "quantized_group", &attributes, &parts).unwrap();
        sandbox.write("group.zt", writer.finish().unwrap());
        let json = sandbox.carton("tensor verify group.zt --json").expect_code(code).json();
        assert_eq!(
            json["problems"].to_string().contains("[spec/ztensor.md §5.4]"),
            code == 4,
            "{packing}, {bits}: {json}"
        );
    }
}

#[test]
fn other_versions_of_ztensor_are_called_that() {
    let sandbox = Sandbox::new();
    for (magic, name) in [(&b"ZTEN0001"[..], "old.zt"), (b"\x89ZT2\r\n\x1a\n", "new.zt")] {
        sandbox.write(name, [magic, &[0; 100], magic].concat());
    }
    assert_snapshot!(sandbox.carton("tensor verify old.zt"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `old.zt` is not a file of zTensor 1.1 or 1.2

    Caused by:
      it is a file of zTensor 0.1, which is another format: expected 1.1 or 1.2 [spec/ztensor.md §1.1]

    hint: read it with a release 0.1 of the ztensor library, and save its tensors as safetensors, which can be converted
    ");
    for command in ["verify new.zt", "ls new.zt", "convert new.zt x.npz", "stats new.zt", "verify new.zt --json"] {
        let outcome = sandbox.carton(&format!("tensor {command}")).expect_code(4);
        assert!(format!("{}{}", outcome.stdout, outcome.stderr).contains("it is a file of zTensor 2.x"), "{outcome}");
    }
}

#[test]
fn a_shard_that_is_a_folder_is_called_that() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "one.safetensors", &example());
    fs::create_dir(sandbox.work().join("two.safetensors")).unwrap();
    let map = r#"{"weight_map": {"ids": "one.safetensors", "w": "two.safetensors"}}"#;
    sandbox.write("model.safetensors.index.json", map);
    assert_snapshot!(sandbox.carton("tensor ls model.safetensors.index.json"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `two.safetensors` of `model.safetensors.index.json` is a folder, expected a safetensors file (spec/safetensors.md §7.3)
    ");
    sandbox.carton("tensor convert model.safetensors.index.json x.zt").expect_code(4);
    // Opening a named pipe blocks until another process writes to it.
    fs::remove_dir(sandbox.work().join("two.safetensors")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(sandbox.work().join("two.safetensors")).status().unwrap();
    assert!(made.success());
    let outcome = sandbox.carton("tensor verify model.safetensors.index.json").expect_code(4);
    assert!(outcome.stderr.contains("is a device, a pipe or a socket"), "{outcome}");
}

/// Features that the stated version forbids are reported, but are not damage.
#[test]
fn what_the_stated_version_forbids_is_a_note() {
    let sandbox = Sandbox::new();
    let mut writer = Writer::with_version(Vec::new(), Version::V1_1).unwrap();
    for name in ["a", "b", "c"] {
        writer.add(name, &floats(&[1.0, 2.0], &[2]), StoreAs::RAW.zstd(3).digest(DigestAlgorithm::Crc32c)).unwrap();
    }
    let mut file = writer.finish().unwrap();
    sandbox.write("old.zt", &file);
    assert_snapshot!(sandbox.carton("tensor verify old.zt"), @"
    exit code: 0
    ----- stdout -----
    OK old.zt: 3 tensors, 24 B, 3 digests right
    ----- stderr -----
    ");
    let position = file.windows(5).position(|bytes| bytes == b"1.1.0").unwrap();
    file[position + 2] = b'2';
    file[60] = 1;
    sandbox.write("new.zt", &file);
    assert_snapshot!(sandbox.carton("tensor verify new.zt"), @"
    exit code: 0
    ----- stdout -----
    NOTE the gap with byte 60: not zeros, which version `1.2.0` asks for [spec/ztensor.md §1.5]
    NOTE component `data` of object `a` and 2 more: zstd without `uncompressed_length`, which version `1.2.0` asks for [spec/ztensor.md §4.2]
    OK new.zt: 3 tensors, 24 B, 3 digests right; 2 notes, no damage
    ----- stderr -----
    ");
    let json = sandbox.carton("tensor verify new.zt --json").expect_code(0).json();
    assert_eq!((&json["passed"], json["findings"].as_array().unwrap().len()), (&true.into(), 2));
    // It is read like any other file, and its copy has the fields that its version requires.
    sandbox.carton("tensor convert new.zt copy.zt").expect_code(0);
    assert_eq!(sandbox.carton("tensor verify copy.zt --json").json()["findings"], serde_json::json!([]));
    // Damage is still damage.
    file[64] ^= 1;
    sandbox.write("damaged.zt", &file);
    let json = sandbox.carton("tensor verify damaged.zt --json").expect_code(4).json();
    assert_eq!((&json["passed"], json["findings"].as_array().unwrap().len()), (&false.into(), 2));
}

/// Components that share the same bytes are verified, copied and converted.
#[test]
fn what_objects_share_is_verified() {
    let sandbox = Sandbox::new();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec/conformance/ztensor");
    sandbox.write("tied.zt", fs::read(corpus.join("shared-blob.zt")).unwrap());
    sandbox.carton("tensor verify tied.zt").expect_code(0);
    sandbox.carton("tensor convert tied.zt copy.zt").expect_code(0);
    sandbox.carton("tensor convert tied.zt copy.safetensors").expect_code(0);
    assert_eq!(sandbox.carton("tensor ls copy.zt --json").json()["tensors"].as_array().unwrap().len(), 2);
}
