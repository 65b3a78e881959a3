//! What elements are, where the dtype does not say it.

use super::*;

fn with(keys: &str) -> String {
    let mask = format!("{{ name = 'mask', shape = ['n'], {keys} }}");
    file(&format!("input = [{mask}]\noutput = [{mask}]\n"), "")
}

#[test]
fn booleans_are_read_and_written() {
    let metadata = accepted(&with("dtype = 'uint8', element = 'bool'"));
    for spec in metadata.inputs().iter().chain(metadata.outputs()) {
        assert_eq!((spec.dtype, spec.element, spec.element_name()), (DataType::Uint8, Some(ElementKind::Bool), "bool"));
    }
    assert!(metadata.to_toml().contains("dtype = \"uint8\"\nelement = \"bool\"\nshape = [\"n\"]\n"));
    let draft = Draft::parse(&with("dtype = 'uint8', element = 'bool'")).unwrap();
    assert_eq!(draft.validate().unwrap(), metadata);
}

#[test]
fn what_later_versions_may_say_is_ignored_in_a_carton_and_refused_in_a_draft() {
    let check = |keys: &str, expected: &str| {
        let metadata = accepted(&with(keys));
        assert_eq!(metadata.inputs()[0].element, None, "{keys}");
        let error = Draft::parse(&with(keys)).unwrap_err();
        assert_eq!(error.to_string(), format!("carton.toml: `input[0].element`: expected {expected}"));
    };
    check("dtype = 'float32', element = 'float16'", "bool, found `float16`");
    check("dtype = 'uint8', element = 'Bool'", "bool, found `Bool`");
    check("dtype = 'uint8', element = ''", "bool, found ``");
    check("dtype = 'uint8', element = 7", "bool, found `7`");
    check("dtype = 'int8', element = 'bool'", "the dtype uint8 beside `bool`, found int8");
    let mut draft = Draft::parse(&with("dtype = 'uint8', element = 'bool'")).unwrap();
    draft.outputs.as_mut().unwrap()[0].dtype = DataType::Float32;
    let error = draft.validate().unwrap_err();
    assert_eq!(
        error.to_string(),
        "carton.toml: `output[0].element`: expected the dtype uint8 beside `bool`, found float32"
    );
}
