//! `carton pack` loads the packed model: if it contradicts the metadata, no file is written.

use std::fs;

use insta::assert_snapshot;

use crate::sandbox::{Outcome, Sandbox, digits};

/// The declared signature of the example model.
const SIGNATURE: &str = "[[input]]\nname = 'image'\ndtype = 'float32'\nshape = ['batch', 1, 8, 8]\n\
                         [[output]]\nname = 'probabilities'\ndtype = 'float32'\nshape = ['batch', 10]\n";

/// Packs the example model with this metadata over a file that must survive a failure.
fn pack_digits(sandbox: &Sandbox, metadata: &str, options: &[&str]) -> Outcome {
    sandbox.write("metadata.toml", metadata);
    sandbox.write("digits.carton", "what was there before");
    let model = digits("model.onnx");
    let outcome =
        sandbox.run([&["pack", &model, "--metadata", "metadata.toml", "-o", "digits.carton"], options].concat());
    let is_untouched = fs::read(sandbox.work().join("digits.carton")).unwrap() == b"what was there before";
    assert_eq!(is_untouched, outcome.code != 0, "{outcome}");
    let files: Vec<String> = sandbox.files().into_iter().filter(|name| name.contains("carton")).collect();
    assert_eq!(files, ["digits.carton"], "{outcome}");
    outcome
}

#[test]
fn a_wrong_expected_value_leaves_no_file() {
    let sandbox = Sandbox::new();
    fs::copy(digits("image.npy"), sandbox.work().join("image.npy")).unwrap();
    // What numpy.save writes for float32 of shape (1, 10), all zeros.
    let header = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 10), }";
    let mut zeros = header.to_vec();
    zeros.resize(127, b' ');
    zeros.push(b'\n');
    zeros.resize(128 + 40, 0);
    sandbox.write("zeros.npy", &zeros);
    let metadata = format!(
        "{SIGNATURE}[[self_test]]\nname = 'two digits'\ninputs = {{ image = 'image.npy' }}\n\
         expected_out = {{ probabilities = 'zeros.npy' }}\n\
         [[self_test]]\nname = 'no numbers'\ninputs = {{ image = 'image.npy' }}\n"
    );
    let refused = pack_digits(&sandbox, &metadata, &[]).expect_code(3);
    // The last digit depends on the processor.
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"0\.84862\d+", "0.84862…");
    settings.add_filter(r"8\.4862\d+e-1", "8.4862…e-1");
    let _filters = settings.bind_to_scope();
    assert_snapshot!(refused, @"
    exit code: 3
    ----- stdout -----

    ----- stderr -----
    packing for the onnx runner; name another with --runner
    error: 1 self-test failed, 1 ran
      self-test `two digits`: output `probabilities`: element [0, 2]: expected 0.0, found 0.84862… (differs by 8.4862…e-1, allowed 1e-8); 10 of 10 elements differ

    hint: `--no-check` packs the model as it is
    ");
    let json = pack_digits(&sandbox, &metadata, &["--json"]).expect_code(3).json();
    assert_eq!(json["error"]["kind"], "self_test");
    let unchecked = pack_digits(&sandbox, &metadata, &["--no-check", "--json"]).expect_code(0).json();
    assert!(unchecked.get("check").is_none(), "{unchecked}");
    sandbox.carton("run digits.carton --self-test").expect_code(3);
}

#[test]
fn the_checks_are_reported() {
    let sandbox = Sandbox::new();
    fs::copy(digits("image.npy"), sandbox.work().join("image.npy")).unwrap();
    let metadata = format!("{SIGNATURE}[[self_test]]\nname = 'runs'\ninputs = {{ image = 'image.npy' }}\n");
    let packed = pack_digits(&sandbox, &metadata, &["--record-self-test", "image=image.npy"]).expect_code(0);
    assert!(packed.stdout.ends_with("; 1 self-test passed, 1 ran\n"), "{packed}");
    assert!(packed.stdout.contains("\nchecked: loads in onnx "), "{packed}");
    let json = pack_digits(&sandbox, &metadata, &["--json"]).expect_code(0).json();
    assert_eq!(json["check"]["self_tests"][0]["name"], "runs");
    assert!(json["check"]["runner"].as_str().unwrap().starts_with("onnx "), "{json}");
    // Nothing is said to be checked where no value was compared.
    let packed = pack_digits(&sandbox, &metadata, &[]).expect_code(0);
    assert!(packed.stdout.contains("\nloads in onnx "), "{packed}");
    assert!(packed.stdout.ends_with("; 1 self-test ran without expected outputs\n"), "{packed}");
    let packed = pack_digits(&sandbox, SIGNATURE, &[]).expect_code(0);
    assert!(packed.stdout.contains("\nloads in onnx "), "{packed}");
    assert!(packed.stdout.ends_with(" and runs on zeros; no self-tests\n"), "{packed}");
}

#[test]
fn declared_inputs_that_the_model_lacks_leave_no_file() {
    let sandbox = Sandbox::new();
    let metadata = SIGNATURE.replace("'image'", "'img'").replace("['batch', 10]", "['batch', 5]");
    let refused = pack_digits(&sandbox, &metadata, &[]).expect_code(3);
    assert_snapshot!(refused, @"
    exit code: 3
    ----- stdout -----

    ----- stderr -----
    packing for the onnx runner; name another with --runner
    error: the declared inputs and outputs are not those of the model:
      input `img`: the model has no such input; it has `image`
      input `image` of the model is not declared
      output `probabilities`, dimension 1: declared 5, the model has 10

    hint: correct [[input]] and [[output]]; `--no-check` packs the model as it is
    ");
    let json = pack_digits(&sandbox, &metadata, &["--json"]).expect_code(3).json();
    assert_eq!(json["error"]["kind"], "signature_mismatch");
    pack_digits(&sandbox, &metadata, &["--no-check"]).expect_code(0);
}

#[test]
fn outputs_are_found_where_inputs_alone_are_declared() {
    let sandbox = Sandbox::new();
    let declared = |packed: &Outcome| {
        let info = sandbox.carton("info out.carton --json").expect_code(0).json();
        assert!(packed.code == 0, "{packed}");
        info["outputs"].clone()
    };
    // The model tells them, and its symbol is the declared one.
    let inputs = "[[input]]\nname = 'image'\ndtype = 'float32'\nshape = ['rows', 1, 8, 8]\n";
    sandbox.write("metadata.toml", inputs);
    let model = digits("model.onnx");
    let pack = ["pack", &model, "--metadata", "metadata.toml", "-o", "out.carton"];
    let outputs = declared(&sandbox.run(pack));
    assert_eq!(outputs[0]["name"], "probabilities");
    assert_eq!(outputs[0]["shape"], serde_json::json!(["rows", 10]));
    // A self-test tells them. The no-op model returns its inputs.
    let inputs = "[[input]]\nname = 'x'\ndtype = 'float32'\nshape = '*'\n";
    sandbox.write("model.bin", "weights");
    fs::copy(digits("image.npy"), sandbox.work().join("image.npy")).unwrap();
    let pack = "pack model.bin --runner noop --metadata metadata.toml -o out.carton";
    sandbox.write(
        "metadata.toml",
        format!("{inputs}[[self_test]]\ninputs = {{ x = 'image.npy' }}\nexpected_out = {{ x = 'image.npy' }}"),
    );
    let outputs = declared(&sandbox.carton(pack));
    let shown = serde_json::json!(["*", "*", "*", "*"]);
    assert_eq!((&outputs[0]["name"], &outputs[0]["shape"]), (&"x".into(), &shown));
    // The outputs are recorded.
    sandbox.write("metadata.toml", inputs);
    let recorded = sandbox.carton(&format!("{pack} --record-self-test x=image.npy"));
    assert!(recorded.stdout.ends_with("; 1 self-test passed\n"), "{recorded}");
    assert_eq!(declared(&recorded)[0]["shape"], shown);
    // Nothing tells them.
    fs::remove_file(sandbox.work().join("out.carton")).unwrap();
    assert_snapshot!(sandbox.carton(pack), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the inputs are declared and the outputs are not, and neither the model nor a self-test tells them

    hint: declare [[output]] in the metadata, or record a self-test: `--record-self-test INPUT=FILE`
    ");
    assert!(!sandbox.work().join("out.carton").exists());
}

#[test]
fn the_runner_is_recognized_by_the_file() {
    let sandbox = Sandbox::new();
    let packed = sandbox.run(["pack", &digits("model.onnx"), "-o", "a.carton"]).expect_code(0);
    assert_eq!(packed.stderr, "packing for the onnx runner; name another with --runner\n");
    let quiet = sandbox.run(["pack", &digits("model.onnx"), "-o", "a.carton", "-q"]).expect_code(0);
    assert_eq!(quiet.stderr, "");
    let named = sandbox.run(["pack", &digits("model.onnx"), "-o", "a.carton", "--runner", "noop"]).expect_code(0);
    assert_eq!(named.stderr, "");
    sandbox.write("metadata.toml", "[runner]\nrunner_name = 'noop'\n");
    let named = ["pack", &digits("model.onnx"), "-o", "a.carton", "--metadata", "metadata.toml"];
    assert_eq!(sandbox.run(named).expect_code(0).stderr, "");
    let torchscript = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/behaviour/torchscript.pt");
    fs::copy(torchscript, sandbox.work().join("anything.bin")).unwrap();
    let missing = sandbox.carton("pack anything.bin").expect_code(5);
    assert!(missing.stderr.starts_with("packing for the torchscript runner;"), "{missing}");
    sandbox.write("m/main.py", "");
    sandbox.write("m/requirements.txt", "");
    let missing = sandbox.carton("pack m").expect_code(5);
    assert!(missing.stderr.starts_with("packing for the python runner;"), "{missing}");
    sandbox.write("m/other.py", "");
    let doubt = sandbox.carton("pack m").expect_code(2);
    assert!(doubt.stderr.contains("`m` does not tell which one runs it"), "{doubt}");
}

#[test]
fn json_is_cast_to_what_the_model_declares() {
    let sandbox = Sandbox::new();
    let zeros = format!("image=[[{}]]", ["[0, 0, 0, 0, 0, 0, 0, 1]"; 8].join(", "));
    let input = zeros.replace("=[[", "=[[[").replace("]]", "]]]");
    let arguments = ["pack", &digits("model.onnx"), "--record-self-test", &input, "-o", "digits.carton"];
    sandbox.run(arguments).expect_code(0);
    let tensors = sandbox.carton("tensor ls digits.carton --json").expect_code(0).json();
    let image = tensors["tensors"].as_array().unwrap().iter().find(|t| t["name"] == "image").unwrap().clone();
    assert_eq!((&image["dtype"], &image["shape"]), (&"float32".into(), &serde_json::json!([1, 1, 8, 8])), "{image}");
    // Without a name, it is the model's first input.
    let unnamed = input.trim_start_matches("image=");
    let arguments = ["pack", &digits("model.onnx"), "--record-self-test", unnamed, "-o", "digits.carton"];
    sandbox.run(arguments).expect_code(0);
    // Neither the model nor the metadata declares inputs: the call does.
    sandbox.write("model.bin", "weights");
    let image = concat!("x=", env!("CARGO_MANIFEST_DIR"), "/../examples/digits/image.npy");
    let packed = sandbox.run(["pack", "model.bin", "--runner", "noop", "--example", image]).expect_code(0);
    assert!(packed.stdout.contains("1 self-test passed"), "{packed}");
    let info: serde_json::Value = sandbox.carton("info model.carton --json").expect_code(0).json();
    for list in ["inputs", "outputs"] {
        let declared = &info[list][0];
        let free = serde_json::json!(["*", "*", "*", "*"]);
        assert_eq!(
            (&declared["name"], &declared["dtype"], &declared["shape"]),
            (&"x".into(), &"float32".into(), &free)
        );
    }
}

#[test]
fn a_compat_version_of_the_metadata_chooses_the_runner() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write("metadata.toml", "[runner]\nrunner_name = 'noop'\nrunner_compat_version = 7\n");
    let refused = sandbox.carton("pack model.bin --metadata metadata.toml").expect_code(5);
    assert_snapshot!(refused, @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: no installed runner `noop` with compat version 7 fits (noop 0.1.0: its compat version is 1, the model needs 7)

    hint: no runner index is configured; install it from one that has it: `carton runner install noop --compat-version 7 --index URL`
    ");
    sandbox.write("metadata.toml", "[runner]\nrunner_name = 'noop'\nrunner_compat_version = 1\n");
    sandbox.carton("pack model.bin --metadata metadata.toml").expect_code(0);
}

#[test]
fn lists_and_tables_as_options_are_warned_about() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write(
        "metadata.toml",
        "[runner]\nrunner_name = 'noop'\n[runner.opts]\nflat = 1\nlist = [1]\ndate = 2026-01-01\ntable = { a = 1 }\n",
    );
    let warned = sandbox.carton("pack model.bin --metadata metadata.toml").expect_code(0);
    let warnings: Vec<&str> = warned.stderr.lines().filter(|line| line.contains("a list or table")).collect();
    assert_snapshot!(warnings.join("\n"), @"warning: a list or table is stored as a runner option (`list`, `table`): readers that know only numbers, strings, booleans and dates cannot open the carton");
    let flat =
        sandbox.carton("pack model.bin --runner noop --opt a=1 --opt b=2.5 --opt c=true --opt d=x").expect_code(0);
    assert!(!flat.stderr.contains("a list or table"), "{flat}");
    let list = sandbox.carton("pack model.bin --runner noop --opt a=[1,2]").expect_code(0);
    assert!(list.stderr.contains("(`a`)"), "{list}");
}

#[test]
fn a_large_model_is_not_hashed_again() {
    use carton_core::cache::Cache;
    use carton_core::internals::cache::is_carton_verified;

    let sandbox = Sandbox::new();
    sandbox.write("model.bin", vec![7; 17 << 20]);
    let pack = "pack model.bin --runner noop --compression stored --json";
    let packed = sandbox.carton(pack).expect_code(0).json();
    let manifest = packed["manifest_sha256"].as_str().unwrap().parse().unwrap();
    let cache = Cache::open(&sandbox.work().with_file_name("cache")).unwrap();
    let path = sandbox.work().join("model.carton");
    assert!(is_carton_verified(&cache, &path, &manifest));
    // Other bytes under the same name are hashed.
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    sandbox.carton("run model.carton -i x=1").expect_code(4);
}

#[test]
fn a_model_for_another_machine_needs_no_check() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write(
        "metadata.toml",
        "required_platforms = ['riscv64gc-unknown-linux-gnu']\n[runner]\nrunner_name = 'noop'\n",
    );
    let refused = sandbox.carton("pack model.bin --metadata metadata.toml").expect_code(1);
    assert_snapshot!(refused, @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the packed model does not load

    Caused by:
      the model runs on [PLATFORM] only, this is [PLATFORM]

    hint: `--no-check` packs it without loading it
    ");
    assert!(!sandbox.work().join("model.carton").exists());
    sandbox.carton("pack model.bin --metadata metadata.toml --no-check").expect_code(0);
}

#[test]
fn a_check_leaves_nothing_in_the_cache() {
    let sandbox = Sandbox::new();
    let list = || sandbox.carton("cache ls --json").expect_code(0).json();
    let empty = list();
    // The runner needs a folder, which is made in a cache.
    sandbox.write("model/weights.bin", "weights ".repeat(100_000));
    let pack = |options: &str, arguments: &str| {
        let tensor = "name = 'x'\ndtype = 'float32'\nshape = []\n";
        let metadata = format!(
            "[[input]]\n{tensor}[[output]]\n{tensor}[runner]\nrunner_name = 'noop'\n[runner.opts]\n{options}\n"
        );
        sandbox.write("metadata.toml", metadata);
        sandbox.carton(format!("pack model --metadata metadata.toml {arguments}").trim())
    };
    for (options, arguments) in [
        ("fail_load = 'no'", ""),
        ("fail_load = 'no'", "--record-self-test x=1"),
        ("fail = 'no'", "--record-self-test x=1"),
    ] {
        let failed = pack(options, arguments);
        assert!(failed.code != 0 && !sandbox.work().join("model.carton").exists(), "{failed}");
        assert_eq!(list(), empty, "{options} {arguments}");
    }
    for arguments in ["", "--record-self-test x=1", "--no-check"] {
        pack("", arguments).expect_code(0);
        assert_eq!(list(), empty, "{arguments}");
    }
    sandbox.carton("run model.carton -i x=1").expect_code(0);
    let cartons = list()["cartons"].as_array().unwrap().clone();
    assert_eq!(cartons.len(), 1, "{cartons:?}");
}
