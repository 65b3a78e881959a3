//! The tensors of self-tests: every command that makes, changes or reads cartons preserves them.

use std::fs;

use carton_tensor::Tensor;
use carton_tensor::npy::{self, NpzWriter};
use insta::assert_snapshot;

use super::read;
use crate::sandbox::Sandbox;

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
    2 tensors, 3 parameters, 8 B
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

/// `cat` prints every tensor under the name that `ls` lists, wherever the carton is and however it is named.
#[test]
fn names_that_are_listed_are_found() {
    let sandbox = Sandbox::new();
    let names = ["x", "layer.0/weight", "tensor_data", "tensor_data/x", "sha256=x", "end.carton"];
    let mut npz = NpzWriter::new(fs::File::create(sandbox.work().join("cases.npz")).unwrap());
    let mut metadata = "[[output]]\nname = \"y\"\ndtype = \"float32\"\nshape = [1]\n".to_owned();
    for (number, name) in names.iter().enumerate() {
        npz.add(name, &Tensor::from_vec(vec![number as f32], vec![1]).unwrap()).unwrap();
        metadata.push_str(&format!("[[input]]\nname = \"i{number}\"\ndtype = \"float32\"\nshape = [1]\n"));
    }
    npz.finish().unwrap();
    metadata.push_str("[[self_test]]\n[self_test.inputs]\n");
    for (number, name) in names.iter().enumerate() {
        metadata.push_str(&format!("i{number} = {:?}\n", format!("cases.npz#{name}")));
    }
    sandbox.write("model.bin", "weights");
    sandbox.write("m.toml", metadata);
    sandbox.carton("pack model.bin --runner noop --metadata m.toml --no-check -o m.carton").expect_code(0);
    sandbox.carton("unpack m.carton -o folder").expect_code(0);
    let hash = sandbox.carton("hash m.carton").expect_code(0).stdout;
    let pinned = format!("m.carton#sha256={}", hash.trim());
    for place in ["m.carton", "folder", &pinned] {
        let listed = sandbox.carton(&format!("tensor ls {place} --json")).expect_code(0).json();
        let listed: Vec<&str> =
            listed["tensors"].as_array().unwrap().iter().map(|tensor| tensor["name"].as_str().unwrap()).collect();
        assert_eq!(listed.len(), names.len(), "{listed:?}");
        for name in listed {
            let printed = |source: &str| sandbox.run(["tensor", "cat", source]).expect_code(0).stdout;
            let by_name = sandbox.run(["tensor", "cat", place, name]).expect_code(0).stdout;
            // Such a name would be read as a pin, so the folder's name has to precede it.
            if !name.starts_with("sha256=") {
                assert_eq!(printed(&format!("{place}#{name}")), by_name);
            }
            // If a tensor's name equals the path of another one, the name takes precedence.
            if name != "x" {
                assert_eq!(printed(&format!("{place}#tensor_data/{name}")), by_name);
            }
        }
    }
}

/// The self-tests of a carton pass after unpacking, shrinking and resolving it.
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
