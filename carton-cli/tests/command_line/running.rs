//! `carton run`: inputs and outputs.

use carton_tensor::{Tensor, npy};
use insta::assert_snapshot;

use crate::sandbox::{Sandbox, digits};

/// Declares an input and an output `x`, float32 of two dimensions, and `count`, one uint8.
pub(crate) const ECHO: &str = r#"
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
pub(crate) fn pack_noop(sandbox: &Sandbox, metadata: &str) {
    sandbox.write("model.bin", "weights");
    sandbox.write("metadata.toml", metadata);
    sandbox.carton("pack model.bin --runner noop --metadata metadata.toml -o echo.carton --no-check").expect_code(0);
}

pub(crate) fn pack_digits(sandbox: &Sandbox) {
    let (model, metadata) = (digits("model.onnx"), digits("carton.toml"));
    let arguments = ["pack", &model, "--runner", "onnx", "--metadata", &metadata, "-o", "digits.carton"];
    sandbox.run(arguments).expect_code(0);
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
