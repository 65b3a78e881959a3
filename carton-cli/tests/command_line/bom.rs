//! `carton info --bom`: bills of materials, and the model cards that they are made of.

use std::ffi::OsString;
use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;
use std::process::Command;

use carton_core::Sha256Digest;
use carton_test_server::nginx::Nginx;
use insta::assert_snapshot;
use zip::write::SimpleFileOptions;

use crate::sandbox::{Outcome, Sandbox, outcome};

const METADATA: &str = r#"
model_name = "digits"
short_description = "Recognizes handwritten digits"
license = "Apache-2.0 OR MIT"
repository = "https://example.com/digits"
homepage = "https://example.com/not a URL"

[[input]]
name = "image"
dtype = "float32"
shape = ["batch", 64]

[[output]]
name = "image"
dtype = "float32"
shape = ["batch", 64]

[[self_test]]
name = "zeros"
inputs = { image = "zeros.npy" }
expected_out = { image = "zeros.npy" }

[card]
pipeline_tag = "image-classification"
architecture = "LeNet"
intended_use = "Reading post codes."
limitations = "Digits alone."
co2_eq_emissions = { emissions = 412.5, energy_kwh = 0.5, training_type = "fine-tuning" }

[[card.datasets]]
name = "ylecun/mnist"
url = "https://example.com/mnist"
license = "mit"
sha256 = "2222222222222222222222222222222222222222222222222222222222222222"

[[card.base_model]]
name = "team/lenet"
relation = "finetune"
carton = "1111111111111111111111111111111111111111111111111111111111111111"
"#;

const README: &str = "---
language: [en, no]
license: mit
tags: [digits]
intended_use: not this one
model-index:
- name: digits
  results:
  - task: {type: image-classification}
    dataset: {type: ylecun/usps, name: USPS, split: test}
    metrics: [{type: accuracy, value: 0.98}]
---
# Digits
";

/// A wheel with this METADATA.
fn wheel(metadata: &str) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("a-1.0.dist-info/METADATA", SimpleFileOptions::default()).unwrap();
    archive.write_all(metadata.as_bytes()).unwrap();
    archive.finish().unwrap().into_inner()
}

/// Packs a model that has everything that a document can say.
fn packed() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", [7; 5000]);
    sandbox.write("model/README.md", README);
    let with_license = wheel("Metadata-Version: 2.4\nName: a\nVersion: 1.0\nLicense-Expression: BSD-3-Clause\n");
    sandbox.write("model/.carton/wheels/Some_Package-1.0-py3-none-any.whl", &with_license);
    let hash = |digit: &str| format!("--hash=sha256:{}", digit.repeat(64));
    let lock = format!(
        "# A lock.\nsome-package==1.0 \\\n    {}\nother==2.0+cpu ; python_version < '3.12' \\\n    {} \\\n    {}\n",
        hash("3"),
        hash("4"),
        hash("5")
    );
    sandbox.write("model/.carton/requirements.lock", lock);
    sandbox.write("metadata.toml", METADATA);
    sandbox.write("zeros.npy", npy_zeros());
    sandbox.carton("pack model --runner noop --metadata metadata.toml --compression stored").expect_code(0);
    sandbox
}

/// 64 zeros of the shape `[1, 64]`.
fn npy_zeros() -> Vec<u8> {
    let header = format!("{:117}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 64), }");
    [b"\x93NUMPY\x01\0\x76\0".as_slice(), header.as_bytes(), &[0; 256]].concat()
}

fn bom(sandbox: &Sandbox, arguments: &str) -> Outcome {
    outcome(
        sandbox.command(["info", "--bom"].into_iter().chain(arguments.split(' '))).env("SOURCE_DATE_EPOCH", "86400"),
    )
}

/// What the libraries of the formats' makers find in a document; `None` without a Python that has them.
fn read_by_peers(sandbox: &Sandbox, format: &str, document: &str) -> Option<Result<String, String>> {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no Python with cyclonedx-python-lib and spdx-python-model");
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/python/check_bom.py");
    let path = sandbox.write(&format!("{format}.json"), document);
    let mut arguments: Vec<OsString> = vec![script.into(), format.into(), path.into()];
    match std::env::var_os("CARTON_TEST_SPDX_SCHEMA") {
        Some(schema) => arguments.push(schema),
        None if format == "spdx" => {
            eprintln!("skipped: CARTON_TEST_SPDX_SCHEMA names no JSON schema of SPDX 3.0.1 (.ci/slow)")
        }
        None => {}
    }
    let output = Command::new(python).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
}

#[test]
fn cyclonedx_is_read_by_its_own_library() {
    let sandbox = packed();
    let document = bom(&sandbox, "cyclonedx model.carton").expect_code(0).stdout;
    let Some(found) = read_by_peers(&sandbox, "cyclonedx", &document) else { return };
    let found = found.unwrap();
    let hash = sandbox.carton("hash model.carton").stdout;
    assert!(found.starts_with(&format!("model machine-learning-model digits SHA-256:{hash}")), "{found}");
    let weights = Sha256Digest::of(&[7; 5000]);
    assert!(found.contains(&format!("\nfile model/weights.bin {weights}\n")), "{found}");
    let others = found.lines().filter(|line| !line.starts_with("file ") && !line.starts_with("model "));
    assert_snapshot!(others.collect::<Vec<_>>().join("\n"), @"
    data ylecun/mnist None - MIT
    library some-package 1.0 pkg:pypi/some-package@1.0 BSD-3-Clause
    library other 2.0+cpu pkg:pypi/other@2.0%2Bcpu -
    framework noop None - -
    ancestor team/lenet [HASH]
    depends model 3
    serial [UUID]
    card considerations modelParameters quantitativeAnalysis
    ");
}

#[test]
fn spdx_is_read_by_its_own_library() {
    let sandbox = packed();
    let document = bom(&sandbox, "spdx model.carton").expect_code(0).stdout;
    let Some(found) = read_by_peers(&sandbox, "spdx", &document) else { return };
    let found = found.unwrap();
    let hash = sandbox.carton("hash model.carton").stdout;
    assert!(found.starts_with(&format!("model model digits sha256:{hash}")), "{found}");
    let weights = Sha256Digest::of(&[7; 5000]);
    assert!(found.contains(&format!("\ndigits contains model/weights.bin sha256:{weights}\n")), "{found}");
    let mut others: Vec<&str> =
        found.lines().filter(|line| !line.contains(" contains ") && !line.starts_with("model ")).collect();
    others.sort_unstable();
    assert_snapshot!(others.join("\n"), @"
    digits dependsOn noop
    digits dependsOn other==2.0+cpu sha256:[HASH] sha256:[HASH]
    digits dependsOn some-package==1.0 sha256:[HASH]
    digits descendantOf team/lenet sha256:[HASH]
    digits hasDeclaredLicense Apache-2.0 OR MIT
    digits testedOn ylecun/usps
    digits trainedOn ylecun/mnist sha256:[HASH]
    energy 0.5 kilowattHour
    metric accuracy (ylecun/usps test) 0.98
    some-package hasDeclaredLicense BSD-3-Clause
    ylecun/mnist hasDeclaredLicense MIT
    ");
}

#[test]
fn what_is_no_document_is_refused_by_the_libraries() {
    let sandbox = packed();
    for (format, part, other) in [
        ("cyclonedx", "\"specVersion\": \"1.6\"", "\"specVersion\": 1.6"),
        ("cyclonedx", "\"modelParameters\"", "\"parameters\""),
        ("cyclonedx", "\"fine-tuning\",", "\"tuning\","),
        ("spdx", "\"software_primaryPurpose\": \"model\"", "\"software_primaryPurpose\": \"models\""),
        ("spdx", "\"ai_limitation\"", "\"ai_limitations\""),
        ("spdx", "#file-0\"", "#file\""),
    ] {
        let document = bom(&sandbox, &format!("{format} model.carton")).expect_code(0).stdout;
        assert!(document.contains(part), "{part} in {document}");
        let Some(found) = read_by_peers(&sandbox, format, &document.replacen(part, other, 1)) else { return };
        assert!(found.is_err(), "{other}");
    }
}

/// Everything in these is text of an author who wants the document to be invalid, or another one.
#[test]
fn hostile_texts_leave_documents_valid() {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", "1");
    let hostile = r#""\"}],\u0000\u202E\n</script> {{x}} \uFFFF""#;
    let metadata = format!(
        r#"
model_name = {hostile}
short_description = {hostile}
license = {hostile}
repository = "https://user:secret@example.com:99999/[%zz"
homepage = "javascript:alert(1)"
input = []
[[output]]
name = {hostile}
dtype = "float32"
shape = [{hostile}]
[card]
pipeline_tag = {hostile}
tags = [{hostile}, {hostile}]
language = [{hostile}]
intended_use = {hostile}
limitations = {hostile}
users = [{hostile}]
datasets = [{{ name = {hostile}, url = {hostile}, license = {hostile} }}, {{ name = {hostile}, license = "MIT AND" }}]
base_model = [{{ name = {hostile}, url = "https://example.com/%" }}]
results = [{{ metric = {hostile}, value = {hostile}, dataset = {hostile} }}, {{ metric = "tiny", value = 1e-300 }}]
co2_eq_emissions = {{ emissions = 1e300, energy_kwh = 1e-7, source = {hostile} }}
"#
    );
    sandbox.write("metadata.toml", metadata.replace("\\u0000", "\\u0001"));
    sandbox
        .carton("pack model --runner noop --metadata metadata.toml --no-check --allow-secret repository")
        .expect_code(0);
    for format in ["cyclonedx", "spdx"] {
        let document = bom(&sandbox, &format!("{format} model.carton")).expect_code(0).stdout;
        assert!(!document.contains("secret") && !document.contains("javascript:"), "{document}");
        let Some(found) = read_by_peers(&sandbox, format, &document) else { return };
        found.unwrap();
    }
}

#[test]
fn the_same_carton_gives_the_same_document() {
    let sandbox = packed();
    fs::create_dir(sandbox.work().join("elsewhere")).unwrap();
    fs::copy(sandbox.work().join("model.carton"), sandbox.work().join("elsewhere/copy.carton")).unwrap();
    for format in ["cyclonedx", "spdx"] {
        let one = bom(&sandbox, &format!("{format} model.carton")).expect_code(0).stdout;
        assert_eq!(bom(&sandbox, &format!("{format} elsewhere/copy.carton --json")).stdout, one);
        assert!(one.contains("1970-01-02T00:00:00Z"), "{one}");
        assert!(one.contains("It certifies nothing."), "{one}");
    }
    // Only SPDX must state a time.
    let timeless = sandbox.carton("info model.carton --bom cyclonedx").stdout;
    assert_eq!(sandbox.carton("info model.carton --bom cyclonedx").stdout, timeless);
    assert!(!timeless.contains("timestamp"), "{timeless}");
    assert!(sandbox.carton("info model.carton --bom spdx").stdout.contains("\"created\": \"20"));
    sandbox.carton("keygen -o key.pem").expect_code(0);
    sandbox.carton("sign model.carton --key key.pem").expect_code(0);
    let signed = sandbox.carton("info model.carton --bom cyclonedx --key key.pub.pem").stdout;
    assert_ne!(signed, timeless);
    assert!(signed.contains("\"carton:signing:signer\""), "{signed}");
    let claimed = sandbox.carton("info model.carton --bom cyclonedx").stdout;
    assert!(claimed.contains("\"carton:signing:claimed-signer\""), "{claimed}");
}

#[test]
fn wrong_arguments() {
    let sandbox = packed();
    let mut command = sandbox.command(["info", "model.carton", "--bom", "spdx"]);
    assert_snapshot!(outcome(command.env("SOURCE_DATE_EPOCH", "yesterday")), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: SOURCE_DATE_EPOCH: expected seconds since 1970, found `yesterday`
    ");
    assert_eq!(sandbox.carton("info model.carton --bom spdx --html x.html").code, 2);
    assert_eq!(sandbox.carton("info model.carton --bom xml").code, 2);
}

#[test]
fn no_weights_are_fetched_for_a_document() {
    let Some(nginx) = Nginx::start("") else { return };
    let sandbox = packed();
    let weights = vec![9; 8 << 20];
    sandbox.write("model/large.bin", &weights);
    sandbox.carton("pack model --runner noop --metadata metadata.toml --compression stored").expect_code(0);
    fs::copy(sandbox.work().join("model.carton"), nginx.root().join("model.carton")).unwrap();
    let url = nginx.url("model.carton");
    let local = bom(&sandbox, "cyclonedx model.carton").expect_code(0).stdout;
    let remote = bom(&sandbox, &format!("cyclonedx {url}")).expect_code(0).stdout;
    assert!(remote.contains("\"ylecun/usps test\"") && remote.contains("pkg:pypi/other@2.0%2Bcpu"), "{remote}");
    // The license is in a wheel, which is not fetched.
    assert!(local.contains("BSD-3-Clause") && !remote.contains("BSD-3-Clause"));
    let fetched: u64 = nginx.requests().iter().map(|request| request.body_bytes).sum();
    assert!(fetched < 1 << 20, "{fetched}");
}

#[test]
fn a_card_is_shown() {
    let sandbox = packed();
    let shown = sandbox.carton("info model.carton").expect_code(0).stdout;
    let card = shown.split("Model card").nth(1).unwrap().split("\nInputs").next().unwrap();
    assert_snapshot!(card, @"
    , as its author states it
      task          image-classification
      architecture  LeNet
      license       mit
      languages     en, no
      tags          digits
      trained on    ylecun/mnist; https://example.com/mnist; mit; sha256:[HASH]
      made of       team/lenet; finetune; carton sha256:[HASH]
      measured      accuracy 0.98; ylecun/usps test
      training      412.5 g of CO2 equivalent; 0.5 kWh; fine-tuning
      intended use:
        Reading post codes.
      limitations:
        Digits alone.
    ");
    let json = sandbox.carton("info model.carton --json").json();
    assert_eq!(json["card"]["intended_use"], "Reading post codes.");
    assert_eq!(json["card"]["language"], serde_json::json!(["en", "no"]));
    assert_eq!(json["card"]["results"][0]["value"], 0.98);
}

#[test]
fn a_readme_that_is_no_card_is_only_a_warning() {
    let check = |readme: &[u8], expected: &str| {
        let sandbox = Sandbox::new();
        sandbox.write("model/weights.bin", "1");
        sandbox.write("papers/README.md", readme);
        sandbox.carton("pack model --runner noop --misc README.md=papers/README.md").expect_code(0);
        let json = sandbox.carton("info model.carton --json").expect_code(0).json();
        assert_eq!(json["warnings"].as_array().unwrap().len(), usize::from(!expected.is_empty()), "{json}");
        assert!(json["warnings"][0].as_str().unwrap_or_default().contains(expected), "{json}");
        sandbox.carton("info model.carton --bom spdx").expect_code(0);
    };
    check(b"# Title", "");
    check(b"---\na: [\n---\n", "misc/README.md: the front matter is not YAML: line ");
    check(b"---\na: &a b\n---\n", "misc/README.md: the front matter, line 2: expected texts");
    check(b"---\npipeline_tag: [a]\n---\n", "misc/README.md: `pipeline_tag`: expected a text, found a list");
    check(b"---\na: b\n", "the front matter has no end");
    check(&[b"---\na: b\n---\n".as_slice(), &vec![b'x'; 5 << 20]].concat(), "bytes, more than 4194304");
}

#[test]
fn a_damaged_readme_is_only_a_warning() {
    let sandbox = packed();
    sandbox.carton("unpack model.carton -o unpacked").expect_code(0);
    sandbox.write("unpacked/misc/README.md", README.replace("0.98", "0.99"));
    let json = sandbox.carton("info unpacked --json").expect_code(0).json();
    assert!(json["warnings"][0].as_str().unwrap().starts_with("the card of misc/README.md cannot be read: "), "{json}");
    assert_eq!(json["card"].get("results"), None);
    assert_eq!(json["card"]["architecture"], "LeNet");
}

#[test]
fn the_readme_of_a_folder_is_kept_if_it_is_a_card() {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", "1");
    let misc = |sandbox: &Sandbox, arguments: &str| {
        sandbox.carton(&format!("pack model --runner noop{arguments}")).expect_code(0);
        sandbox.carton("unpack model.carton -o unpacked").expect_code(0);
        let found = fs::read_to_string(sandbox.work().join("unpacked/misc/README.md")).ok();
        fs::remove_dir_all(sandbox.work().join("unpacked")).unwrap();
        found
    };
    sandbox.write("model/README.md", "# Only text");
    assert_eq!(misc(&sandbox, ""), None);
    sandbox.write("model/README.md", README);
    assert_eq!(misc(&sandbox, "").as_deref(), Some(README));
    sandbox.write("other.md", "# Another");
    assert_eq!(misc(&sandbox, " --misc README.md=other.md").as_deref(), Some("# Another"));
    fs::remove_file(sandbox.work().join("model/README.md")).unwrap();
    std::os::unix::fs::symlink("../other.md", sandbox.work().join("model/README.md")).unwrap();
    sandbox.write("other.md", README);
    assert_eq!(misc(&sandbox, ""), None);
}

#[test]
fn a_lock_that_no_runner_writes_is_a_warning() {
    let sandbox = Sandbox::new();
    sandbox.write("model/weights.bin", "1");
    sandbox.write("model/.carton/requirements.lock", "numpy\n");
    sandbox.carton("pack model --runner noop").expect_code(0);
    let document = sandbox.carton("info model.carton --bom cyclonedx").expect_code(0);
    let expected =
        "model/.carton/requirements.lock, line 1: expected an exact version with hashes: packages are missing";
    assert!(document.stdout.contains(expected) && document.stderr.contains(expected), "{document}");
}
