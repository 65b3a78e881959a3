//! The rules one by one.

use carton_tensor::Dimension;

use super::*;

#[test]
fn little_is_required() {
    let metadata = accepted(&file("", ""));
    assert_eq!(metadata.signature(), None);
    assert_eq!((metadata.inputs(), metadata.outputs()), (&[][..], &[][..]));
    assert_eq!(metadata.runner().runner_compat_version, 1);
    assert!(metadata.runner().opts.is_empty());
    assert_eq!(metadata.model_name(), None);
    // An empty text counts as not set.
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
    // Nothing else in a file of another version is checked.
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
fn texts_without_quotes() {
    let check = |top: &str, expected: &str| {
        refused(
            &file(top, ""),
            &format!("carton.toml is not valid TOML: quotes are missing in line 2, expected {expected}"),
        );
    };
    check("input = [{ name = 'x', dtype = int64 }]", "`\"int64\"`, found `int64`");
    check("input = [{ name = 'x', shape = [n, 3] }]", "`\"n\"`, found `n`");
    check("model_name = digits", "`\"digits\"`, found `digits`");
    check("x = >=1.2", "`\">=1.2\"`, found `>=1.2`");
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
    for dtype in DataType::V1 {
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
    not_written(&with("int8", "''"), "`input[0].shape`: expected a symbol, found ``");
    not_written(&with("int8", "['a', '']"), "`input[0].shape[1]`: expected a symbol, found ``");
    refused(&with("int8", "[1, -1]"), "`input[0].shape[1]`: expected a size of 0 or more, found -1");
    refused(&with("int8", "[1.0]"), "`input[0].shape[0]`: expected an integer, a symbol or \"*\", found a float");
    refused(&with("int8", "[[1]]"), "`input[0].shape[0]`: expected an integer, a symbol or \"*\", found a list");
}

#[test]
fn signatures() {
    let spec = |list: &str, name: &str| format!("[[{list}]]\nname = '{name}'\ndtype = 'int8'\nshape = []\n");
    let both = "inputs and outputs to be declared together (an empty list is `input = []`), found nothing";
    not_written(&file(&spec("input", "x"), ""), &format!("`output`: expected {both}"));
    let metadata = accepted(&file(&spec("output", "x"), ""));
    assert_eq!((metadata.inputs().len(), metadata.outputs().len()), (0, 1));
    not_written(&file("input = []", ""), &format!("`output`: expected {both}"));
    not_written(&file(&spec("output", "x"), ""), &format!("`input`: expected {both}"));
    let metadata = accepted(&file("input = []\noutput = []", ""));
    assert_eq!(metadata.signature(), Some(&Signature { inputs: Some(vec![]), outputs: Some(vec![]) }));
    let metadata = accepted(&file(&format!("input = []\n{}", spec("output", "x")), ""));
    assert_eq!((metadata.inputs().len(), metadata.outputs().len()), (0, 1));
    // An input and an output may share a name; two inputs may not.
    accepted(&file(&format!("{}{}", spec("input", "x"), spec("output", "x")), ""));
    let twice = [spec("input", "x"), spec("input", "y"), spec("input", "x"), spec("output", "z")].concat();
    not_written(&file(&twice, ""), "`input[2].name`: expected another name than input[0] has, found `x`");
    let twice = [spec("input", "x"), spec("output", "z"), spec("output", "z")].concat();
    not_written(&file(&twice, ""), "`output[1].name`: expected another name than output[0] has, found `z`");
    not_written(&file(&format!("output = []\n{}", spec("input", "")), ""), "`input[0].name`: expected a name");
}

#[test]
fn self_tests_and_examples() {
    let check = |tables: &str, expected: &str| refused(&file(SIGNATURE, tables), expected);
    not_written(
        &file("self_test = [{ inputs = {} }]", ""),
        "`input`: expected inputs and outputs, which `self_test` needs",
    );
    not_written(
        &file("example = [{ inputs = {} }]", ""),
        "`input`: expected inputs and outputs, which `example` needs",
    );
    accepted(&file("self_test = []\nexample = []", ""));
    // Inference checks the names and dtypes of the signature.
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
    for path in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", "..\\x", "a\\..\\..\\x", "\\x", "C:\\x"] {
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
