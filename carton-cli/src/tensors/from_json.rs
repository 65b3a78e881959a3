//! Converts JSON to tensors. Pure.
//!
//! With a declared dtype, every number is checked: an integer type takes only integers in its range (`2.0` is one); a floating-point type
//! rounds as usual but does not overflow, and takes the strings `"NaN"`, `"Infinity"` and `"-Infinity"`, and null for NaN; booleans may be 0
//! and 1 too. Complex numbers are pairs, in one more dimension, and bytes are base64. A list
//! of booleans is one whatever is declared: the check of the call says that it does not fit. Without a declared dtype, a list
//! gets the dtype that NumPy would choose: integers become int64 (uint64 if only that holds them), numbers with a point or exponent
//! float64, as do `NaN` and `Infinity` without quotes, strings strings, and booleans booleans. A list of lists of different lengths becomes a nested tensor.

use std::fmt;

use carton_tensor::{
    BARE_NUMBER, BoolByte, CastError, DataType, Dimension, Element, NumberValue, SymbolicShape, Tensor, TensorError,
    restored,
};
use serde_json::{Number, Value};

/// From this magnitude on, several integers are read as one float.
const EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// Why JSON text is not a tensor.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonTensorError {
    #[error("{place}: {found} is not an integer, which {dtype} needs")]
    NotAnInteger { place: JsonPosition, found: Number, dtype: DataType },
    #[error(
        "{place}: {found} is written as a float, and several integers are read as this one: write all digits, without a point or an exponent"
    )]
    SeveralIntegers { place: JsonPosition, found: Number },
    #[error("{place}: {found} is out of range for {dtype}")]
    OutOfRange { place: JsonPosition, found: String, dtype: DataType },
    #[error("{place}: expected a {expected}, found {found}")]
    WrongKind { place: JsonPosition, expected: &'static str, found: String },
    #[error("{place}: expected true or false, found {found}")]
    NotABoolean { place: JsonPosition, found: String },
    #[error("{place}: null is a missing number, NaN, which only an input that is declared with floats has")]
    Null { place: JsonPosition },
    #[error("{place}: an object is not a tensor value: expected a number, a string, or lists of them")]
    Object { place: JsonPosition },
    #[error("{place}: found a list of shape {found:?} where the ones before have shape {expected:?}")]
    Ragged { place: JsonPosition, expected: Vec<usize>, found: Vec<usize> },
    #[error("negative integers and integers above the range of int64 fit no common dtype")]
    NoCommonInteger,
    #[error("{dtype} is written as {}", if *dtype == DataType::Bytes { "base64" } else { "pairs" })]
    Carried { dtype: DataType, source: CastError },
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// A position in the JSON text: the indices that lead to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonPosition(Vec<usize>);

impl fmt::Display for JsonPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("the value") } else { write!(f, "element {:?}", self.0) }
    }
}

/// What the values become: what is declared, or else what NumPy would choose.
fn dtype_of(leaves: &[Leaf<'_>], declared: Option<DataType>) -> Result<DataType, JsonTensorError> {
    let are_booleans = !leaves.is_empty() && leaves.iter().all(|(_, value)| value.is_boolean());
    match declared {
        Some(DataType::Bool) => Ok(DataType::Bool),
        _ if are_booleans => Ok(DataType::Bool),
        Some(declared) => Ok(declared),
        None => common_dtype(leaves),
    }
}

/// Converts a value to a tensor, of the declared dtype if there is one. An empty list has as many dimensions as are declared.
///
/// # Errors
/// See [`JsonTensorError`]; it names the position of the first invalid value.
pub(crate) fn tensor(
    value: &Value,
    declared: Option<DataType>,
    shape: &SymbolicShape,
) -> Result<Tensor, JsonTensorError> {
    let mut dimensions = match shape {
        SymbolicShape::Dimensions(dimensions) => dimensions.clone(),
        _ => Vec::new(),
    };
    // A complex number is a list of two.
    if !dimensions.is_empty() && declared.is_some_and(DataType::is_complex) {
        dimensions.push(Dimension::Fixed(2));
    }
    let ragged = match Regular::read(value, &JsonPosition::default()) {
        Ok(mut regular) => {
            let dtype = dtype_of(&regular.leaves, declared)?;
            regular.complete(&dimensions);
            return regular.into_tensor(dtype);
        }
        Err(error @ JsonTensorError::Ragged { .. }) => error,
        Err(error) => return Err(error),
    };
    // The lists differ only between the elements of the outermost list. If these have one rank, they are a nested tensor.
    let parts = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let parts: Result<Vec<_>, _> =
        parts.iter().enumerate().map(|(index, part)| Regular::read(part, &JsonPosition(vec![index]))).collect();
    let mut parts = parts?;
    for part in &mut parts {
        part.complete(dimensions.get(1..).unwrap_or_default());
    }
    let same_rank = parts.windows(2).all(|pair| pair[0].shape.len() == pair[1].shape.len());
    if !same_rank {
        return Err(ragged);
    }
    let leaves: Vec<_> = parts.iter().flat_map(|part| part.leaves.iter().cloned()).collect();
    let dtype = dtype_of(&leaves, declared)?;
    let parts: Result<Vec<_>, _> = parts.into_iter().map(|part| part.into_tensor(dtype)).collect();
    Ok(Tensor::nested(parts?)?)
}

/// A value that is no list, and where it is.
type Leaf<'a> = (JsonPosition, &'a Value);

/// Nested lists in which all lists at the same depth have the same length.
struct Regular<'a> {
    shape: Vec<usize>,
    leaves: Vec<Leaf<'a>>,
}

impl<'a> Regular<'a> {
    fn read(value: &'a Value, place: &JsonPosition) -> Result<Self, JsonTensorError> {
        match value {
            Value::Array(elements) => {
                let mut shape: Option<Vec<usize>> = None;
                let mut leaves = Vec::new();
                for (index, element) in elements.iter().enumerate() {
                    let mut inner_place = place.clone();
                    inner_place.0.push(index);
                    let inner = Self::read(element, &inner_place)?;
                    match &shape {
                        Some(expected) if *expected != inner.shape => {
                            let expected = expected.clone();
                            return Err(JsonTensorError::Ragged { place: inner_place, expected, found: inner.shape });
                        }
                        Some(_) => {}
                        None => shape = Some(inner.shape),
                    }
                    leaves.extend(inner.leaves);
                }
                let mut whole = vec![elements.len()];
                whole.extend(shape.unwrap_or_default());
                Ok(Self { shape: whole, leaves })
            }
            Value::Object(_) if bare(value).is_none() => Err(JsonTensorError::Object { place: place.clone() }),
            _ => Ok(Self { shape: Vec::new(), leaves: vec![(place.clone(), value)] }),
        }
    }

    /// Adds the declared dimensions that the text cannot say, because an empty list has nothing inside: those of a fixed size, and 0 for
    /// the others.
    fn complete(&mut self, declared: &[Dimension]) {
        if self.shape.last() == Some(&0) {
            let rest = declared.iter().skip(self.shape.len()).map(|dimension| match dimension {
                Dimension::Fixed(size) => usize::try_from(*size).unwrap_or(usize::MAX),
                Dimension::Any | Dimension::Symbol(_) => 0,
            });
            self.shape.extend(rest);
        }
    }

    fn into_tensor(self, dtype: DataType) -> Result<Tensor, JsonTensorError> {
        match dtype {
            DataType::String => {
                let strings: Result<Vec<&str>, _> =
                    self.leaves.iter().map(|(place, value)| string(place, value)).collect();
                Ok(Tensor::from_strings(strings?, self.shape)?)
            }
            DataType::Bool => self.collect(boolean),
            DataType::Bytes | DataType::Complex64 | DataType::Complex128 => {
                let carrier = self.into_tensor(dtype.carrier())?;
                restored(&carrier, dtype).map_err(|source| JsonTensorError::Carried { dtype, source })
            }
            _ if dtype.is_float() => carton_tensor::with_number!(dtype, T => self.collect::<T>(|place, value| {
                let wide = NumberValue::Float(float(place, value)?);
                let lost = |_| JsonTensorError::OutOfRange { place: place.clone(), found: shown(value), dtype };
                carton_tensor::Number::of(wide).map_err(lost)
            }), else self.no_dtype(dtype)),
            DataType::Int8 => self.collect(integer::<i8>),
            DataType::Int16 => self.collect(integer::<i16>),
            DataType::Int32 => self.collect(integer::<i32>),
            DataType::Int64 => self.collect(integer::<i64>),
            DataType::Uint8 => self.collect(integer::<u8>),
            DataType::Uint16 => self.collect(integer::<u16>),
            DataType::Uint32 => self.collect(integer::<u32>),
            DataType::Uint64 => self.collect(integer::<u64>),
            other => self.no_dtype(other),
        }
    }

    fn no_dtype(&self, dtype: DataType) -> Result<Tensor, JsonTensorError> {
        Err(JsonTensorError::WrongKind {
            place: JsonPosition::default(),
            expected: "dtype that JSON can be cast to",
            found: dtype.to_string(),
        })
    }

    fn collect<T: Element>(
        self,
        cast: impl Fn(&JsonPosition, &Value) -> Result<T, JsonTensorError>,
    ) -> Result<Tensor, JsonTensorError> {
        let elements: Result<Vec<T>, _> = self.leaves.iter().map(|(place, value)| cast(place, value)).collect();
        Ok(Tensor::from_vec(elements?, self.shape)?)
    }
}

/// Returns the dtype that NumPy would choose for these values.
fn common_dtype(leaves: &[Leaf<'_>]) -> Result<DataType, JsonTensorError> {
    if let Some((place, _)) = leaves.iter().find(|(_, value)| value.is_null()) {
        return Err(JsonTensorError::Null { place: place.clone() });
    }
    let strings = leaves.first().is_some_and(|(_, value)| value.is_string());
    for (place, value) in leaves {
        if value.is_string() != strings {
            let (expected, found) = if strings { ("string", "a number") } else { ("number", "a string") };
            let found = if value.is_boolean() { "a boolean" } else { found };
            return Err(JsonTensorError::WrongKind { place: place.clone(), expected, found: found.to_owned() });
        }
    }
    let is_mixed = |(_, value): &&Leaf<'_>| value.is_boolean();
    if let Some((place, value)) = leaves.iter().find(is_mixed) {
        let (place, found) = (place.clone(), value.to_string());
        return Err(JsonTensorError::WrongKind { place, expected: "number", found });
    }
    if strings {
        return Ok(DataType::String);
    }
    if leaves.is_empty() || leaves.iter().any(|(_, value)| value.is_f64() || bare(value).is_some()) {
        return Ok(DataType::Float64);
    }
    if leaves.iter().all(|(_, value)| value.is_i64()) {
        return Ok(DataType::Int64);
    }
    if leaves.iter().all(|(_, value)| value.is_u64()) {
        return Ok(DataType::Uint64);
    }
    Err(JsonTensorError::NoCommonInteger)
}

fn string<'a>(place: &JsonPosition, value: &'a Value) -> Result<&'a str, JsonTensorError> {
    value.as_str().ok_or_else(|| JsonTensorError::WrongKind {
        place: place.clone(),
        expected: "string",
        found: format!("{}, without quotes", shown(value)),
    })
}

/// The name of a number that JSON lacks, which was written without quotes.
fn bare(value: &Value) -> Option<&str> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    object.get(BARE_NUMBER)?.as_str()
}

fn number<'a>(place: &JsonPosition, value: &'a Value) -> Result<&'a Number, JsonTensorError> {
    match value {
        Value::Number(number) => Ok(number),
        Value::Null => Err(JsonTensorError::Null { place: place.clone() }),
        other => Err(JsonTensorError::WrongKind { place: place.clone(), expected: "number", found: shown(other) }),
    }
}

/// A value as it was written.
fn shown(value: &Value) -> String {
    bare(value).map_or_else(|| value.to_string(), str::to_owned)
}

fn boolean(place: &JsonPosition, value: &Value) -> Result<BoolByte, JsonTensorError> {
    match (value.as_bool(), value.as_u64()) {
        (Some(found), _) => Ok(found.into()),
        (None, Some(found @ (0 | 1))) => Ok((found == 1).into()),
        _ => Err(JsonTensorError::NotABoolean { place: place.clone(), found: shown(value) }),
    }
}

fn float(place: &JsonPosition, value: &Value) -> Result<f64, JsonTensorError> {
    if value.is_null() {
        return Ok(f64::NAN);
    }
    match value.as_str().or_else(|| bare(value)) {
        Some("NaN") => return Ok(f64::NAN),
        Some("Infinity") => return Ok(f64::INFINITY),
        Some("-Infinity") => return Ok(f64::NEG_INFINITY),
        _ => {}
    }
    let number = number(place, value)?;
    number.as_f64().ok_or_else(|| JsonTensorError::OutOfRange {
        place: place.clone(),
        found: number.to_string(),
        dtype: DataType::Float64,
    })
}

fn integer<T: Element + TryFrom<i128>>(place: &JsonPosition, value: &Value) -> Result<T, JsonTensorError> {
    let found = number(place, value)?;
    let exact = match (found.as_i64(), found.as_u64(), found.as_f64()) {
        (Some(signed), _, _) => i128::from(signed),
        (None, Some(unsigned), _) => i128::from(unsigned),
        (None, None, Some(float)) if float.fract() == 0.0 && float.abs() < EXACT_FLOAT => float as i128,
        (None, None, Some(float)) if float.fract() == 0.0 && T::try_from(float as i128).is_ok() => {
            return Err(JsonTensorError::SeveralIntegers { place: place.clone(), found: found.clone() });
        }
        (None, None, Some(float)) if float.fract() == 0.0 => {
            return Err(JsonTensorError::OutOfRange {
                place: place.clone(),
                found: found.to_string(),
                dtype: T::DTYPE,
            });
        }
        _ => {
            let (place, found) = (place.clone(), found.clone());
            return Err(JsonTensorError::NotAnInteger { place, found, dtype: T::DTYPE });
        }
    };
    T::try_from(exact).map_err(|_| JsonTensorError::OutOfRange {
        place: place.clone(),
        found: found.to_string(),
        dtype: T::DTYPE,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(text: &str, declared: Option<DataType>) -> Result<Tensor, String> {
        let marked = carton_tensor::mark_bare_numbers(text.as_bytes());
        tensor(&serde_json::from_slice(&marked).unwrap(), declared, &SymbolicShape::Any)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_declaration_as_numpy() {
        let check = |text: &str, expected: Tensor| assert_eq!(parse(text, None), Ok(expected), "{text}");
        check("3", Tensor::scalar(3_i64));
        check("3.0", Tensor::scalar(3.0_f64));
        check("\"a\"", Tensor::from_strings(["a"], vec![]).unwrap());
        check("[]", Tensor::from_vec(Vec::<f64>::new(), vec![0]).unwrap());
        check("[[], []]", Tensor::from_vec(Vec::<f64>::new(), vec![2, 0]).unwrap());
        check("[1, 2]", Tensor::from_vec(vec![1_i64, 2], vec![2]).unwrap());
        check("[1, 2.5]", Tensor::from_vec(vec![1.0, 2.5], vec![2]).unwrap());
        check("[[1, 2], [3, 4]]", Tensor::from_vec(vec![1_i64, 2, 3, 4], vec![2, 2]).unwrap());
        check("[[\"a\"], [\"b\"]]", Tensor::from_strings(["a", "b"], vec![2, 1]).unwrap());
        check("[0, 18446744073709551615]", Tensor::from_vec(vec![0, u64::MAX], vec![2]).unwrap());
        let ragged =
            Tensor::nested(vec![Tensor::from_vec(vec![1_i64, 2], vec![2]).unwrap(), parse("[3]", None).unwrap()]);
        check("[[1, 2], [3]]", ragged.unwrap());
    }

    #[test]
    fn cast_to_the_declared_dtype() {
        let check = |text: &str, dtype, expected: Tensor| assert_eq!(parse(text, Some(dtype)), Ok(expected), "{text}");
        check("[1, 2.0]", DataType::Uint8, Tensor::from_vec(vec![1_u8, 2], vec![2]).unwrap());
        check("[1, 0.1]", DataType::Float32, Tensor::from_vec(vec![1.0_f32, 0.1], vec![2]).unwrap());
        check("-128", DataType::Int8, Tensor::scalar(-128_i8));
        check("-9223372036854775808", DataType::Int64, Tensor::scalar(i64::MIN));
        check("18446744073709551615", DataType::Uint64, Tensor::scalar(u64::MAX));
        check("\"-Infinity\"", DataType::Float32, Tensor::scalar(f32::NEG_INFINITY));
        check("[]", DataType::Int16, Tensor::from_vec(Vec::<i16>::new(), vec![0]).unwrap());
        let ragged =
            Tensor::nested(vec![parse("[1.0]", None).unwrap(), Tensor::from_vec(vec![2.0, 3.0], vec![2]).unwrap()]);
        check("[[1], [2, 3]]", DataType::Float64, ragged.unwrap());
    }

    #[test]
    fn empty_lists_have_the_declared_dimensions() {
        let check = |text: &str, shape: &str, expected: &[&[usize]]| {
            let shape: SymbolicShape = serde_json::from_str(shape).unwrap();
            let found = tensor(&serde_json::from_str(text).unwrap(), Some(DataType::Float32), &shape).unwrap();
            let shapes: Vec<_> = match &found {
                Tensor::Nested(nested) => nested.elements().iter().filter_map(Tensor::shape).collect(),
                other => vec![other.shape().unwrap()],
            };
            assert_eq!(shapes, expected, "{text}");
        };
        check("[]", r#"["n", 4]"#, &[&[0, 4]]);
        check("[]", r#"["*", "n", 4]"#, &[&[0, 0, 4]]);
        check("[[], []]", r#"["*", "n", 4]"#, &[&[2, 0, 4]]);
        check("[[[1, 2, 3, 4]], []]", r#"["*", "n", 4]"#, &[&[1, 4], &[0, 4]]);
        // The declaration does not contradict what the text says.
        check("[]", "[]", &[&[0]]);
        check("[]", r#"["n"]"#, &[&[0]]);
        check("[1]", r#"["n", 0, 2]"#, &[&[1]]);
        check("[[]]", "\"*\"", &[&[1, 0]]);
        // Complex numbers are lists of two.
        for (shape, expected) in [(r#"["n"]"#, &[0][..]), (r#"["n", 2]"#, &[0, 2])] {
            let shape: SymbolicShape = serde_json::from_str(shape).unwrap();
            let found = tensor(&serde_json::json!([]), Some(DataType::Complex64), &shape).unwrap();
            assert_eq!((found.dtype(), found.shape()), (Some(DataType::Complex64), Some(expected)));
        }
    }

    #[test]
    fn booleans() {
        let bools = |elements: &[u8]| {
            Ok(Tensor::from_vec(elements.iter().map(|byte| BoolByte(*byte)).collect(), vec![elements.len()]).unwrap())
        };
        let declared = |text: &str| parse(text, Some(DataType::Bool));
        assert_eq!(declared("[true, false]"), bools(&[1, 0]));
        assert_eq!(declared("[1, 0, true]"), bools(&[1, 0, 1]));
        assert_eq!(declared("[]"), bools(&[]));
        assert_eq!(declared("[0, 2]").unwrap_err(), "element [1]: expected true or false, found 2");
        assert_eq!(declared("[\"true\"]").unwrap_err(), "element [0]: expected true or false, found \"true\"");
        // The check of the call refuses them, with a hint.
        assert_eq!(parse("[true, false]", Some(DataType::Uint8)), bools(&[1, 0]));
        assert_eq!(parse("[true, false]", None), bools(&[1, 0]));
    }

    #[test]
    fn numbers_that_json_lacks() {
        let shown = |text: &str, declared| parse(text, declared).map(|tensor| format!("{tensor:?}"));
        let floats = |dtype: DataType| {
            format!("Numeric(NumericTensor {{ dtype: {dtype:?}, shape: [3], elements: [NaN, -inf, 1.0] }})")
        };
        for text in ["[NaN, -Infinity, 1]", "[null, \"-Infinity\", 1]"] {
            for dtype in [DataType::Float16, DataType::BFloat16, DataType::Float32, DataType::Float64] {
                assert_eq!(shown(text, Some(dtype)), Ok(floats(dtype)), "{text}");
            }
        }
        assert_eq!(shown("[NaN, -Infinity, 1]", None), Ok(floats(DataType::Float64)));
    }

    #[test]
    fn pairs_and_base64() {
        use carton_tensor::Complex;
        let complex = Tensor::from_vec(vec![Complex::new(1.0_f32, -2.0), Complex::new(0.0, 3.0)], vec![2]).unwrap();
        assert_eq!(parse("[[1, -2], [0, 3]]", Some(DataType::Complex64)), Ok(complex));
        assert_eq!(parse("[1, -2]", Some(DataType::Complex128)), Ok(Tensor::scalar(Complex::new(1.0_f64, -2.0))));
        assert_eq!(parse("[1, 2, 3]", Some(DataType::Complex64)), Err("complex64 is written as pairs".to_owned()));
        let bytes = Tensor::from_bytes([vec![0xff], vec![]], vec![2]).unwrap();
        assert_eq!(parse("[\"/w==\", \"\"]", Some(DataType::Bytes)), Ok(bytes));
        assert_eq!(parse("\"-\"", Some(DataType::Bytes)), Err("bytes is written as base64".to_owned()));
        let halves = Tensor::from_vec(vec![carton_tensor::f16::from_f32(0.1)], vec![1]).unwrap();
        assert_eq!(parse("[0.1]", Some(DataType::Float16)), Ok(halves));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let check = |text: &str, declared, expected: &str| {
            let error = parse(text, declared).unwrap_err();
            assert_eq!(error, expected, "{text}");
        };
        let of = Some;
        check("[[1, 1.5]]", of(DataType::Int64), "element [0, 1]: 1.5 is not an integer, which int64 needs");
        check("[3, 300]", of(DataType::Uint8), "element [1]: 300 is out of range for uint8");
        check("-1", of(DataType::Uint64), "the value: -1 is out of range for uint64");
        check("1e300", of(DataType::Float32), "the value: 1e+300 is out of range for float32");
        check("1e300", of(DataType::Int64), "the value: 1e+300 is out of range for int64");
        check("1e18", of(DataType::Int32), "the value: 1e+18 is out of range for int32");
        let several = "is written as a float, and several integers are read as this one";
        for text in ["9007199254740992.0", "9007199254740993.0"] {
            check(
                text,
                of(DataType::Int64),
                &format!("the value: 9007199254740992.0 {several}: write all digits, without a point or an exponent"),
            );
        }
        check("[1]", of(DataType::String), "element [0]: expected a string, found 1, without quotes");
        check("[\"a\"]", of(DataType::Float32), "element [0]: expected a number, found \"a\"");
        check("[\"a\", 1]", None, "element [1]: expected a string, found a number");
        check("[1, \"a\"]", None, "element [1]: expected a number, found a string");
        check("[true, 1]", None, "element [0]: expected a number, found true");
        check("[1, true]", of(DataType::Uint8), "element [1]: expected a number, found true");
        check("[\"a\", true]", None, "element [1]: expected a string, found a boolean");
        let null = "element [0]: null is a missing number, NaN, which only an input that is declared with floats has";
        check("[null]", None, null);
        check("[null]", of(DataType::Int64), null);
        check("[NaN]", of(DataType::Int64), "element [0]: expected a number, found NaN");
        check("[NaN]", of(DataType::String), "element [0]: expected a string, found NaN, without quotes");
        check("[70000]", of(DataType::Float16), "element [0]: 70000 is out of range for float16");
        check("[1, [2]]", None, "element [1]: found a list of shape [1] where the ones before have shape []");
        check(
            "[[[1], [2, 3]]]",
            None,
            "element [0, 1]: found a list of shape [2] where the ones before have shape [1]",
        );
        check(
            "[-1, 18446744073709551615]",
            None,
            "negative integers and integers above the range of int64 fit no common dtype",
        );
        check("{}", None, "the value: an object is not a tensor value: expected a number, a string, or lists of them");
    }
}
