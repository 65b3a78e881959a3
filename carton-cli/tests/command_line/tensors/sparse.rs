//! `--max-dense`, in every command that makes sparse tensors dense.

use carton_tensor::files::ElementType;
use carton_tensor::ztensor::{Attributes, StoreAs, Writer};
use insta::assert_snapshot;

use super::{floats, tensor};
use crate::sandbox::Sandbox;

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
    // The format allows it, and its components can be copied.
    sandbox.carton("tensor verify huge.zt").expect_code(0);
    sandbox.carton("tensor convert huge.zt copy.zt").expect_code(0);
    writer = Writer::new(Vec::new()).unwrap();
    writer.object("small", &[1, 1000], "sparse_csr", &Attributes::new(), &parts).unwrap();
    sandbox.write("small.zt", writer.finish().unwrap());
    sandbox.carton("tensor stats small.zt --max-dense 3999").expect_code(1);
    sandbox.carton("tensor stats small.zt --max-dense 4kB").expect_code(0);
}
