//! Cartons as the original Carton writes them.

use crate::builder::{CartonBuilder, DEFLATE, Entry, NUMBERS, STORED, ZSTD, noise};
use crate::valid::check_valid;

const CARTON_TOML: &str = r#"spec_version = 1
model_name = "a_model_by_the_original"
short_description = "One line about the model"
model_description = """
Some *markdown* with an image:

![image](@misc/picture.png)
"""
license = "Apache-2.0"
repository = "https://example.com/repository"
homepage = "https://example.com"
required_platforms = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin"]

[[input]]
name = "a"
dtype = "float64"
shape = []
description = "declared as a number, tested with strings"

[[input]]
name = "b"
dtype = "float32"
shape = ["batch", "*", 3]
internal_name = "scope/b:0"

[[output]]
name = "out"
dtype = "string"
shape = "*"

[[self_test]]
name = "strings for a number"
description = ""
[self_test.inputs]
a = "@tensor_data/some_strings"
b = "@tensor_data/some_floats"
[self_test.expected_out]
out = "@tensor_data/some_strings"

[[example]]
name = "example"
[example.inputs]
a = "@misc/0f3a"
b = "@tensor_data/some_nested"
[example.sample_out]
out = "@misc/9e21"

[runner]
runner_name = "noop"
required_framework_version = "=1.0.0"
runner_compat_version = 1
"#;

const INDEX: &str = r#"[[tensor]]
name = "some_strings"
dtype = "string"
shape = [2, 2]
file = "tensor_1.toml"
inner = []

[[tensor]]
name = "some_nested"
dtype = "nested"
inner = ["some_floats", "some_floats"]

[[tensor]]
name = "some_floats"
dtype = "float32"
shape = [2, 1, 3]
file = "tensor_0.bin"
inner = []
"#;

/// Everything is zstd except MANIFEST, which is stored and last; no order, no folders; links with mode 0xa1ff; some invalid
/// dates; files of `misc/` without an extension.
fn carton() -> CartonBuilder {
    let link = Entry { method: ZSTD, mode: 0xa1ff, ..Entry::symlink("model/shared/link.txt", "../weights/part.bin") };
    let mut carton = CartonBuilder::with([
        Entry::new("tensor_data/tensor_1.toml", "data = [\n    \"a\",\n    \"b\",\n    \"c\",\n    \"d\",\n]\n"),
        Entry::new("model/weights/part.bin", noise(70_000, 3)),
        Entry::new("model/some_file.txt", "text"),
        link,
        Entry::new("misc/9e21", noise(100, 5)),
        Entry::new("carton.toml", CARTON_TOML),
        Entry::new("tensor_data/tensor_0.bin", NUMBERS.map(f32::to_le_bytes).concat()),
        Entry::new("misc/0f3a", noise(100, 4)),
        Entry::new("tensor_data/index.toml", INDEX),
    ]);
    for (number, entry) in carton.entries.iter_mut().enumerate() {
        entry.method = ZSTD;
        entry.flags = 0;
        entry.date = if number % 2 == 0 { 0 } else { 0x56a9 };
    }
    carton.manifest_method = STORED;
    carton
}

#[test]
fn everything_can_be_read() {
    let everything = check_valid("as the original writes", &carton());
    assert_eq!(everything.model_name.as_deref(), Some("a_model_by_the_original"));
    assert_eq!(everything.tensors.len(), 3);
    assert_eq!(everything.files["model/shared/link.txt"], noise(70_000, 3));
}

#[test]
fn what_its_other_versions_wrote() {
    let mut stored = carton();
    stored.entries.iter_mut().for_each(|entry| entry.method = STORED);
    check_valid("stored", &stored);
    let mut deflated = carton();
    deflated.entries.iter_mut().for_each(|entry| entry.method = DEFLATE);
    check_valid("deflated", &deflated);
    let mut large = carton();
    large.entries.iter_mut().for_each(|entry| entry.zip64 = true);
    check_valid("zip64 fields for every entry", &large);
    let mut with_index_only = carton();
    with_index_only.entry("tensor_data/index.toml").data = Vec::new();
    for name in ["tensor_data/tensor_0.bin", "tensor_data/tensor_1.toml"] {
        with_index_only.remove(name);
    }
    let position = CARTON_TOML.find("[[self_test]]").unwrap();
    let runner = CARTON_TOML.find("[runner]").unwrap();
    with_index_only.entry("carton.toml").data =
        [&CARTON_TOML[..position], &CARTON_TOML[runner..]].concat().into_bytes();
    assert!(check_valid("an empty index", &with_index_only).tensors.is_empty());
}
