//! `carton tensor cat`.

use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{StoreAs, Writer};
use carton_tensor::{Tensor, npy};
use insta::assert_snapshot;

use super::{tensor, write_ztensor};
use crate::sandbox::Sandbox;

#[test]
fn elements_are_printed() {
    let sandbox = Sandbox::new();
    write_ztensor(&sandbox, "w.zt");
    assert_snapshot!(sandbox.carton("tensor cat w.zt layer.0.weight"), @"
    exit code: 0
    ----- stdout -----
    layer.0.weight  float32 [2, 2]
    [[-2.  -1. ]
     [ 0.5  1.5]]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor cat w.zt#layer.0.bias"), @"
    exit code: 0
    ----- stdout -----
    layer.0.bias  bfloat16 [2]
    [ 1. -2.]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor cat w.zt layer.0.weight --slice :,1"), @"
    exit code: 0
    ----- stdout -----
    layer.0.weight  float32 [2]
    [-1.   1.5]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor cat w.zt layer.0.weight --first 3"), @"
    exit code: 0
    ----- stdout -----
    -2.0
    -1.0
    0.5
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor cat w.zt sparse --json").json(), @r#"{"dtype":"float32","name":"sparse","tensor":{"data":[[0.0,0.0],[3.0,0.0]],"dtype":"float32","shape":[2,2]}}"#);
    assert_snapshot!(sandbox.carton("tensor cat w.zt layer.0.weight --slice 2"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: cannot use the slice `2`: there is no index 2 in a dimension of 2
    ");
    assert_snapshot!(sandbox.carton("tensor cat w.zt"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `w.zt` has 5 tensors, and one was expected

    hint: `carton tensor ls` shows their names
    ");
    assert_snapshot!(sandbox.carton("tensor cat w.zt other"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `other` in `w.zt` is of the format `my_format`, expected a tensor of numbers
    ");
    assert_snapshot!(sandbox.carton("tensor cat w.zt layer.0.bias --npy"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: an .npy file cannot hold tensor `layer.0.bias`, numbers of bfloat16

    hint: --json prints them as numbers that programs can read
    ");
    let output = sandbox.command(["tensor", "cat", "w.zt", "ids", "--npy"]).output().unwrap();
    assert_eq!(npy::read(output.stdout.as_slice(), 1000).unwrap(), Tensor::from_vec(vec![7_i64], vec![1]).unwrap());
}

/// An array that is larger than the output buffers.
#[test]
#[cfg(target_os = "linux")]
fn arrays_go_to_readers_that_may_have_enough() {
    let sandbox = Sandbox::new();
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.add("x", &tensor(ElementType::Uint8, &[1 << 20], vec![7; 1 << 20]), StoreAs::RAW).unwrap();
    sandbox.write("large.zt", writer.finish().unwrap());
    let cat = |stdout: std::process::Stdio| {
        let mut command = sandbox.command(["tensor", "cat", "large.zt", "x", "--npy"]);
        let child = command.stdout(stdout).stderr(std::process::Stdio::piped()).spawn().unwrap();
        child.wait_with_output().unwrap()
    };
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let output = cat(closed.into());
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    let output = cat(std::fs::File::options().write(true).open("/dev/full").unwrap().into());
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("error: cannot write to standard output"), "{message}");
}

/// An unknown type is shown by the file's own name, whatever its storage type.
#[test]
fn types_are_called_what_ls_calls_them() {
    let sandbox = Sandbox::new();
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.add("small", &tensor(ElementType::Float8E4m3Fn, &[2], [1, 2]), StoreAs::RAW).unwrap();
    writer.add("pairs", &tensor(ElementType::Complex64, &[1], [0; 8]), StoreAs::RAW).unwrap();
    writer.add("flags", &tensor(ElementType::Bool, &[1], [1]), StoreAs::RAW).unwrap();
    let file = writer.finish().unwrap();
    sandbox.write("known.zt", &file);
    // An unknown type of the same length.
    let known = b"f8_e4m3fn";
    let position = file.windows(known.len()).position(|bytes| bytes == known).unwrap();
    sandbox.write("unknown.zt", [&file[..position], b"f8_mine_1", &file[position + known.len()..]].concat());
    for (path, small) in [("known.zt", "float8_e4m3fn"), ("unknown.zt", "f8_mine_1")] {
        for (name, dtype) in [("small", small), ("pairs", "complex64"), ("flags", "bool")] {
            let listed = sandbox.carton(&format!("tensor ls {path}#{name} --json")).expect_code(0).json();
            let printed = sandbox.carton(&format!("tensor cat {path}#{name} --json")).expect_code(0).json();
            assert_eq!((&listed["tensors"][0]["dtype"], &printed["dtype"]), (&dtype.into(), &dtype.into()), "{path}");
        }
    }
    assert_eq!(sandbox.carton("tensor cat unknown.zt small").expect_code(0).stdout, "small  f8_mine_1 [2]\n[1 2]\n");
}
