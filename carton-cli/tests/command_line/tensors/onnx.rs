//! ONNX models: their tensors listed, measured, printed, checked and converted.

use std::path::{Path, PathBuf};

use carton_test_server::nginx::Nginx;
use insta::assert_snapshot;

use crate::sandbox::Sandbox;

fn model(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../carton-tensor/tests/data/onnx").join(path)
}

fn with(name: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("m.onnx", std::fs::read(model(name)).unwrap());
    sandbox
}

#[test]
fn what_is_in_a_model() {
    let sandbox = with("graphs.onnx");
    assert_snapshot!(sandbox.carton("tensor ls m.onnx"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE   BYTES  STORED  ENCODING  FORMAT      NAME
    float32  [1]         4       4  raw       dense       node[0].else_branch.node[0].else_branch.w
    float32  [1]         4       4  raw       dense       node[0].else_branch.node[0].then_branch.w
    float32  [1]         4       4  raw       dense       node[0].else_branch.w
    float32  [1]         4       4  raw       dense       node[0].then_branch.w
    float32  [1]         4       4  raw       dense       node[1].graphs[0].w
    float32  [1]         4       4  raw       dense       node[1].graphs[1].w
    int64    [1, 1]      8       8  raw       dense       k
    float32  [2]        12      12  raw       sparse_coo  s
    int64    [1]         8       8  raw       dense       shape
    bool     []          1       1  raw       dense       c
    float32  [1]         4       4  raw       dense       training_info[0].initialization.w
    float32  [1]         4       4  raw       dense       training_info[0].algorithm.w
    float32  [1]         4       4  raw       dense       functions[0].in function

    metadata
      onnx.ir_version: 11
      onnx.producer_name: made
      onnx.opset_import.ai.onnx: 25
      onnx.opset_import.other: 1
      author: someone
      größe: 一
    ----- stderr -----
    13 tensors, 14 parameters, 65 B
    ");
    assert_snapshot!(sandbox.carton("tensor cat m.onnx node[0].else_branch.w"), @"
    exit code: 0
    ----- stdout -----
    node[0].else_branch.w  float32 [1]
    [2.]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor verify m.onnx"), @"
    exit code: 0
    ----- stdout -----
    OK m.onnx: 13 tensors, 65 B, no digests
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor convert m.onnx o.safetensors"), @"
    exit code: 0
    ----- stdout -----
    wrote o.safetensors (13 tensors, 1.2 KiB)
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor diff m.onnx o.safetensors"), @"
    exit code: 0
    ----- stdout -----
    13 tensors the same
    ----- stderr -----
    ");
}

#[test]
fn narrow_integers_strings_and_sparse_tensors() {
    let sandbox = with("values.onnx");
    assert_snapshot!(sandbox.carton("tensor ls m.onnx --only INT4 --only strings --only FLOAT6*"), @"
    exit code: 0
    ----- stdout -----
    DTYPE          SHAPE   BYTES  STORED  ENCODING  FORMAT  NAME
    int8           [3, 3]      9       7  raw       dense   INT4
    float6_e2m3fn  [8]         6       8  raw       dense   FLOAT6E2M3
    float6_e3m2fn  [8]         6       8  raw       dense   FLOAT6E3M2
    string         [2, 2]     12      12  raw       dense   strings

    metadata
      onnx.ir_version: 11
      onnx.producer_name: made
      onnx.opset_import.ai.onnx: 25
    ----- stderr -----
    4 tensors, 29 parameters, 33 B
    ");
    assert_snapshot!(sandbox.carton("tensor cat m.onnx INT4"), @"
    exit code: 0
    ----- stdout -----
    INT4  int8 [3, 3]
    [[ 3 -6  1]
     [-8 -1  6]
     [-3  4 -5]]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("tensor cat m.onnx strings"), @r#"
    exit code: 0
    ----- stdout -----
    strings  string [2, 2]
    [["a" ""]
     ["größe" "😀"]]
    ----- stderr -----
    "#);
    assert_snapshot!(sandbox.carton("tensor stats m.onnx --only INT4 --only strings"), @"
    exit code: 0
    ----- stdout -----
    DTYPE  SHAPE   MIN  MAX  MEAN      STD  NAN  INF  NAME
    int8   [3, 3]   -8    6    -1  4.57044    0    0  INT4
    ----- stderr -----
    warning: skipped tensors without numbers to measure: `strings`
    ");
    let sandbox = with("sparse.onnx");
    assert_snapshot!(sandbox.carton("tensor ls m.onnx"), @"
    exit code: 0
    ----- stdout -----
    DTYPE      SHAPE   BYTES  STORED  ENCODING  FORMAT      NAME
    float32    [2, 3]     24      24  raw       sparse_coo  linear
    float16    [2, 3]     54      54  raw       sparse_coo  rows
    int64      [2, 2]      0       0  raw       sparse_coo  nothing
    int64      [0, 2]      0       0  raw       sparse_coo  empty
    complex64  [2]        16      16  raw       sparse_coo  complex
    float32    []         12      12  raw       sparse_coo  scalar

    metadata
      onnx.ir_version: 11
      onnx.producer_name: made
      onnx.opset_import.ai.onnx: 25
    ----- stderr -----
    6 tensors, 19 parameters, 106 B
    ");
    assert_snapshot!(sandbox.carton("tensor cat m.onnx rows"), @"
    exit code: 0
    ----- stdout -----
    rows  float16 [2, 3]
    [[ 0.  0.  1.]
     [-2.  0.  3.]]
    ----- stderr -----
    ");
    for output in ["o.safetensors", "o.zt", "o.npz"] {
        sandbox.carton(&format!("tensor convert m.onnx {output}")).expect_code(0);
        sandbox.carton(&format!("tensor diff m.onnx {output}")).expect_code(0);
    }
}

#[test]
fn data_in_other_files() {
    let sandbox = with("external/external.onnx");
    assert_snapshot!(sandbox.carton("tensor ls m.onnx"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `model.data`, which holds data of `m.onnx`, is missing

    hint: the model has weights in that file: put it into the folder of the model, under this name
    ");
    sandbox.write("model.data", std::fs::read(model("external/model.data")).unwrap());
    std::fs::create_dir(sandbox.work().join("sub")).unwrap();
    sandbox.write("sub/whole.bin", std::fs::read(model("external/sub/whole.bin")).unwrap());
    assert_snapshot!(sandbox.carton("tensor stats m.onnx"), @"
    exit code: 0
    ----- stdout -----
    DTYPE    SHAPE   MIN  MAX  MEAN      STD  NAN  INF  NAME
    float32  [2, 3]    0    5   2.5  1.70783    0    0  numbers
    int8     [5]      -8    3  -2.2  4.16653    0    0  row
    bool     [4]       0    1   0.5      0.5    0    0  flags
    float32  [1]       1    1     1        0    0    0  here
    int16    [2]       1    2   1.5      0.5    0    0  whole
    ----- stderr -----
    ");
    sandbox.write("model.data", [0; 20]);
    assert_snapshot!(sandbox.carton("tensor verify m.onnx"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `m.onnx` is not a valid ONNX model: the external data of tensor `numbers` in `model.data` needs 24 bytes at 22, and the file has 20 (spec/onnx-tensors.md)
    ");
}

#[test]
fn data_in_other_files_at_a_url_and_in_a_carton() {
    let sandbox = Sandbox::new();
    for file in ["external.onnx", "model.data", "sub/whole.bin"] {
        std::fs::create_dir_all(sandbox.work().join("model/sub")).unwrap();
        sandbox.write(&format!("model/{file}"), std::fs::read(model(&format!("external/{file}"))).unwrap());
    }
    sandbox.carton("pack model --runner noop -o m.carton").expect_code(0);
    let whole = std::fs::read(model("external/external.onnx")).unwrap();
    // At a URL, data is directly beside the model.
    let name = whole.windows(4).position(|window| window == b"sub/").unwrap();
    let beside = [&whole[..name], b"sub-", &whole[name + 4..]].concat();
    let nginx = Nginx::start("");
    let mut places = vec!["m.carton#model/external.onnx".to_owned()];
    if let Some(nginx) = &nginx {
        std::fs::write(nginx.root().join("e.onnx"), beside).unwrap();
        std::fs::copy(model("external/model.data"), nginx.root().join("model.data")).unwrap();
        std::fs::copy(model("external/sub/whole.bin"), nginx.root().join("sub-whole.bin")).unwrap();
        places.push(nginx.url("e.onnx"));
    }
    for place in places {
        let there = sandbox.run(["tensor", "stats", &place]).expect_code(0).stdout;
        assert_eq!(there, sandbox.carton("tensor stats model/external.onnx").stdout, "{place}");
        sandbox.run(["tensor", "verify", &place]).expect_code(0);
        sandbox.run(["tensor", "diff", "model/external.onnx", &place]).expect_code(0);
        sandbox.run(["tensor", "cat", &format!("{place}#whole")]).expect_code(0);
    }
    // A carton that lacks a file of the data.
    std::fs::remove_file(sandbox.work().join("model/model.data")).unwrap();
    sandbox.carton("pack model --runner noop -o n.carton").expect_code(0);
    let error = sandbox.carton("tensor ls n.carton#model/external.onnx").expect_code(4).stderr;
    assert!(error.contains("`model.data`, which holds data of `n.carton#model/external.onnx`, is missing"), "{error}");
}

#[test]
fn damaged_models() {
    let sandbox = with("raw.onnx");
    sandbox.write("cut.onnx", &std::fs::read(model("raw.onnx")).unwrap()[..1000]);
    assert_snapshot!(sandbox.carton("tensor verify cut.onnx"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `cut.onnx` is not a valid ONNX model: the message ends in the middle of a field at byte 11: the file is truncated, or not an ONNX model (spec/onnx-tensors.md)
    ");
    sandbox.write("other.onnx", b"\x08\x07\xff\xff");
    assert_snapshot!(sandbox.carton("tensor ls other.onnx"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `other.onnx` is not a valid ONNX model: the message ends in the middle of a field at byte 2: the file is truncated, or not an ONNX model (spec/onnx-tensors.md)
    ");
    sandbox.write("page.onnx", b"<!DOCTYPE html><html>login</html>");
    assert_snapshot!(sandbox.carton("tensor ls page.onnx"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `page.onnx` is a web page (HTML), expected ONNX

    hint: a server may have sent it in place of the file: download the file again, with a login where one is needed
    ");
}
