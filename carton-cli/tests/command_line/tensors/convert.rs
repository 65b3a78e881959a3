//! `carton tensor convert`: what is preserved, and what a format cannot hold.

use std::fs;

use carton_tensor::Tensor;
use carton_tensor::files::ElementType;
use carton_tensor::npy::{self, Array, NpzWriter};
use carton_tensor::safetensors;
use carton_tensor::ztensor::{Attribute, Attributes, DigestAlgorithm, Reader, StoreAs, Writer};
use insta::assert_snapshot;

use super::{example, floats, read, tensor, write_safetensors, write_ztensor};
use crate::sandbox::{Sandbox, names};

/// Tensors that all formats can hold come back the same to the byte, by every route.
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
    // safetensors and zTensor keep the metadata of the file.
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

/// A dense object with further components, one of an unknown type. Components beside the tensor are kept in a zTensor file, and are
/// reported as missing in another format.
#[test]
fn further_components_are_kept_or_missed() {
    let sandbox = Sandbox::new();
    let (data, extra) = (floats(&[1.5, -2.5], &[2]), tensor(ElementType::Float8E4m3Fn, &[3], [1, 2, 3]));
    let attributes = Attributes::from([("answer".to_owned(), Attribute::Integer(42))]);
    let mut writer = Writer::new(Vec::new()).unwrap();
    let hashed = StoreAs::RAW.digest(DigestAlgorithm::Sha256);
    writer
        .object("w", &[2], "dense", &attributes, &[("data", &data, hashed), ("extra", &extra, StoreAs::RAW)])
        .unwrap();
    let file = writer.finish().unwrap();
    let known = b"f8_e4m3fn";
    let position = file.windows(known.len()).position(|bytes| bytes == known).unwrap();
    sandbox.write("w.zt", [&file[..position], b"f8_mine_1", &file[position + known.len()..]].concat());
    sandbox.carton("tensor verify w.zt").expect_code(0);
    // Existing digests are kept, so the file is the same.
    sandbox.carton("tensor convert w.zt copy.zt").expect_code(0);
    assert_eq!(read(&sandbox, "copy.zt"), read(&sandbox, "w.zt"));
    assert_snapshot!(sandbox.carton("tensor convert w.zt w.safetensors"), @"
    exit code: 0
    ----- stdout -----
    wrote w.safetensors (1 tensor, 72 B)
    ----- stderr -----
    warning: the attributes of `w` are not written
    warning: not written of `w`, beside its numbers: `extra`
    ");
    assert_snapshot!(sandbox.carton("tensor quantize w.zt q.zt"), @"
    exit code: 0
    ----- stdout -----
    wrote q.zt (318 B): 1 tensor quantized, 0 as they were
    ----- stderr -----
    warning: the attributes of `w` are not written
    warning: not written of `w`, beside its numbers: `extra`
    ");
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

    hint: name a file .safetensors, .zt, .gguf, .npz or .npy; `carton pack` makes cartons
    ");
    assert_snapshot!(sandbox.carton("tensor convert w.safetensors ./w.safetensors"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `./w.safetensors` is the file that is read

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

    hint: write strings to an .npz or .npy file, or leave such tensors out with --only
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
