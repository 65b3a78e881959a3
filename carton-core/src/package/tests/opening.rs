//! Cartons that other programs could have written: those that are read, and those that are refused.

use serde_json::json;

use super::*;
use crate::contents::tests::Builder;

const RUNNER: &str = "[runner]\nrunner_name = 'noop'\nrequired_framework_version = '1'\n";

/// Makes a carton of a small model and exactly these files, whatever they hold.
pub(super) fn carton(folder: &Folder, carton_toml: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let mut builder = Builder::default().file("carton.toml", carton_toml.as_bytes()).stored("model/m", b"1");
    for (path, bytes) in files {
        builder = builder.file(path, bytes);
    }
    folder.file("any.carton", builder.bytes())
}

/// Opens a carton of these files as a file and as a folder: both must fail in the same way.
fn check(carton_toml: &str, files: &[(&str, &[u8])], kind: ErrorKind, expected: &str) {
    let folder = Folder::new();
    let path = carton(&folder, carton_toml, files);
    let unpacked = folder.path("unpacked");
    let source = FileSource::open(&path).unwrap();
    Contents::open_archive(source, None, None, Blobs::default())
        .unwrap()
        .unpack(&unpacked, &Context::default())
        .unwrap();
    for path in [path, unpacked] {
        let error = open(&path).expect_err(expected);
        let found = chain(&error);
        assert!(found.contains(expected), "expected {expected}\nfound {found}");
        assert_eq!(error.kind(), kind, "{found}");
    }
}

pub(super) fn valid(top: &str) -> String {
    format!("spec_version = 1\n{top}\n{RUNNER}")
}

#[test]
fn metadata_that_cannot_be_used() {
    check("spec_version = ", &[], ErrorKind::Integrity, "carton.toml is not valid TOML");
    check("spec_version = 1", &[], ErrorKind::Integrity, "`runner.runner_name`");
    check(
        "spec_version = 2",
        &[],
        ErrorKind::Unsupported,
        "unsupported carton format: expected spec_version 1, found 2",
    );
    check(&valid("model_name = 1"), &[], ErrorKind::Integrity, "`model_name`: invalid type");
    let long = format!("#{}", "x".repeat(4 << 20));
    check(&long, &[], ErrorKind::Unsupported, "`carton.toml` has 4194305 bytes, expected at most 4194304");
}

#[test]
fn tensors_that_cannot_be_used() {
    let index = "tensor_data/index.toml";
    let tensor = b"[[tensor]]\nname = 't'\ndtype = 'float32'\nshape = [2]\nfile = 't.bin'\ninner = []";
    let check = |files: &[(&str, &[u8])], expected: &str| check(&valid(""), files, ErrorKind::Integrity, expected);
    let expected = "`tensor_data/index.toml` is missing, though there are other files such as `t.bin`";
    check(&[("tensor_data/t.bin", b"1234")], expected);
    check(&[(index, b"[[tensor]]")], "`tensor_data/index.toml` is malformed");
    check(&[(index, tensor)], "the file of tensor `t`, `tensor_data/t.bin`, is not in the carton");
    check(&[(index, tensor), ("tensor_data/t.bin", b"1234")], "need 8 bytes, `tensor_data/t.bin` has 4");
    let nested = b"[[tensor]]\nname = 't'\ndtype = 'nested'\ninner = ['t']";
    check(&[(index, nested)], "expected a tensor that is not nested, found the nested tensor `t`");
}

#[test]
fn references_that_lead_nowhere() {
    let check = |tables: &str, expected: &str| {
        let files: &[(&str, &[u8])] = &[("tensor_data/index.toml", b"tensor = []"), ("misc/dog.png", b"dog")];
        check(&valid(&format!("input = []\noutput = []\n{tables}")), files, ErrorKind::Integrity, expected);
    };
    let expected = "carton.toml: self-test `self_test_0`, input `x`: `@tensor_data/t` is not in the carton (`self_test[0].inputs.x`)";
    check("[[self_test]]\ninputs = { x = '@tensor_data/t' }", expected);
    let expected = "carton.toml: self-test `two digits`, output `y`: `@tensor_data/t` is not in the carton";
    check("[[self_test]]\nname = 'two digits'\ninputs = {}\nexpected_out = { y = '@tensor_data/t' }", expected);
    let expected =
        "carton.toml: example `cat`, input `x`: `@misc/cat.png` is not in the carton (`example[1].inputs.x`)";
    check(
        "[[example]]\ninputs = { x = '@misc/dog.png' }\n[[example]]\nname = 'cat'\ninputs = { x = '@misc/cat.png' }",
        expected,
    );
}

#[test]
fn files_that_nothing_is_known_of_are_allowed() {
    let folder = Folder::new();
    let files: &[(&str, &[u8])] =
        &[("extra/file", b"1"), ("tensor_data/index.toml", b""), ("tensor_data/unused.bin", b"1"), ("README", b"")];
    let package = open(&carton(&folder, &valid(""), files)).unwrap();
    assert_eq!(package.tensors().names().count(), 0);
    assert_eq!(package.contents().read("extra/file", 1, &Context::default()).unwrap(), b"1");
}

/// A later version may have another MANIFEST, and must still be reported as an unsupported version.
#[test]
fn another_version_with_another_manifest() {
    let folder = Folder::new();
    folder.file("carton/carton.toml", "spec_version = 7\nanything = 1");
    folder.file("carton/MANIFEST", "another format altogether");
    let error = open(&folder.path("carton")).unwrap_err();
    assert_eq!(chain(&error), "unsupported carton format: expected spec_version 1, found 7");
    // In this version the same MANIFEST is malformed.
    folder.file("carton/carton.toml", valid(""));
    let error = open(&folder.path("carton")).unwrap_err();
    assert!(chain(&error).contains("MANIFEST line 1"), "{error:?}");

    let zip = |version: u32| {
        let carton_toml = format!("spec_version = {version}\n{RUNNER}");
        let builder = Builder::default().file("carton.toml", carton_toml.as_bytes());
        let bytes = builder.manifest(b"another format altogether").bytes();
        open(&folder.file("other.carton", bytes)).unwrap_err()
    };
    assert_eq!(chain(&zip(7)), "unsupported carton format: expected spec_version 1, found 7");
    assert!(chain(&zip(1)).contains("MANIFEST line 1"));
}

#[test]
fn what_is_no_carton() {
    let folder = Folder::new();
    folder.file("m/weights", "1");
    assert!(chain(&open(&folder.path("m")).unwrap_err()).contains("MANIFEST"));
    assert_eq!(open(&folder.path("nothing")).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(open(&folder.file("text", "not a zip file")).unwrap_err().kind(), ErrorKind::Integrity);
    Builder::default().file("model/m", b"1").write_folder(&folder.path("no_metadata"));
    let error = open(&folder.path("no_metadata")).unwrap_err();
    assert!(chain(&error).contains("is not a carton: it has no file carton.toml"), "{error:?}");
}

#[test]
fn the_expected_hash() {
    let folder = Folder::new();
    let path = carton(&folder, &valid(""), &[]);
    let hash = open(&path).unwrap().contents().manifest_hash();
    let open = |expect| Package::open(&path, OpenOptions { expect, ..OpenOptions::default() });
    assert!(open(hash).is_ok());
    let error = open(Some(carton_format::manifest::ManifestHash::of(b""))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error:?}");
}

/// A changed tensor is detected when it is read, and not before.
#[test]
fn tensors_are_verified_when_they_are_read() {
    let folder = Folder::new();
    let index = b"[[tensor]]\nname = 't'\ndtype = 'uint8'\nshape = [2]\nfile = 't.bin'";
    let path = carton(&folder, &valid(""), &[("tensor_data/index.toml", index), ("tensor_data/t.bin", b"12")]);
    let unpacked = folder.path("unpacked");
    open(&path).unwrap().contents().unpack(&unpacked, &Context::default()).unwrap();
    let package = open(&unpacked).unwrap();
    assert!(package.tensor("t").is_ok());
    folder.file("unpacked/tensor_data/t.bin", "13");
    let package = open(&unpacked).unwrap();
    assert_eq!(package.tensor("t").unwrap_err().kind(), ErrorKind::Integrity);
}

#[test]
fn bare_models() {
    let folder = Folder::new();
    folder.file("m/weights", "1");
    let bare = |path: &str, runner: &str| {
        Package::bare(&folder.path(path), &OutsideLinks::Followed, runner, "1".parse().unwrap(), None)
    };
    for (path, file) in [("m", "model/weights"), ("m/weights", "model/weights")] {
        let package = bare(path, "vendor/noop").unwrap();
        assert_eq!(package.metadata().runner().runner_name, "vendor/noop");
        assert_eq!(package.contents().paths().collect::<Vec<_>>(), [file]);
        let info = package.info();
        assert_eq!((info.manifest_sha256, info.files[0].sha256), (None, None));
        assert!(package.tensor("t").is_err());
    }
    assert_eq!(bare("nothing", "noop").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(bare("m", "../noop").is_err());
}

#[test]
fn names_in_json() {
    let folder = Folder::new();
    let text = "
        model_name = 'n'
        [[input]]
        name = 'x'
        dtype = 'float32'
        shape = ['batch', 2]
        internal_name = 'node:0'
        [[output]]
        name = 'y'
        dtype = 'string'
        shape = '*'
        description = 'd'
        [[self_test]]
        inputs = {}
        [[self_test]]
        name = 'named'
        inputs = {}
        [[example]]";
    let path = carton(&folder, &format!("{}[runner.opts]\nthreads = 2", valid(text)), &[]);
    let package = open(&path).unwrap();
    let carton_toml = package.contents().read("carton.toml", 1 << 20, &Context::default()).unwrap();
    let found = serde_json::to_value(package.info()).unwrap();
    let expected = json!({
        "manifest_sha256": package.contents().manifest_hash().unwrap().to_string(),
        "signing": null,
        "spec_version": 1,
        "model_name": "n",
        "short_description": null,
        "model_description": null,
        "license": null,
        "repository": null,
        "homepage": null,
        "required_platforms": [],
        "sandbox": {"network": false, "read": []},
        "card": {},
            "runner": {
            "runner_name": "noop",
            "required_framework_version": "^1",
            "runner_compat_version": 1,
            "opts": { "threads": 2 },
            "env": {},
        },
        "inputs": [{
            "name": "x",
            "dtype": "float32",
            "shape": ["batch", 2],
            "description": null,
            "internal_name": "node:0",
            "optional": true,
        }],
        "outputs": [{ "name": "y", "dtype": "string", "shape": "*", "description": "d", "internal_name": null }],
        "self_tests": ["self_test_0", "named"],
        "examples": ["example_0"],
        "warnings": [],
        "files": [
            {
                "path": "carton.toml",
                "sha256": carton_format::digest::Sha256Digest::of(&carton_toml).to_string(),
                "size": carton_toml.len(),
                "stored": found["files"][0]["stored"],
                "method": "deflate",
                "linked": false,
                "symlink": null,
            },
            {
                "path": "model/m",
                "sha256": carton_format::digest::Sha256Digest::of(b"1").to_string(),
                "size": 1,
                "stored": 1,
                "method": "stored",
                "linked": false,
                "symlink": null,
            },
        ],
    });
    assert_eq!(found, expected);
}
