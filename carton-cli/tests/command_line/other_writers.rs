//! Cartons of other programs that this one would not write: every command accepts them and warns about what is odd.

use std::collections::BTreeMap;

use carton_core::Sha256Digest;
use insta::assert_snapshot;

use crate::sandbox::Sandbox;

const RUNNER: &str = "[runner]\nrunner_name = \"noop\"\nrequired_framework_version = \"*\"\n";
const INDEX: &str = "[[tensor]]\nname = \"t\"\ndtype = \"uint8\"\nshape = [2]\nfile = \"t.bin\"\ninner = []\n";

/// Writes the carton as a folder, `odd`, and as a file, `odd.carton`.
fn odd(sandbox: &Sandbox, carton_toml: &str, more: &[(&str, &str)]) {
    let text = format!("spec_version = 1\n{carton_toml}\n{RUNNER}");
    let mut files: BTreeMap<&str, &str> = more.iter().copied().collect();
    files.extend([("carton.toml", text.as_str()), ("model/m", "m"), ("tensor_data/index.toml", INDEX)]);
    files.insert("tensor_data/t.bin", "12");
    let line = |(path, bytes): (&&str, &&str)| format!("{path}={}\n", Sha256Digest::of(bytes.as_bytes()));
    sandbox.write("odd/MANIFEST", files.iter().map(line).collect::<String>());
    for (path, bytes) in &files {
        sandbox.write(&format!("odd/{path}"), bytes);
    }
    sandbox.carton("pack --resolve odd -o odd.carton").expect_code(0);
}

/// Every command that reads a carton without running it accepts it, and keeps its hash.
fn every_command_takes_it(sandbox: &Sandbox) {
    let hash = sandbox.carton("hash odd").expect_code(0).stdout;
    for path in ["odd", "odd.carton"] {
        assert_eq!(sandbox.carton(&format!("hash {path}")).expect_code(0).stdout, hash);
        sandbox.carton(&format!("ls {path}")).expect_code(0);
        let info = sandbox.carton(&format!("info {path} --json")).expect_code(0).json();
        let verified = sandbox.carton(&format!("verify {path} --json")).expect_code(0).json();
        assert_eq!(info["warnings"], verified["warnings"]);
        assert!(!info["warnings"].as_array().unwrap().is_empty());
    }
    sandbox.carton("unpack odd.carton -o unpacked").expect_code(0);
    assert_eq!(sandbox.carton("hash unpacked").expect_code(0).stdout, hash);
    sandbox.carton("pack --resolve odd.carton -o whole.carton").expect_code(0);
    assert_eq!(sandbox.carton("hash whole.carton").expect_code(0).stdout, hash);
}

#[test]
fn inputs_without_outputs() {
    let sandbox = Sandbox::new();
    let input = "[[input]]\nname = \"x\"\ndtype = \"uint8\"\nshape = [\"n\"]\n";
    let tests = "[[self_test]]\ninputs = { x = \"@tensor_data/t\" }\nexpected_out = { x = \"@tensor_data/t\" }\n";
    odd(&sandbox, &format!("{input}{tests}"), &[]);
    every_command_takes_it(&sandbox);
    assert_snapshot!(sandbox.carton("verify odd.carton"), @"
    exit code: 0
    ----- stdout -----
    OK 4 files, 299 B, all match the manifest
    ----- stderr -----
    warning: inputs are declared and outputs are not: outputs are not checked
    ");
    let info = sandbox.carton("info odd.carton").expect_code(0);
    assert_eq!(info.stderr, "warning: inputs are declared and outputs are not: outputs are not checked\n");
    assert_eq!(sandbox.carton("-q info odd.carton").stderr, "");
    // Inputs are checked, and positional ones are named; outputs are what the model returns.
    assert_snapshot!(sandbox.carton("run odd.carton -i [1,2]"), @"
    exit code: 0
    ----- stdout -----
    x  uint8 [2]
    [1 2]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("run odd.carton -i x=[[1,2]]"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensors do not match the model's signature
        input `x`: expected 1 dimension, found 2 dimensions (shape [1, 2])

    hint: `carton info` shows what the carton declares; where it declares the wrong thing, `--signature-mode warn` runs the model anyway
    ");
    sandbox.carton("run odd.carton --self-test").expect_code(0);
}

#[test]
fn self_tests_without_a_signature() {
    let sandbox = Sandbox::new();
    let tests = "[[self_test]]\nname = \"same\"\ninputs = { x = \"@tensor_data/t\" }\nexpected_out = { x = \"@tensor_data/t\" }\n";
    odd(&sandbox, &format!("{tests}[[example]]\ninputs = {{ x = \"@tensor_data/t\" }}\n"), &[]);
    every_command_takes_it(&sandbox);
    assert_snapshot!(sandbox.carton("verify odd.carton").stderr, @"
    warning: there are self-tests, and neither inputs nor outputs are declared: neither are checked
    warning: there are examples, and neither inputs nor outputs are declared: neither are checked
    ");
    sandbox.carton("run odd.carton --self-test").expect_code(0);
    sandbox.carton("run odd.carton -i anything=[[1,2]]").expect_code(0);
    assert_snapshot!(sandbox.carton("run odd.carton -i [[1,2]]"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: input 1 has no name, and the model declares no inputs whose order it could follow

    hint: name it: -i NAME=VALUE
    ");
}

#[test]
fn names_that_are_repeated_or_empty() {
    let sandbox = Sandbox::new();
    let spec = |list: &str, name: &str, dtype: &str| {
        format!("[[{list}]]\nname = \"{name}\"\ndtype = \"{dtype}\"\nshape = [\"\"]\n")
    };
    let specs = [("input", "x", "uint8"), ("input", "x", "int64"), ("output", "x", "uint8"), ("output", "", "int8")];
    let text: String = specs.iter().map(|(list, name, dtype)| spec(list, name, dtype)).collect();
    odd(&sandbox, &text, &[]);
    every_command_takes_it(&sandbox);
    assert_snapshot!(sandbox.carton("verify odd.carton").stderr, @"
    warning: 2 inputs have the name `x`: dtype and shape of that input are not checked
    warning: `input[0].shape` has an empty symbol, which is read as `*`
    warning: `input[1].shape` has an empty symbol, which is read as `*`
    warning: `output[1].name` is empty: outputs with names that are not declared are accepted
    warning: `output[0].shape` has an empty symbol, which is read as `*`
    warning: `output[1].shape` has an empty symbol, which is read as `*`
    ");
    sandbox.carton("run odd.carton -i x=[1,2]").expect_code(0);
    sandbox.carton("run odd.carton -i [1,2] -o x.npy").expect_code(0);
    // Both inputs have the same name, so there can only be one tensor without a name.
    assert_snapshot!(sandbox.carton("run odd.carton -i [1,2] -i [1,2]"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: 2 inputs are given without a name, and the model declares only 1 others: x
    ");
    // The declaration cannot list all names, so another one is accepted.
    sandbox.carton("run odd.carton -i x=[1,2] -i z=[1]").expect_code(0);
}

#[test]
fn back_slashes_in_names_of_files() {
    let sandbox = Sandbox::new();
    let example = "input = []\noutput = []\n[[example]]\ninputs = { x = '@misc/in\\cat.png' }\n";
    odd(&sandbox, example, &[("misc/in\\cat.png", "cat"), ("model/a\\b", "b")]);
    every_command_takes_it(&sandbox);
    assert_snapshot!(sandbox.carton("verify odd.carton").stderr, @r#"warning: 2 names of files have a back slash, which some systems take for a slash: `misc/in\cat.png`, …"#);
    sandbox.carton("run odd.carton").expect_code(0);
    // This program does not write such names.
    sandbox.write("a\\b.png", "cat");
    sandbox.write("model/m", "m");
    let refused = sandbox.run(["pack", "model", "--runner", "noop", "--misc", "a\\b.png"]);
    assert!(refused.stderr.contains("it has a back slash"), "{refused}");
}

#[test]
fn inputs_may_be_optional() {
    let sandbox = Sandbox::new();
    sandbox.write("model/m", "m");
    let metadata = r#"
output = []
[[input]]
name = "x"
dtype = "uint8"
shape = "*"
[[input]]
name = "scale"
dtype = "uint8"
shape = "*"
description = "How much"
optional = true
"#;
    sandbox.write("m.toml", metadata);
    sandbox.carton("pack model --runner noop --metadata m.toml").expect_code(0);
    let carton_toml = sandbox.carton("unpack model.carton -o unpacked").expect_code(0);
    drop(carton_toml);
    let written = std::fs::read_to_string(sandbox.work().join("unpacked/carton.toml")).unwrap();
    assert_eq!(written.matches("optional").collect::<Vec<_>>().len(), 1, "{written}");
    let info = sandbox.carton("info model.carton").expect_code(0).stdout;
    let inputs: Vec<&str> = info.lines().filter(|line| line.contains("any shape")).collect();
    assert_eq!(inputs, ["  x      uint8  any shape", "  scale  uint8  any shape  (optional) How much"]);
    let inputs = sandbox.carton("info model.carton --json").json()["inputs"].clone();
    assert_eq!((&inputs[0]["optional"], &inputs[1]["optional"]), (&false.into(), &true.into()));

    // No output is declared, so the echoed one is not checked.
    sandbox.carton("run model.carton -i x=1 --signature-mode warn").expect_code(0);
    let missing = sandbox.carton("run model.carton -i scale=1");
    assert_snapshot!(missing, @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensors do not match the model's signature
        input `x`: expected a tensor of uint8, any shape, found nothing

    hint: pass it, or run with `--signature-mode warn` where the model does without it; `carton info` shows what the model expects
    ");
}
