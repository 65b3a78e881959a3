//! Documents of whole cartons. The command's tests read them with the libraries of the formats' makers.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;

use carton_core::{Carton, Package, Sha256Digest, block_on};
use serde_json::Value;
use tempfile::TempDir;

use crate::{Format, Moment, document, uri};

/// An unpacked carton of a model with these files.
fn package(card: &str, files: &[(&str, &[u8])]) -> (TempDir, Package) {
    let folder = tempfile::tempdir().unwrap();
    let runner = "spec_version = 1\n[runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"*\"\n";
    let metadata = format!("{runner}{card}");
    let mut files = files.to_vec();
    files.push(("carton.toml", metadata.as_bytes()));
    files.push(("model/a", b"a"));
    files.sort_unstable();
    let mut manifest = String::new();
    for (path, content) in files {
        let place = folder.path().join(path);
        fs::create_dir_all(place.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(place, content).unwrap();
        manifest.push_str(&format!("{path}={}\n", Sha256Digest::of(content)));
    }
    fs::write(folder.path().join("MANIFEST"), manifest).unwrap();
    let package = block_on::<_, carton_core::Error>(Carton::open(folder.path())).unwrap();
    (folder, package)
}

fn made(package: &Package, format: Format) -> Value {
    let text = document(&package.inventory().unwrap(), format, &Moment::at(0).unwrap());
    assert!(text.ends_with("}\n"));
    serde_json::from_str(&text).unwrap()
}

/// Fails if anything in a document is `null`, which neither format has.
fn assert_no_null(value: &Value) {
    match value {
        Value::Null => panic!("null"),
        Value::Array(values) => values.iter().for_each(assert_no_null),
        Value::Object(members) => members.values().for_each(assert_no_null),
        _ => {}
    }
}

#[test]
fn a_carton_that_says_nothing() {
    let (_folder, package) = package("", &[]);
    let hash = package.manifest_sha256().unwrap().to_string();
    let cyclonedx = made(&package, Format::CycloneDx);
    assert_no_null(&cyclonedx);
    let model = &cyclonedx["metadata"]["component"];
    assert_eq!(model["name"], format!("unnamed carton sha256:{hash}"));
    assert_eq!(model["hashes"][0]["content"], hash);
    for absent in ["modelCard", "licenses", "pedigree", "description", "tags"] {
        assert_eq!(model.get(absent), None, "{absent}");
    }
    let spdx = made(&package, Format::Spdx);
    assert_no_null(&spdx);
    let of_kind = |kind: &str| spdx["@graph"].as_array().unwrap().iter().filter(|e| e["type"] == kind).count();
    assert_eq!((of_kind("software_File"), of_kind("ai_AIPackage"), of_kind("dataset_DatasetPackage")), (2, 1, 0));
}

#[test]
fn another_document_has_another_identifier() {
    let serial = |card: &str| {
        let (_folder, package) = package(card, &[]);
        let text = made(&package, Format::CycloneDx)["serialNumber"].as_str().unwrap().to_owned();
        assert_eq!((text.len(), &text[..9], &text[23..24]), (45, "urn:uuid:", "8"), "{text}");
        assert!(matches!(&text[28..29], "8" | "9" | "a" | "b"), "{text}");
        text
    };
    assert_eq!(serial("[card]\ntags = ['a']"), serial("[card]\ntags = ['a']"));
    assert_ne!(serial("[card]\ntags = ['a']"), serial("[card]\ntags = ['b']"));
}

#[test]
fn a_license_of_a_readme_stands_below_that_of_the_carton() {
    let readme: (&str, &[u8]) = ("misc/README.md", b"---\nlicense: apache-2.0\n---\n");
    let (_folder, package) = package("", &[readme]);
    let license = made(&package, Format::CycloneDx)["metadata"]["component"]["licenses"].clone();
    assert_eq!(license, serde_json::json!([{ "expression": "Apache-2.0", "acknowledgement": "declared" }]));
}

#[test]
fn addresses_that_documents_may_have() {
    for right in ["https://example.com", "http://example.com:8080/a%20b?c=d&e=(f)#g", "https://example.com/@a/~b"] {
        assert_eq!(uri::web(right), Some(right));
    }
    for wrong in [
        "",
        "example.com",
        "javascript:alert(1)",
        "https://",
        "https://exa mple.com",
        "https://example.com/ü",
        "https://example.com/%",
        "https://example.com/%4g",
        "https://example.com/a#b#c",
        "https://example.com/<a>",
        "https://[::1]/",
    ] {
        assert_eq!(uri::web(wrong), None, "{wrong}");
    }
    assert_eq!(uri::of_python_package("a-b", "1!2.0+cpu"), "pkg:pypi/a-b@1%212.0%2Bcpu");
}

#[test]
fn formats_and_moments() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    let error = "xml".parse::<Format>().unwrap_err().to_string();
    assert_eq!(error, "`xml` is no format of bills of materials: expected `cyclonedx` or `spdx`");
    assert_eq!(Moment::at(1_796_000_000).unwrap().chosen().as_deref(), Some("2026-11-30T00:53:20Z"));
    assert!(Moment::at(u64::MAX).is_err() && Moment::at(1 << 50).is_err());
}
