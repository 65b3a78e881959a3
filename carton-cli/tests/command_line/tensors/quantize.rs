//! `carton tensor quantize`.

use carton_tensor::files::{ElementType, RawTensor};
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
    let expected = serde_json::json!([{"name": "layer.0.weight", "scale": 63.5, "scales": 1, "non_finite": 0}]);
    assert_eq!(json["quantized"], expected);
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

/// Numbers within float64 may have a norm beyond it.
#[test]
fn a_norm_beyond_float64_has_a_relative_error() {
    let sandbox = Sandbox::new();
    let numbers = [1.5e308_f64, -1.5e308, 1.49e308, 1.0];
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let huge = RawTensor::new(ElementType::Float64, vec![2, 2], bytes.into()).unwrap();
    write_safetensors(&sandbox, "huge.safetensors", &[("huge", huge)]);
    assert_snapshot!(sandbox.carton("tensor quantize huge.safetensors q.safetensors --report"), @"
    exit code: 0
    ----- stdout -----
    RELATIVE ERROR   MAX ERROR  SCALES  NAME
           0.070 %  1.8110e305       1  huge
           0.070 %  1.8110e305       1  all of 1 tensor
    wrote q.safetensors (172 B): 1 tensor quantized, 0 as they were
    ----- stderr -----
    ");
    let json = sandbox.carton("tensor quantize huge.safetensors q.safetensors --report --json").expect_code(0).json();
    assert!(json["total"]["norm"].is_null() && json["total"]["norm_of_error"].is_f64(), "{json}");
}

/// A matrix of three rows gets three scales; the report has the error of each tensor.
#[test]
fn channels_have_scales_of_their_own() {
    let sandbox = Sandbox::new();
    let weight = floats(&[-2.0, -1.0, 0.5, 0.3, 0.0, 0.0], &[3, 2]);
    write_safetensors(&sandbox, "w.safetensors", &[("w", weight), ("bias", floats(&[1.0, 0.3], &[2]))]);
    assert_snapshot!(sandbox.carton("tensor quantize w.safetensors q.safetensors --per-channel --report"), @"
    exit code: 0
    ----- stdout -----
    RELATIVE ERROR  MAX ERROR  SCALES  NAME
           0.075 %    0.00079       1  bias
           0.342 %    0.00787       3  w
           0.314 %    0.00787       4  all of 2 tensors
    wrote q.safetensors (320 B): 2 tensors quantized, 0 as they were
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor cat q.safetensors w.scale"), @"
    exit code: 0
    ----- stdout -----
    w.scale  float64 [3]
    [ 63.5 254.    1. ]
    ----- stderr -----
    ");
    let json = sandbox.carton("tensor quantize w.safetensors q.zt --per-channel --report --json").expect_code(0).json();
    let (of_w, total) = (&json["quantized"][1], &json["total"]);
    assert_eq!((&of_w["name"], &of_w["scale"], &of_w["scales"]), (&"w".into(), &serde_json::Value::Null, &3.into()));
    // -1 becomes -64 of steps of 2 / 127, and 0.3 becomes 76 of steps of 0.5 / 127.
    let error = (1.0_f64 - 128.0 / 127.0).hypot(f64::from(0.3_f32) - 38.0 / 127.0);
    assert!((of_w["error"]["norm_of_error"].as_f64().unwrap() - error).abs() < 1e-12, "{of_w}");
    assert!((of_w["error"]["max_absolute"].as_f64().unwrap() - 1.0 / 127.0).abs() < 1e-12, "{of_w}");
    let relative = total["norm_of_error"].as_f64().unwrap() / total["norm"].as_f64().unwrap();
    assert_eq!(total["relative"].as_f64(), Some(relative));
    // Tensors with scales of channels count as quantized already.
    let outcome = sandbox.carton("tensor quantize q.safetensors again.safetensors").expect_code(1);
    assert!(outcome.stderr.contains("what it has is quantized already"), "{outcome}");
}

/// Numbers of an unknown type may mean anything.
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

#[test]
fn a_scale_does_not_take_the_name_of_a_tensor() {
    let sandbox = Sandbox::new();
    let mut writer = Writer::new(Vec::new()).unwrap();
    for name in ["w", "w.scale"] {
        writer.add(name, &floats(&[1.0, 2.0], &[2]), StoreAs::RAW).unwrap();
    }
    sandbox.write("w.zt", writer.finish().unwrap());
    assert_snapshot!(sandbox.carton("tensor quantize w.zt q.zt"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: two tensors would be called `w.scale`

    hint: a quantized tensor has its scale beside it; leave one as it is with --only
    ");
    sandbox.carton("tensor quantize w.zt q.zt --only w.scale").expect_code(0);
}

/// Sparse tensors become dense first, and tensors that are already quantized are not quantized again.
#[test]
fn only_unquantized_floats_are_quantized() {
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

    hint: what it has is quantized already (8 bits or fewer), and would only lose precision
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
    warning: written as they are, because they are quantized already (in groups): `group`
    ");
    assert_snapshot!(sandbox.carton("tensor quantize group.zt out.safetensors"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a safetensors file cannot hold tensor `group`, of the format `quantized_group`

    hint: write a .zt file, which keeps it as it is; `carton tensor convert --dequantize` makes float32 numbers of quantized groups
    ");
}

#[test]
fn matrices_become_quantized_groups_on_request() {
    let sandbox = Sandbox::new();
    let matrix = floats(&[1.0, -254.0, -0.5, 127.0, f32::NAN, 0.0, 127.0, 0.0], &[4, 2]);
    let tensors = [("m", matrix), ("odd", floats(&[1.0; 3], &[3, 1])), ("bias", floats(&[1.0, 0.3], &[2]))];
    write_safetensors(&sandbox, "w.safetensors", &tensors);
    assert_snapshot!(sandbox.carton("tensor quantize w.safetensors q.zt --group-size 2 --per-channel --report"), @"
    exit code: 0
    ----- stdout -----
    RELATIVE ERROR  MAX ERROR  SCALES  NAME
           0.075 %    0.00079       1  bias
           0.321 %          1       4  m
           0.000 %          0       3  odd
           0.321 %          1       8  all of 3 tensors
    wrote q.zt (1.0 KiB): 3 tensors quantized, 0 as they were
    ----- stderr -----
    warning: 1 number was not finite and became 0, in `m`
    ");
    let quantized = Reader::new(read(&sandbox, "q.zt").into()).unwrap();
    let objects: Vec<(&str, &str)> = quantized.objects().map(|one| (one.name(), one.format().name())).collect();
    let expected = [
        ("bias", "dense"),
        ("bias.scale", "dense"),
        ("m", "quantized_group"),
        ("odd", "dense"),
        ("odd.scale", "dense"),
    ];
    assert_eq!(objects, expected);
    let group = quantized.quantized_group("m").unwrap();
    assert_eq!((group.bits(), group.group_size(), group.n_groups()), (8, 2, 2));
    let step = 1.0_f32 / 127.0;
    // A column of zeros has a scale of 0.
    assert_eq!(
        group.dequantize().unwrap().to_f32().unwrap(),
        [127.0 * step, -254.0, -64.0 * step, 128.0, 0.0, 0.0, 127.0, 0.0]
    );
    assert_eq!(group.scales().to_f32().unwrap(), [step, 2.0, 1.0, 0.0]);
    assert_snapshot!(sandbox.carton("tensor quantize w.safetensors q.safetensors --group-size 2"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: --group-size is for .zt files: `q.safetensors` would be a safetensors file
    ");
    sandbox.carton("tensor quantize w.safetensors q.zt --group-size 0").expect_code(2);
    let outcome = sandbox.carton("tensor quantize w.safetensors q.zt --group-size 2 --only bias").expect_code(0);
    assert!(outcome.stderr.contains("no tensor becomes a quantized group"), "{outcome}");
    // A scale that float32 cannot represent.
    let huge = tensor(
        ElementType::Float64,
        &[4, 1],
        [1e300_f64; 4].into_iter().flat_map(f64::to_le_bytes).collect::<Vec<u8>>(),
    );
    write_safetensors(&sandbox, "huge.safetensors", &[("w", huge)]);
    assert_snapshot!(sandbox.carton("tensor quantize huge.safetensors huge.zt --group-size 2"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot make a quantized group of tensor `w`

    Caused by:
      it cannot be quantized in groups of rows: column 0 has numbers whose scale is beyond float32

    hint: leave it as it is with --only, or leave --group-size out
    ");
    assert!(!sandbox.work().join("huge.zt").exists());
}

/// What others have quantized stays as it is, byte for byte, and the rest is quantized.
#[test]
fn what_others_have_quantized_is_left_alone() {
    let sandbox = Sandbox::new();
    let words = |n: usize| tensor(ElementType::Int32, &[n], vec![7; n * 4]);
    let bytes = |n: usize| tensor(ElementType::Uint8, &[n], vec![7; n]);
    let halves = |n: usize| tensor(ElementType::Float16, &[n], vec![0x3c; n * 2]);
    let fp8 = |n: usize| tensor(ElementType::Float8E4m3Fn, &[n], vec![0x38; n]);
    let gptq = vec![
        ("q.qweight", words(4)),
        ("q.qzeros", words(1)),
        ("q.scales", halves(4)),
        ("q.g_idx", words(4)),
        ("norm.weight", floats(&[1.0, 0.5], &[2])),
    ];
    let bitsandbytes = vec![
        ("fc.weight", bytes(4)),
        ("fc.weight.absmax", floats(&[1.0, 0.5], &[2])),
        ("fc.weight.quant_map", floats(&[1.0, 0.5], &[2])),
        ("fc.weight.quant_state.bitsandbytes__nf4", bytes(3)),
        ("norm.weight", floats(&[1.0, 0.5], &[2])),
    ];
    let small = vec![
        ("q.weight", fp8(4)),
        ("q.weight_scale_inv", floats(&[0.25], &[1, 1])),
        ("q.input_scale", floats(&[0.25], &[])),
        ("k.weight", bytes(2)),
        ("k.weight_scale", fp8(1)),
        ("k.weight_scale_2", floats(&[0.25], &[])),
        ("mx", tensor(ElementType::Float4E2m1, &[2], [0x12])),
        ("mx_scale", tensor(ElementType::Float8E8m0Fnu, &[1], [127])),
        ("norm.weight", floats(&[1.0, 0.5], &[2])),
    ];
    for (tensors, scheme) in [(gptq, "GPTQ or AWQ"), (bitsandbytes, "bitsandbytes"), (small, "8 bits or fewer")] {
        write_safetensors(&sandbox, "w.safetensors", &tensors);
        let outcome = sandbox.carton("tensor quantize w.safetensors q.safetensors").expect_code(0);
        let warning = format!("written as they are, because they are quantized already ({scheme}): `");
        assert!(outcome.stderr.contains(&warning), "{outcome}");
        assert!(outcome.stdout.contains("1 tensor quantized"), "{outcome}");
        let file = carton_tensor::safetensors::Reader::open(sandbox.work().join("q.safetensors")).unwrap();
        for (name, tensor) in tensors.iter().filter(|(name, _)| *name != "norm.weight") {
            assert_eq!(file.read(name).unwrap(), *tensor, "{name}");
        }
        assert_eq!(file.names().len(), tensors.len() + 1);
        // A second time nothing is left to be quantized, and nothing is written.
        let outcome = sandbox.carton("tensor quantize q.safetensors again.safetensors").expect_code(1);
        assert!(outcome.stderr.contains("what it has is quantized already"), "{outcome}");
        // A scale belongs to its tensor even where it is named alone.
        let (scale, _) = tensors
            .iter()
            .find(|(name, tensor)| name.contains("scale") && tensor.dtype().bits() > 8)
            .unwrap_or(&tensors[1]);
        sandbox.run(["tensor", "quantize", &format!("w.safetensors#{scale}"), "again.safetensors"]).expect_code(1);
        assert!(!sandbox.work().join("again.safetensors").exists());
    }
}
