//! The options of `carton tensor convert` for zTensor files: sparse objects, quantized groups, files of version 1.1.

use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{Attribute, Attributes, DigestAlgorithm, Reader, StoreAs, Writer};
use insta::assert_snapshot;

use super::{example, floats, read, tensor, write_safetensors};
use crate::sandbox::Sandbox;

fn open(sandbox: &Sandbox, path: &str) -> Reader {
    Reader::new(read(sandbox, path).into()).unwrap()
}

fn formats(reader: &Reader) -> Vec<(&str, &str)> {
    reader.objects().map(|object| (object.name(), object.format().name())).collect()
}

#[test]
fn tensors_of_few_values_become_sparse_and_come_back_to_the_byte() {
    let sandbox = Sandbox::new();
    let nan = f32::from_bits(0x7fc0_1234);
    let tensors = [
        ("a.matrix", floats(&[0.0, -0.0, 0.0, 0.0, nan, 0.0], &[3, 2])),
        ("b.half", floats(&[1.0, 0.0], &[1, 2])),
        ("c.vector", tensor(ElementType::Int16, &[5], [0, 0, 1, 0, 0, 0, 0, 0, 0, 0])),
        ("d.cube", tensor(ElementType::Float8E5m2, &[2, 1, 3], [0, 0, 0x80, 0, 0, 0])),
        ("e.scalar", tensor(ElementType::Uint8, &[], [0])),
        ("f.empty", tensor(ElementType::Uint8, &[0, 3], [])),
        ("g.fp4", tensor(ElementType::Float4E2m1, &[2, 4], [0, 0, 0, 0])),
        ("h.zeros", floats(&[0.0; 4], &[2, 2])),
    ];
    write_safetensors(&sandbox, "w.safetensors", &tensors);
    sandbox.carton("tensor convert w.safetensors w.zt --sparse-below 0.5 --zstd 3 --digest sha256").expect_code(0);
    let reader = open(&sandbox, "w.zt");
    let expected = [
        ("a.matrix", "sparse_csr"),
        // A density of one half is not below 0.5.
        ("b.half", "dense"),
        ("c.vector", "sparse_coo"),
        ("d.cube", "sparse_coo"),
        ("e.scalar", "sparse_coo"),
        ("f.empty", "dense"),
        ("g.fp4", "dense"),
        ("h.zeros", "sparse_csr"),
    ];
    assert_eq!(formats(&reader), expected);
    // -0.0 is a value.
    assert_eq!(reader.csr("a.matrix").unwrap().values().n_elements(), 2);
    for object in reader.objects() {
        for component in object.components() {
            assert_eq!(component.encoding().name(), "zstd");
            assert!(component.digest_text().unwrap().starts_with("sha256:"));
        }
    }
    sandbox.carton("tensor verify w.zt").expect_code(0);
    sandbox.carton("tensor convert w.zt back.safetensors").expect_code(0);
    assert_eq!(read(&sandbox, "back.safetensors"), read(&sandbox, "w.safetensors"));
    // Quantized tensors are stored by the same options.
    sandbox.carton("tensor quantize w.safetensors q.zt --sparse-below 0.9").expect_code(0);
    assert_eq!(open(&sandbox, "q.zt").object("h.zeros").unwrap().format().name(), "sparse_csr");
}

/// Objects that become sparse keep their attributes and digests, and objects with further components are kept as they are.
#[test]
fn objects_become_sparse_with_what_they_say() {
    let sandbox = Sandbox::new();
    let zeros = floats(&[0.0, 0.0, 3.0, 0.0], &[2, 2]);
    let attributes = Attributes::from([("answer".to_owned(), Attribute::Integer(42))]);
    let mut writer = Writer::new(Vec::new()).unwrap();
    let hashed = StoreAs::RAW.digest(DigestAlgorithm::Crc32c);
    writer.object("alone", &[2, 2], "dense", &attributes, &[("data", &zeros, hashed)]).unwrap();
    let parts = [("data", &zeros, hashed), ("extra", &zeros, StoreAs::RAW)];
    writer.object("more", &[2, 2], "dense", &attributes, &parts).unwrap();
    let mut bytes = writer.finish().unwrap();
    sandbox.write("w.zt", &bytes);
    sandbox.carton("tensor convert w.zt s.zt --sparse-below 1").expect_code(0);
    let reader = open(&sandbox, "s.zt");
    assert_eq!(formats(&reader), [("alone", "sparse_csr"), ("more", "dense")]);
    let object = reader.object("alone").unwrap();
    assert_eq!(object.attributes().unwrap(), attributes);
    assert!(object.components().all(|component| component.digest_text().unwrap().starts_with("crc32c:")));
    assert_eq!(reader.csr("alone").unwrap().to_dense().unwrap(), zeros);
    // Damaged bytes do not get a new, matching digest.
    bytes[64] ^= 1;
    sandbox.write("damaged.zt", &bytes);
    sandbox.carton("tensor convert damaged.zt d.zt --sparse-below 1 --only alone").expect_code(4);
    assert_eq!(sandbox.files(), ["damaged.zt", "s.zt", "w.zt"]);
}

#[test]
fn files_of_version_1_1_are_written_for_old_readers() {
    let sandbox = Sandbox::new();
    let more = ("fp8", tensor(ElementType::Float8E4m3Fnuz, &[2], [1, 2]));
    write_safetensors(&sandbox, "w.safetensors", &[example(), vec![more]].concat());
    assert_snapshot!(sandbox.carton("tensor convert w.safetensors w.zt --version 1.1"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a zTensor file cannot hold tensor `fp8`, numbers of float8_e4m3fnuz, in version 1.1

    hint: write version 1.2, or leave such tensors out with --only
    ");
    sandbox.carton("tensor convert w.safetensors new.zt").expect_code(0);
    assert_eq!(open(&sandbox, "new.zt").manifest().version(), "1.2.0");
    assert_snapshot!(sandbox.carton("tensor convert new.zt w.zt --version 1.1"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a zTensor file cannot hold tensor `fp8`, numbers of float8_e4m3fnuz, in version 1.1

    hint: write version 1.2, or leave such tensors out with --only
    ");
    assert_eq!(sandbox.files(), ["new.zt", "w.safetensors"]);
    sandbox.carton("tensor convert new.zt old.zt --version 1.1 --zstd 3 --only layer* --only ids").expect_code(0);
    let reader = open(&sandbox, "old.zt");
    assert_eq!(reader.manifest().version(), "1.1.0");
    let text = String::from_utf8_lossy(&read(&sandbox, "old.zt")).into_owned();
    assert!(text.contains("zstd") && !text.contains("uncompressed_length"));
    for (name, tensor) in example() {
        assert_eq!(reader.read(name).unwrap(), tensor);
    }
    write_safetensors(&sandbox, "fp8.safetensors", &[("fp8", tensor(ElementType::Float8E5m2, &[1], [1]))]);
    assert_snapshot!(sandbox.carton("tensor convert fp8.safetensors fp8.zt --version 1.1"), @"
    exit code: 0
    ----- stdout -----
    wrote fp8.zt (1 tensor, 202 B)
    ----- stderr -----
    warning: version 1.1 of the format has float8_e5m2, but its libraries read no file that has it: `fp8` and any other such tensor can be left out
    ");
}

/// An object that does not fit version 1.1 only because of a component beside its tensor.
#[test]
fn what_version_1_1_lacks_is_refused_before_anything_is_written() {
    let sandbox = Sandbox::new();
    let (data, extra) = (floats(&[1.5], &[1]), tensor(ElementType::Float8E8m0Fnu, &[3], [1, 2, 3]));
    let mut writer = Writer::new(Vec::new()).unwrap();
    let parts = [("data", &data, StoreAs::RAW), ("extra", &extra, StoreAs::RAW)];
    writer.object("w", &[1], "dense", &Attributes::new(), &parts).unwrap();
    sandbox.write("w.zt", writer.finish().unwrap());
    assert_snapshot!(sandbox.carton("tensor convert w.zt old.zt --version 1.1"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: a zTensor file cannot hold tensor `w`, numbers of float8_e8m0fnu, in version 1.1

    hint: write version 1.2, or leave such tensors out with --only
    ");
    sandbox.carton("tensor convert w.zt same.zt").expect_code(0);
    assert_eq!(sandbox.files(), ["same.zt", "w.zt"]);
}

fn scale(number: f64, shape: &[usize]) -> carton_tensor::files::RawTensor {
    tensor(ElementType::Float64, shape, number.to_le_bytes())
}

#[test]
fn integers_and_their_scales_become_quantized_groups() {
    let sandbox = Sandbox::new();
    let ternary: Vec<u8> = (0..32).map(|index| [255, 0, 1][index % 3]).collect();
    let tensors = [
        ("bytes", tensor(ElementType::Int8, &[4, 2], [128, 127, 0, 1, 255, 5, 6, 7])),
        ("bytes.scale", scale(2.0, &[])),
        ("nibbles", tensor(ElementType::Int8, &[8, 1], [248, 7, 0, 1, 255, 5, 6, 7])),
        ("nibbles.scale", floats(&[4.0], &[1])),
        ("ternary", tensor(ElementType::Int8, &[16, 2], ternary)),
        ("ternary.scale", scale(0.5, &[1, 1])),
        // Four bits would suffice, except that they need more rows.
        ("short", tensor(ElementType::Int8, &[4, 1], [1, 1, 1, 1])),
        ("short.scale", scale(1.0, &[])),
    ];
    let left = [
        ("rows", tensor(ElementType::Int8, &[3, 1], [1, 2, 3])),
        ("rows.scale", scale(1.0, &[])),
        ("vector", tensor(ElementType::Int8, &[4], [1, 2, 3, 4])),
        ("vector.scale", scale(1.0, &[])),
        ("channels", tensor(ElementType::Int8, &[4, 1], [1, 2, 3, 4])),
        ("channels.scale", floats(&[1.0, 2.0, 3.0, 4.0], &[4])),
        ("infinite", tensor(ElementType::Int8, &[4, 1], [1, 2, 3, 4])),
        ("infinite.scale", scale(0.0, &[])),
    ];
    let others = [("alone", tensor(ElementType::Int8, &[4, 1], [1, 2, 3, 4])), ("x.scale", floats(&[1.0], &[]))];
    write_safetensors(&sandbox, "q.safetensors", &[&tensors[..], &left, &others].concat());
    assert_snapshot!(sandbox.carton("tensor convert q.safetensors q.zt --quantized-groups"), @"
    exit code: 0
    ----- stdout -----
    wrote q.zt (14 tensors, 3.0 KiB)
    ----- stderr -----
    warning: written as they are, because a quantized group needs a matrix of a multiple of 4 rows, and one scale whose reciprocal is a float32 other than 0: `infinite`, `rows`, `vector`, `channels`
    ");
    let reader = open(&sandbox, "q.zt");
    let of = |format: &str| formats(&reader).into_iter().filter(|it| it.1 == format).map(|it| it.0).collect::<Vec<_>>();
    assert_eq!(of("quantized_group"), ["bytes", "nibbles", "short", "ternary"]);
    assert_eq!(of("dense").len(), left.len() + others.len());
    let groups = ["bytes", "nibbles", "short", "ternary"].map(|name| reader.quantized_group(name).unwrap());
    assert_eq!(groups.each_ref().map(|group| group.bits()), [8, 4, 8, 2]);
    let numbers = |index: usize| groups[index].dequantize().unwrap().to_f32().unwrap();
    assert_eq!(numbers(0), [-64.0, 63.5, 0.0, 0.5, -0.5, 2.5, 3.0, 3.5]);
    assert_eq!(numbers(1), [-2.0, 1.75, 0.0, 0.25, -0.25, 1.25, 1.5, 1.75]);
    assert_eq!(numbers(3)[..4], [-2.0, 0.0, 2.0, -2.0]);
    for (name, expected) in left.iter().chain(&others) {
        assert_eq!(reader.read(name).unwrap(), *expected);
    }
    sandbox.carton("tensor verify q.zt").expect_code(0);
    sandbox.carton("tensor convert q.zt f.safetensors --dequantize").expect_code(0);
    // Existing groups of a zTensor file are kept, and integers in it become groups.
    sandbox.carton("tensor convert q.safetensors plain.zt --digest crc32c").expect_code(0);
    sandbox.carton("tensor convert plain.zt again.zt --quantized-groups").expect_code(0);
    assert_eq!(formats(&open(&sandbox, "again.zt")), formats(&reader));
    assert_snapshot!(sandbox.carton("tensor convert q.safetensors none.zt --quantized-groups --only alone"), @"
    exit code: 0
    ----- stdout -----
    wrote none.zt (1 tensor, 203 B)
    ----- stderr -----
    warning: no tensor becomes a quantized group: none of int8 has its scale beside it
    ");
}

#[test]
fn options_for_ztensor_files_are_refused_for_others() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "w.safetensors", &example());
    for option in ["--version 1.1", "--sparse-below 0.5", "--quantized-groups"] {
        let outcome = sandbox.carton(&format!("tensor convert w.safetensors w.npz {option}")).expect_code(2);
        let name = option.split(' ').next().unwrap();
        assert!(outcome.stderr.contains(&format!("{name} is for .zt files")), "{outcome}");
    }
    for wrong in ["--sparse-below 1.5", "--sparse-below nan", "--version 1.3", "--quantized-groups --dequantize"] {
        sandbox.carton(&format!("tensor convert w.safetensors w.zt {wrong}")).expect_code(2);
    }
    assert_eq!(sandbox.files(), ["w.safetensors"]);
}
