//! `carton run`: inputs, outputs and self-tests.

use carton_tensor::{BoolByte, Complex, Float8E5m2, Tensor, bf16, f16, npy};
use insta::assert_snapshot;

use crate::sandbox::{Sandbox, digits};

const ECHO: &str = r#"
[[input]]
name = "x"
dtype = "float32"
shape = ["rows", "columns"]

[[input]]
name = "count"
dtype = "uint8"
shape = []

[[output]]
name = "x"
dtype = "float32"
shape = ["rows", "columns"]

[[output]]
name = "count"
dtype = "uint8"
shape = []
"#;

/// Packs a carton that returns its inputs; the metadata may declare them. Its self-tests may fail.
fn pack_noop(sandbox: &Sandbox, metadata: &str) {
    sandbox.write("model.bin", "weights");
    sandbox.write("metadata.toml", metadata);
    sandbox.carton("pack model.bin --runner noop --metadata metadata.toml -o echo.carton --no-check").expect_code(0);
}

fn pack_digits(sandbox: &Sandbox) {
    let (model, metadata) = (digits("model.onnx"), digits("carton.toml"));
    let arguments = ["pack", &model, "--runner", "onnx", "--metadata", &metadata, "-o", "digits.carton"];
    sandbox.run(arguments).expect_code(0);
}

#[test]
fn booleans() {
    let sandbox = Sandbox::new();
    let spec = |list: &str, name: &str, dtype: &str| {
        format!("[[{list}]]\nname = '{name}'\ndtype = '{dtype}'\nshape = ['n']\n")
    };
    pack_noop(&sandbox, &[spec("input", "mask", "bool"), spec("output", "mask", "bool")].concat());
    let mask = Tensor::from_vec(vec![1_u8, 0], vec![2]).unwrap();
    let file = |name: &str| std::fs::File::create(sandbox.work().join(name)).unwrap();
    npy::write(file("integers.npy"), &mask).unwrap();
    let mask = Tensor::from_vec(vec![BoolByte(1), BoolByte(0)], vec![2]).unwrap();
    npy::write(file("mask.npy"), &mask).unwrap();
    npy::write_npz(file("mask.npz"), [("mask", &mask)]).unwrap();
    for input in ["mask=mask.npy", "mask.npz", "mask=integers.npy", "mask=[true,false]", "mask=[1,0]"] {
        let outcome = sandbox.run(["run", "echo.carton", "-i", input, "--json"]).expect_code(0);
        let expected = serde_json::json!({"mask": {"data": [true, false], "dtype": "bool", "shape": [2]}});
        assert_eq!(outcome.json()["outputs"], expected, "{input}");
    }
    assert_snapshot!(sandbox.carton("run echo.carton -i mask=mask.npy -o mask=back.npy"), @"
    exit code: 0
    ----- stdout -----

    ----- stderr -----
    wrote mask (bool [2]) to back.npy
    ");
    assert_eq!(npy::read_path(sandbox.work().join("back.npy")).unwrap(), mask);
    assert_snapshot!(sandbox.carton("run echo.carton -i mask=[0,1,2]"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: cannot use input `mask`

    Caused by:
      element [2]: expected true or false, found 2
    ");
    npy::write(file("wrong.npy"), &Tensor::from_vec(vec![0_u8, 3], vec![2]).unwrap()).unwrap();
    assert_snapshot!(sandbox.carton("run echo.carton -i mask=wrong.npy"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensors do not match the model's signature
        input `mask`, element [1]: expected 0 or 1 (bool), found 3

    hint: `carton info` shows what the carton declares
    ");

    pack_noop(&sandbox, &[spec("input", "mask", "uint8"), spec("output", "mask", "uint8")].concat());
    assert_snapshot!(sandbox.carton("run echo.carton -i mask=mask.npy"), @r#"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensors do not match the model's signature
        input `mask`: expected uint8, found bool

    hint: if `mask` is a mask to the model, declare it in the metadata, `dtype = "bool"`, and pack the model again; if the model takes 0 and 1 as numbers, `--cast` makes these of it
    "#);
    assert_snapshot!(sandbox.carton("run echo.carton -i mask=[true,false] --cast"), @"
    exit code: 0
    ----- stdout -----
    mask  uint8 [2]
    [1 0]
    ----- stderr -----
    ");
    sandbox.write("metadata.toml", spec("input", "mask", "uint8'\nelement = 'float16"));
    assert_snapshot!(sandbox.carton("pack model.bin --runner noop --metadata metadata.toml -o echo.carton"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot use `metadata.toml`

    Caused by:
      carton.toml: `input[0].element`: expected the dtype float32 beside `float16`, found uint8
    ");
}

/// Packs a carton that returns an input of this dtype.
fn pack_echo(sandbox: &Sandbox, dtype: &str) {
    let spec = |list: &str| format!("[[{list}]]\nname = 'x'\ndtype = '{dtype}'\nshape = ['n']\n");
    pack_noop(sandbox, &[spec("input"), spec("output")].concat());
}

#[test]
fn every_type_is_written_and_read() {
    let sandbox = Sandbox::new();
    let check = |tensor: Tensor, json: &str, is_in_numpy: bool| {
        let dtype = tensor.dtype().unwrap().name();
        pack_echo(&sandbox, dtype);
        let outcome = sandbox.run(["run", "echo.carton", "-i", &format!("x={json}"), "--json"]).expect_code(0);
        let found = outcome.json()["outputs"]["x"].clone();
        assert_eq!((found["dtype"].as_str(), found["data"].to_string().as_str()), (Some(dtype), json));
        let outcome = sandbox.run(["run", "echo.carton", "-i", &format!("x={json}"), "-o", "x.npz"]);
        if !is_in_numpy {
            let outcome = outcome.expect_code(1);
            assert!(outcome.stderr.contains(".safetensors"), "{outcome}");
        } else {
            outcome.expect_code(0);
            let path = sandbox.work().join("x.npz");
            assert_eq!(npy::Npz::open(&path).unwrap().read("x").unwrap(), tensor);
            sandbox.carton("run echo.carton -i x.npz").expect_code(0);
        }
        let weights = sandbox.run(["run", "echo.carton", "-i", &format!("x={json}"), "-o", "x.safetensors"]);
        if dtype == "complex128" {
            let weights = weights.expect_code(1);
            assert!(weights.stderr.contains(".npz"), "{weights}");
            return;
        }
        weights.expect_code(0);
        let outcome = sandbox.carton("run echo.carton -i x=x.safetensors#x --json").expect_code(0);
        assert_eq!(outcome.json()["outputs"]["x"]["data"].to_string(), json);
    };
    check(Tensor::from_vec(vec![BoolByte(1), BoolByte(0)], vec![2]).unwrap(), "[true,false]", true);
    let half = f16::from_f32(0.5);
    check(Tensor::from_vec(vec![half, f16::INFINITY], vec![2]).unwrap(), r#"[0.5,"Infinity"]"#, true);
    check(Tensor::from_vec(vec![bf16::from_f32(0.5)], vec![1]).unwrap(), "[0.5]", false);
    check(Tensor::from_vec(vec![Float8E5m2::from_f64(-2.0).unwrap()], vec![1]).unwrap(), "[-2.0]", false);
    check(Tensor::from_vec(vec![Complex::new(1.0_f32, -0.5)], vec![1]).unwrap(), "[[1.0,-0.5]]", true);
    check(Tensor::from_vec(vec![Complex::new(1.0_f64, -0.5)], vec![1]).unwrap(), "[[1.0,-0.5]]", true);
}

#[test]
fn bytes_of_files() {
    let sandbox = Sandbox::new();
    pack_echo(&sandbox, "bytes");
    std::fs::write(sandbox.work().join("cat.jpg"), b"\xff\xd8\xff\xe0\0").unwrap();
    assert_snapshot!(sandbox.carton("run echo.carton -i x=@cat.jpg"), @"
    exit code: 0
    ----- stdout -----
    x  bytes [1]
    [<5 bytes: ff d8 ff e0 00>]
    ----- stderr -----
    ");
    for input in ["x=@cat.jpg", "@cat.jpg", r#"x=["/9j/4AA="]"#] {
        let outcome = sandbox.run(["run", "echo.carton", "-i", input, "--json"]).expect_code(0);
        assert_eq!(outcome.json()["outputs"]["x"]["data"], serde_json::json!(["/9j/4AA="]), "{input}");
    }
    assert_snapshot!(sandbox.carton("run echo.carton -i x=@dog.jpg"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot read input `x`: `dog.jpg`

    Caused by:
      No such file or directory (os error 2)
    ");
    pack_echo(&sandbox, "string");
    sandbox.carton("run echo.carton -i x=@cat.jpg").expect_code(2);
    sandbox.write("text.txt", "two words");
    let outcome = sandbox.carton("run echo.carton -i x=@text.txt --json").expect_code(0);
    assert_eq!(outcome.json()["outputs"]["x"]["data"], serde_json::json!(["two words"]));
    pack_echo(&sandbox, "float32");
    assert_snapshot!(sandbox.carton("run echo.carton -i x=@cat.jpg"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: input `x` takes float32: `@cat.jpg` gives the bytes of a file, for an input of bytes or of texts

    hint: decode it first: a .npy file of its numbers is -i x=cat.jpg.npy
    ");
    let outcome = sandbox.carton("run echo.carton -i x=[NaN,null,1] --json").expect_code(0);
    assert_eq!(outcome.json()["outputs"]["x"]["data"], serde_json::json!(["NaN", "NaN", 1.0]));
}

#[test]
fn recorded_self_tests_keep_every_type() {
    let sandbox = Sandbox::new();
    let check = |dtype: &str, json: &str| {
        let spec = |list: &str| format!("[[{list}]]\nname = 'x'\ndtype = '{dtype}'\nshape = ['n']\n");
        sandbox.write("model.bin", "weights");
        sandbox.write("metadata.toml", [spec("input"), spec("output")].concat());
        let input = format!("x={json}");
        let pack = [
            "pack",
            "model.bin",
            "--runner",
            "noop",
            "--metadata",
            "metadata.toml",
            "-o",
            "test.carton",
            "--record-self-test",
            &input,
        ];
        sandbox.run(pack).expect_code(0);
        sandbox.carton("run test.carton --self-test").expect_code(0);
    };
    check("bool", "[true,false]");
    check("float16", "[0.5,Infinity]");
    check("float8_e4m3fn", "[448]");
    check("complex128", "[[1,2]]");
    check("bytes", r#"["/w=="]"#);
}

#[test]
fn json_is_cast_to_the_declared_dtype() {
    let sandbox = Sandbox::new();
    pack_noop(&sandbox, ECHO);
    assert_snapshot!(sandbox.carton("run echo.carton -i x=[[1,2.5,-3e-1]] -i count=7"), @"
    exit code: 0
    ----- stdout -----
    x  float32 [1, 3]
    [[ 1.   2.5 -0.3]]
    count  uint8 []
    7
    ----- stderr -----
    ");
    let outcome = sandbox.carton(r#"run echo.carton -i x=[["NaN",0.1],["-Infinity",1]] -i count=7.0 --json"#);
    assert_snapshot!(outcome.json()["outputs"], @r#"{"count":{"data":7,"dtype":"uint8","shape":[]},"x":{"data":[["NaN",0.1],["-Infinity",1.0]],"dtype":"float32","shape":[2,2]}}"#);
    assert_snapshot!(sandbox.carton("run echo.carton -i x=[[1]] -i count=300"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: cannot use input `count`

    Caused by:
      the value: 300 is out of range for uint8
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i x=[[1]] -i count=1.5"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: cannot use input `count`

    Caused by:
      the value: 1.5 is not an integer, which uint8 needs
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i x=[[true]] -i count=1"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensors do not match the model's signature
        input `x`: expected float32, found bool

    hint: `--cast` casts `x` where no value changes but by rounding
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i x=hello -i count=1"), @r#"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: input `x`: `hello` is neither JSON nor the name of a .npy, .npz, .safetensors or .zt file

    hint: strings need quotes in JSON too: -i name='"text"' or -i name='["a", "b"]'; the bytes or the text of a file are -i name=@FILE
    "#);
}

#[test]
fn undeclared_json_is_what_numpy_makes_of_it() {
    let sandbox = Sandbox::new();
    pack_noop(&sandbox, "");
    let outcome = sandbox.run([
        "run",
        "echo.carton",
        "-i",
        "a=[1,2]",
        "-i",
        "b=[1,2.0]",
        "-i",
        r#"c=["x","y"]"#,
        "-i",
        "d=[[1],[2,3]]",
        "-i",
        "e=5",
    ]);
    assert_snapshot!(outcome, @r#"
    exit code: 0
    ----- stdout -----
    a  int64 [2]
    [1 2]
    b  float64 [2]
    [1. 2.]
    c  string [2]
    ["x" "y"]
    d  nested int64, 2 tensors
    0: int64 [1]
    [1]
    1: int64 [2]
    [2 3]
    e  int64 []
    5
    ----- stderr -----
    "#);
    assert_snapshot!(sandbox.carton("run echo.carton -i [1,2]"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: input 1 has no name, and the model declares no inputs whose order it could follow

    hint: name it: -i NAME=VALUE
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i a=1 -i a=2"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: input `a` is given twice
    ");
    // A model may have no inputs.
    assert_snapshot!(sandbox.carton("run echo.carton"), @"
    exit code: 0
    ----- stdout -----

    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("run echo.carton --json").json()["outputs"], @"{}");
}

#[test]
fn inputs_are_checked_against_the_signature() {
    let sandbox = Sandbox::new();
    pack_noop(&sandbox, ECHO);
    assert_snapshot!(sandbox.carton("run echo.carton -i x=[1] -i count=1"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensors do not match the model's signature
        input `x`: expected 2 dimensions, found 1 dimension (shape [1])

    hint: `carton info` shows what the carton declares; where it declares the wrong thing, `--signature-mode warn` runs the model anyway
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i x=[[1]]"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensors do not match the model's signature
        input `count`: expected a tensor of uint8, shape [], found nothing

    hint: pass it, or run with `--signature-mode warn` where the model does without it; `carton info` shows what the model expects
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i x=[[1]] -i count=1 -i y=2"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: tensors do not match the model's signature
        input `y`: expected only `x`, `count`, found a tensor of int64, shape []

    hint: `carton info` shows what the carton declares; where it declares the wrong thing, `--signature-mode warn` runs the model anyway
    ");
    assert_snapshot!(sandbox.carton("run echo.carton [[1]] 1"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: unexpected argument '[[1]]' found

    Usage: carton run [OPTIONS] <MODEL>

    For more information, try '--help'.
    ");
    sandbox.carton("run echo.carton -i x=[1] -i count=1 --signature-mode off").expect_code(0);
    let warned = sandbox.carton("run echo.carton -i x=[1] -i count=1 --signature-mode warn").expect_code(0);
    assert!(warned.stderr.starts_with("warning: tensors do not match"), "{warned}");
    let quiet = sandbox.carton("-q run echo.carton -i x=[1] -i count=1 --signature-mode warn").expect_code(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn inputs_in_the_declared_order() {
    let sandbox = Sandbox::new();
    pack_noop(&sandbox, ECHO);
    let named = sandbox.carton("run echo.carton -i x=[[1]] -i count=2 --json").json()["outputs"].clone();
    for arguments in ["-i [[1]] -i 2", "-i count=2 -i [[1]]", "-i 2 -i x=[[1]]"] {
        let outcome = sandbox.carton(&format!("run echo.carton {arguments} --json")).expect_code(0);
        assert_eq!(outcome.json()["outputs"], named, "{arguments}");
    }
    assert_snapshot!(sandbox.carton("run echo.carton -i [[1]] -i 2 -i 3"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: 3 inputs are given without a name, and the model declares only 2 others: x, count
    ");
}

#[test]
fn arrays_from_and_to_files() {
    let sandbox = Sandbox::new();
    pack_noop(&sandbox, ECHO);
    let x = Tensor::from_vec(vec![1.0_f32, 2.0], vec![1, 2]).unwrap();
    let count = Tensor::scalar(3_u8);
    let create = |name: &str| std::fs::File::create(sandbox.work().join(name)).unwrap();
    npy::write(create("x.npy"), &x).unwrap();
    npy::write_npz(create("cases.npz"), [("x", &x), ("count", &count)]).unwrap();
    assert_snapshot!(sandbox.carton("run echo.carton -i x=x.npy -i count=cases.npz#count -o x=out.npy -o count.npy"), @"
    exit code: 0
    ----- stdout -----

    ----- stderr -----
    wrote count (uint8 []) to count.npy
    wrote x (float32 [1, 2]) to out.npy
    ");
    assert_eq!(npy::read_path(sandbox.work().join("out.npy")).unwrap(), x);
    assert_eq!(npy::read_path(sandbox.work().join("count.npy")).unwrap(), count);

    assert_snapshot!(sandbox.carton("run echo.carton -i cases.npz -o all.npz -q"), @"
    exit code: 0
    ----- stdout -----

    ----- stderr -----
    ");
    let mut all = npy::Npz::open(sandbox.work().join("all.npz")).unwrap();
    assert_eq!((all.read("x").unwrap(), all.read("count").unwrap()), (x, count));

    let json = sandbox.carton("run echo.carton -i cases.npz -o x=out.npy --json").expect_code(0).json();
    assert_snapshot!(json["outputs"], @r#"{"count":{"data":3,"dtype":"uint8","shape":[]},"x":{"dtype":"float32","file":"out.npy","shape":[1,2]}}"#);
    assert_snapshot!(sandbox.carton("run echo.carton -i x=missing.npy -i count=1"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot read input `x`

    Caused by:
      cannot read or write `missing.npy`
      No such file or directory (os error 2)
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i x=cases.npz#y -i count=1"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot read input `x`

    Caused by:
      `cases.npz` has no array `y`, it has `x`, `count`
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i cases.npz -o z=out.npy"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the model returned no output `z`, it returned: count, x
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i cases.npz -o x=out.npy -o count=./out.npy"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `./out.npy` is named twice
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i cases.npz -o missing/out.npy"), @r#"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot write `missing/out.npy`

    Caused by:
      there is no folder `missing`
    "#);
    assert_eq!(
        sandbox.files(),
        ["all.npz", "cases.npz", "count.npy", "echo.carton", "metadata.toml", "model.bin", "out.npy", "x.npy"]
    );
}

#[test]
fn a_ragged_output_fits_no_npy_file() {
    let sandbox = Sandbox::new();
    pack_noop(&sandbox, "");
    assert_snapshot!(sandbox.carton("run echo.carton -i d=[[1],[2,3]] -o d=d.npy"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot write `d.npy`

    Caused by:
      `npy data` cannot be used: an .npy file cannot hold a nested tensor; write each of its tensors to a file of its own

    hint: no one file takes these outputs: --json prints every kind of output
    ");
    assert_snapshot!(sandbox.carton("run echo.carton -i d=[[1],[2,3]] --json").json()["outputs"], @r#"{"d":{"data":[[1],[2,3]],"dtype":"int64","shapes":[[1],[2]]}}"#);
}

#[test]
fn a_real_model() {
    let sandbox = Sandbox::new();
    pack_digits(&sandbox);
    let image = digits("image.npy");
    let outcome = sandbox.run(["run", "digits.carton", "-i", &image, "--json"]).expect_code(0).json();
    let probabilities = outcome["outputs"]["probabilities"]["data"][0].as_array().unwrap().clone();
    assert_eq!(probabilities.len(), 10);
    assert!(probabilities[2].as_f64().unwrap() > 0.8, "{probabilities:?}");
    assert_eq!(outcome["runner"], "onnx 1.32.0");
    assert!(outcome["seconds"]["run"].as_f64().unwrap() > 0.0);
    // The same model without a carton, and in an unpacked one.
    sandbox.carton("unpack digits.carton -o unpacked").expect_code(0);
    let (bare, input) = (digits("model.onnx"), format!("image={image}"));
    for arguments in [
        vec!["run", &bare, "--runner", "onnx", "--framework-version", ">=1.12", "-i", &input, "--json"],
        vec!["run", &bare, "--runner", "onnx", "-i", &input, "--json"],
        vec!["run", "unpacked", "-i", &input, "--json"],
    ] {
        let outputs = sandbox.run(&arguments).expect_code(0).json()["outputs"].clone();
        assert_eq!(outputs, outcome["outputs"], "{arguments:?}");
    }
}

#[test]
fn self_tests_that_pass() {
    let sandbox = Sandbox::new();
    pack_digits(&sandbox);
    assert_snapshot!(sandbox.carton("run digits.carton --self-test"), @"
    exit code: 0
    ----- stdout -----
    passed  one digit  [TIME]  largest difference [DIFFERENCE] in probabilities
    passed  sixteen digits  [TIME]  largest difference [DIFFERENCE] in probabilities
    2 self-tests passed
    ----- stderr -----
    ");
    let report = sandbox.carton("run digits.carton --self-test --json").expect_code(0).json();
    assert_eq!(report["passed"], true);
    assert_eq!(report["self_tests"][1]["name"], "sixteen digits");
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&report), "counts passed self_tests");
    assert_eq!(report["counts"].to_string(), r#"{"failed":0,"passed":2,"ran":0}"#);
    assert_eq!(keys(&report["self_tests"][0]), "name outcome outputs seconds");
    let output = &report["self_tests"][0]["outputs"][0];
    assert_eq!(keys(output), "detail max_abs_diff max_rel_diff name passed");
}

#[test]
fn self_tests_that_fail() {
    let sandbox = Sandbox::new();
    let file = |name: &str, tensor: &Tensor| {
        npy::write(std::fs::File::create(sandbox.work().join(name)).unwrap(), tensor).unwrap();
    };
    file("x.npy", &Tensor::from_vec(vec![1.0_f32, 2.0], vec![1, 2]).unwrap());
    file("y.npy", &Tensor::from_vec(vec![1.0_f32, 2.5], vec![1, 2]).unwrap());
    file("count.npy", &Tensor::scalar(3_u8));
    file("wide.npy", &Tensor::scalar(3_i64));
    let tests = r#"
[[self_test]]
name = "differs"
inputs = { x = "x.npy", count = "count.npy" }
expected_out = { x = "y.npy", count = "count.npy" }
[[self_test]]
name = "contradicts the signature"
inputs = { x = "x.npy", count = "wide.npy" }
expected_out = { x = "x.npy" }
[[self_test]]
inputs = { x = "x.npy", count = "count.npy" }
"#;
    pack_noop(&sandbox, &format!("{ECHO}{tests}"));
    assert_snapshot!(sandbox.carton("run echo.carton --self-test"), @"
    exit code: 3
    ----- stdout -----
    FAILED  differs  [TIME]  largest difference [DIFFERENCE] in x
            output `x`: element [0, 1]: expected 2.5, found 2.0 (differs by 5e-1, allowed 2.501e-5); 1 of 2 elements differ
    FAILED  contradicts the signature  [TIME]  the call failed
            tensors do not match the model's signature
              input `count`: expected uint8, found int64
    ran     self_test_2  [TIME]  no outputs are expected: nothing was compared
    2 self-tests failed, 1 ran
    ----- stderr -----
    ");
    let report = sandbox.carton("run echo.carton --self-test --json").expect_code(3).json();
    assert_snapshot!(report["self_tests"][0]["outputs"][1], @r#"{"detail":"element [0, 1]: expected 2.5, found 2.0 (differs by 5e-1, allowed 2.501e-5); 1 of 2 elements differ","max_abs_diff":0.5,"max_rel_diff":0.2,"name":"x","passed":false}"#);
    assert_snapshot!(report["self_tests"][1]["error"], @r#""tensors do not match the model's signature\n  input `count`: expected uint8, found int64""#);
    // A difference of 0.5 is within this tolerance.
    let lenient = sandbox.carton("run echo.carton --self-test --rtol 0 --atol 0.5 --signature-mode off --json").json();
    assert_eq!(lenient["self_tests"][0]["outcome"], "passed");
}

#[test]
fn a_self_test_that_expects_nothing_cannot_pass() {
    let sandbox = Sandbox::new();
    let count = std::fs::File::create(sandbox.work().join("count.npy")).unwrap();
    npy::write(count, &Tensor::scalar(3_u8)).unwrap();
    let signature = "[[input]]\nname = \"count\"\ndtype = \"uint8\"\nshape = []\n\
                     [[output]]\nname = \"count\"\ndtype = \"uint8\"\nshape = []\n";
    let silent = format!("{signature}[[self_test]]\ninputs = {{ count = \"count.npy\" }}\n");
    let empty = "[[self_test]]\nname = \"empty\"\ninputs = { count = \"count.npy\" }\nexpected_out = {}\n";
    pack_noop(&sandbox, &format!("{silent}{empty}"));
    assert_snapshot!(sandbox.carton("run echo.carton --self-test"), @"
    exit code: 0
    ----- stdout -----
    ran     self_test_0  [TIME]  no outputs are expected: nothing was compared
    ran     empty  [TIME]  no outputs are expected: nothing was compared
    2 self-tests ran
    ----- stderr -----
    ");
    let report = sandbox.carton("run echo.carton --self-test --json").expect_code(0).json();
    assert_eq!(report["counts"].to_string(), r#"{"failed":0,"passed":0,"ran":2}"#);
    assert_eq!(
        (&report["self_tests"][0]["outcome"], &report["self_tests"][1]["outcome"]),
        (&"ran".into(), &"ran".into())
    );
    let expecting = "[[self_test]]\ninputs = { count = \"count.npy\" }\nexpected_out = { count = \"count.npy\" }\n";
    pack_noop(&sandbox, &format!("{silent}{expecting}"));
    let outcome = sandbox.carton("run echo.carton --self-test").expect_code(0);
    assert!(outcome.stdout.ends_with("1 self-test passed, 1 ran\n"), "{outcome}");
}

#[test]
fn a_self_test_is_recorded() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write("metadata.toml", ECHO);
    let pack = "pack model.bin --runner noop --metadata metadata.toml --record-self-test x=[[1,2]] \
                --record-self-test count=3";
    sandbox.carton(&pack.split_whitespace().collect::<Vec<_>>().join(" ")).expect_code(0);
    assert_snapshot!(sandbox.carton("run model.carton --self-test"), @"
    exit code: 0
    ----- stdout -----
    passed  self_test_0  [TIME]  largest difference [DIFFERENCE] in x
    1 self-test passed
    ----- stderr -----
    ");
    let image = format!("image={}", digits("image.npy"));
    let model = digits("model.onnx");
    let arguments = ["pack", &model, "--runner", "onnx", "--record-self-test", &image, "-o", "digits.carton"];
    sandbox.run(arguments).expect_code(0);
    assert_eq!(sandbox.carton("run digits.carton --self-test --json --rtol 0").expect_code(0).json()["passed"], true);
}

#[test]
fn a_carton_without_self_tests() {
    let sandbox = Sandbox::new();
    pack_noop(&sandbox, "");
    assert_snapshot!(sandbox.carton("run echo.carton --self-test"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: there are no self-tests

    hint: `carton pack` takes them from --metadata, and records them with --record-self-test
    ");
    sandbox.carton("run model.bin --runner noop --self-test").expect_code(1);
    assert_snapshot!(sandbox.carton("run echo.carton --self-test --json"), @r#"
    exit code: 1
    ----- stdout -----
    {
      "error": {
        "kind": "failure",
        "message": "there are no self-tests",
        "causes": [],
        "hint": "`carton pack` takes them from --metadata, and records them with --record-self-test"
      }
    }
    ----- stderr -----
    "#);
}

#[test]
fn what_the_runner_says_is_shown_on_request() {
    let sandbox = Sandbox::new();
    pack_digits(&sandbox);
    let input = format!("image={}", digits("image.npy"));
    let arguments =
        ["run", "digits.carton", "-i", &input, "--opt", "threads=1", "--opt", "no_such_option=1", "-o", "y.npy"];
    let outcome = sandbox.run(arguments).expect_code(0);
    assert!(outcome.stderr.contains("no_such_option"), "{outcome}");
    let verbose = sandbox.run(arguments.into_iter().chain(["-v"])).expect_code(0);
    assert!(verbose.stderr.lines().count() > outcome.stderr.lines().count(), "{verbose}");
}
