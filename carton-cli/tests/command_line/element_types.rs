//! Every element type through `carton run`: in JSON, in files, and in recorded self-tests.

use carton_tensor::{BoolByte, Complex, Float8E5m2, Tensor, bf16, f16, npy};
use insta::assert_snapshot;

use crate::running::pack_noop;
use crate::sandbox::Sandbox;

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
