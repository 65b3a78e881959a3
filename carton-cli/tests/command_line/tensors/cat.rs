//! `carton tensor cat`.

use carton_tensor::{Tensor, npy};
use insta::assert_snapshot;

use super::write_ztensor;
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
    let output = sandbox.command(["tensor", "cat", "w.zt", "ids", "--npy"]).output().unwrap();
    assert_eq!(npy::read(output.stdout.as_slice(), 1000).unwrap(), Tensor::from_vec(vec![7_i64], vec![1]).unwrap());
}
