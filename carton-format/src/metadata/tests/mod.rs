//! Every rule of carton.toml, case by case; round trips; and text that was never meant as metadata.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod complete;
mod drafts;
mod elements;
mod odd;
mod optional;
mod random;
mod rules;
mod sandbox;
mod variables;

use super::*;

/// An error and its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    crate::causes::in_one_line(error).replace('\n', " ")
}

/// A whole file: the required fields, with `top` before the tables and `tables` after them.
fn file(top: &str, tables: &str) -> String {
    format!("spec_version = 1\n{top}\n[runner]\nrunner_name = 'r'\nrequired_framework_version = '=1.2.3'\n{tables}")
}

const SIGNATURE: &str =
    "input = [{ name = 'x', dtype = 'string', shape = '*' }]\noutput = [{ name = 'y', dtype = 'int8', shape = [] }]\n";

/// Reads `text`, which must be refused with an error that contains each of `expected`.
fn refused(text: &str, expected: &str) {
    match Metadata::parse(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(error) => {
            let found = chain(&error);
            assert!(found.contains(expected), "{text}\nexpected {expected}\nfound {found}");
        }
    }
}

/// Validates a draft of `text` with a runner, which must be refused with an error that contains each of `expected`.
fn not_written(text: &str, expected: &str) {
    let error = Draft::parse(text).unwrap_or_else(|error| panic!("{}:\n{text}", chain(&error))).validate();
    let found = chain(&error.expect_err(text));
    assert!(found.contains(expected), "{text}\nexpected {expected}\nfound {found}");
}

/// Reads `text`, writes it and reads it again.
fn accepted(text: &str) -> Metadata {
    let metadata = Metadata::parse(text).unwrap_or_else(|error| panic!("{}:\n{text}", chain(&error)));
    let written = metadata.to_toml();
    let again = Metadata::parse(&written).unwrap_or_else(|error| panic!("{}:\n{written}", chain(&error)));
    assert_eq!(again, metadata, "{written}");
    assert_eq!(again.to_toml(), written);
    metadata
}

/// The example of the specification, with every field that a file can have.
const COMPLETE: &str = r#"
# The first version of the format.
spec_version = 1
model_name = "a_model_of_everything"
short_description = "It has every field."
model_description = """
First line, with "quotes" and a \\.

![a picture](@misc/picture.png)
"""
license = "MIT OR Apache-2.0"
repository = "https://example.com/source"
homepage = "https://example.com"
required_platforms = ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"]
unknown = { table = [1, 2.5, 1979-05-27] }

[[input]]
name = "x"
dtype = "float32"
shape = ["batch_size", 3, 512, 512]
description = "Something"
internal_name = "namespace/in_x:0"
unknown = 1

[[input]]
name = "y"
dtype = "string"
shape = "whole"

[[output]]
name = "out"
shape = ["batch_size", "*"]
dtype = "uint64"

[[output]]
name = "x"
shape = "*"
dtype = "int8"

[[output]]
name = "scalar"
shape = []
dtype = "float64"

[[self_test]]
name = ""
description = ""
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
unknown = "field"

[runner.opts]
num_threads = 4
ratio = 0.5
mode = "fast"
flag = true
list = [1, "two"]
when = 1979-05-27T07:32:00Z
infinite = inf
"an other" = { nested = -1 }
"#;
