//! Every rule of carton.toml, case by case; round trips; and text that nobody meant as metadata.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use carton_tensor::Dimension;
use proptest::prelude::*;

use super::*;

/// An error with what lies behind it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text.replace('\n', " ")
}

/// A whole file: what is required, with `top` before the tables and `tables` after them.
fn file(top: &str, tables: &str) -> String {
    format!("spec_version = 1\n{top}\n[runner]\nrunner_name = 'r'\nrequired_framework_version = '=1.2.3'\n{tables}")
}

const SIGNATURE: &str =
    "input = [{ name = 'x', dtype = 'string', shape = '*' }]\noutput = [{ name = 'y', dtype = 'int8', shape = [] }]\n";

/// Reads `text`, which must be refused with an error that has all of `expected` in it.
fn refused(text: &str, expected: &str) {
    match Metadata::parse(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(error) => {
            let found = chain(&error);
            assert!(found.contains(expected), "{text}\nexpected {expected}\nfound {found}");
        }
    }
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

/// What the specification shows, with everything in it that a file can have.
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
    assert_eq!(serde_json::Value::Object(runner.opts.clone()), expected);
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

#[test]
fn little_is_required() {
    let metadata = accepted(&file("", ""));
    assert_eq!(metadata.signature(), None);
    assert_eq!((metadata.inputs(), metadata.outputs()), (&[][..], &[][..]));
    assert_eq!(metadata.runner().runner_compat_version, 1);
    assert!(metadata.runner().opts.is_empty());
    assert_eq!(metadata.model_name(), None);
    // An empty text says as little as none.
    assert_eq!(accepted(&file("model_name = ''\nlicense = ''\nhomepage = ''", "")), metadata);
    refused("", "`spec_version`: expected 1, found nothing");
    refused("spec_version = 1", "`runner.runner_name`: expected the name of a runner, found nothing");
    let no_version = "spec_version = 1\n[runner]\nrunner_name = 'r'";
    refused(
        no_version,
        "`runner.required_framework_version`: expected a semver requirement such as =1.2.3, found nothing",
    );
}

#[test]
fn the_version_comes_first() {
    let check = |text: &str, expected: &str| refused(text, &format!("expected spec_version 1, found {expected}"));
    check("spec_version = 2", "2");
    check("spec_version = 0", "0");
    check("spec_version = -1", "-1");
    // Nothing else of another version is judged.
    check("spec_version = 2\nmodel_name = 1\n[runner]\nrunner_name = '../..'", "2");
    refused("spec_version = '1'", "`spec_version`: expected an integer, found a string");
    refused("spec_version = 1.0", "`spec_version`: expected an integer, found a float");
}

#[test]
fn syntax() {
    refused("spec_version = ", "carton.toml is not valid TOML: TOML parse error at line 1");
    refused("spec_version = 1\nspec_version = 1", "duplicate key");
    let error = Metadata::from_bytes(b"spec_version = 1\nmodel_name = '\xff'").unwrap_err();
    assert!(matches!(error, MetadataError::NotUtf8 { offset: 31 }), "{error:?}");
    assert!(Metadata::from_bytes(file("", "").as_bytes()).is_ok());
    refused(&format!("spec_version = 1\nx = {}{}", "[".repeat(100_000), "]".repeat(100_000)), "not valid TOML");
    refused(&format!("spec_version = 1\n{}", "[[a]]\n".repeat(10)), "runner");
}

#[test]
fn types() {
    let check = |top: &str, expected: &str| refused(&file(top, ""), expected);
    check("model_name = 1", "`model_name`: invalid type: integer `1`, expected a string");
    check("short_description = []", "`short_description`: invalid type: sequence, expected a string");
    check("model_description = true", "`model_description`: invalid type");
    check("license = 1.5", "`license`: invalid type");
    check("repository = {}", "`repository`: invalid type");
    check("homepage = 1979-05-27", "`homepage`: invalid type");
    check("required_platforms = 'x'", "`required_platforms`: invalid type: string \"x\", expected a sequence");
    check("required_platforms = [1]", "`required_platforms[0]`: invalid type");
    check("input = 1", "`input`: invalid type");
    check("input = [{}]", "`input[0]`: missing field `name`");
    check("input = [{ name = 'x' }]", "`input[0]`: missing field `dtype`");
    check("input = [{ name = 'x', dtype = 'int8' }]", "`input[0]`: missing field `shape`");
    check("input = [{ name = 'x', dtype = 8, shape = [] }]", "`input[0].dtype`: invalid type");
    check("input = [{ name = 'x', dtype = 'int8', shape = [], internal_name = 1 }]", "`input[0].internal_name`");
    check("output = [{ name = 1, dtype = 'int8', shape = [] }]", "`output[0].name`: invalid type");
    check("input = [['x', 'int8', '*']]", "`input[0]`: invalid type: sequence, expected a table");
    check("self_test = [{}]", "`self_test[0]`: missing field `inputs`");
    check("self_test = [{ inputs = [] }]", "`self_test[0].inputs`: invalid type");
    check("self_test = [{ inputs = {}, expected_out = { x = 1 } }]", "`self_test[0].expected_out.x`: invalid type");
    check("example = [{ inputs = 'x' }]", "`example[0].inputs`: invalid type");
    refused("spec_version = 1\nrunner = 1", "`runner`: invalid type: integer `1`, expected a table");
    refused("spec_version = 1\n[[runner]]", "`runner`: invalid type: sequence, expected a table");
    let check = |runner: &str, expected: &str| refused(&format!("spec_version = 1\n[runner]\n{runner}"), expected);
    check("runner_name = 1", "`runner.runner_name`: invalid type");
    check("required_framework_version = 1", "`runner.required_framework_version`: invalid type");
    check("runner_compat_version = '1'", "`runner.runner_compat_version`: invalid type");
    check("runner_compat_version = -1", "`runner.runner_compat_version`: invalid value");
    check("opts = 1", "`runner.opts`: invalid type");
}

#[test]
fn dtypes_and_shapes() {
    let with = |dtype: &str, shape: &str| {
        file(&format!("output = []\n[[input]]\nname = 'x'\ndtype = '{dtype}'\nshape = {shape}"), "")
    };
    for dtype in DataType::ALL {
        assert_eq!(accepted(&with(dtype.name(), "[]")).inputs()[0].dtype, dtype);
    }
    for dtype in ["", "Float32", "float16", "bool", "nested"] {
        refused(
            &with(dtype, "[]"),
            &format!(
                "`input[0].dtype`: expected one of float32, float64, string, int8, int16, int32, int64, uint8, uint16, uint32, uint64, found `{dtype}`"
            ),
        );
    }
    let shape = |text: &str| accepted(&with("int8", text)).inputs()[0].shape.clone();
    let symbol = |name: &str| Dimension::Symbol(name.to_owned());
    assert_eq!(shape("'*'"), SymbolicShape::Any);
    assert_eq!(shape("'s'"), SymbolicShape::Symbol("s".to_owned()));
    assert_eq!(shape("[]"), SymbolicShape::Dimensions(vec![]));
    assert_eq!(
        shape("['*', 's', 0]"),
        SymbolicShape::Dimensions(vec![Dimension::Any, symbol("s"), Dimension::Fixed(0)])
    );
    assert_eq!(shape("[9223372036854775807]"), SymbolicShape::Dimensions(vec![Dimension::Fixed(u64::MAX >> 1)]));
    refused(&with("int8", "1"), "`input[0].shape`: expected a list, a symbol or \"*\", found an integer");
    refused(&with("int8", "{}"), "`input[0].shape`: expected a list, a symbol or \"*\", found a table");
    refused(&with("int8", "''"), "`input[0].shape`: expected a symbol, found ``");
    refused(&with("int8", "['a', '']"), "`input[0].shape[1]`: expected a symbol, found ``");
    refused(&with("int8", "[1, -1]"), "`input[0].shape[1]`: expected a size of 0 or more, found -1");
    refused(&with("int8", "[1.0]"), "`input[0].shape[0]`: expected an integer, a symbol or \"*\", found a float");
    refused(&with("int8", "[[1]]"), "`input[0].shape[0]`: expected an integer, a symbol or \"*\", found a list");
}

#[test]
fn signatures() {
    let spec = |list: &str, name: &str| format!("[[{list}]]\nname = '{name}'\ndtype = 'int8'\nshape = []\n");
    let both = "inputs and outputs to be declared together (an empty list is `input = []`), found nothing";
    refused(&file(&spec("input", "x"), ""), &format!("`output`: expected {both}"));
    refused(&file(&spec("output", "x"), ""), &format!("`input`: expected {both}"));
    refused(&file("input = []", ""), &format!("`output`: expected {both}"));
    let metadata = accepted(&file("input = []\noutput = []", ""));
    assert_eq!(metadata.signature(), Some(&Signature { inputs: vec![], outputs: vec![] }));
    let metadata = accepted(&file(&format!("input = []\n{}", spec("output", "x")), ""));
    assert_eq!((metadata.inputs().len(), metadata.outputs().len()), (0, 1));
    // An input and an output may share a name; two inputs may not.
    accepted(&file(&format!("{}{}", spec("input", "x"), spec("output", "x")), ""));
    let twice = [spec("input", "x"), spec("input", "y"), spec("input", "x"), spec("output", "z")].concat();
    refused(&file(&twice, ""), "`input[2].name`: expected another name than input[0] has, found `x`");
    let twice = [spec("input", "x"), spec("output", "z"), spec("output", "z")].concat();
    refused(&file(&twice, ""), "`output[1].name`: expected another name than output[0] has, found `z`");
    refused(&file(&format!("output = []\n{}", spec("input", "")), ""), "`input[0].name`: expected a name");
}

#[test]
fn self_tests_and_examples() {
    let check = |tables: &str, expected: &str| refused(&file(SIGNATURE, tables), expected);
    refused(
        &file("self_test = [{ inputs = {} }]", ""),
        "`input`: expected inputs and outputs, which `self_test` needs",
    );
    refused(&file("example = [{ inputs = {} }]", ""), "`input`: expected inputs and outputs, which `example` needs");
    accepted(&file("self_test = []\nexample = []", ""));
    // What the signature says of names and dtypes is for inference to check.
    accepted(&file(SIGNATURE, "[[self_test]]\ninputs = { other = '@tensor_data/t' }"));
    accepted(&file(SIGNATURE, "[[example]]\n"));
    // Names need not be unique.
    accepted(&file(SIGNATURE, "[[self_test]]\nname = 'n'\ninputs = {}\n[[self_test]]\nname = 'n'\ninputs = {}"));
    let test = |reference: &str| format!("[[self_test]]\ninputs = {{ x = '{reference}' }}");
    let only = "`self_test[0].inputs.x`: expected `@tensor_data/NAME`, found ";
    check(&test("@misc/x.png"), &format!("{only}`@misc/x.png`"));
    check(&test("x.npy"), &format!("{only}`x.npy`"));
    check(&test("cases.npz#x"), &format!("{only}`cases.npz#x`"));
    check(&test("@tensor_data/"), "`self_test[0].inputs.x`: expected a tensor's name after `@tensor_data/`");
    check(&test("@tensordata/x"), "expected `@tensor_data/NAME` or `@misc/PATH`, found `@tensordata/x`");
    check(&test("@..."), "found `@...`");
    check("[[self_test]]\ninputs = {}\nexpected_out = { y = 'y.npy' }", "`self_test[0].expected_out.y`: expected");
    let example = |reference: &str| format!("[[example]]\ninputs = {{}}\nsample_out = {{ x = '{reference}' }}");
    check(&example("x.npy"), "`example[0].sample_out.x`: expected `@tensor_data/NAME` or `@misc/PATH`, found `x.npy`");
    for path in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", "a\\b"] {
        let expected = "expected a relative path without `.` or `..` after `@misc/`";
        check(&example(&format!("@misc/{path}")), &format!("`example[0].sample_out.x`: {expected}"));
    }
}

#[test]
fn platforms() {
    let with = |platform: &str| file(&format!("required_platforms = ['{platform}']"), "");
    for platform in ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin", "wasm32-wasip1", "thumbv7em-none-eabi"] {
        assert_eq!(accepted(&with(platform)).required_platforms(), [platform]);
    }
    assert!(accepted(&file("required_platforms = []", "")).required_platforms().is_empty());
    for platform in ["", "linux", "x86_64-", "-linux", "x86_64 linux-gnu", "a-\u{e9}"] {
        refused(
            &with(platform),
            &format!(
                "`required_platforms[0]`: expected a target triple such as x86_64-unknown-linux-gnu, found `{platform}`"
            ),
        );
    }
}

#[test]
fn runners() {
    let with = |name: &str, version: &str| {
        format!("spec_version = 1\n[runner]\nrunner_name = '{name}'\nrequired_framework_version = '{version}'")
    };
    for name in ["onnx", "vendor/name", "a.b-c_d", "2"] {
        assert_eq!(accepted(&with(name, "*")).runner().runner_name, name);
    }
    let long = "a".repeat(129);
    for name in ["", "/", "a/", "/a", "a/b/c", "..", "../a", "a/..", "a b", "a\\b", "\u{e9}", &long] {
        refused(&with(name, "*"), "`runner.runner_name`: expected letters, digits, `_`, `-` and `.`, with a vendor");
    }
    for version in ["=1.2.3", ">=1.12, <2", "^1", "*", "~1.2", "1.2.3-alpha.1"] {
        let metadata = accepted(&with("r", version));
        assert_eq!(metadata.runner().required_framework_version, version.parse().unwrap());
    }
    for version in ["", "one", "=1.2.3.4", ">=1 <2", "latest"] {
        refused(&with("r", version), "`runner.required_framework_version`: expected a semver requirement (");
    }
}

#[test]
fn drafts_may_be_unfinished() {
    let draft = Draft::parse("[runner.opts]\nthreads = 1").unwrap();
    assert_eq!((draft.runner_name.clone(), draft.opts["threads"].clone()), (None, 1.into()));
    assert!(chain(&draft.validate().unwrap_err()).contains("`runner.runner_name`"));
    assert_eq!(Draft::parse("").unwrap(), Draft::default());
    assert!(matches!(Draft::parse("spec_version = 2"), Err(MetadataError::UnsupportedVersion { .. })));
    assert!(Draft::parse("model_name = 1").is_err());
    // Every finished file is a draft too, and comes back from one.
    let metadata = Metadata::parse(COMPLETE).unwrap();
    assert_eq!(Draft::parse(COMPLETE).unwrap().validate().unwrap(), metadata);
    assert_eq!(Draft::from(metadata.clone()).validate().unwrap(), metadata);
}

#[test]
fn drafts_refer_to_files() {
    let text = format!(
        "{SIGNATURE}
        self_test = [
            {{ inputs = {{ a = 'x.npy', b = 'dir/cases.npz#x', c = '@tensor_data/t' }}, expected_out = {{ d = 'a#b.npy' }} }},
            {{ inputs = {{ a = '/abs/CASES.NPZ#a#b' }} }},
        ]
        example = [{{ inputs = {{ a = 'cat.png' }}, sample_out = {{ a = '@misc/dog.png', b = './@odd' }} }}]
        [runner]
        runner_name = 'r'
        required_framework_version = '*'"
    );
    let mut draft = Draft::parse(&text).unwrap();
    let files: Vec<_> = draft.files().map(|(path, member)| (path.to_str().unwrap(), member)).collect();
    let expected = [
        ("x.npy", None),
        ("dir/cases.npz", Some("x")),
        ("a#b.npy", None),
        // Only what ends in `.npz` has members, so this is a plain file.
        ("/abs/CASES.NPZ#a#b", None),
        ("cat.png", None),
        ("./@odd", None),
    ];
    assert_eq!(files, expected);
    assert!(
        chain(&draft.clone().validate().unwrap_err())
            .contains("`self_test[0].inputs.a`: expected `@tensor_data/NAME`, found `x.npy`")
    );

    let failed = draft.clone().resolve_files(|path, _| {
        if path == Path::new("cat.png") { Err("no cat") } else { Ok(Reference::TensorData("t".to_owned())) }
    });
    assert_eq!(failed, Err("no cat"));
    draft
        .resolve_files(|path, member| {
            let text = format!("{}|{}", path.display(), member.unwrap_or_default());
            Ok::<_, ()>(if text.starts_with("cat") {
                Reference::Misc("cat.png".to_owned())
            } else {
                Reference::TensorData(text)
            })
        })
        .unwrap();
    assert_eq!(draft.files().count(), 0);
    let metadata = draft.validate().unwrap();
    let test = &metadata.self_tests()[0];
    assert_eq!(test.inputs["a"], "x.npy|");
    assert_eq!(test.inputs["b"], "dir/cases.npz|x");
    assert_eq!(test.inputs["c"], "t");
    assert_eq!(test.expected_out.as_ref().unwrap()["d"], "a#b.npy|");
    assert_eq!(metadata.examples()[0].inputs["a"], Reference::Misc("cat.png".to_owned()));
    assert!(Draft::parse(&text.replace("cat.png", "")).is_err());
    assert!(Draft::parse(&text.replace("cat.png", "@cat.png")).is_err());
}

/// Drafts made in code are held to the same rules as text.
#[test]
fn drafts_made_by_hand() {
    let valid = || Draft {
        runner_name: Some("r".to_owned()),
        required_framework_version: Some(VersionReq::STAR),
        inputs: Some(vec![]),
        outputs: Some(vec![]),
        ..Draft::default()
    };
    let check = |change: &dyn Fn(&mut Draft), expected: &str| {
        let mut draft = valid();
        change(&mut draft);
        let found = chain(&draft.validate().expect_err(expected));
        assert!(found.contains(expected), "expected {expected}\nfound {found}");
    };
    assert!(valid().validate().is_ok());
    let spec = |shape| TensorSpec {
        name: "x".to_owned(),
        dtype: DataType::Int8,
        shape,
        description: None,
        internal_name: None,
    };
    check(
        &|draft| draft.short_description = Some("\u{e9}".repeat(101)),
        "`short_description`: expected at most 100 characters, found 101",
    );
    check(&|draft| draft.inputs = None, "`input`: expected inputs and outputs to be declared together");
    let star = || "*".to_owned();
    check(
        &|draft| draft.inputs = Some(vec![spec(SymbolicShape::Symbol(star()))]),
        "`input[0].shape`: expected a symbol, found `*`",
    );
    let dimensions = |dimension| spec(SymbolicShape::Dimensions(vec![dimension]));
    check(
        &|draft| draft.inputs = Some(vec![dimensions(Dimension::Symbol(star()))]),
        "`input[0].shape[0]`: expected a symbol",
    );
    check(
        &|draft| draft.outputs = Some(vec![dimensions(Dimension::Fixed(u64::MAX))]),
        "`output[0].shape[0]`: expected a size that TOML",
    );
    check(
        &|draft| draft.runner_compat_version = Some(u64::MAX),
        "`runner.runner_compat_version`: expected an integer that TOML can hold",
    );
    let opts = |value: serde_json::Value| serde_json::Map::from_iter([("k".to_owned(), value)]);
    check(
        &|draft| draft.opts = opts(serde_json::json!([{ "a": null }])),
        "`runner.opts.k[0].a`: expected a value that TOML can hold, found null",
    );
    check(
        &|draft| draft.opts = opts(serde_json::json!(u64::MAX)),
        "`runner.opts.k`: expected an integer of 64 bits with a sign",
    );
    let example = |path: &str| Example {
        name: None,
        description: None,
        inputs: [("x".to_owned(), Reference::Misc(path.to_owned()).into())].into(),
        sample_out: BTreeMap::new(),
    };
    check(&|draft| draft.examples = vec![example("../x")], "`example[0].inputs.x`: expected a relative path");
    let mut draft = valid();
    draft.short_description = Some("\u{e9}".repeat(100));
    assert!(draft.validate().is_ok());
    // A file that says more is read all the same.
    accepted(&file(&format!("short_description = '{}'", "x".repeat(101)), ""));
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,12}", ".{0,12}", "[\"'\\\\\n\r\t\u{0}\u{1b}\u{7f} =#]{0,12}"]
}

fn any_name() -> impl Strategy<Value = String> {
    any_text().prop_filter("names are not empty", |name| !name.is_empty())
}

fn any_shape() -> impl Strategy<Value = SymbolicShape> {
    let symbol = || any_name().prop_filter("reserved", |name| name != "*");
    let dimension = prop_oneof![
        Just(Dimension::Any),
        symbol().prop_map(Dimension::Symbol),
        (0..=u64::MAX >> 1).prop_map(Dimension::Fixed)
    ];
    prop_oneof![
        Just(SymbolicShape::Any),
        symbol().prop_map(SymbolicShape::Symbol),
        proptest::collection::vec(dimension, 0..4).prop_map(SymbolicShape::Dimensions)
    ]
}

fn any_specs() -> impl Strategy<Value = Vec<TensorSpec>> {
    let rest = (proptest::sample::select(&DataType::ALL[..]), any_shape(), any_name(), any_name());
    proptest::collection::btree_map(any_name(), rest, 0..3).prop_map(|specs| {
        let spec = |(name, (dtype, shape, description, internal_name))| TensorSpec {
            name,
            dtype,
            shape,
            description: Some(description),
            internal_name: Some(internal_name),
        };
        specs.into_iter().map(spec).collect()
    })
}

fn any_tensors() -> impl Strategy<Value = BTreeMap<String, DraftReference>> {
    let tensor = any_name().prop_map(|name| Reference::TensorData(name).into());
    proptest::collection::btree_map(any_text(), tensor, 0..3)
}

fn any_option() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        any_text().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::from),
            proptest::collection::btree_map(any_text(), inner, 0..3)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect()))
        ]
    })
}

fn any_draft() -> impl Strategy<Value = Draft> {
    let texts = proptest::collection::vec(proptest::option::of(any_name()), 9);
    let opts = proptest::collection::btree_map(any_text(), any_option(), 0..4);
    let tests = (any_tensors(), proptest::option::of(any_tensors()));
    (texts, any_specs(), any_specs(), tests, opts).prop_map(
        |(mut texts, inputs, outputs, (tensors, expected), opts)| {
            let mut text = || texts.pop().flatten();
            Draft {
                model_name: text(),
                short_description: text(),
                model_description: text(),
                license: text(),
                repository: text(),
                homepage: text(),
                required_platforms: vec![],
                inputs: Some(inputs),
                outputs: Some(outputs),
                self_tests: vec![SelfTest {
                    name: text(),
                    description: text(),
                    inputs: tensors.clone(),
                    expected_out: expected,
                }],
                examples: vec![Example {
                    name: text(),
                    description: None,
                    inputs: tensors,
                    sample_out: [("x".to_owned(), Reference::Misc("a b/c".to_owned()).into())].into(),
                }],
                runner_name: Some("r".to_owned()),
                required_framework_version: Some(VersionReq::STAR),
                runner_compat_version: Some(3),
                opts: opts.into_iter().collect(),
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_reads_back(draft in any_draft()) {
        let metadata = draft.validate().unwrap();
        let text = metadata.to_toml();
        match Metadata::parse(&text) {
            Ok(again) => prop_assert_eq!(again, metadata, "{}", text),
            Err(error) => prop_assert!(false, "{}\n{}", chain(&error), text),
        }
    }

    #[test]
    fn no_text_is_too_strange(text in any::<String>()) {
        let _ = Metadata::parse(&text);
        let _ = Draft::parse(&text);
    }

    /// A valid file in which bytes were overwritten is read, or refused with an error; what was read is valid.
    #[test]
    fn damaged_files(damage in proptest::collection::vec((0..4096_usize, any::<u8>()), 1..6)) {
        let mut bytes = COMPLETE.as_bytes().to_vec();
        for (position, byte) in damage {
            let position = position % bytes.len();
            bytes[position] = byte;
        }
        if let Ok(metadata) = Metadata::from_bytes(&bytes) {
            prop_assert_eq!(Metadata::parse(&metadata.to_toml()).unwrap(), metadata);
        }
    }
}
