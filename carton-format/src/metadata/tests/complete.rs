//! A file with every field: reading it, and writing it.

use carton_tensor::Dimension;

use super::*;

#[test]
fn everything_is_read() {
    let metadata = accepted(COMPLETE);
    assert_eq!(metadata.spec_version(), 1);
    assert_eq!(metadata.model_name(), Some("a_model_of_everything"));
    assert_eq!(metadata.short_description(), Some("It has every field."));
    let description = "First line, with \"quotes\" and a \\.\n\n![a picture](@misc/picture.png)\n";
    assert_eq!(metadata.model_description(), Some(description));
    assert_eq!(metadata.license(), Some("MIT OR Apache-2.0"));
    assert_eq!(metadata.repository(), Some("https://example.com/source"));
    assert_eq!(metadata.homepage(), Some("https://example.com"));
    assert_eq!(metadata.required_platforms(), ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"]);

    let symbol = |name: &str| Dimension::Symbol(name.to_owned());
    let fixed = |size| Dimension::Fixed(size);
    let [x, y] = metadata.inputs() else { panic!("{:?}", metadata.inputs()) };
    assert_eq!((x.name.as_str(), x.dtype), ("x", DataType::Float32));
    assert_eq!(x.shape, SymbolicShape::Dimensions(vec![symbol("batch_size"), fixed(3), fixed(512), fixed(512)]));
    assert_eq!(x.description.as_deref(), Some("Something"));
    assert_eq!(x.internal_name.as_deref(), Some("namespace/in_x:0"));
    assert_eq!((y.name.as_str(), y.dtype), ("y", DataType::String));
    assert_eq!(y.shape, SymbolicShape::Symbol("whole".to_owned()));
    assert_eq!((&y.description, &y.internal_name), (&None, &None));
    let shapes: Vec<_> = metadata.outputs().iter().map(|output| output.shape.clone()).collect();
    let out = SymbolicShape::Dimensions(vec![symbol("batch_size"), Dimension::Any]);
    assert_eq!(shapes, [out, SymbolicShape::Any, SymbolicShape::Dimensions(vec![])]);

    let map = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let [first, second] = metadata.self_tests() else { panic!("{:?}", metadata.self_tests()) };
    assert_eq!((&first.name, &first.description), (&None, &None));
    assert_eq!(first.inputs, map(&[("x", "self_test_tensor_0"), ("y", "some/tensor")]));
    assert_eq!(first.expected_out, Some(map(&[("out", "another_tensor")])));
    assert_eq!(second.name.as_deref(), Some("runs"));
    assert_eq!((&second.inputs, &second.expected_out), (&map(&[]), &None));

    let [example] = metadata.examples() else { panic!("{:?}", metadata.examples()) };
    assert_eq!(example.inputs["x"], Reference::Misc("in/put.png".to_owned()));
    assert_eq!(example.inputs["y"], Reference::TensorData("something".to_owned()));
    assert_eq!(example.sample_out["out"], Reference::Misc("...".to_owned()));

    let runner = metadata.runner();
    assert_eq!(runner.runner_name, "vendor/torch_script-2.x");
    assert_eq!(runner.required_framework_version, "=1.12.1".parse().unwrap());
    assert_eq!(runner.runner_compat_version, 2);
    let expected = serde_json::json!({
        "num_threads": 4, "ratio": 0.5, "mode": "fast", "flag": true, "list": [1, "two"],
        "when": "1979-05-27T07:32:00Z", "infinite": "inf", "an other": { "nested": -1 },
    });
    assert_eq!(serde_json::Value::Object(runner.opts.clone().into_iter().collect()), expected);
}

#[test]
fn what_is_written() {
    let expected = r#"spec_version = 1
model_name = "a_model_of_everything"
short_description = "It has every field."
model_description = '''
First line, with "quotes" and a \.

![a picture](@misc/picture.png)
'''
license = "MIT OR Apache-2.0"
repository = "https://example.com/source"
homepage = "https://example.com"
required_platforms = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"]

[[input]]
name = "x"
dtype = "float32"
shape = ["batch_size", 3, 512, 512]
description = "Something"
internal_name = "namespace/in_x:0"

[[input]]
name = "y"
dtype = "string"
shape = "whole"

[[output]]
name = "out"
dtype = "uint64"
shape = ["batch_size", "*"]

[[output]]
name = "x"
dtype = "int8"
shape = "*"

[[output]]
name = "scalar"
dtype = "float64"
shape = []

[[self_test]]
inputs = { x = "@tensor_data/self_test_tensor_0", y = "@tensor_data/some/tensor" }
expected_out = { out = "@tensor_data/another_tensor" }

[[self_test]]
name = "runs"
inputs = {}

[[example]]
name = "example"
inputs = { x = "@misc/in/put.png", y = "@tensor_data/something" }
sample_out = { out = "@misc/..." }

[runner]
runner_name = "vendor/torch_script-2.x"
required_framework_version = "=1.12.1"
runner_compat_version = 2

[runner.opts]
"an other" = { nested = -1 }
flag = true
infinite = "inf"
list = [1, "two"]
mode = "fast"
num_threads = 4
ratio = 0.5
when = "1979-05-27T07:32:00Z"
"#;
    assert_eq!(Metadata::parse(COMPLETE).unwrap().to_toml(), expected);
    let least = "spec_version = 1\n\n[runner]\nrunner_name = \"r\"\nrequired_framework_version = \"=1.2.3\"\n\
                 runner_compat_version = 1\n";
    assert_eq!(accepted(&file("", "")).to_toml(), least);
}
