//! `carton tensor validate`.

use carton_tensor::ztensor::Writer;
use insta::assert_snapshot;

use super::{example, floats, write_safetensors, write_ztensor};
use crate::sandbox::Sandbox;

#[test]
fn weights_are_compared_with_a_description() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "w.safetensors", &example());
    // A file of another model is invalid, although none of its tensors is wrong.
    let json = sandbox.carton("tensor validate w.safetensors --model bitnet-7b --json").expect_code(4).json();
    assert_eq!((&json["passed"], &json["errors"][0]["category"]), (&false.into(), &"no_expected_tensors".into()));
    // Missing layers are only a warning.
    sandbox.write(
        "tiny.toml",
        "version = 1\nname = 'tiny'\ntensors = [{ name = 'ids', shape = [1] }, { name = 'b', shape = [1] }]",
    );
    let json = sandbox.carton("tensor validate w.safetensors --model tiny.toml --json").expect_code(0).json();
    assert_eq!((&json["passed"], &json["warnings"][0]["category"]), (&true.into(), &"missing_layers".into()));
    // A tensor that cannot be read is a finding, and the rest is still checked.
    write_ztensor(&sandbox, "w.zt");
    let outcome = sandbox.carton("tensor validate w.zt --model tiny.toml").expect_code(0);
    assert!(outcome.stdout.contains("warning Tensor other is no tensor of numbers"), "{outcome}");
    sandbox.write("bad.toml", "version = 1\nname = 'tiny'\nlayers = 3\ntensors = []");
    assert_snapshot!(sandbox.carton("tensor validate w.zt --model bad.toml"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `bad.toml` is no description of a model

    Caused by:
      the description is not valid TOML, or not what spec/weights.md §3 asks for
      TOML parse error at line 3, column 1
        |
      3 | layers = 3
        | ^^^^^^
      unknown field `layers`, expected one of `version`, `name`, `dtypes`, `accept_quantized`, `n_parameters`, `sizes`, `values`, `quantization`, `tensors`
    ");
    write_safetensors(&sandbox, "bad.safetensors", &[("lm_head.weight", floats(&[1.0, 2.0], &[2]))]);
    let outcome = sandbox.carton("tensor validate bad.safetensors --model bitnet-7b").expect_code(4);
    assert!(outcome.stdout.starts_with("error "), "{outcome}");
    sandbox.carton("tensor validate w.safetensors --model nothing").expect_code(2);
}

/// Files without tensors, and without bytes, have no tensors, whatever the description says.
#[test]
fn files_of_nothing_have_no_tensors() {
    let sandbox = Sandbox::new();
    sandbox.write("tiny.toml", "version = 1\nname = 'tiny'\ntensors = [{ name = 'a', shape = [2] }]");
    write_safetensors(&sandbox, "none.safetensors", &[]);
    sandbox.write("none.zt", Writer::new(Vec::new()).unwrap().finish().unwrap());
    sandbox.write("none.npz", [b"PK\x05\x06".as_slice(), &[0; 18]].concat());
    for path in ["empty.safetensors", "empty.zt", "empty.npz", "empty"] {
        sandbox.write(path, "");
    }
    for path in ["none.safetensors", "none.zt", "none.npz", "empty.safetensors", "empty.zt", "empty.npz", "empty"] {
        let json = sandbox.carton(&format!("tensor validate {path} --model tiny.toml --json")).expect_code(4).json();
        let errors = json["errors"].as_array().unwrap();
        assert_eq!((errors.len(), &errors[0]["category"]), (1, &"no_tensors".into()), "{path}: {json}");
        let text = sandbox.carton(&format!("tensor validate {path} --model tiny.toml")).expect_code(4).stdout;
        assert!(text.starts_with(&format!("error No tensors found in {path}\n")), "{text}");
    }
    // Also if one of its tensors was asked for.
    let text = sandbox.carton("tensor validate empty.zt#a --model tiny.toml").expect_code(4).stdout;
    assert!(text.starts_with("error No tensors found in empty.zt\n"), "{text}");
}
