//! The dtypes that version 1 lacks: `element` beside `dtype`.

use super::*;

fn with(keys: &str) -> String {
    let mask = format!("{{ name = 'mask', {keys} }}");
    file(&format!("input = [{mask}]\noutput = [{mask}]\n"), "")
}

#[test]
fn carried_dtypes_are_read_and_written() {
    let check = |keys: &str, dtype: DataType, shape: &str| {
        let metadata = accepted(&with(keys));
        for spec in metadata.inputs().iter().chain(metadata.outputs()) {
            assert_eq!((spec.dtype, spec.shape.to_string().replace('"', "")), (dtype, shape.to_owned()));
        }
        assert_eq!(Draft::parse(&with(keys)).unwrap().validate().unwrap(), metadata);
        let written = metadata.to_toml();
        let fields = keys.replace('\'', "\"").replace(", element", "\nelement").replace(", shape", "\nshape");
        assert!(written.contains(&fields), "{written}");
    };
    check("dtype = 'uint8', element = 'bool', shape = ['n']", DataType::Bool, "[n]");
    check("dtype = 'float32', element = 'float16', shape = '*'", DataType::Float16, "*");
    check("dtype = 'float32', element = 'bfloat16', shape = 's'", DataType::BFloat16, "s");
    check("dtype = 'float32', element = 'float8_e4m3fn', shape = []", DataType::Float8E4m3Fn, "[]");
    check("dtype = 'string', element = 'bytes', shape = []", DataType::Bytes, "[]");
    check("dtype = 'float64', element = 'complex128', shape = [3, 2]", DataType::Complex128, "[3]");
    check("dtype = 'int64', shape = []", DataType::Int64, "[]");
}

/// Whoever writes metadata by hand need not know what carries what.
#[test]
fn a_draft_may_name_the_dtype_itself() {
    let check = |dtype: DataType| {
        let draft = Draft::parse(&with(&format!("dtype = '{dtype}', shape = ['n']"))).unwrap();
        let metadata = draft.validate().unwrap();
        assert_eq!((metadata.inputs()[0].dtype, metadata.inputs()[0].shape.to_string()), (dtype, "[\"n\"]".to_owned()));
        let written = metadata.to_toml();
        assert!(written.contains(&format!("dtype = \"{}\"", dtype.carrier())), "{written}");
        assert_eq!(Metadata::parse(&written).unwrap(), metadata);
    };
    DataType::ALL.into_iter().for_each(check);
}

#[test]
fn what_later_versions_may_say_is_ignored_in_a_carton_and_refused_in_a_draft() {
    let check = |keys: &str, carrier: DataType, expected: &str| {
        let metadata = accepted(&with(keys));
        assert_eq!(metadata.inputs()[0].dtype, carrier, "{keys}");
        let error = Draft::parse(&with(keys)).unwrap_err();
        assert_eq!(error.to_string(), format!("carton.toml: `input[0].{expected}"));
    };
    let known = "element`: expected one of bool, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, \
                 complex64, complex128, bytes, found";
    check("dtype = 'uint8', element = 'Bool', shape = []", DataType::Uint8, &format!("{known} `Bool`"));
    check("dtype = 'uint8', element = '', shape = []", DataType::Uint8, &format!("{known} ``"));
    check("dtype = 'uint8', element = 7, shape = []", DataType::Uint8, &format!("{known} `7`"));
    check("dtype = 'uint8', element = 'int8', shape = []", DataType::Uint8, &format!("{known} `int8`"));
    let carrier = "element`: expected the dtype uint8 beside `bool`, found int8";
    check("dtype = 'int8', element = 'bool', shape = []", DataType::Int8, carrier);
    let pairs = "shape`: expected a last dimension of 2, the real and the imaginary part, for complex64, found";
    check("dtype = 'float32', element = 'complex64', shape = [3]", DataType::Float32, &format!("{pairs} [3]"));
    check("dtype = 'float32', element = 'complex64', shape = []", DataType::Float32, &format!("{pairs} []"));
}

#[test]
fn a_carton_has_no_other_dtype_than_those_of_version_1() {
    let error = Metadata::parse(&with("dtype = 'float16', shape = []")).unwrap_err().to_string();
    assert!(
        error.contains("expected one of float32, float64, string, int8") && error.ends_with("`float16`"),
        "{error}"
    );
    let error = Draft::parse(&with("dtype = 'int4', shape = []")).unwrap_err().to_string();
    assert!(error.contains("integers of less than a byte are `int8` or `uint8`, one a byte"), "{error}");
}
