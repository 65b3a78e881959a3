//! `carton tensor stats`.

use insta::assert_snapshot;

use super::{example, floats, write_safetensors};
use crate::sandbox::Sandbox;

#[test]
fn statistics_and_how_numbers_are_distributed() {
    let sandbox = Sandbox::new();
    let mut tensors = example();
    tensors.push(("odd", floats(&[f32::NAN, f32::INFINITY, 1.0, 1.0], &[4])));
    write_safetensors(&sandbox, "w.safetensors", &tensors);
    assert_snapshot!(sandbox.carton("tensor stats w.safetensors"), @"
    exit code: 0
    ----- stdout -----
    DTYPE     SHAPE   MIN  MAX   MEAN      STD  NAN  INF  NAME
    int64     [1]       7    7      7        0    0    0  ids
    float32   [2, 2]   -2  1.5  -0.25  1.34629    0    0  layer.0.weight
    float32   [4]       1    1      1        0    1    1  odd
    bfloat16  [2]      -2    1   -0.5      1.5    0    0  layer.0.bias
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor stats w.safetensors#odd --json").json(), @r#"{"tensors":[{"dtype":"float32","inf":1,"max":1.0,"mean":1.0,"min":1.0,"name":"odd","nan":1,"shape":[4],"std":0.0}]}"#);
    let numbers: Vec<f32> = (0..=40_u8).map(f32::from).collect();
    write_safetensors(&sandbox, "range.safetensors", &[("range", floats(&numbers, &[41]))]);
    assert_snapshot!(sandbox.carton("tensor stats range.safetensors --plot"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE  MIN  MAX  MEAN      STD  NAN  INF  NAME
    float32  [41]     0   40    20  11.8322    0    0  range

    range
     0 │█████████████████████████████████▍ 2
     2 │█████████████████████████████████▍ 2
     4 │█████████████████████████████████▍ 2
     6 │█████████████████████████████████▍ 2
     8 │█████████████████████████████████▍ 2
    10 │█████████████████████████████████▍ 2
    12 │█████████████████████████████████▍ 2
    14 │█████████████████████████████████▍ 2
    16 │█████████████████████████████████▍ 2
    18 │█████████████████████████████████▍ 2
    20 │█████████████████████████████████▍ 2
    22 │█████████████████████████████████▍ 2
    24 │█████████████████████████████████▍ 2
    26 │█████████████████████████████████▍ 2
    28 │█████████████████████████████████▍ 2
    30 │█████████████████████████████████▍ 2
    32 │█████████████████████████████████▍ 2
    34 │█████████████████████████████████▍ 2
    36 │█████████████████████████████████▍ 2
    38 │██████████████████████████████████████████████████ 3
    ----- stderr -----
    ");
}
