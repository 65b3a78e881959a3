//! `carton tensor diff`.

use carton_tensor::files::ElementType;
use insta::assert_snapshot;

use super::{example, floats, tensor, write_safetensors, write_ztensor};
use crate::sandbox::Sandbox;

#[test]
fn what_differs_is_named() {
    let sandbox = Sandbox::new();
    let mut before = example();
    before.push(("gone", floats(&[1.0], &[1])));
    before.push(("longer", floats(&[1.0], &[1])));
    write_safetensors(&sandbox, "a.safetensors", &before);
    write_safetensors(
        &sandbox,
        "b.safetensors",
        &[
            ("layer.0.weight", floats(&[-2.0, -1.5, 0.5, f32::NAN], &[2, 2])),
            ("layer.0.bias", floats(&[1.0, -2.5], &[2])),
            ("ids", tensor(ElementType::Int64, &[1], 7_i64.to_le_bytes())),
            ("longer", floats(&[1.0, 2.0], &[2])),
            ("new\u{1b}[2J", floats(&[1.0], &[1])),
        ],
    );
    assert_snapshot!(sandbox.carton("tensor diff a.safetensors b.safetensors"), @"
    exit code: 3
    ----- stdout -----
    CHANGE    DTYPE                SHAPE       DIFFERING  LARGEST DIFFERENCE         RELATIVE  COSINE                  NAME
    removed   float32              [1]         -          -                          -         -                       gone
    elements  float32              [2, 2]      2 of 4     NaN at [1, 1]: 1.5 -> NaN  NaN       0.98431 (1 not finite)  layer.0.weight
    shape     float32              [1] -> [2]  -          -                          -         -                       longer
    dtype     bfloat16 -> float32  [2]         1 of 2     0.5 at [1]: -2.0 -> -2.5   0.25      0.99655                 layer.0.bias
    added     float32              [1]         -          -                          -         -                       new�[2J
    3 tensors differ, 1 tensor only in A, 1 tensor only in B, 1 tensor the same
    ----- stderr -----
    ");
    let json = sandbox.carton("tensor diff a.safetensors b.safetensors --only layer.0.weight --json").json();
    assert_snapshot!(json, @r#"{"a":"a.safetensors","b":"b.safetensors","is_same":false,"same":0,"same_by_digest":0,"tensors":[{"a":{"dtype":"float32","shape":[2,2]},"b":{"dtype":"float32","shape":[2,2]},"change":"elements","elements":{"cosine":0.9843091327750998,"differing":2,"elements":4,"largest":{"a":"1.5","b":"NaN","difference":null,"index":[1,1]},"largest_relative":{"a":"1.5","b":"NaN","difference":null,"index":[1,1]},"not_finite":1},"name":"layer.0.weight"}]}"#);
    let close = sandbox.carton("tensor diff a.safetensors b.safetensors --only layer.0.bias --atol 0.5");
    assert!(close.stdout.contains("0 of 2"), "{close}");
    sandbox.carton("tensor diff a.safetensors a.safetensors").expect_code(0);
    sandbox.carton("tensor diff a.safetensors b.safetensors --only nothing").expect_code(1);
    sandbox.carton("tensor diff a.safetensors missing.safetensors").expect_code(1);
    sandbox.carton("tensor diff a.safetensors b.safetensors --rtol -1").expect_code(2);
}

/// A carton, a tensor file of another format and a checkpoint are compared like two files.
#[test]
fn formats_and_places_do_not_matter() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "a.safetensors", &example());
    sandbox.carton("tensor convert a.safetensors a.zt --zstd 3 --digest sha256").expect_code(0);
    for pair in ["a.safetensors a.zt", "a.zt a.safetensors", "a.zt a.zt", "a.zt a.zt --read-all --no-digests"] {
        let outcome = sandbox.carton(&format!("tensor diff {pair}")).expect_code(0);
        assert!(outcome.stdout.starts_with("3 tensors the same"), "{outcome}");
    }
    assert!(sandbox.carton("tensor diff a.zt a.zt").stdout.contains("(3 by the SHA-256 that both files state)"));
    // One tensor of each: their names do not matter.
    sandbox.carton("tensor convert a.zt only.npy --only layer.0.weight").expect_code(0);
    sandbox.carton("tensor diff a.zt#layer.0.weight only.npy").expect_code(0);
    sandbox.carton("tensor diff a.zt only.npy").expect_code(3);
    sandbox.write("model/weights.safetensors", std::fs::read(sandbox.work().join("a.safetensors")).unwrap());
    sandbox.carton("pack model --runner noop -o m.carton").expect_code(0);
    sandbox.carton("tensor diff m.carton#model/weights.safetensors a.zt").expect_code(0);
}

/// Sparse objects are compared by their numbers. An object of an unknown format cannot be compared, which is no difference.
#[test]
fn what_cannot_be_compared_is_named() {
    let sandbox = Sandbox::new();
    write_ztensor(&sandbox, "a.zt");
    let outcome = sandbox.carton("tensor diff a.zt a.zt").expect_code(1);
    assert!(outcome.stdout.contains("not compared") && outcome.stdout.contains("my_format"), "{outcome}");
    assert!(outcome.stdout.ends_with("1 tensor not compared, 4 tensors the same\n"), "{outcome}");
}
