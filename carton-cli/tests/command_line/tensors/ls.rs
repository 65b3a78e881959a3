//! `carton tensor ls`, and names of tensors after a `#`.

use carton_tensor::{Tensor, npy};
use insta::assert_snapshot;

use super::{example, floats, write_safetensors, write_ztensor};
use crate::sandbox::Sandbox;

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
    3 tensors, 7 parameters, 28 B
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
    3 tensors, 7 parameters, 48 B
    ");
    let json = sandbox.carton("tensor ls w.zt#layer.0.bias --json").expect_code(0).json();
    assert_snapshot!(json, @r#"{"metadata":{"format":"pt"},"parameters":2,"tensors":[{"bytes":4,"digest":"crc32c","dtype":"bfloat16","encoding":"raw","format":"dense","name":"layer.0.bias","shape":[2],"stored":4}]}"#);
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
    error: `text.txt` is text that begins with `text`, expected a tensor file: safetensors, zTensor, a PyTorch checkpoint, GGUF, ONNX, .npy or .npz

    hint: a server may have sent it in place of the file: download the file again, with a login where one is needed
    ");
    sandbox.write("bytes.bin", [0xfe, 0xff, 0, 1]);
    assert_snapshot!(sandbox.carton("tensor ls bytes.bin"), @r"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `bytes.bin` is not a tensor file: expected safetensors, zTensor, a PyTorch checkpoint, GGUF, ONNX, .npy or .npz, found `\xfe\xff\x00\x01` at its start

    hint: read are .safetensors, PyTorch's .pt, .pth and .bin, the .index.json of both, .zt, .gguf, .onnx, .npy and .npz, and cartons (.carton)
    ");
    assert_eq!(sandbox.carton("tensor ls none.zt").code, 1);
}

/// The header of an .npy file may claim any size, and names may contain the separator between file and tensor.
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
    error: `cut.npy` is not a valid NumPy file: it is truncated: shape [4] of dtype `<f4` needs 16 bytes after the header, found 15
    ");
    write_safetensors(&sandbox, "a#b.safetensors", &[("x#y", floats(&[1.0], &[1])), ("z", floats(&[2.0], &[1]))]);
    let cat = |source: &str| sandbox.run(["tensor", "cat", source]).expect_code(0).stdout;
    assert_eq!(cat("a#b.safetensors#x#y"), "x#y  float32 [1]\n[1.]\n");
    assert_eq!(cat("a#b.safetensors#z"), "z  float32 [1]\n[2.]\n");
}

#[test]
fn empty_and_truncated_files_are_called_that() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "w.safetensors", &[("x", floats(&[1.0, 2.0], &[2]))]);
    sandbox.carton("tensor convert w.safetensors w.zt").expect_code(0);
    sandbox.carton("tensor convert w.safetensors w.npz").expect_code(0);
    for format in ["safetensors", "zt", "npz"] {
        let whole = std::fs::read(sandbox.work().join(format!("w.{format}"))).unwrap();
        for (length, expected) in [(0, "empty"), (whole.len() - 1, "truncated")] {
            sandbox.write(&format!("cut.{format}"), &whole[..length]);
            let outcome = sandbox.carton(&format!("tensor ls cut.{format}")).expect_code(4);
            assert!(outcome.stderr.contains(expected), "{format}: {outcome}");
        }
    }
}
