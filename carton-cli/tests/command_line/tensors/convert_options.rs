//! `carton tensor convert`: which tensors are written, under which names, as which type, and in how many files.

use std::fs;

use carton_tensor::safetensors;
use insta::assert_snapshot;

use super::{example, floats, read, write_safetensors};
use crate::sandbox::{Sandbox, names};

#[test]
fn tensors_are_chosen_and_renamed() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "a.safetensors", &example());
    sandbox
        .carton(
            r"tensor convert a.safetensors b.safetensors --exclude ids --rename s/^layer\.(.)/blk.\1/ --metadata by=me",
        )
        .expect_code(0);
    assert_snapshot!(sandbox.carton("tensor ls b.safetensors"), @"
    exit code: 0
    ----- stdout -----
    DTYPE     SHAPE   BYTES  STORED  ENCODING  FORMAT  NAME
    float32   [2, 2]     16      16  raw       dense   blk.0.weight
    bfloat16  [2]         4       4  raw       dense   blk.0.bias

    metadata
      format: pt
      by: me
    ----- stderr -----
    2 tensors, 6 parameters, 20 B
    ");
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors c.safetensors --rename s/.*/x/"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: two tensors would be called `x`: `ids` of `a.safetensors` and `layer.0.weight` of `a.safetensors`

    hint: rename one of them with --rename, or leave it out with --exclude
    ");
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors c.safetensors --exclude none"), @"
    exit code: 0
    ----- stdout -----
    wrote c.safetensors (3 tensors, 260 B)
    ----- stderr -----
    warning: nothing is left out: no tensor matches `none`
    ");
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors d.safetensors --exclude *"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: every tensor of `a.safetensors` is left out
    ");
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors d.npz --metadata by=me"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: an .npz file cannot hold metadata
    ");
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors d.safetensors --rename s/(/x/"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value 's/(/x/' for '--rename <s/REGEX/TEXT/>': the expression `(` is not valid: unclosed group

    For more information, try '--help'.
    ");
    assert_eq!(names(&sandbox.work()), ["a.safetensors", "b.safetensors", "c.safetensors"]);
}

#[test]
fn floats_are_rounded_where_that_is_asked_for() {
    let sandbox = Sandbox::new();
    let mut tensors = example();
    tensors.push(("large", floats(&[1e6, 2.0], &[2])));
    write_safetensors(&sandbox, "a.safetensors", &tensors);
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors b.safetensors --dtype f16"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: 1 number of tensor `large` cannot be float16: too large

    hint: choose a --dtype with a larger range, or write the largest number in their place with --saturate
    ");
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors b.safetensors --dtype f16 --saturate"), @"
    exit code: 0
    ----- stdout -----
    wrote b.safetensors (4 tensors, 320 B)
    ----- stderr -----
    warning: 1 number of `large` became the largest finite float16 with the same sign
    ");
    assert_snapshot!(sandbox.carton("tensor stats b.safetensors --only large"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE  MIN    MAX   MEAN    STD  NAN  INF  NAME
    float16  [2]      2  65504  32753  32751    0    0  large
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors c.safetensors --saturate"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the following required arguments were not provided:
      --dtype <DTYPE>

    Usage: carton tensor convert --dtype <DTYPE> --saturate <SOURCE>... <OUTPUT>

    For more information, try '--help'.
    ");
    // What is quantized already stays, with its scales.
    sandbox.carton("tensor quantize a.safetensors q.safetensors --only layer.0.weight").expect_code(0);
    assert_snapshot!(sandbox.carton("tensor convert q.safetensors c.safetensors --dtype bf16"), @"
    exit code: 0
    ----- stdout -----
    wrote c.safetensors (5 tensors, 396 B)
    ----- stderr -----
    warning: written as they are, because they are quantized already (8 bits or fewer): `layer.0.weight`, `layer.0.weight.scale`
    ");
    let file = safetensors::Reader::new(read(&sandbox, "c.safetensors"), "c").unwrap();
    let dtypes: Vec<String> = file.header().iter().map(|tensor| format!("{} {}", tensor.name, tensor.dtype)).collect();
    assert_snapshot!(dtypes.join("\n"), @"
    ids int64
    layer.0.weight.scale float64
    large bfloat16
    layer.0.bias bfloat16
    layer.0.weight int8
    ");
}

#[test]
fn one_file_becomes_several_and_one_again() {
    let sandbox = Sandbox::new();
    write_safetensors(&sandbox, "a.safetensors", &example());
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors m.safetensors --shard-size 20B"), @"
    exit code: 0
    ----- stdout -----
    wrote m.safetensors.index.json and 2 files (3 tensors, 300 B)
    ----- stderr -----
    ");
    assert_snapshot!(fs::read_to_string(sandbox.work().join("m.safetensors.index.json")).unwrap(), @r#"
    {
      "metadata": {
        "total_size": 28
      },
      "weight_map": {
        "ids": "m-00001-of-00002.safetensors",
        "layer.0.bias": "m-00002-of-00002.safetensors",
        "layer.0.weight": "m-00002-of-00002.safetensors"
      }
    }
    "#);
    assert_snapshot!(sandbox.carton("tensor diff a.safetensors m.safetensors.index.json"), @"
    exit code: 0
    ----- stdout -----
    3 tensors the same
    ----- stderr -----
    ");
    let shards = "m-00001-of-00002.safetensors m-00002-of-00002.safetensors";
    sandbox.carton(&format!("tensor convert {shards} joined.safetensors")).expect_code(0);
    assert_eq!(read(&sandbox, "joined.safetensors"), read(&sandbox, "a.safetensors"));
    // All of it fits.
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors n.safetensors --shard-size 1kB"), @"
    exit code: 0
    ----- stdout -----
    wrote n.safetensors (3 tensors, 260 B)
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors n.zt --shard-size 1kB"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: only a checkpoint of safetensors files can have several, and `n.zt` would be a zTensor file

    hint: name a file .safetensors
    ");
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors joined.safetensors n.zt"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: two tensors would be called `ids`: `ids` of `a.safetensors` and `ids` of `joined.safetensors`

    hint: rename one of them with --rename, or leave it out with --exclude
    ");
    assert_snapshot!(sandbox.carton("tensor convert m-00001-of-00002.safetensors m.safetensors --shard-size 1B"), @"
    exit code: 0
    ----- stdout -----
    wrote m.safetensors (1 tensor, 104 B)
    ----- stderr -----
    ");
    sandbox.carton("tensor convert a.safetensors b.safetensors --metadata format=tf").expect_code(0);
    assert_snapshot!(sandbox.carton("tensor convert a.safetensors b.safetensors c.safetensors --only ids"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: two tensors would be called `ids`: `ids` of `a.safetensors` and `ids` of `b.safetensors`

    hint: rename one of them with --rename, or leave it out with --exclude
    ");
}
