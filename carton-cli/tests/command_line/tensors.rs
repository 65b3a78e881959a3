//! `carton tensor`: tensors of files and cartons.

use std::fs;
use std::path::Path;

use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::npy::{self, Array, NpzWriter};
use carton_tensor::safetensors::{self, Metadata};
use carton_tensor::ztensor::{Attribute, Attributes, DigestAlgorithm, Reader, StoreAs, Writer};
use carton_tensor::{Tensor, ztensor};
use insta::assert_snapshot;

use crate::sandbox::{Sandbox, names};

fn tensor(dtype: ElementType, shape: &[usize], bytes: impl Into<Vec<u8>>) -> RawTensor {
    RawTensor::new(dtype, shape.to_vec(), bytes.into().into()).unwrap()
}

fn floats(numbers: &[f32], shape: &[usize]) -> RawTensor {
    tensor(ElementType::Float32, shape, numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())
}

/// The example of the quantization rules, two halves, and integers.
fn example() -> Vec<(&'static str, RawTensor)> {
    vec![
        ("layer.0.weight", floats(&[-2.0, -1.0, 0.5, 1.5], &[2, 2])),
        ("layer.0.bias", tensor(ElementType::BFloat16, &[2], [0x80, 0x3f, 0x00, 0xc0])),
        ("ids", tensor(ElementType::Int64, &[1], 7_i64.to_le_bytes())),
    ]
}

fn write_safetensors(sandbox: &Sandbox, path: &str, tensors: &[(&str, RawTensor)]) {
    let metadata = Metadata::new([("format", "pt")]).unwrap();
    let mut bytes = Vec::new();
    safetensors::write(tensors.iter().map(|(name, tensor)| (*name, tensor)), &metadata, &mut bytes).unwrap();
    sandbox.write(path, bytes);
}

/// A zTensor file with an object of every format, attributes and digests.
fn write_ztensor(sandbox: &Sandbox, path: &str) {
    let store_as = StoreAs::RAW.digest(DigestAlgorithm::Crc32c);
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.set_attributes(&Attributes::from([("format".to_owned(), Attribute::Text("pt".to_owned()))])).unwrap();
    // In the order of their names, which is that of manifests.
    for (name, tensor) in example().iter().rev() {
        writer.add(name, tensor, store_as).unwrap();
    }
    let part = tensor(ElementType::Uint8, &[3], [1, 2, 3]);
    let attributes = Attributes::from([("answer".to_owned(), Attribute::Integer(42))]);
    writer.object("other", &[3], "my_format", &attributes, &[("part", &part, store_as)]).unwrap();
    let sparse = floats(&[0.0, 0.0, 3.0, 0.0], &[2, 2]);
    writer.csr("sparse", &ztensor::Csr::from_dense(&sparse).unwrap(), store_as).unwrap();
    sandbox.write(path, writer.finish().unwrap());
}

fn read(sandbox: &Sandbox, path: &str) -> Vec<u8> {
    fs::read(sandbox.work().join(path)).unwrap()
}

#[test]
fn tensors_are_listed_without_being_read() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "w.safetensors", &example());
    assert_snapshot!(sandbox.carton("tensor ls w.safetensors"), @"
    exit code: 0
    ----- stdout -----
    DTYPE     SHAPE   BYTES  STORED  ENCODING  FORMAT  NAME
    int64     [1]         8       8  raw       dense   ids
    float32   [2, 2]     16      16  raw       dense   layer.0.weight
    bfloat16  [2]         4       4  raw       dense   layer.0.bias

    metadata
      format: pt
    ----- stderr -----
    3 tensors, 28 B
    ");
    write_ztensor(&sandbox, "w.zt");
    assert_snapshot!(sandbox.carton("tensor ls w.zt --only *s*"), @"
    exit code: 0
    ----- stdout -----
    DTYPE     SHAPE   BYTES  STORED  ENCODING     FORMAT      NAME
    int64     [1]         8       8  raw, crc32c  dense       ids
    bfloat16  [2]         4       4  raw, crc32c  dense       layer.0.bias
    float32   [2, 2]     36      36  raw, crc32c  sparse_csr  sparse

    metadata
      format: pt
    ----- stderr -----
    3 tensors, 48 B
    ");
    let json = sandbox.carton("tensor ls w.zt#layer.0.bias --json").expect_code(0).json();
    assert_snapshot!(json, @r#"{"metadata":{"format":"pt"},"tensors":[{"bytes":4,"digest":"crc32c","dtype":"bfloat16","encoding":"raw","format":"dense","name":"layer.0.bias","shape":[2],"stored":4}]}"#);
    let json = sandbox.carton("tensor ls w.zt#other --json").expect_code(0).json();
    assert_eq!(json["tensors"][0]["attributes"], serde_json::json!({"answer": 42}));
    let listed = sandbox.carton("tensor ls w.zt#other").expect_code(0).stdout;
    assert!(listed.contains("\nattributes of other\n  answer: 42\n"), "{listed}");
    assert_snapshot!(sandbox.carton("tensor ls w.zt#nothing"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `w.zt` has no tensor `nothing`

    hint: it has `ids`, `layer.0.bias`, `layer.0.weight`, `other`, `sparse`; `carton tensor ls` shows all
    ");
    assert_snapshot!(sandbox.carton("tensor ls w.zt --only nothing*"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: no tensor of `w.zt` is called `nothing*`

    hint: `carton tensor ls` shows their names
    ");
    sandbox.write("text.txt", "text");
    assert_snapshot!(sandbox.carton("tensor ls text.txt"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `text.txt` is in no format that is known

    hint: read are .safetensors, .safetensors.index.json, .zt, .npy, .npz and MODEL.carton#tensor_data
    ");
    assert_eq!(sandbox.carton("tensor ls none.zt").code, 1);
}

/// The header of an .npy file says how large it is, and names may have what separates them from files.
#[test]
fn headers_that_lie_and_names_with_a_number_sign() {
    let sandbox = Sandbox::new();
    let mut bytes = Vec::new();
    npy::write(&mut bytes, &Tensor::from_vec(vec![1.0_f32; 4], vec![4]).unwrap()).unwrap();
    sandbox.write("cut.npy", &bytes[..bytes.len() - 1]);
    assert_snapshot!(sandbox.carton("tensor ls cut.npy"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `cut.npy` is not a valid NumPy file: shape [4] of dtype `<f4` needs 16 bytes after the header, found 15
    ");
    write_safetensors(&sandbox, "a#b.safetensors", &[("x#y", floats(&[1.0], &[1])), ("z", floats(&[2.0], &[1]))]);
    let cat = |source: &str| sandbox.run(["tensor", "cat", source]).expect_code(0).stdout;
    assert_eq!(cat("a#b.safetensors#x#y"), "x#y  float32 [1]\n[1.]\n");
    assert_eq!(cat("a#b.safetensors#z"), "z  float32 [1]\n[2.]\n");
}

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

/// What all formats hold comes back the same to the byte, whatever way it went.
#[test]
fn tensors_survive_every_format() {
    let sandbox = Sandbox::new();
    let tensors = [
        ("a", floats(&[1.5, -2.5], &[2, 1])),
        ("b", tensor(ElementType::Float16, &[2], [0, 0x3c, 0, 0xc0])),
        ("c", tensor(ElementType::Bool, &[3], [0, 1, 1])),
        ("d", tensor(ElementType::Complex64, &[1], [0, 0, 0x80, 0x3f, 0, 0, 0, 0x40])),
        ("e", tensor(ElementType::Uint8, &[0, 3], [])),
    ];
    write_safetensors(&sandbox, "first.safetensors", &tensors);
    let steps = ["a.zt", "b.npz", "c.safetensors", "d.npz", "e.zt --zstd 3 --digest sha256", "last.safetensors"];
    let mut from = "first.safetensors".to_owned();
    for step in steps {
        sandbox.carton(&format!("tensor convert {from} {step} -q")).expect_code(0);
        step.split(' ').next().unwrap().clone_into(&mut from);
    }
    let expected = safetensors::Reader::new(read(&sandbox, "first.safetensors"), "first").unwrap();
    let found = safetensors::Reader::new(read(&sandbox, "last.safetensors"), "last").unwrap();
    for (name, tensor) in &tensors {
        assert_eq!(&found.read(name).unwrap(), tensor, "{name}");
        assert_eq!(expected.read(name).unwrap(), *tensor, "{name}");
    }
    // safetensors and zTensor keep what is said of the file.
    sandbox.carton("tensor convert first.safetensors m.zt").expect_code(0);
    sandbox.carton("tensor convert m.zt again.safetensors").expect_code(0);
    assert_eq!(read(&sandbox, "again.safetensors"), read(&sandbox, "first.safetensors"));
    let compressed = Reader::new(read(&sandbox, "e.zt").into()).unwrap();
    let data = compressed.object("a").unwrap().component("data").unwrap();
    assert_eq!(data.encoding().name(), "zstd");
    assert!(data.digest_text().unwrap().starts_with("sha256:"));
    assert!(names(&sandbox.work()).iter().all(|name| !name.starts_with('.')), "{:?}", names(&sandbox.work()));
}

#[test]
fn objects_of_ztensor_files_are_copied_as_they_are() {
    let sandbox = Sandbox::new();
    write_ztensor(&sandbox, "w.zt");
    sandbox.carton("tensor convert w.zt copy.zt --digest crc32c").expect_code(0);
    let (found, expected) = (read(&sandbox, "copy.zt"), read(&sandbox, "w.zt"));
    let (found, expected) = (Reader::new(found.into()).unwrap(), Reader::new(expected.into()).unwrap());
    assert_eq!(found.manifest().attributes().unwrap(), expected.manifest().attributes().unwrap());
    assert_eq!(found.objects().len(), expected.objects().len());
    for object in expected.objects() {
        let copied = found.object(object.name()).unwrap();
        assert_eq!((copied.format(), copied.shape()), (object.format(), object.shape()));
        assert_eq!(copied.attributes().unwrap(), object.attributes().unwrap());
        for component in object.components() {
            let role = component.role();
            let copied = copied.component(role).unwrap();
            assert_eq!(copied.digest_text(), component.digest_text(), "{role}");
            let bytes = |reader: &Reader| reader.component(object.name(), role).unwrap().to_vec();
            assert_eq!(bytes(&found), bytes(&expected), "{role}");
        }
    }
    assert_snapshot!(sandbox.carton("tensor convert w.zt copy.safetensors"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a safetensors file cannot hold tensor `other`, of the format `my_format`

    hint: write a .zt file, which keeps it as it is; `carton tensor convert --dequantize` makes float32 numbers of quantized groups
    ");
    assert_snapshot!(sandbox.carton("tensor convert w.zt sparse.npz --only sparse"), @"
    exit code: 0
    ----- stdout -----
    wrote sparse.npz (1 tensor, 302 B)
    ----- stderr -----
    warning: not written, because the format cannot hold it: 1 attribute of the file that is read
    ");
    let dense = npy::Npz::open(sandbox.work().join("sparse.npz")).unwrap().read("sparse").unwrap();
    assert_eq!(dense, Tensor::from_vec(vec![0.0_f32, 0.0, 3.0, 0.0], vec![2, 2]).unwrap());
    assert_eq!(sandbox.files(), ["copy.zt", "sparse.npz", "w.zt"]);
}

#[test]
fn what_cannot_be_held_is_refused() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "w.safetensors", &example());
    assert_snapshot!(sandbox.carton("tensor convert w.safetensors w.npz"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: an .npz file cannot hold tensor `layer.0.bias`, numbers of bfloat16

    hint: write a .safetensors or .zt file
    ");
    assert_snapshot!(sandbox.carton("tensor convert w.safetensors w.npy"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: an .npy file cannot hold tensor `layer.0.bias`, numbers of bfloat16

    hint: write a .safetensors or .zt file
    ");
    assert_snapshot!(sandbox.carton("tensor convert w.safetensors w.npz --zstd 3 --only ids"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: --zstd is for .zt files: `w.npz` would be an .npz file
    ");
    assert_snapshot!(sandbox.carton("tensor convert w.safetensors w.carton"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: cannot write to `w.carton`: its extension names no format

    hint: name a file .safetensors, .zt, .npz or .npy; `carton pack` makes cartons
    ");
    assert_snapshot!(sandbox.carton("tensor convert w.safetensors ./w.safetensors"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `./w.safetensors` is what is read

    hint: write to another file, and rename it afterwards
    ");
    let mut npz = NpzWriter::new(fs::File::create(sandbox.work().join("s.npz")).unwrap());
    npz.add("words", &Tensor::from_strings(["a"], vec![1]).unwrap()).unwrap();
    npz.add_array("z", &Array::Numbers(tensor(ElementType::Complex128, &[], [0; 16]))).unwrap();
    npz.finish().unwrap();
    assert_snapshot!(sandbox.carton("tensor convert s.npz s.zt"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a zTensor file cannot hold tensor `words`, strings

    hint: write strings to an .npz or .npy file, or leave them out with --only
    ");
    assert_snapshot!(sandbox.carton("tensor convert s.npz s.safetensors --only z"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a safetensors file cannot hold tensor `z`, numbers of complex128

    hint: write a .zt or .npz file
    ");
    assert_eq!(sandbox.files(), ["s.npz", "w.safetensors"]);
    sandbox.carton("tensor convert s.npz words.npy --only words").expect_code(0);
    sandbox.carton("tensor convert s.npz#z z.zt").expect_code(0);
}

#[test]
fn files_are_verified() {
    let sandbox = Sandbox::new();
    write_ztensor(&sandbox, "w.zt");
    assert_snapshot!(sandbox.carton("tensor verify w.zt"), @"
    exit code: 0
    ----- stdout -----
    OK w.zt: 5 tensors, 67 B, 7 digests right
    ----- stderr -----
    ");
    // A byte of the first blob.
    let mut bytes = read(&sandbox, "w.zt");
    bytes[64] ^= 1;
    sandbox.write("damaged.zt", &bytes);
    assert_snapshot!(sandbox.carton("tensor verify damaged.zt"), @"
    exit code: 4
    ----- stdout -----
    BAD digest mismatch for component `data` of object `ids`: expected crc32c:0x7671B78E, found crc32c:0x3F4DCAA9 [spec/ztensor.md §4.3]
    damaged.zt: 1 problem
    ----- stderr -----
    ");
    let json = sandbox.carton("tensor verify damaged.zt --json").expect_code(4).json();
    assert_eq!((&json["passed"], json["problems"].as_array().unwrap().len()), (&false.into(), 1));
    // One at its end.
    bytes.pop();
    sandbox.write("cut.zt", &bytes);
    assert_snapshot!(sandbox.carton("tensor verify cut.zt"), @r#"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `cut.zt` is not a valid zTensor file

    Caused by:
      the file ends with `\x00ZTEN100`, expected `ZTEN1000` [spec/ztensor.md §1.1]
    "#);
    write_safetensors(&sandbox, "w.safetensors", &example());
    assert_snapshot!(sandbox.carton("tensor verify w.safetensors"), @"
    exit code: 0
    ----- stdout -----
    OK w.safetensors: 3 tensors, 28 B, no digests
    ----- stderr -----
    ");
    sandbox.write("long.safetensors", [read(&sandbox, "w.safetensors"), vec![0]].concat());
    sandbox.carton("tensor verify long.safetensors").expect_code(4);
    sandbox.carton("tensor convert w.safetensors ids.npz --only ids").expect_code(0);
    sandbox.carton("tensor verify ids.npz").expect_code(0);
    let mut bytes = read(&sandbox, "ids.npz");
    let at = bytes.windows(8).position(|window| window == 7_i64.to_le_bytes()).unwrap();
    bytes[at] = 8;
    sandbox.write("damaged.npz", bytes);
    sandbox.carton("tensor verify damaged.npz").expect_code(4);
}

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

/// A few hundred bytes that claim a tensor of terabytes.
#[test]
fn sparse_tensors_are_made_dense_up_to_a_limit() {
    let sandbox = Sandbox::new();
    let (values, indices) = (floats(&[1.0], &[1]), tensor(ElementType::Uint8, &[1], [0]));
    let indptr = tensor(ElementType::Uint8, &[2], [0, 1]);
    let parts =
        [("values", &values, StoreAs::RAW), ("indices", &indices, StoreAs::RAW), ("indptr", &indptr, StoreAs::RAW)];
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.object("huge", &[1, 1 << 40], "sparse_csr", &Attributes::new(), &parts).unwrap();
    sandbox.write("huge.zt", writer.finish().unwrap());
    assert_snapshot!(sandbox.carton("tensor stats huge.zt"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot read `huge.zt`

    Caused by:
      object `huge` has 4398046511104 bytes when it is dense, at most 4294967296 are allowed [spec/ztensor.md §5.1]

    hint: if it should be that large, allow it with --max-dense SIZE, such as 64GB
    ");
    for command in ["cat huge.zt", "convert huge.zt huge.npz", "quantize huge.zt huge.safetensors"] {
        let outcome = sandbox.carton(&format!("tensor {command}")).expect_code(1);
        assert!(outcome.stderr.contains("--max-dense"), "{outcome}");
    }
    // It is what the format allows, and its parts can be copied.
    sandbox.carton("tensor verify huge.zt").expect_code(0);
    sandbox.carton("tensor convert huge.zt copy.zt").expect_code(0);
    writer = Writer::new(Vec::new()).unwrap();
    writer.object("small", &[1, 1000], "sparse_csr", &Attributes::new(), &parts).unwrap();
    sandbox.write("small.zt", writer.finish().unwrap());
    sandbox.carton("tensor stats small.zt --max-dense 3999").expect_code(1);
    sandbox.carton("tensor stats small.zt --max-dense 4kB").expect_code(0);
}

#[test]
fn weights_are_compared_with_a_description() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "w.safetensors", &example());
    // A file of another model is not valid, though nothing that it has is wrong.
    let json = sandbox.carton("tensor validate w.safetensors --model bitnet-7b --json").expect_code(4).json();
    assert_eq!((&json["passed"], &json["errors"][0]["category"]), (&false.into(), &"no_expected_tensors".into()));
    // Missing layers are odd, no more than that.
    sandbox.write(
        "tiny.toml",
        "version = 1\nname = 'tiny'\ntensors = [{ name = 'ids', shape = [1] }, { name = 'b', shape = [1] }]",
    );
    let json = sandbox.carton("tensor validate w.safetensors --model tiny.toml --json").expect_code(0).json();
    assert_eq!((&json["passed"], &json["warnings"][0]["category"]), (&true.into(), &"missing_layers".into()));
    // What cannot be read is a finding, and the rest is looked at.
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
      unknown field `layers`, expected one of `version`, `name`, `dtypes`, `n_parameters`, `sizes`, `values`, `quantization`, `tensors`
    ");
    write_safetensors(&sandbox, "bad.safetensors", &[("lm_head.weight", floats(&[1.0, 2.0], &[2]))]);
    let outcome = sandbox.carton("tensor validate bad.safetensors --model bitnet-7b").expect_code(4);
    assert!(outcome.stdout.starts_with("error "), "{outcome}");
    sandbox.carton("tensor validate w.safetensors --model nothing").expect_code(2);
}

#[test]
fn tensors_of_cartons() {
    let sandbox = Sandbox::new();
    let mut npz = NpzWriter::new(fs::File::create(sandbox.work().join("cases.npz")).unwrap());
    npz.add("x", &Tensor::from_vec(vec![1.0_f32, 2.0], vec![2]).unwrap()).unwrap();
    npz.add("words", &Tensor::from_strings(["a"], vec![1]).unwrap()).unwrap();
    npz.finish().unwrap();
    sandbox.write("model.bin", "weights");
    sandbox.write("m.toml", METADATA);
    for format in ["bin", "safetensors", "ztensor"] {
        let path = format!("{format}.carton");
        let arguments = format!("pack model.bin --runner noop --metadata m.toml --tensor-format {format} -o {path}");
        let packed = sandbox.carton(&arguments).expect_code(0);
        assert_eq!(packed.stderr.contains("warning"), format != "bin", "{packed}");
        sandbox.carton(&format!("verify {path}")).expect_code(0);
        sandbox.carton(&format!("run {path} --self-test")).expect_code(0);
        sandbox.carton(&format!("tensor convert {path}#tensor_data {format}.npz")).expect_code(0);
        let mut found = npy::Npz::open(sandbox.work().join(format!("{format}.npz"))).unwrap();
        assert_eq!(found.read("x").unwrap(), Tensor::from_vec(vec![1.0_f32, 2.0], vec![2]).unwrap());
        assert_eq!(found.read("words").unwrap(), Tensor::from_strings(["a"], vec![1]).unwrap());
        let cat = sandbox.carton(&format!("tensor cat {path}#tensor_data/x")).expect_code(0);
        assert_eq!(cat.stdout, "x  float32 [2]\n[1. 2.]\n");
        check_every_way(&sandbox, &path);
    }
    assert_snapshot!(sandbox.carton("tensor ls ztensor.carton#tensor_data"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE  BYTES  STORED  ENCODING  FORMAT  NAME
    string   [1]        -       -  -         dense   words
    float32  [2]        8       -  -         dense   x
    ----- stderr -----
    2 tensors, 8 B
    ");
    assert_snapshot!(sandbox.carton("ls safetensors.carton"), @"
    exit code: 0
    ----- stdout -----
    SIZE  STORED  METHOD   PATH
     485     194  deflate  carton.toml
       7       7  stored   model/model.bin
     229     123  deflate  tensor_data/index.toml
      13      13  stored   tensor_data/tensor_0.toml
      72      72  stored   tensor_data/tensors.safetensors
    ----- stderr -----
    ");
}

/// Unpacked, shrunk and made whole again, a carton's self-tests pass.
fn check_every_way(sandbox: &Sandbox, path: &str) {
    sandbox.carton(&format!("unpack {path} -o unpacked")).expect_code(0);
    sandbox.carton("run unpacked --self-test").expect_code(0);
    sandbox.carton("tensor ls unpacked").expect_code(0);
    let shrink = format!("shrink {path} --url-prefix https://example.com --min-size 1 -o small.carton");
    sandbox.carton(&shrink).expect_code(0);
    assert_eq!(
        sandbox.carton("tensor cat small.carton#tensor_data/x").expect_code(0).stdout,
        "x  float32 [2]\n[1. 2.]\n"
    );
    sandbox.carton("pack --resolve unpacked -o whole.carton").expect_code(0);
    assert_eq!(read(sandbox, "whole.carton"), read(sandbox, path), "{path}");
    fs::remove_dir_all(sandbox.work().join("unpacked")).unwrap();
}

const METADATA: &str = r#"
[[input]]
name = "x"
dtype = "float32"
shape = ["n"]

[[input]]
name = "words"
dtype = "string"
shape = ["m"]

[[output]]
name = "x"
dtype = "float32"
shape = ["n"]

[[output]]
name = "words"
dtype = "string"
shape = ["m"]

[[self_test]]
inputs = { x = "cases.npz#x", words = "cases.npz#words" }
expected_out = { x = "cases.npz#x", words = "cases.npz#words" }
"#;

/// What Python's libraries make of what is converted, and the other way round.
#[test]
fn other_libraries_agree() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has NumPy and safetensors (scripts/test-setup)");
        return;
    };
    let sandbox = Sandbox::new();
    let run = |script: &str| {
        let output =
            std::process::Command::new(&python).args(["-c", script]).current_dir(sandbox.work()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run("import numpy as np; from safetensors.numpy import save_file
r = np.random.default_rng(1)
t = {'a': r.normal(size=(3, 4)).astype('f4'), 'h': r.normal(size=7).astype('f2'), 'b': r.integers(0, 2, 9).astype(bool), 'i': r.integers(-9, 9, (2, 0, 3))}
save_file(t, 'their.safetensors', {'k': 'v'}); np.savez_compressed('their.npz', **t)");
    sandbox.carton("tensor convert their.safetensors ours.npz").expect_code(0);
    sandbox.carton("tensor convert their.npz ours.zt --zstd 1 --digest crc32c").expect_code(0);
    sandbox.carton("tensor convert ours.zt ours.safetensors").expect_code(0);
    run("import numpy as np; from safetensors.numpy import load_file
e = load_file('their.safetensors')
for found in [np.load('ours.npz'), load_file('ours.safetensors')]:
    assert set(found) == set(e)
    for k in e: assert found[k].dtype == e[k].dtype and np.array_equal(found[k], e[k]), k");
    assert!(Path::new(&sandbox.work().join("ours.zt")).exists());
}
