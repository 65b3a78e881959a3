#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn bitnet_is_built_in() {
    for name in Description::BUILT_IN {
        assert_eq!(Description::built_in(name).unwrap().name(), name);
    }
    assert!(Description::built_in("gpt-2").is_none());
    let bitnet = Description::built_in("bitnet-7b").unwrap();
    // Two embeddings; 32 layers of two norms, four attention matrices and three MLP matrices; the last norm and the head.
    assert_eq!(bitnet.n_tensors(), 2 + 32 * (2 + 4 + 3) + 2);
    let layer = 2 * 4096 + 4 * 4096 * 4096 + 3 * 11008 * 4096;
    assert_eq!(bitnet.n_parameters(), 2 * 32000 * 4096 + 2048 * 4096 + 32 * layer + 4096);
    assert_eq!(bitnet.n_parameters(), 6_746_804_224);
    assert_eq!(bitnet.tensor("model.layers.31.mlp.down_proj.weight").unwrap().shape(), [4096, 11008]);
    assert!(bitnet.tensor("model.layers.32.mlp.down_proj.weight").is_none());
    assert_eq!(bitnet.tensors().filter(|(_, tensor)| tensor.is_quantized()).count(), 32 * 7);
}

fn check(text: &str, expected: &str) {
    let error = format!("version = 1\nname = \"x\"\n{text}").parse::<Description>().unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    let error = format!("{error}: {cause}");
    assert!(error.contains(expected), "{error}");
}

#[test]
fn impossible_descriptions_are_refused() {
    check("tensors = [{ name = 'a', shape = ['width'] }]", "a: `width` is not in `sizes`");
    check("tensors = [{ name = 'a', shape = [-1] }]", "shape");
    check("tensors = [{ name = 'a', shape = [1.5] }]", "shape");
    check("tensors = [{ name = 'a', shape = [] }, { name = 'a', shape = [] }]", "a: it is described twice");
    check("tensors = [{ name = 'a', shape = [], repeat = 2 }]", "expected `repeat` and a name with `{layer}`");
    check("tensors = [{ name = 'a{layer}', shape = [] }]", "expected `repeat` and a name with `{layer}`");
    check("tensors = [{ name = 'a{layer}', shape = [], repeat = 1000001 }]", "at most 1000000 tensors");
    check("tensors = [{ name = 'a', shape = [4294967296, 4294967296, 2] }]", "64 bits");
    check("tensors = [{ name = 'a', shape = [1], quantized = true }]", "there is no `quantization`");
    let (deep, long) = ("1, ".repeat(100), "x".repeat(1000));
    check(&format!("tensors = [{{ name = 'a', shape = [{deep}] }}]"), "dimensions, found 100");
    check(&format!("tensors = [{{ name = '{long}{{layer}}', shape = [], repeat = 1000000 }}]"), "bytes of names");
    check("dtypes = ['float31']\ntensors = []", "unknown dtype `float31`");
    check("quantization = { method = 'int4' }\ntensors = []", "expected `ternary` or `int8`, found `int4`");
    check("quantization = { method = 'int8', scale = 0.0 }\ntensors = []", "above 0");
    check("values = { min = 1.0, max = -1.0 }\ntensors = []", "`min`");
    check("values = { min = nan }\ntensors = []", "expected `min` to be a number, found NaN");
    check("values = { min = 0.0, max = nan }\ntensors = []", "expected `max` to be a number, found NaN");
    check("values = { min = 2.5, max = 1.0 }\ntensors = []", "expected `min` to be at most `max`, found 2.5 and 1");
    check("tensors = []\nheads = 2", "heads");
    check("", "tensors");
    let error = "version = 2\nlayers = 4".parse::<Description>().unwrap_err();
    assert!(matches!(error, DescriptionError::Version { found: 2 }), "{error}");
}

#[test]
fn a_count_that_is_given_is_taken() {
    let text = "version = 1\nname = 'x'\nn_parameters = 7\ntensors = [{ name = 'a', shape = [2, 3] }]";
    assert_eq!(text.parse::<Description>().unwrap().n_parameters(), 7);
}
