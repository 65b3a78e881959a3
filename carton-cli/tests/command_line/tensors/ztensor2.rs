//! Files of zTensor 2, which PyPI's ztensor 2.1.2 wrote: listed, measured, printed, checked, compared, converted, and read at a URL by ranges.

use std::fs;
use std::path::{Path, PathBuf};

use carton_test_server::nginx::Nginx;
use insta::assert_snapshot;

use super::read;
use crate::sandbox::Sandbox;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../carton-tensor/tests/data/ztensor2").join(name)
}

const FILES: [&str; 9] =
    ["types", "canonical", "compressed", "sparse", "others", "appended", "sharded", "sharded-one", "sharded-two"];

fn with_files() -> Sandbox {
    let sandbox = Sandbox::new();
    for name in FILES {
        let name = format!("{name}.zt");
        sandbox.write(&name, fs::read(fixture(&name)).unwrap());
    }
    sandbox
}

#[test]
fn what_is_in_files() {
    let sandbox = with_files();
    assert_snapshot!(sandbox.carton("tensor ls sparse.zt"), @"
    exit code: 0
    ----- stdout -----
    DTYPE          SHAPE      BYTES  STORED  ENCODING   FORMAT      NAME
    int16          [2, 3, 4]     28      28  raw, xxh3  sparse_coo  coo
    float32        [3, 4]        40      40  raw, xxh3  sparse_csr  csr
    float8_e4m3fn  [2, 2]        42      42  raw, xxh3  sparse_csr  csr64

    attributes of csr64
      note: two
    ----- stderr -----
    3 tensors, 40 parameters, 110 B
    ");
    assert_snapshot!(sandbox.carton("tensor ls others.zt"), @r#"
    exit code: 0
    ----- stdout -----
    DTYPE      SHAPE  BYTES  STORED  ENCODING   FORMAT            NAME
    -          [32]      18      18  raw, xxh3  zt.quant_group/1  group
    -          [3]        2       2  raw, xxh3  dense             half
    -          [32]      17      17  raw, xxh3  zt.mx/1           mx
    uint16     [2]        4       4  raw, xxh3  dense             plain
    vendor.u6  [4]        3       3  raw, xxh3  dense             type

    attributes of group
      axis: 0
      bits: 4
      group_size: 32
      packing: {"order":"lsb_first","per_word":8,"word":"u32"}
      scale_form: f16_factors
      zero_point: {"form":"implied","value":8}

    attributes of mx
      block_size: 32
      scale_form: e8m0_exponent
    ----- stderr -----
    `group` cannot be read: it is of the layout `zt.quant_group/1`
    `half` cannot be read: it is an odd number of float4_e2m1fn, whose elements are half a byte
    `mx` cannot be read: it is of the layout `zt.mx/1`
    `type` cannot be read: it is of elements of the type `vendor.u6`, which is not known
    5 tensors, 73 parameters, 44 B
    "#);
    assert_snapshot!(sandbox.carton("tensor ls canonical.zt"), @r#"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE   BYTES  STORED  ENCODING   FORMAT  NAME
    float32  [5]        20      20  raw, xxh3  dense   a
    float32  [5, 1]     20      20  raw, xxh3  dense   b

    metadata
      epochs: 3
      flags: [true,null]
      framework: none
      more: {"a":-1,"b":[1.5,"x"]}
      rate: 0.1
    ----- stderr -----
    2 tensors, 10 parameters, 40 B
    "#);
    assert_snapshot!(sandbox.carton("tensor ls sharded.zt"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE   BYTES  STORED  ENCODING   FORMAT  NAME
    float32  [2, 2]     16      16  raw, xxh3  dense   a
    int16    [3]         6       6  raw, xxh3  dense   b
    uint8    [5]         5       5  raw, xxh3  dense   c
    ----- stderr -----
    3 tensors, 12 parameters, 27 B
    ");
    assert_snapshot!(sandbox.carton("tensor cat sparse.zt#csr"), @"
    exit code: 0
    ----- stdout -----
    csr  float32 [3, 4]
    [[1. 0. 0. 2.]
     [0. 0. 0. 0.]
     [0. 3. 0. 0.]]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor stats compressed.zt"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE               MIN        MAX       MEAN        STD  NAN  INF  NAME
    uint8    [1048576]             0          0          0          0    0    0  exact
    bool     [3]                   0          1    0.66667     0.4714    0    0  flags
    uint32   [700, 1000]           0        139       69.5    40.4135    0    0  long
    uint8    [0]                   -          -          -          -    0    0  nothing
    float32  [8]          1.6640e-30  6.8716e25  8.5896e24  2.2725e25    0    0  short
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor cat others.zt#mx"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `mx` in `others.zt` is of the layout `zt.mx/1`, expected a tensor of numbers
    ");
    assert_snapshot!(sandbox.carton("tensor ls sharded-two.zt"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot read `sharded-two.zt`

    Caused by:
      it is a data shard: bytes of tensors that the manifest of another file describes [spec/ztensor2.md §6.2]
    ");
}

#[test]
fn files_are_verified() {
    let sandbox = with_files();
    assert_snapshot!(sandbox.carton("tensor verify compressed.zt"), @"
    exit code: 0
    ----- stdout -----
    OK compressed.zt: 5 tensors, 3.7 MiB, 5 digests right
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor verify others.zt"), @"
    exit code: 0
    ----- stdout -----
    OK others.zt: 5 tensors, 44 B, 7 digests right
    ----- stderr -----
    ");
    // The two shards have digests too.
    assert_snapshot!(sandbox.carton("tensor verify sharded.zt"), @"
    exit code: 0
    ----- stdout -----
    OK sharded.zt: 3 tensors, 27 B, 5 digests right
    ----- stderr -----
    ");
    let mut bytes = read(&sandbox, "types.zt");
    bytes[4096] ^= 1;
    sandbox.write("damaged.zt", &bytes);
    assert_snapshot!(sandbox.carton("tensor verify damaged.zt"), @"
    exit code: 4
    ----- stdout -----
    BAD digest mismatch for part `data` of object `f64`: expected xxh3:701cd5a9f6ba856a, found xxh3:f26634cc3aef41b2 [spec/ztensor2.md §4.3]
    BAD digest mismatch for part `data` of object `i64`: expected xxh3:701cd5a9f6ba856a, found xxh3:f26634cc3aef41b2 [spec/ztensor2.md §4.3]
    BAD digest mismatch for part `data` of object `u64`: expected xxh3:701cd5a9f6ba856a, found xxh3:f26634cc3aef41b2 [spec/ztensor2.md §4.3]
    damaged.zt: 3 problems
    ----- stderr -----
    ");
    // Damaged bytes are neither shown nor converted.
    sandbox.carton("tensor cat damaged.zt#f64").expect_code(4);
    sandbox.carton("tensor convert damaged.zt out.safetensors --exclude complex128").expect_code(4);
    bytes.pop();
    sandbox.write("cut.zt", &bytes);
    assert_snapshot!(sandbox.carton("tensor verify cut.zt"), @r#"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `cut.zt` is not a valid file of zTensor 2

    Caused by:
      at byte 63806: the file ends with `\x00\x89ZT2\r\n\x1a`, expected `\x89ZT2\r\n\x1a\n` [spec/ztensor2.md §1.1]
    "#);
    let mut bytes = read(&sandbox, "sharded-two.zt");
    bytes[100] ^= 1;
    sandbox.write("sharded-two.zt", &bytes);
    let verified = sandbox.carton("tensor verify sharded.zt").expect_code(4);
    assert!(verified.stdout.contains("digest mismatch for the shard `sharded-two.zt`"), "{}", verified.stdout);
}

#[test]
fn files_are_converted_and_compared() {
    let sandbox = with_files();
    for (file, part, outputs) in [
        ("types", "", &["zt"][..]),
        ("canonical", "", &["safetensors", "zt", "npz"]),
        ("compressed", "", &["safetensors", "zt"]),
        ("sparse", "", &["safetensors", "zt"]),
        ("others", "#plain", &["safetensors", "zt"]),
        ("sharded", "", &["safetensors", "zt"]),
    ] {
        for output in outputs {
            let output = format!("{file}-out.{output}");
            sandbox.carton(&format!("tensor convert {file}.zt{part} {output}")).expect_code(0);
            sandbox.carton(&format!("tensor verify {output}")).expect_code(0);
            sandbox.carton(&format!("tensor diff {file}.zt{part} {output}{part} --read-all")).expect_code(0);
        }
    }
    let converted = sandbox.carton("tensor convert sparse.zt out.safetensors").expect_code(0);
    assert!(converted.stderr.contains("the attributes of `csr64` are not written"), "{}", converted.stderr);
    let ours = sandbox.carton("tensor diff types.zt sparse.zt").expect_code(3);
    assert!(ours.stdout.contains("bf16"), "{}", ours.stdout);
    assert_snapshot!(sandbox.carton("tensor convert others.zt all.safetensors"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a safetensors file cannot hold tensor `group`, which cannot be read: it is of the layout `zt.quant_group/1`

    hint: choose the others with --only
    ");
    // A shard is one of the files that are read.
    let error = sandbox.carton("tensor convert sharded.zt sharded-one.zt").expect_code(2);
    assert!(error.stderr.contains("sharded-one.zt"), "{}", error.stderr);
    sandbox.carton("tensor quantize types.zt q.zt --only f32").expect_code(0);
}

#[test]
fn files_are_written_as_the_library_writes_them() {
    let sandbox = with_files();
    sandbox.carton("tensor convert canonical.zt again.zt --version 2").expect_code(0);
    assert!(read(&sandbox, "again.zt") == read(&sandbox, "canonical.zt"));
    // The order of the input does not matter, nor how its tensors are stored.
    for file in ["types", "compressed", "sparse", "sharded"] {
        sandbox.carton(&format!("tensor convert {file}.zt one.zt")).expect_code(0);
        sandbox.carton(&format!("tensor convert {file}.zt two.zt --version 2")).expect_code(0);
        sandbox.carton("tensor convert one.zt three.zt --version 2").expect_code(0);
        assert!(read(&sandbox, "two.zt") == read(&sandbox, "three.zt"), "{file}");
        sandbox.carton(&format!("tensor diff {file}.zt two.zt --read-all")).expect_code(0);
        sandbox.carton("tensor verify two.zt").expect_code(0);
    }
    sandbox.carton("tensor quantize types.zt q.zt --only f32 --version 2").expect_code(0);
    let listed = sandbox.carton("tensor ls q.zt").expect_code(0).stdout;
    assert!(listed.contains("f32.scale"), "{listed}");
    assert_snapshot!(sandbox.carton("tensor convert types.zt out.zt --version 2 --zstd 3"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: --zstd is for .zt files: `out.zt` would be a file of zTensor 2
    ");
    sandbox.carton("tensor convert types.zt out.zt --version 2 --digest sha256").expect_code(2);
    sandbox.carton("tensor convert types.zt out.npz --version 2").expect_code(2);
    assert!(!sandbox.work().join("out.zt").exists());
}

#[test]
fn a_url_does_what_a_path_does() {
    let Some(nginx) = Nginx::start("") else { return };
    let sandbox = with_files();
    for name in FILES {
        fs::copy(fixture(&format!("{name}.zt")), nginx.root().join(format!("{name}.zt"))).unwrap();
    }
    for name in ["compressed", "sparse", "others", "sharded"] {
        let (file, url) = (format!("{name}.zt"), nginx.url(&format!("{name}.zt")));
        for command in ["ls", "verify", "stats"] {
            let local = sandbox.run(["tensor", command, &file, "--json"]).expect_code(0);
            let remote = sandbox.run(["tensor", command, &url, "--json"]).expect_code(0);
            let local = local.stdout.replace(sandbox.work().to_str().unwrap(), "").replace(&file, "FILE");
            assert_eq!(remote.stdout.replace(&url, "FILE"), local, "{command} {file}");
        }
    }
}

/// The end of a file says where its manifest is.
#[test]
fn the_manifest_takes_few_bytes() {
    let Some(nginx) = Nginx::start("") else { return };
    let sandbox = Sandbox::new();
    // The blob of a file that was appended to has no meaning: here it is long.
    let bytes = fs::read(fixture("canonical.zt")).unwrap();
    let footer = bytes.len() - 40;
    let place = u64::from_le_bytes(bytes[footer..footer + 8].try_into().unwrap());
    let mut long = bytes[..place as usize].to_vec();
    long.resize(8 << 20, 0);
    let new_place = long.len() as u64;
    long.extend_from_slice(&bytes[place as usize..]);
    let footer = long.len() - 40;
    long[footer..footer + 8].copy_from_slice(&new_place.to_le_bytes());
    fs::write(nginx.root().join("long.zt"), &long).unwrap();
    sandbox.run(["tensor", "ls", &nginx.url("long.zt")]).expect_code(0);
    let requests = nginx.requests();
    let sent: u64 = requests.iter().map(|request| request.body_bytes).sum();
    assert!(requests.len() <= 3 && sent < long.len() as u64 / 4, "{requests:?}");
}
