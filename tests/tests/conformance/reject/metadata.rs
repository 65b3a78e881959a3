//! carton.toml malformed, with wrong types, or with invalid values.

use crate::builder::CartonBuilder;
use crate::{bad, check_rejected, unsupported};

fn edit(carton: &mut CartonBuilder, from: &str, to: &str) {
    carton.edit("carton.toml", from, to);
}

fn replace(carton: &mut CartonBuilder, text: impl Into<Vec<u8>>) {
    carton.entry("carton.toml").data = text.into();
}

#[test]
fn the_file() {
    check_rejected(&[
        bad("empty", |c| replace(c, ""), "spec_version"),
        bad(
            "not UTF-8",
            |c| replace(c, [crate::builder::CARTON_TOML.as_bytes(), b"# \xff"].concat()),
            "carton.toml is not UTF-8",
        ),
        bad(
            "UTF-16",
            |c| {
                replace(c, crate::builder::CARTON_TOML.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
            },
            "carton.toml",
        ),
        bad("JSON", |c| replace(c, "{\"spec_version\": 1}"), "carton.toml is not valid TOML"),
        bad("a NUL", |c| edit(c, "little", "li\0tle"), "carton.toml is not valid TOML"),
        bad("a field twice", |c| edit(c, "[[input]]", "model_name = 'again'\n[[input]]"), "carton.toml"),
        bad("a table twice", |c| edit(c, "[runner]", "[runner]\n[runner]"), "carton.toml"),
        bad(
            "nested a thousand times",
            |c| {
                edit(c, "model_name", &format!("deep = {}{}\nmodel_name", "[".repeat(1000), "]".repeat(1000)));
            },
            "carton.toml",
        ),
        bad(
            "nested a hundred thousand times",
            |c| {
                edit(c, "model_name", &format!("deep = {}\nmodel_name", "{a=".repeat(100_000)));
            },
            "carton.toml",
        ),
        bad(
            "a thousand tables deep",
            |c| {
                edit(c, "[runner]", &format!("[a{}]\n[[runner]", ".a".repeat(100_000)));
            },
            "carton.toml",
        ),
    ]);
}

#[test]
fn spec_version() {
    check_rejected(&[
        bad("missing", |c| edit(c, "spec_version = 1\n", ""), "spec_version"),
        bad("text", |c| edit(c, "spec_version = 1", "spec_version = '1'"), "spec_version"),
        bad("float", |c| edit(c, "spec_version = 1", "spec_version = 1.0"), "spec_version"),
        bad("boolean", |c| edit(c, "spec_version = 1", "spec_version = true"), "spec_version"),
        unsupported("2", |c| edit(c, "spec_version = 1", "spec_version = 2"), "spec_version"),
        unsupported("0", |c| edit(c, "spec_version = 1", "spec_version = 0"), "spec_version"),
        unsupported("-1", |c| edit(c, "spec_version = 1", "spec_version = -1"), "spec_version"),
        unsupported(
            "2, and all else different",
            |c| {
                replace(c, "spec_version = 2\nmodel_name = 7\nrunner = 'none'\n");
                c.manifest = crate::builder::Manifest::Edited(|text| text.replace('=', " sha256:").into_bytes());
            },
            "spec_version",
        ),
    ]);
}

#[test]
fn runner() {
    check_rejected(&[
        bad(
            "missing",
            |c| {
                let text = crate::builder::CARTON_TOML;
                replace(c, &text[..text.find("[runner]").unwrap()]);
            },
            "runner",
        ),
        bad(
            "a text",
            |c| {
                let text = crate::builder::CARTON_TOML;
                let head = &text[..text.find("[runner]").unwrap()];
                replace(c, head.replace("model_name", "runner = 'noop'\nmodel_name"));
            },
            "runner",
        ),
        bad("a list of tables", |c| edit(c, "[runner]", "[[runner]]"), "runner"),
        bad("no name", |c| edit(c, "runner_name = \"noop\"\n", ""), "runner_name"),
        bad("an empty name", |c| edit(c, "\"noop\"", "\"\""), "runner_name"),
        bad("a number for a name", |c| edit(c, "\"noop\"", "3"), "runner_name"),
        bad(
            "no framework version",
            |c| edit(c, "required_framework_version = \"=1.0.0\"\n", ""),
            "required_framework_version",
        ),
        bad("a number for a framework version", |c| edit(c, "\"=1.0.0\"", "1.0"), "required_framework_version"),
        bad("no requirement", |c| edit(c, "\"=1.0.0\"", "\"the latest\""), "required_framework_version"),
        bad(
            "compat version as text",
            |c| edit(c, "runner_compat_version = 1", "runner_compat_version = '1'"),
            "runner_compat_version",
        ),
        bad(
            "compat version below zero",
            |c| edit(c, "runner_compat_version = 1", "runner_compat_version = -1"),
            "runner_compat_version",
        ),
        bad("opts as text", |c| edit(c, "runner_compat_version = 1", "opts = 'fast'"), "opts"),
        bad("opts as a list", |c| edit(c, "runner_compat_version = 1", "opts = [1]"), "opts"),
    ]);
}

#[test]
fn signature() {
    check_rejected(&[
        bad("a number for the name of the model", |c| edit(c, "\"little\"", "3"), "model_name"),
        bad(
            "a list for the description",
            |c| edit(c, "\"little\"", "\"little\"\nmodel_description = []"),
            "model_description",
        ),
        bad(
            "a text for the platforms",
            |c| edit(c, "\"little\"", "\"little\"\nrequired_platforms = 'linux'"),
            "required_platforms",
        ),
        bad(
            "a number among the platforms",
            |c| edit(c, "\"little\"", "\"little\"\nrequired_platforms = ['a', 1]"),
            "required_platforms",
        ),
        bad("one table for the inputs", |c| edit(c, "[[input]]", "[input]"), "input"),
        bad("an input without a name", |c| edit(c, "name = \"x\"\n", ""), "name"),
        bad("an input without a dtype", |c| edit(c, "dtype = \"float32\"\n", ""), "dtype"),
        bad("an input without a shape", |c| edit(c, "shape = [\"n\", 3]\n", ""), "shape"),
        bad("an unknown dtype", |c| edit(c, "\"float32\"", "\"float128\""), "input[0].dtype"),
        bad("a dtype in capitals", |c| edit(c, "\"float32\"", "\"Float32\""), "input[0].dtype"),
        bad("nested as a dtype", |c| edit(c, "\"float32\"", "\"nested\""), "input[0].dtype"),
        bad("a number for a dtype", |c| edit(c, "\"float32\"", "32"), "dtype"),
        bad("a number for a shape", |c| edit(c, "[\"n\", 3]", "3"), "input[0].shape"),
        bad("a float in a shape", |c| edit(c, "[\"n\", 3]", "[\"n\", 3.0]"), "input[0].shape"),
        bad("a dimension below zero", |c| edit(c, "[\"n\", 3]", "[-1, 3]"), "input[0].shape"),
        bad("a list in a shape", |c| edit(c, "[\"n\", 3]", "[[\"n\"], 3]"), "input[0].shape"),
        bad(
            "a number for an internal name",
            |c| edit(c, "name = \"x\"", "name = \"x\"\ninternal_name = 1"),
            "internal_name",
        ),
    ]);
}

#[test]
fn self_tests_and_examples() {
    check_rejected(&[
        bad("a self-test without inputs", |c| edit(c, "inputs = { x = \"@tensor_data/numbers\" }\n", ""), "inputs"),
        bad(
            "a list for inputs",
            |c| edit(c, "{ x = \"@tensor_data/numbers\" }", "[\"@tensor_data/numbers\"]"),
            "inputs",
        ),
        bad("a number for a tensor", |c| edit(c, "\"@tensor_data/numbers\"", "1"), "self_test[0].inputs.x"),
        bad("a file for a tensor", |c| edit(c, "\"@tensor_data/numbers\"", "\"numbers.npy\""), "numbers.npy"),
        bad(
            "a reference to nothing",
            |c| edit(c, "\"@tensor_data/numbers\"", "\"@tensor_data/\""),
            "self_test[0].inputs.x",
        ),
        bad(
            "a tensor that is not there",
            |c| edit(c, "@tensor_data/numbers", "@tensor_data/letters"),
            "`@tensor_data/letters`",
        ),
        bad(
            "an expected tensor that is not there",
            |c| {
                edit(c, "{ y = \"@tensor_data/numbers\" }", "{ y = \"@tensor_data/letters\" }");
            },
            "`@tensor_data/letters`",
        ),
        bad("a misc file for a self-test", |c| edit(c, "@tensor_data/numbers", "@misc/picture"), "@misc/picture"),
        bad("a misc file that is not there", |c| edit(c, "@misc/picture", "@misc/pictures"), "`@misc/pictures`"),
        bad("a text for optional", |c| edit(c, "name = \"x\"", "name = \"x\"\noptional = 'yes'"), "input[0].optional"),
        bad(
            "a misc file upwards for those who take a back slash for a slash",
            |c| edit(c, "\"@misc/picture\"", r"'@misc/..\carton.toml'"),
            r"@misc/..\carton.toml",
        ),
        bad("a misc file upwards", |c| edit(c, "@misc/picture", "@misc/../carton.toml"), "@misc/../carton.toml"),
        bad("a misc file from the root", |c| edit(c, "@misc/picture", "@misc//etc/passwd"), "@misc//etc/passwd"),
        bad("a model file for an example", |c| edit(c, "@misc/picture", "@model/weights.bin"), "@model/weights.bin"),
        bad(
            "a sample that is not there",
            |c| {
                edit(c, "sample_out = { y = \"@tensor_data/numbers\" }", "sample_out = { y = \"@misc/y\" }");
            },
            "`@misc/y`",
        ),
        bad("a number for the name of a self-test", |c| edit(c, "name = \"first\"", "name = 1"), "self_test"),
        bad("one table for the self-tests", |c| edit(c, "[[self_test]]", "[self_test]"), "self_test"),
    ]);
}
