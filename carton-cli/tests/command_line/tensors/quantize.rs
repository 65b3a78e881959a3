//! `carton tensor quantize`.

use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{Attributes, Reader, StoreAs, Writer};
use insta::assert_snapshot;

use super::{example, floats, read, tensor, write_safetensors, write_ztensor};
use crate::sandbox::Sandbox;

#[test]
fn floats_become_int8_with_their_scale() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "w.safetensors", &example());
    assert_snapshot!(sandbox.carton("tensor quantize w.safetensors q.safetensors"), @"
    exit code: 0
    ----- stdout -----
    wrote q.safetensors (406 B): 2 tensors quantized, 1 as they were
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor cat q.safetensors layer.0.weight"), @"
    exit code: 0
    ----- stdout -----
    layer.0.weight  int8 [2, 2]
    [[-127  -64]
     [  32   95]]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor cat q.safetensors layer.0.weight.scale"), @"
    exit code: 0
    ----- stdout -----
    layer.0.weight.scale  float64 []
    63.5
    ----- stderr -----
    ");
    let json = sandbox.carton("tensor quantize w.safetensors q.zt --only *weight --json").expect_code(0).json();
    assert_eq!(json["quantized"], serde_json::json!([{"name": "layer.0.weight", "scale": 63.5, "non_finite": 0}]));
    let quantized = Reader::new(read(&sandbox, "q.zt").into()).unwrap();
    assert_eq!(&**quantized.read("layer.0.weight").unwrap().bytes(), [-127_i8, -64, 32, 95].map(|n| n as u8));
    assert_eq!(quantized.read("layer.0.bias").unwrap(), example()[1].1);
    assert_snapshot!(sandbox.carton("tensor quantize w.safetensors q.npz --only ids"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `w.safetensors` has no tensor of floats to quantize

    hint: `carton tensor ls` shows their dtypes, and --only chooses by name
    ");
}

/// Numbers of a type that nobody knows may mean anything.
#[test]
fn a_type_that_is_not_known_stays_as_it_is() {
    let sandbox = Sandbox::new();
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.add("odd", &tensor(ElementType::Float8E4m3Fn, &[2], [1, 2]), StoreAs::RAW).unwrap();
    writer.add("w", &floats(&[1.0], &[1]), StoreAs::RAW).unwrap();
    let file = writer.finish().unwrap();
    let known = b"f8_e4m3fn";
    let position = file.windows(known.len()).position(|bytes| bytes == known).unwrap();
    sandbox.write("w.zt", [&file[..position], b"f8_mine_1", &file[position + known.len()..]].concat());
    sandbox.carton("tensor quantize w.zt q.zt").expect_code(0);
    let quantized = Reader::new(read(&sandbox, "q.zt").into()).unwrap();
    let odd = quantized.object("odd").unwrap();
    assert_eq!(odd.component("data").unwrap().unknown_type(), Some("f8_mine_1"));
    assert_eq!(*quantized.component("odd", "data").unwrap(), [1, 2]);
    assert_eq!(quantized.read("w").unwrap().dtype(), ElementType::Int8);
}

/// Sparse tensors become dense first, and what is quantized already is not quantized again.
#[test]
fn what_is_quantized_and_what_is_not() {
    let sandbox = Sandbox::new();
    write_ztensor(&sandbox, "w.zt");
    sandbox.carton("tensor quantize w.zt q.zt").expect_code(0);
    let quantized = Reader::new(read(&sandbox, "q.zt").into()).unwrap();
    let sparse = quantized.read("sparse").unwrap();
    assert_eq!((sparse.dtype(), &**sparse.bytes()), (ElementType::Int8, [0, 0, 127, 0].as_slice()));
    assert_eq!(quantized.read("sparse.scale").unwrap().to_f64().unwrap(), [f64::from(127.0_f32 / 3.0)]);
    assert_eq!(quantized.object("other").unwrap().format().name(), "my_format");
    assert_snapshot!(sandbox.carton("tensor quantize q.zt again.zt"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `q.zt` has no tensor of floats to quantize

    hint: what it has is quantized already, and would only lose precision
    ");
    let part = floats(&[0.0], &[1]);
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.add("w", &floats(&[1.0], &[1]), StoreAs::RAW).unwrap();
    let parts = ["packed_weight", "scales", "zeros"].map(|role| (role, &part, StoreAs::RAW));
    writer.object("group", &[1, 1], "quantized_group", &Attributes::new(), &parts).unwrap();
    sandbox.write("group.zt", writer.finish().unwrap());
    assert_snapshot!(sandbox.carton("tensor quantize group.zt out.zt"), @"
    exit code: 0
    ----- stdout -----
    wrote out.zt (674 B): 1 tensor quantized, 1 as they were
    ----- stderr -----
    warning: written as they are, because they are quantized already: `group`
    ");
    assert_snapshot!(sandbox.carton("tensor quantize group.zt out.safetensors"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a safetensors file cannot hold tensor `group`, of the format `quantized_group`

    hint: write a .zt file, which keeps it as it is; `carton tensor convert --dequantize` makes float32 numbers of quantized groups
    ");
}
