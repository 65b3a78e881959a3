//! `carton diff`.

use std::fs;

use carton_core::Tensor;
use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::npy;
use carton_tensor::safetensors::{self, Metadata};
use carton_test_server::nginx::Nginx;
use insta::assert_snapshot;

use crate::sandbox::Sandbox;

fn floats(numbers: &[f32]) -> RawTensor {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    RawTensor::new(ElementType::Float32, vec![numbers.len()], bytes.into()).unwrap()
}

fn weights(tensors: &[(&str, RawTensor)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    safetensors::write(tensors.iter().map(|(name, tensor)| (*name, tensor)), &Metadata::default(), &mut bytes).unwrap();
    bytes
}

fn write_npy(sandbox: &Sandbox, name: &str, numbers: &[f32]) {
    let tensor = Tensor::from_vec(numbers.to_vec(), vec![1, numbers.len()]).unwrap();
    npy::write(fs::File::create(sandbox.work().join(name)).unwrap(), &tensor).unwrap();
}

/// A lock with these versions of packages.
fn lock(packages: &[(&str, &str)]) -> String {
    let hash = "0".repeat(64);
    packages.iter().map(|(name, version)| format!("{name}=={version} \\\n    --hash=sha256:{hash}\n")).collect()
}

/// Two versions of a model, `a.carton` and `b.carton`.
fn two_versions() -> Sandbox {
    let sandbox = Sandbox::new();
    let write = |version: &str, tensors: &[(&str, RawTensor)], packages: &[(&str, &str)], metadata: &str| {
        sandbox.write(&format!("{version}/weights.safetensors"), weights(tensors));
        sandbox.write(&format!("{version}/.carton/requirements.lock"), lock(packages));
        sandbox.write(&format!("{version}.toml"), metadata);
        let options = format!("pack {version} --runner noop --metadata {version}.toml --no-check -o {version}.carton");
        sandbox.carton(&format!("{options} --misc words.txt --opt threads={}", packages.len())).expect_code(0);
        fs::remove_dir_all(sandbox.work().join(version)).unwrap();
    };
    write_npy(&sandbox, "x.npy", &[1.0, 2.0]);
    write_npy(&sandbox, "y.npy", &[1.0, 2.0]);
    sandbox.write("words.txt", "one");
    write(
        "a",
        &[("w", floats(&[1.0, 2.0])), ("old", floats(&[1.0]))],
        &[("numpy", "1.26.4"), ("gone", "1")],
        r#"
model_name = "echo"
license = "MIT"
[[input]]
name = "x"
dtype = "float32"
shape = ["batch", 2]
[[output]]
name = "x"
dtype = "float32"
shape = ["batch", 2]
[[self_test]]
name = "gives back"
inputs = { x = "x.npy" }
expected_out = { x = "y.npy" }
"#,
    );
    write_npy(&sandbox, "y.npy", &[1.0, 2.25]);
    write(
        "b",
        &[("w", floats(&[1.0, 2.5])), ("new", floats(&[1.0]))],
        &[("numpy", "2.0.0")],
        r#"
model_name = "echo"
short_description = "clears the \u001b[2J screen"
license = "Apache-2.0"
[[input]]
name = "x"
dtype = "float64"
shape = ["batch", 3]
[[output]]
name = "x"
dtype = "float32"
shape = ["batch", 2]
[[output]]
name = "y<script>"
dtype = "int64"
shape = []
[[self_test]]
name = "gives back"
inputs = { x = "x.npy" }
expected_out = { x = "y.npy" }
[[self_test]]
name = "another"
inputs = { x = "x.npy" }
"#,
    );
    sandbox
}

#[test]
fn what_differs_is_shown() {
    let sandbox = two_versions();
    assert_snapshot!(sandbox.carton("diff a.carton b.carton"), @r#"
    exit code: 3
    ----- stdout -----
    A  a.carton  sha256:[HASH]
    B  b.carton  sha256:[HASH]
    not the same

    Metadata
      license              "MIT" -> "Apache-2.0"
      runner.opts.threads  2 -> 1
      short_description    not set -> "clears the \u001b[2J screen"

    Inputs
      changed x
        dtype  "float32" -> "float64"
        shape  ["batch",2] -> ["batch",3]

    Outputs
      added y<script>
        dtype  "int64"
        shape  []

    Files (4 changes)
      changed  carton.toml                      407 B -> 588 B
      changed  model/.carton/requirements.lock  192 B -> 98 B
      changed  model/weights.safetensors        132 B
      changed  tensor_data/tensor_1.bin         8 B

    Tensors of model/weights.safetensors
      CHANGE    DTYPE    SHAPE  DIFFERING  LARGEST DIFFERENCE      RELATIVE  COSINE   NAME
      removed   float32  [1]    -          -                       -         -        old
      elements  float32  [2]    1 of 2     0.5 at [1]: 2.0 -> 2.5  0.25      0.99655  w
      added     float32  [1]    -          -                       -         -        new
      1 tensor differs, 1 tensor only in A, 1 tensor only in B, 0 tensors the same

    Packages
      gone   removed 1
      numpy  1.26.4 -> 2.0.0

    Self-tests
      changed gives back
        expected outputs
          CHANGE    DTYPE    SHAPE   DIFFERING  LARGEST DIFFERENCE           RELATIVE  COSINE   NAME
          elements  float32  [1, 2]  1 of 2     0.25 at [0, 1]: 2.0 -> 2.25  0.125     0.99897  x
      added another
    ----- stderr -----
    "#);
    let found = sandbox.carton("diff a.carton b.carton --json").expect_code(3).json();
    let keys: Vec<&String> = found.as_object().unwrap().keys().collect();
    assert_snapshot!(format!("{keys:?}"), @r#"["a", "b", "examples", "files", "inputs", "is_incomplete", "is_same", "links", "metadata", "outputs", "packages", "self_tests", "tensors"]"#);
    assert_eq!(found["is_same"], false);
    assert_snapshot!(found["tensors"], @r#"[{"path_a":"model/weights.safetensors","path_b":"model/weights.safetensors","problem":null,"same":0,"same_by_digest":0,"tensors":[{"a":{"dtype":"float32","shape":[1]},"b":null,"change":"removed","elements":null,"name":"old"},{"a":{"dtype":"float32","shape":[2]},"b":{"dtype":"float32","shape":[2]},"change":"elements","elements":{"cosine":0.9965457582448796,"differing":1,"elements":2,"largest":{"a":"2.0","b":"2.5","difference":0.5,"index":[1]},"largest_relative":{"a":"2.0","b":"2.5","difference":0.25,"index":[1]},"not_finite":0},"name":"w"},{"a":null,"b":{"dtype":"float32","shape":[1]},"change":"added","elements":null,"name":"new"}]}]"#);
    assert_snapshot!(found["packages"], @r#"{"changes":[{"a":["1"],"b":[],"marker":null,"name":"gone"},{"a":["1.26.4"],"b":["2.0.0"],"marker":null,"name":"numpy"}],"problem":null}"#);
    sandbox.carton("diff a.carton a.carton").expect_code(0);
    sandbox.carton("diff a.carton missing.carton").expect_code(1);
}

#[test]
fn the_page_escapes_what_cartons_say() {
    let sandbox = two_versions();
    sandbox.carton("diff a.carton b.carton --html page.html").expect_code(3);
    let page = fs::read_to_string(sandbox.work().join("page.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{page}");
    for part in ["y&lt;script&gt;", "numpy", "<td>1.26.4</td>", "0.5 at <code>[1]</code>", "gives back"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(page.contains("clears the \u{fffd}[2J screen") && !page.contains('\u{1b}'), "{page}");
    assert!(!page.contains("<script") && !page.contains(" style="), "{page}");
    let printed = sandbox.carton("diff a.carton b.carton --html -").expect_code(3);
    assert_eq!(printed.stdout, page);
    sandbox.carton("diff a.carton b.carton --html - --json").expect_code(2);
}

/// A carton without files that it links to is the same, and so is an unpacked one.
#[test]
fn links_are_no_part_of_a_carton() {
    let sandbox = two_versions();
    let links = "--min-size 1 --url-prefix https://me:secret@example.com/files";
    sandbox.carton(&format!("shrink a.carton {links} -o refused.carton")).expect_code(2);
    sandbox
        .carton("shrink a.carton --min-size 1 --url-prefix https://example.com/files -o small.carton")
        .expect_code(0);
    let outcome = sandbox.carton("diff a.carton small.carton").expect_code(0).stdout;
    assert!(outcome.contains("the same carton"), "{outcome}");
    assert!(outcome.contains("no link -> https://example.com/files/"), "{outcome}");
    sandbox.carton("unpack a.carton -o unpacked").expect_code(0);
    sandbox.carton("diff unpacked a.carton").expect_code(0);
}

/// A file of the model that was changed after it was packed is an error, not a difference.
#[test]
fn a_carton_that_is_damaged_is_refused() {
    let sandbox = two_versions();
    sandbox.carton("unpack b.carton -o unpacked").expect_code(0);
    let path = sandbox.work().join("unpacked/model/weights.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let outcome = sandbox.carton("diff a.carton unpacked").expect_code(4);
    assert!(outcome.stderr.contains("model/weights.safetensors"), "{outcome}");
}

/// Locks and tensor files that are none are named, and everything else is compared.
#[test]
fn what_cannot_be_compared_is_named() {
    let sandbox = two_versions();
    sandbox.write("c/weights.safetensors", "no tensors");
    sandbox.write("c/.carton/requirements.lock", vec![b'\n'; 33 << 20]);
    sandbox.carton("pack c --runner noop --no-check -o c.carton").expect_code(0);
    let found = sandbox.carton("diff a.carton c.carton --json").expect_code(3).json();
    assert_eq!(found["is_incomplete"], true);
    let problem = |value: &serde_json::Value| value["problem"].as_str().unwrap().to_owned();
    assert!(problem(&found["packages"]).contains("at most 33554432"), "{found}");
    assert!(!problem(&found["tensors"][0]).is_empty(), "{found}");
    // The same name, and another format in it.
    sandbox.write("w.safetensors", weights(&[("w", floats(&[1.0, 2.0])), ("old", floats(&[1.0]))]));
    sandbox.carton("tensor convert w.safetensors w.zt").expect_code(0);
    sandbox.write("d/weights.safetensors", fs::read(sandbox.work().join("w.zt")).unwrap());
    sandbox.write("d/.carton/requirements.lock", "numpy==1 -r other.txt\n");
    sandbox.carton("pack d --runner noop --no-check -o d.carton").expect_code(0);
    let found = sandbox.carton("diff a.carton d.carton --json").expect_code(3).json();
    assert_eq!((&found["tensors"][0]["same"], &found["tensors"][0]["problem"]), (&2.into(), &serde_json::Value::Null));
    assert!(problem(&found["packages"]).contains("line 1"), "{found}");
}

/// Of cartons on a server, no file of a model is fetched, unless that is asked for.
#[test]
fn models_on_servers_are_not_fetched() {
    let Some(nginx) = Nginx::start("") else { return };
    let sandbox = Sandbox::new();
    let numbers: Vec<f32> = (0..500_000_u32).map(|n| (n % 7919) as f32).collect();
    let mut changed = numbers.clone();
    changed[400_000] += 1.0;
    for (name, numbers) in [("a", &numbers), ("b", &changed)] {
        sandbox.write(&format!("{name}/weights.safetensors"), weights(&[("w", floats(numbers))]));
        let packed = nginx.root().join(format!("{name}.carton"));
        let packed = packed.to_str().unwrap();
        sandbox
            .run(["pack", name, "--runner", "noop", "--no-check", "--compression", "stored", "-o", packed])
            .expect_code(0);
    }
    let (a, b) = (nginx.url("a.carton"), nginx.url("b.carton"));
    nginx.forget_requests();
    let found = sandbox.run(["diff", &a, &b, "--json"]).expect_code(3).json();
    assert_eq!(found["tensors"][0]["problem"], "not on this machine");
    let sent: u64 = nginx.requests().iter().map(|request| request.body_bytes).sum();
    assert!(sent < 200_000, "{sent} bytes");
    let found = sandbox.run(["diff", &a, &b, "--fetch", "--json"]).expect_code(3).json();
    assert_eq!(found["tensors"][0]["tensors"][0]["elements"]["largest"]["index"][0], 400_000);
}
