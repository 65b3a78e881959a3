//! `carton tensor verify`.

use std::fs;
use std::io::Write;
use std::path::Path;

use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{Attribute, Attributes, DigestAlgorithm, StoreAs, Version, Writer};
use carton_tensor::{Tensor, npy};
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
    let magic = b"ZTEN0001".as_slice();
    sandbox.write("old.zt", [magic, &[0; 100], magic].concat());
    assert_snapshot!(sandbox.carton("tensor verify old.zt"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `old.zt` is not a file of zTensor 1.1 or 1.2

    Caused by:
      it is a file of zTensor 0.1, which is another format: expected 1.1 or 1.2 [spec/ztensor.md §1.1]

    hint: read it with a release 0.1 of the ztensor library, and save its tensors as safetensors, which can be converted
    ");
    for command in ["ls old.zt", "convert old.zt x.npz", "stats old.zt", "verify old.zt --json"] {
        let outcome = sandbox.carton(&format!("tensor {command}")).expect_code(4);
        assert!(format!("{}{}", outcome.stdout, outcome.stderr).contains("it is a file of zTensor 0.1"), "{outcome}");
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
    error: `two.safetensors` of `model.safetensors.index.json` is a folder, expected a file of tensors (spec/safetensors.md §7.3)
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

/// `verify` lists the tensors that it could not check. The result is then not OK, because these tensors may be damaged.
#[test]
fn what_cannot_be_checked_is_told() {
    let sandbox = Sandbox::new();
    let header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    let objects = [b"\x93NUMPY\x01\x00", length.as_slice(), header.as_bytes(), b"pickled"].concat();
    let mut numbers = Vec::new();
    npy::write(&mut numbers, &Tensor::from_vec(vec![1.0_f32, 2.0], vec![2]).unwrap()).unwrap();
    let archive = |arrays: &[(&str, &[u8])]| {
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, array) in arrays {
            let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
            archive.start_file(format!("{name}.npy"), options).unwrap();
            archive.write_all(array).unwrap();
        }
        archive.finish().unwrap().into_inner()
    };
    sandbox.write("objects.npz", archive(&[("numbers", &numbers), ("objects", &objects)]));
    assert_snapshot!(sandbox.carton("tensor verify objects.npz"), @"
    exit code: 1
    ----- stdout -----
    UNCHECKED `objects`: dtype `|O` (Python objects) is not one that a carton can hold; cast it with `.astype(str)` if it holds strings, else to a numeric dtype
    objects.npz: 0 problems, 1 not checked
    ----- stderr -----
    ");
    let json = sandbox.carton("tensor verify objects.npz --json").expect_code(1).json();
    assert_eq!((&json["passed"], json["unchecked"].as_array().unwrap().len()), (&false.into(), 1));
    // The methods that Python's zipfile offers beside deflate. Their numbers are in both headers of an entry.
    for (method, name) in [(12_u8, "bzip2"), (14, "LZMA"), (93, "zstd"), (77, "an unknown method")] {
        let mut file = archive(&[("numbers", &numbers)]);
        let central = file.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
        (file[8], file[central + 10]) = (method, method);
        sandbox.write("packed.npz", file);
        for command in ["verify", "ls"] {
            let outcome = sandbox.carton(&format!("tensor {command} packed.npz"));
            assert_eq!(outcome.code, i32::from(command == "verify"), "{outcome}");
            let text = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(text.contains(&format!("it is compressed by {name}, expected stored or deflate")), "{outcome}");
        }
    }
    // If a file has both damaged and unchecked tensors, the exit code is that of damage.
    let mut both = archive(&[("numbers", &numbers), ("objects", &objects)]);
    let at = both.windows(4).position(|window| window == 2.0_f32.to_le_bytes()).unwrap();
    both[at] ^= 1;
    sandbox.write("both.npz", both);
    let json = sandbox.carton("tensor verify both.npz --json").expect_code(4).json();
    assert_eq!((json["problems"].as_array().unwrap().len(), json["unchecked"].as_array().unwrap().len()), (1, 1));
}

/// Strings are checked as reading them would, and a string may be longer than what is checked at a time.
#[test]
fn strings_are_checked() {
    let sandbox = Sandbox::new();
    let file = |descr: &str, shape: usize, elements: &[u8]| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape},), }}\n");
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00", length.as_slice(), header.as_bytes(), elements].concat()
    };
    let long = vec![b'a'; 3 << 20];
    let check = |file: Vec<u8>, code: i32| {
        sandbox.write("s.npy", file);
        sandbox.carton("tensor verify s.npy").expect_code(code);
        assert_eq!(sandbox.carton("tensor convert s.npy out.npy").code, code);
    };
    check(file("<U1", 2, &[97, 0, 0, 0, 98, 0, 0, 0]), 0);
    check(file("<U1", 2, &[97, 0, 0, 0, 0, 0xd8, 0, 0]), 4);
    check(file("|S2", 2, "aéb".as_bytes()), 4);
    check(file("|S3", 1, "aé".as_bytes()), 0);
    check(file(&format!("|S{}", long.len()), 2, &long.repeat(2)), 0);
    check(file(&format!("|S{}", long.len()), 2, &[long.as_slice(), &[0xff; 3 << 20]].concat()), 4);
    check(file("|S1", 2, b"abc"), 4);
}

/// A digest of an algorithm that is not known is told by each command that compares digests, and refused by none.
#[test]
fn digests_that_are_not_known_are_notes() {
    let sandbox = Sandbox::new();
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.add("a", &floats(&[1.0, 2.0], &[2]), StoreAs::RAW.digest(DigestAlgorithm::Crc32c)).unwrap();
    writer.add("b", &floats(&[3.0], &[1]), StoreAs::RAW.digest(DigestAlgorithm::Crc32c)).unwrap();
    let file = writer.finish().unwrap();
    // Another algorithm of the same length.
    let position = file.windows(7).position(|bytes| bytes == b"crc32c:").unwrap();
    sandbox.write("w.zt", [&file[..position], b"xxhash:", &file[position + 7..]].concat());
    sandbox.write(
        "tiny.toml",
        "version = 1\nname = 'tiny'\ntensors = [{ name = 'a', shape = [2] }, { name = 'b', shape = [1] }]",
    );
    assert_snapshot!(sandbox.carton("tensor verify w.zt"), @"
    exit code: 0
    ----- stdout -----
    NOTE not compared, because their algorithms are not known: the digests xxhash of `a` [spec/ztensor.md §4.3]
    OK w.zt: 2 tensors, 12 B, 1 digest right; 1 note, no damage
    ----- stderr -----
    ");
    let json = sandbox.carton("tensor verify w.zt --json").expect_code(0).json();
    assert_eq!((&json["passed"], json["findings"].as_array().unwrap().len()), (&true.into(), 1));
    for command in
        ["stats w.zt", "cat w.zt a", "validate w.zt --model tiny.toml", "convert w.zt out.zt", "quantize w.zt q.zt"]
    {
        let outcome = sandbox.carton(&format!("tensor {command}")).expect_code(0);
        assert!(
            outcome.stderr.contains("because their algorithms are not known: the digests xxhash of `a`"),
            "{outcome}"
        );
        // Digests of other tensors are not its concern.
        let outcome = sandbox.carton(&format!("tensor {}", command.replace("w.zt", "w.zt#b"))).stderr;
        assert!(!outcome.contains("xxhash") || command.starts_with("cat"), "{outcome}");
    }
    // The copy has the digest that was compared, and not the other one.
    assert!(sandbox.carton("tensor verify out.zt").expect_code(0).stdout.contains("1 digest right"));
}

/// Commands that show or judge numbers compare the digests of exactly these, unless the user does not want that.
#[test]
fn commands_that_read_numbers_compare_their_digests() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "tiny.toml",
        "version = 1\nname = 'tiny'\ntensors = [{ name = 'a', shape = [2] }, { name = 'b', shape = [2] }]",
    );
    for store_as in [StoreAs::RAW, StoreAs::RAW.zstd(3)] {
        let mut writer = Writer::new(Vec::new()).unwrap();
        for name in ["a", "b"] {
            writer
                .add(
                    name,
                    &floats(&[1.0, f32::from(name.as_bytes()[0])], &[2]),
                    store_as.digest(DigestAlgorithm::Sha256),
                )
                .unwrap();
        }
        let mut file = writer.finish().unwrap();
        sandbox.write("whole.zt", &file);
        // Within the first blob: a number, or the content of a frame without a checksum.
        let at = if store_as == StoreAs::RAW { 64 } else { 64 + 9 + 3 };
        file[at] ^= 1;
        sandbox.write("w.zt", file);
        for command in ["stats w.zt", "cat w.zt a", "validate w.zt --model tiny.toml"] {
            let whole = sandbox.carton(&format!("tensor {}", command.replace("w.zt", "whole.zt")));
            assert_eq!(whole.code, 0, "{whole}");
            let outcome = sandbox.carton(&format!("tensor {command}")).expect_code(4);
            let text = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(text.contains("digest mismatch for component `data` of object `a`"), "{command}: {outcome}");
            sandbox.carton(&format!("tensor {command} --no-digests")).expect_code(0);
        }
        sandbox.carton("tensor stats w.zt#b").expect_code(0);
        sandbox.carton("tensor cat w.zt b").expect_code(0);
    }
}

/// What is odd in numbers is noted, and is no damage.
#[test]
fn numbers_are_examined_if_asked() {
    let sandbox = Sandbox::new();
    let ones = [1.0_f32; 3];
    write_safetensors(
        &sandbox,
        "odd.safetensors",
        &[
            ("embed", floats(&[1.0, 2.0, 3.0, 4.0], &[2, 2])),
            ("head", floats(&[1.0, 2.0, 3.0, 4.0], &[4])),
            ("norm.0", floats(&ones, &[3])),
            ("norm.1", floats(&ones, &[3])),
            ("broken", floats(&[f32::NAN, f32::INFINITY, 1.0, f32::NAN], &[4])),
            ("one", floats(&[5.0], &[1])),
            ("other.one", floats(&[5.0], &[1])),
        ],
    );
    sandbox.carton("tensor convert odd.safetensors odd.zt --zstd 3").expect_code(0);
    for file in ["odd.safetensors", "odd.zt"] {
        let outcome = sandbox.carton(&format!("tensor verify {file} --deep")).expect_code(0);
        for note in [
            "NOTE `broken` has 2 NaN and 1 infinity among 4 elements",
            "NOTE the 3 elements of `norm.0` are all equal, 1.0",
            "NOTE `embed`, `head` have the same bytes, each stored",
            "; 4 notes, no damage",
        ] {
            assert!(outcome.stdout.contains(note), "{note}: {outcome}");
        }
        let json = sandbox.carton(&format!("tensor verify {file} --deep --json")).expect_code(0).json();
        let deep = &json["deep"];
        assert_eq!((&json["passed"], &deep["examined"]), (&true.into(), &7.into()));
        assert_eq!(deep["not_finite"][0]["name"], "broken");
        assert_eq!(
            (deep["constant"][0]["value"].as_f64(), deep["constant"].as_array().map(Vec::len)),
            (Some(1.0), Some(2))
        );
        assert_eq!(
            (&deep["copies"][0]["names"], deep["copies"].as_array().map(Vec::len)),
            (&["embed", "head"].as_slice().into(), Some(1))
        );
    }
    assert!(sandbox.carton("tensor verify odd.safetensors --json").expect_code(0).json().get("deep").is_none());
}
