//! Commands that read and write cartons without running a model.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use insta::assert_snapshot;

use crate::sandbox::{Outcome, Sandbox, digits};

const ECHO: &str = r#"
model_name = "echo"
short_description = "Gives back what it gets"
model_description = """
Two lines,

and a sequence that clears the screen: \u001b[2J
"""
license = "Apache-2.0"
homepage = "https://example.com/echo"

[[input]]
name = "x"
dtype = "float32"
shape = ["batch", 3]
description = "Numbers"

[[input]]
name = "words"
dtype = "string"
shape = "*"

[[output]]
name = "x"
dtype = "float32"
shape = ["batch", 3]

[[output]]
name = "words"
dtype = "string"
shape = "*"

[[example]]
name = "a picture"
inputs = { x = "@misc/cat.png" }
"#;

/// Packs a model of two files with metadata, an option and a misc file.
fn pack_echo(sandbox: &Sandbox, more: &str) -> Outcome {
    sandbox.write("echo/weights.bin", "weights ".repeat(2000));
    sandbox.write("echo/vocabulary/words.txt", "one\ntwo\n");
    sandbox.write("echo.toml", ECHO);
    sandbox.write("cat.png", "not really a picture");
    sandbox.carton(&format!("pack echo --runner noop --metadata echo.toml --misc cat.png --opt threads=4{more}"))
}

#[test]
fn a_folder_becomes_a_carton_of_its_name() {
    let sandbox = Sandbox::new();
    assert_snapshot!(pack_echo(&sandbox, ""), @r#"
    exit code: 0
    ----- stdout -----
    packed echo.carton (1.4 KiB)
    manifest sha256:[HASH]
    loads in noop 0.1.0 and runs on zeros; no self-tests
    ----- stderr -----
    warning: the noop runner has no option `threads` runner="noop 0.1.0"
    "#);
    assert_eq!(sandbox.files(), ["cat.png", "echo", "echo.carton", "echo.toml"]);
    assert!(crate::sandbox::names(&sandbox.temporary()).is_empty());
    assert_snapshot!(sandbox.carton("info echo.carton"), @"
    exit code: 0
    ----- stdout -----
    echo
    Gives back what it gets

    runner    noop =0.1.0
    license   Apache-2.0
    homepage  https://example.com/echo
    manifest  sha256:[HASH]

    Description
      Two lines,

      and a sequence that clears the screen: �[2J

    Inputs
      x      float32  [batch, 3]  Numbers
      words  string   any shape

    Outputs
      x      float32  [batch, 3]
      words  string   any shape

    Options for the runner
      threads  4

    Examples
      a picture

    Files (5 files, 16.3 KiB, 505 B in the carton)
      carton.toml                    694 B
      misc/cat.png                    20 B
      model/vocabulary/words.txt       8 B
      model/weights.bin           15.6 KiB
      tensor_data/index.toml          12 B

    Run it with
      carton run echo.carton -i x=x.npy -i words=words.npy
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("ls echo.carton"), @"
    exit code: 0
    ----- stdout -----
     SIZE  STORED  METHOD   PATH
      694     350  deflate  carton.toml
       20      20  stored   misc/cat.png
        8       8  stored   model/vocabulary/words.txt
    16000     115  deflate  model/weights.bin
       12      12  stored   tensor_data/index.toml
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("verify echo.carton"), @"
    exit code: 0
    ----- stdout -----
    OK 5 files, 16.3 KiB, all match the manifest
    ----- stderr -----
    ");
    let hash = sandbox.carton("hash echo.carton").expect_code(0).stdout;
    assert_eq!((hash.len(), hash.ends_with('\n')), (65, true));
    assert_eq!(sandbox.carton("hash echo.carton --json").json()["manifest_sha256"], hash.trim());
    // The same input gives the same bytes.
    let bytes = fs::read(sandbox.work().join("echo.carton")).unwrap();
    pack_echo(&sandbox, " -o again.carton").expect_code(0);
    assert_eq!(fs::read(sandbox.work().join("again.carton")).unwrap(), bytes);
}

#[test]
fn info_for_programs() {
    let sandbox = Sandbox::new();
    pack_echo(&sandbox, "").expect_code(0);
    let info = sandbox.carton("info echo.carton --json").expect_code(0);
    assert_snapshot!(info, @r#"
    exit code: 0
    ----- stdout -----
    {
      "manifest_sha256": "[HASH]",
      "signing": {
        "status": "unsigned",
        "place": "echo.carton.sig",
        "signer": null,
        "reason": null
      },
      "spec_version": 1,
      "model_name": "echo",
      "short_description": "Gives back what it gets",
      "model_description": "Two lines,\n\nand a sequence that clears the screen: \u001b[2J\n",
      "license": "Apache-2.0",
      "repository": null,
      "homepage": "https://example.com/echo",
      "required_platforms": [],
      "sandbox": {
        "network": false,
        "read": []
      },
      "card": {},
      "runner": {
        "runner_name": "noop",
        "required_framework_version": "=0.1.0",
        "runner_compat_version": 1,
        "opts": {
          "threads": 4
        },
        "env": {}
      },
      "inputs": [{
        "name": "x",
        "dtype": "float32",
        "shape": ["batch", 3],
        "description": "Numbers",
        "internal_name": null,
        "optional": false
      }, {
        "name": "words",
        "dtype": "string",
        "shape": "*",
        "description": null,
        "internal_name": null,
        "optional": false
      }],
      "outputs": [{
        "name": "x",
        "dtype": "float32",
        "shape": ["batch", 3],
        "description": null,
        "internal_name": null
      }, {
        "name": "words",
        "dtype": "string",
        "shape": "*",
        "description": null,
        "internal_name": null
      }],
      "self_tests": [],
      "examples": ["a picture"],
      "warnings": [],
      "files": [{
        "path": "carton.toml",
        "sha256": "[HASH]",
        "size": 694,
        "stored": 350,
        "method": "deflate",
        "linked": false,
        "symlink": null
      }, {
        "path": "misc/cat.png",
        "sha256": "[HASH]",
        "size": 20,
        "stored": 20,
        "method": "stored",
        "linked": false,
        "symlink": null
      }, {
        "path": "model/vocabulary/words.txt",
        "sha256": "[HASH]",
        "size": 8,
        "stored": 8,
        "method": "stored",
        "linked": false,
        "symlink": null
      }, {
        "path": "model/weights.bin",
        "sha256": "[HASH]",
        "size": 16000,
        "stored": 115,
        "method": "deflate",
        "linked": false,
        "symlink": null
      }, {
        "path": "tensor_data/index.toml",
        "sha256": "[HASH]",
        "size": 12,
        "stored": 12,
        "method": "stored",
        "linked": false,
        "symlink": null
      }]
    }
    ----- stderr -----
    "#);
    let files = sandbox.carton("ls echo.carton --json").expect_code(0).json();
    assert_eq!(files["files"], info.json()["files"]);
}

#[test]
fn a_file_becomes_a_carton_without_its_extension() {
    let sandbox = Sandbox::new();
    let packed = sandbox.run(["pack", &digits("model.onnx"), "--runner", "onnx", "--json"]).expect_code(0);
    assert_snapshot!(packed, @r#"
    exit code: 0
    ----- stdout -----
    {
      "path": "model.carton",
      "manifest_sha256": "[HASH]",
      "size": 14841,
      "check": {
        "runner": "onnx 1.32.0",
        "zeros": {
          "ran": true
        },
        "passed": true,
        "counts": {
          "passed": 0,
          "ran": 0,
          "failed": 0
        },
        "self_tests": []
      },
      "warnings": []
    }
    ----- stderr -----
    "#);
    assert_eq!(sandbox.files(), ["model.carton"]);
    // Inputs and outputs are read from the model.
    assert_snapshot!(sandbox.carton("info model.carton"), @"
    exit code: 0
    ----- stdout -----
    (no name)

    runner    onnx >=1.24.0, <2
    manifest  sha256:[HASH]

    Inputs
      image  float32  [batch, 1, 8, 8]

    Outputs
      probabilities  float32  [batch, 10]

    Files (3 files, 14.8 KiB, 13.9 KiB in the carton)
      carton.toml                264 B
      model/model.onnx        14.5 KiB
      tensor_data/index.toml      12 B

    Run it with
      carton run model.carton -i image=image.npy
    ----- stderr -----
    ");
}

#[test]
fn the_example_of_the_readme() {
    let sandbox = Sandbox::new();
    let (model, metadata) = (digits("model.onnx"), digits("carton.toml"));
    let arguments = ["pack", &model, "--runner", "onnx", "--metadata", &metadata, "-o", "digits.carton"];
    sandbox.run(arguments).expect_code(0);
    assert_snapshot!(sandbox.carton("run digits.carton --self-test"), @"
    exit code: 0
    ----- stdout -----
    passed  one digit  [TIME]  largest difference [DIFFERENCE] in probabilities
    passed  sixteen digits  [TIME]  largest difference [DIFFERENCE] in probabilities
    2 self-tests passed
    ----- stderr -----
    ");
}

#[test]
fn compression_is_as_asked_for() {
    let sandbox = Sandbox::new();
    let method = |choice: &str| {
        pack_echo(&sandbox, &format!(" --compression {choice}")).expect_code(0);
        let files = sandbox.carton("ls echo.carton --json").expect_code(0).json();
        let files = files["files"].as_array().unwrap().clone();
        let weights = files.iter().find(|file| file["path"] == "model/weights.bin").unwrap();
        weights["method"].as_str().unwrap().to_owned()
    };
    assert_eq!(method("auto"), "deflate");
    assert_eq!(method("stored"), "stored");
    assert_eq!(method("zstd"), "zstd");
    assert_eq!(method("deflate"), "deflate");
    assert_eq!(sandbox.carton("pack echo --runner noop --compression lzma").code, 2);
}

#[test]
fn the_runner_may_come_from_the_metadata() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write("m.toml", "[runner]\nrunner_name = 'noop'\nrequired_framework_version = '*'\n");
    sandbox.carton("pack model.bin --metadata m.toml").expect_code(0);
    let info = sandbox.carton("info model.carton --json").json();
    assert_snapshot!(info["runner"], @r#"{"env":{},"opts":{},"required_framework_version":"*","runner_compat_version":1,"runner_name":"noop"}"#);
    sandbox.carton("pack model.bin --runner noop --framework-version ^0.1").expect_code(0);
    assert_eq!(sandbox.carton("info model.carton --json").json()["runner"]["required_framework_version"], "^0.1");
}

#[test]
fn a_carton_is_unpacked_and_used_as_a_folder() {
    let sandbox = Sandbox::new();
    pack_echo(&sandbox, " -o packed.carton").expect_code(0);
    assert_snapshot!(sandbox.carton("unpack packed.carton"), @"
    exit code: 0
    ----- stdout -----
    unpacked 5 files into packed
    ----- stderr -----
    ");
    assert_eq!(fs::read(sandbox.work().join("packed/misc/cat.png")).unwrap(), b"not really a picture");
    assert_snapshot!(sandbox.carton("unpack packed.carton"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `packed` exists already and is not an empty folder
    ");
    assert_snapshot!(sandbox.carton("unpack packed.carton -o other --json"), @r#"
    exit code: 0
    ----- stdout -----
    {
      "path": "other",
      "files": 5,
      "manifest_sha256": "[HASH]"
    }
    ----- stderr -----
    "#);
    let (file, folder) = (sandbox.carton("hash packed.carton"), sandbox.carton("hash other"));
    assert_eq!(file.expect_code(0).stdout, folder.expect_code(0).stdout);
    assert_snapshot!(sandbox.carton("verify other"), @"
    exit code: 0
    ----- stdout -----
    OK 5 files, 16.3 KiB, all match the manifest
    ----- stderr -----
    ");
    fs::write(sandbox.work().join("other/model/weights.bin"), "tampered").unwrap();
    assert_snapshot!(sandbox.carton("verify other"), @"
    exit code: 4
    ----- stdout -----
    BAD digest mismatch for `model/weights.bin`: expected [HASH], found [HASH]
    1 of 5 files do not match the manifest
    ----- stderr -----
    ");
}

#[test]
fn damage_is_found_and_named() {
    let sandbox = Sandbox::new();
    pack_echo(&sandbox, " --compression stored").expect_code(0);
    damage(&sandbox.work().join("echo.carton"), b"one\ntwo\n");
    damage(&sandbox.work().join("echo.carton"), b"not really");
    assert_snapshot!(sandbox.carton("verify echo.carton"), @"
    exit code: 4
    ----- stdout -----
    BAD cannot read `misc/cat.png`: CRC-32 mismatch for `misc/cat.png`: expected 0x8f0e1430, found 0x3f572445
    BAD cannot read `model/vocabulary/words.txt`: CRC-32 mismatch for `model/vocabulary/words.txt`: expected 0x12ba0be6, found 0x479cf820
    2 of 5 files do not match the manifest
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("verify echo.carton --json"), @r#"
    exit code: 4
    ----- stdout -----
    {
      "passed": false,
      "manifest_sha256": "[HASH]",
      "checked": 5,
      "bytes": 16706,
      "bad_files": [{
        "path": "misc/cat.png",
        "error": "cannot read `misc/cat.png`: CRC-32 mismatch for `misc/cat.png`: expected 0x8f0e1430, found 0x3f572445"
      }, {
        "path": "model/vocabulary/words.txt",
        "error": "cannot read `model/vocabulary/words.txt`: CRC-32 mismatch for `model/vocabulary/words.txt`: expected 0x12ba0be6, found 0x479cf820"
      }],
      "not_fetched": [],
      "warnings": [],
      "signing": {
        "status": "unsigned",
        "place": "echo.carton.sig",
        "signer": null,
        "reason": null
      }
    }
    ----- stderr -----
    "#);
    // The metadata is intact, so this succeeds.
    sandbox.carton("info echo.carton").expect_code(0);
    assert_snapshot!(sandbox.carton("unpack echo.carton"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `echo` exists already and is not an empty folder
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i x=[[1,2,3]] -i words=[]"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: cannot read `model/vocabulary/words.txt`

    Caused by:
      CRC-32 mismatch for `model/vocabulary/words.txt`: expected 0x12ba0be6, found 0x479cf820
    ");
    assert_eq!(sandbox.files(), ["cat.png", "echo", "echo.carton", "echo.toml"]);
}

/// Changes the first byte of `text` in a file.
fn damage(path: &Path, text: &[u8]) {
    let mut file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    file.seek(SeekFrom::Start(at as u64)).unwrap();
    file.write_all(b"?").unwrap();
}

#[test]
fn another_carton_than_the_expected_one() {
    let sandbox = Sandbox::new();
    pack_echo(&sandbox, "").expect_code(0);
    let hash = sandbox.carton("hash echo.carton").stdout.trim().to_owned();
    sandbox.carton(&format!("info echo.carton --expect {hash}")).expect_code(0);
    sandbox.carton(&format!("info echo.carton --expect sha256:{hash}")).expect_code(0);
    sandbox.carton(&format!("info echo.carton#sha256={hash}")).expect_code(0);
    let other = "0".repeat(64);
    for command in ["info", "ls", "verify", "hash", "unpack", "run"] {
        sandbox.carton(&format!("{command} echo.carton --expect {other}")).expect_code(4);
        sandbox.carton(&format!("{command} echo.carton#sha256={other}")).expect_code(4);
    }
    assert_snapshot!(sandbox.carton(&format!("hash echo.carton --expect {other}")), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: the carton is another one: expected manifest hash [HASH], found [HASH]
    ");
    assert_snapshot!(sandbox.carton(&format!("hash echo.carton --expect {other} --json")), @r#"
    exit code: 4
    ----- stdout -----
    {
      "error": {
        "kind": "integrity",
        "message": "the carton is another one: expected manifest hash [HASH], found [HASH]",
        "causes": [],
        "hint": null
      }
    }
    ----- stderr -----
    "#);
}

#[test]
fn quiet_prints_results_only() {
    let sandbox = Sandbox::new();
    pack_echo(&sandbox, "").expect_code(0);
    let outcome = sandbox.carton("-q ls echo.carton").expect_code(0);
    assert!(outcome.stdout.contains("model/weights.bin"));
    assert_eq!(outcome.stderr, "");
}
