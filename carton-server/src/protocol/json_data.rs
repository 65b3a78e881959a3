//! The elements of a tensor in JSON: a flat list in C order, or lists in lists as the shape says. Pure.
//!
//! The parser knows dtype and shape, writes into memory of that size, and stops at the first element too many: a list of a request cannot
//! make it allocate more than the shape, which the caller has compared with its limits.

use std::borrow::Cow;
use std::fmt;

use carton_core::tensor::{
    BARE_NUMBER, BoolByte, Element, Float8E4m3Fn, Float8E4m3Fnuz, Float8E5m2, Float8E5m2Fnuz, Number, NumberValue,
    bf16, f16, with_number,
};
use carton_core::{DataType, NumericTensor, Tensor};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, Serializer};

use super::bytes_elements::{self, BytesElements};

/// Parses the elements of a tensor. `count` is the number of elements of `shape`. Elements of `BYTES` are what `kind` says.
///
/// # Errors
/// The text is not a list, has another number of elements or lists than the shape, or an element is not of the dtype.
pub(crate) fn parse(
    json: &str,
    dtype: DataType,
    kind: BytesElements,
    shape: &[usize],
    count: usize,
) -> Result<Tensor, String> {
    match dtype {
        DataType::Float32 => numbers::<f32>(json, shape, count),
        DataType::Float64 => numbers::<f64>(json, shape, count),
        DataType::Int8 => numbers::<i8>(json, shape, count),
        DataType::Int16 => numbers::<i16>(json, shape, count),
        DataType::Int32 => numbers::<i32>(json, shape, count),
        DataType::Int64 => numbers::<i64>(json, shape, count),
        DataType::Uint8 => numbers::<u8>(json, shape, count),
        DataType::Uint16 => numbers::<u16>(json, shape, count),
        DataType::Uint32 => numbers::<u32>(json, shape, count),
        DataType::Uint64 => numbers::<u64>(json, shape, count),
        DataType::Bool => numbers::<BoolByte>(json, shape, count),
        DataType::Float16 => numbers::<f16>(json, shape, count),
        DataType::BFloat16 => numbers::<bf16>(json, shape, count),
        DataType::String | DataType::Bytes => {
            let texts = elements::<String>(json, shape, count)?;
            kind.tensor(texts.into_iter().map(String::into_bytes).collect(), shape.to_vec())
        }
        other => Err(format!("the dtype {other} is not known")),
    }
}

/// The most elements that the text can have, up to `count`: an element takes at least two bytes of JSON, with its comma.
pub(crate) fn capacity(json: &str, count: usize) -> usize {
    count.min(json.len() / 2 + 1)
}

fn numbers<T: Element + FromJson>(json: &str, shape: &[usize], count: usize) -> Result<Tensor, String> {
    let elements = elements::<T>(json, shape, count)?;
    NumericTensor::from_vec(elements, shape.to_vec()).map(Tensor::Numeric).map_err(|error| error.to_string())
}

fn elements<T: FromJson>(json: &str, shape: &[usize], count: usize) -> Result<Vec<T>, String> {
    let mut found = Found { elements: Vec::with_capacity(capacity(json, count)), count, leaf_depth: None };
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let level = Level { found: &mut found, shape, depth: 0 };
    level.deserialize(&mut deserializer).and_then(|()| deserializer.end()).map_err(|error| plain(&error))?;
    if found.elements.len() != count {
        return Err(format!("expected {count} elements, as the shape says, found {}", found.elements.len()));
    }
    Ok(found.elements)
}

/// The message without the position, which is one in the list, not in the request.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// What was read so far.
struct Found<T> {
    elements: Vec<T>,
    count: usize,
    /// The number of lists around each element: 1 in a flat list, the rank in nested ones.
    leaf_depth: Option<usize>,
}

/// A value inside `depth` lists: an element, or another list.
struct Level<'a, T> {
    found: &'a mut Found<T>,
    shape: &'a [usize],
    depth: usize,
}

impl<T: FromJson> Level<'_, T> {
    fn element<E: de::Error>(self, element: T) -> Result<(), E> {
        let found = self.found;
        if *found.leaf_depth.get_or_insert(self.depth) != self.depth {
            return Err(E::custom("elements are nested to different depths"));
        }
        if found.elements.len() == found.count {
            return Err(E::custom(format_args!("expected {} elements, as the shape says, found more", found.count)));
        }
        found.elements.push(element);
        Ok(())
    }

    /// The error for a value that is no element, and comes after those that were read.
    fn unfit<E: de::Error>(&self, value: &dyn fmt::Debug) -> E {
        E::custom(format_args!("element {}: expected {}, found {value:?}", self.found.elements.len(), T::EXPECTED))
    }
}

impl<'de, T: FromJson> DeserializeSeed<'de> for Level<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.depth {
            0 => deserializer.deserialize_seq(self),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de, T: FromJson> Visitor<'de> for Level<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.depth {
            0 => f.write_str("a list"),
            _ => f.write_str(T::EXPECTED),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { found, shape, depth } = self;
        // A scalar is in one list, too.
        if depth >= shape.len().max(1) {
            return Err(de::Error::custom("lists are nested deeper than the shape says"));
        }
        let mut length = 0;
        while list.next_element_seed(Level { found: &mut *found, shape, depth: depth + 1 })?.is_some() {
            length += 1;
        }
        let is_nested = depth > 0 || found.leaf_depth.is_some_and(|leaf_depth| leaf_depth > 1);
        if let (true, Some(expected)) = (is_nested, shape.get(depth).filter(|expected| **expected != length)) {
            return Err(de::Error::custom(format_args!(
                "expected {expected} elements in dimension {depth}, found {length}"
            )));
        }
        match found.leaf_depth {
            Some(leaf_depth) if leaf_depth > 1 && leaf_depth != shape.len() => {
                Err(de::Error::custom("lists are nested less deeply than the shape says"))
            }
            _ => Ok(()),
        }
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        let element = T::from_integer(value.into()).ok_or_else(|| self.unfit(&value))?;
        self.element(element)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        let element = T::from_integer(value.into()).ok_or_else(|| self.unfit(&value))?;
        self.element(element)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        let element = T::from_float(value).ok_or_else(|| self.unfit(&value))?;
        self.element(element)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        let element = T::from_boolean(value).ok_or_else(|| self.unfit(&value))?;
        self.element(element)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        let element = T::from_text(value).ok_or_else(|| self.unfit(&format_args!("a text")))?;
        self.element(element)
    }

    /// Reads `null` as NaN: pandas and KServe write NaN and the infinities as `null`.
    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        let element = T::from_bare("NaN").ok_or_else(|| self.unfit(&format_args!("null")))?;
        self.element(element)
    }

    /// A number that JSON lacks, as it was marked.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let expected = || self.unfit(&format_args!("an object"));
        let element = match map.next_entry::<Cow<'_, str>, Cow<'_, str>>()? {
            Some((key, name)) if key == BARE_NUMBER => T::from_bare(&name).ok_or_else(|| self.unfit(&name))?,
            _ => return Err(expected()),
        };
        if map.next_key::<de::IgnoredAny>()?.is_some() {
            return Err(expected());
        }
        self.element(element)
    }
}

/// An element that JSON can have.
trait FromJson: Sized {
    const EXPECTED: &'static str;

    fn from_integer(_: i128) -> Option<Self> {
        None
    }

    fn from_float(_: f64) -> Option<Self> {
        None
    }

    fn from_boolean(_: bool) -> Option<Self> {
        None
    }

    fn from_text(_: &str) -> Option<Self> {
        None
    }

    /// An element from the name of a number that JSON lacks, which no quotes are around.
    fn from_bare(_: &str) -> Option<Self> {
        None
    }
}

macro_rules! integers {
    ($($integer:ident: $expected:literal),*) => {$(
        impl FromJson for $integer {
            const EXPECTED: &'static str = $expected;

            fn from_integer(value: i128) -> Option<Self> {
                value.try_into().ok()
            }

            /// Programs write integers as `2.0`, too. From 2^53 on, which 2^53 + 1 is read as, a float no longer says which integer is
            /// meant.
            fn from_float(value: f64) -> Option<Self> {
                const EXACT: f64 = 9_007_199_254_740_992.0;
                (value.fract() == 0.0 && value.abs() < EXACT).then_some(value as i128)?.try_into().ok()
            }
        }
    )*};
}

integers!(
    i8: "an integer of INT8", i16: "an integer of INT16", i32: "an integer of INT32", i64: "an integer of INT64",
    u8: "an integer of UINT8", u16: "an integer of UINT16", u32: "an integer of UINT32", u64: "an integer of UINT64"
);

/// Numbers without a type are rounded, as decimals are.
macro_rules! floats {
    ($($float:ident, $of_integer:expr, $expected:literal;)*) => {$(
        impl FromJson for $float {
            const EXPECTED: &'static str = $expected;

            fn from_integer(value: i128) -> Option<Self> {
                $of_integer(value)
            }

            fn from_float(value: f64) -> Option<Self> {
                Self::of(NumberValue::Float(value)).ok()
            }

            fn from_text(value: &str) -> Option<Self> {
                Self::from_bare(value)
            }

            /// JSON has no numbers for these.
            fn from_bare(name: &str) -> Option<Self> {
                match name {
                    "NaN" => Some($float::NAN),
                    "Infinity" => Some($float::INFINITY),
                    "-Infinity" => Some($float::NEG_INFINITY),
                    _ => None,
                }
            }
        }
    )*};
}

floats! {
    f16, |value| Self::from_float(value as f64), "a number of FP16";
    bf16, |value| Self::from_float(value as f64), "a number of BF16";
    f32, |value| Some(value as Self), "a number of FP32";
    f64, |value| Some(value as Self), "a number of FP64";
}

impl FromJson for BoolByte {
    const EXPECTED: &'static str = "true or false";

    fn from_integer(value: i128) -> Option<Self> {
        matches!(value, 0 | 1).then_some(Self::from(value == 1))
    }

    fn from_boolean(value: bool) -> Option<Self> {
        Some(value.into())
    }
}

impl FromJson for String {
    const EXPECTED: &'static str = "a string";

    fn from_text(value: &str) -> Option<Self> {
        Some(value.to_owned())
    }
}

/// Serializes the elements of a tensor as a flat list. Numbers that JSON lacks are the strings `"NaN"`, `"Infinity"` and `"-Infinity"`.
pub(crate) struct FlatData<'a>(pub(crate) &'a Tensor);

impl Serialize for FlatData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Tensor::String(strings) => serializer.collect_seq(strings.elements()),
            Tensor::Bytes(bytes) => serializer.collect_seq(bytes_elements::texts(bytes, false).0),
            Tensor::Numeric(numbers) => with_number!(
                numbers.dtype(),
                T => {
                    let elements = numbers.to_vec::<T>().map_err(serde::ser::Error::custom)?;
                    let mut list = serializer.serialize_seq(Some(elements.len()))?;
                    for element in elements {
                        element.write(&mut list)?;
                    }
                    list.end()
                },
                else Err(serde::ser::Error::custom("a dtype that JSON cannot have"))
            ),
            _ => Err(serde::ser::Error::custom("the protocol has no nested tensors")),
        }
    }
}

/// An element as JSON.
trait ToJson {
    fn write<L: SerializeSeq>(self, list: &mut L) -> Result<(), L::Error>;
}

macro_rules! whole {
    ($($integer:ident),*) => {$(
        impl ToJson for $integer {
            fn write<L: SerializeSeq>(self, list: &mut L) -> Result<(), L::Error> {
                list.serialize_element(&self)
            }
        }
    )*};
}

whole!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! with_fractions {
    ($($float:ident),*) => {$(
        impl ToJson for $float {
            fn write<L: SerializeSeq>(self, list: &mut L) -> Result<(), L::Error> {
                match self {
                    // In its own type, because the shortest text of a float32 is not that of the same float64.
                    value if value.is_finite() => list.serialize_element(&value),
                    value if value.is_nan() => list.serialize_element("NaN"),
                    value if value > 0.0 => list.serialize_element("Infinity"),
                    _ => list.serialize_element("-Infinity"),
                }
            }
        }
    )*};
}

with_fractions!(f32, f64);

macro_rules! short {
    ($($float:ident),*) => {$(
        impl ToJson for $float {
            fn write<L: SerializeSeq>(self, list: &mut L) -> Result<(), L::Error> {
                self.to_f32().write(list)
            }
        }
    )*};
}

short!(f16, bf16, Float8E4m3Fn, Float8E5m2, Float8E4m3Fnuz, Float8E5m2Fnuz);

impl ToJson for BoolByte {
    fn write<L: SerializeSeq>(self, list: &mut L) -> Result<(), L::Error> {
        list.serialize_element(&self.get())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn check<T: Element>(json: &str, shape: &[usize], expected: Result<&[T], &str>) {
        let count = shape.iter().product();
        let found = parse(json, T::DTYPE, BytesElements::of(T::DTYPE), shape, count);
        let found = found.map(|tensor| tensor.as_numeric().unwrap().to_vec::<T>().unwrap());
        match expected {
            Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{json}"),
            Err(expected) => assert_eq!(found, Err(expected.to_owned()), "{json}"),
        }
    }

    #[test]
    fn flat_or_nested() {
        check("[1, 2, 3, 4]", &[2, 2], Ok(&[1_i32, 2, 3, 4]));
        check("[[1, 2], [3, 4]]", &[2, 2], Ok(&[1_i32, 2, 3, 4]));
        check("[[[1.5]]]", &[1, 1, 1], Ok(&[1.5_f32]));
        check("[7]", &[], Ok(&[7_u8]));
        check("[]", &[0, 3], Ok(&[] as &[f64]));
        check("[[], []]", &[2, 0], Ok(&[] as &[f64]));
        check("[2.0, -3e0]", &[2], Ok(&[2_i64, -3]));
        check("[\"Infinity\", 1]", &[2], Ok(&[f32::INFINITY, 1.0]));
        check("[{\"\":\"-Infinity\"}, 1]", &[2], Ok(&[f64::NEG_INFINITY, 1.0]));
        check("[true, 0, 1]", &[3], Ok(&[BoolByte(1), BoolByte(0), BoolByte(1)]));
        check("[0.1, 65519, -2]", &[3], Ok(&[f16::from_f32(0.1), f16::MAX, f16::from_f32(-2.0)]));
        check("[0.1]", &[1], Ok(&[bf16::from_f32(0.1)]));
        let nulls = parse("[null, 1]", DataType::Float32, BytesElements::of(DataType::Float32), &[2], 2).unwrap();
        assert!(nulls.as_numeric().unwrap().to_vec::<f32>().unwrap()[0].is_nan());
    }

    #[test]
    fn what_contradicts_the_shape_or_the_dtype() {
        check::<i32>("[1, 2, 3]", &[2, 2], Err("expected 4 elements, as the shape says, found 3"));
        check::<i32>("[1, 2, 3, 4, 5]", &[2, 2], Err("expected 4 elements, as the shape says, found more"));
        check::<i32>("[[1, 2, 3, 4]]", &[2, 2], Err("expected 2 elements in dimension 1, found 4"));
        check::<i32>("[[1, 2], 3, 4]", &[2, 2], Err("elements are nested to different depths"));
        check::<i32>("[[[1]], [[2]]]", &[2, 1], Err("lists are nested deeper than the shape says"));
        check::<i32>("[[1], [2]]", &[2, 1, 1], Err("lists are nested less deeply than the shape says"));
        check::<u8>("[256]", &[1], Err("element 0: expected an integer of UINT8, found 256"));
        check::<u8>("[0.5]", &[1], Err("element 0: expected an integer of UINT8, found 0.5"));
        check::<f32>("[1e300]", &[1], Err("element 0: expected a number of FP32, found 1e300"));
        check::<f32>("[\"x\"]", &[1], Err("element 0: expected a number of FP32, found a text"));
        check::<i64>(
            "[9007199254740993.0]",
            &[1],
            Err("element 0: expected an integer of INT64, found 9007199254740992.0"),
        );
        check::<i32>("5", &[], Err("invalid type: integer `5`, expected a list"));
        check::<i32>("[true]", &[1], Err("element 0: expected an integer of INT32, found true"));
        check::<i32>("[null]", &[1], Err("element 0: expected an integer of INT32, found null"));
        check::<i32>("[{\"\": \"NaN\"}]", &[1], Err("element 0: expected an integer of INT32, found \"NaN\""));
        check::<f32>("[{\"a\": \"NaN\"}]", &[1], Err("element 0: expected a number of FP32, found an object"));
        check::<f32>("[true]", &[1], Err("element 0: expected a number of FP32, found true"));
        check::<f16>("[[1, 2], [3, 65520]]", &[2, 2], Err("element 3: expected a number of FP16, found 65520"));
        check::<BoolByte>("[2]", &[1], Err("element 0: expected true or false, found 2"));
        check::<BoolByte>("[1.0]", &[1], Err("element 0: expected true or false, found 1.0"));
        check::<i32>("[1", &[1], Err("EOF while parsing a list"));
    }

    #[test]
    fn deep_lists_end_at_once() {
        let deep = "[".repeat(1_000_000);
        check::<i32>(&deep, &[1], Err("lists are nested deeper than the shape says"));
    }

    #[test]
    fn strings() {
        let parse = |json: &str, dtype, count| super::parse(json, dtype, BytesElements::of(dtype), &[count], count);
        let tensor = parse("[\"a\", \"\\u00e4\"]", DataType::String, 2).unwrap();
        assert_eq!(tensor.as_string().unwrap().elements(), ["a", "ä"]);
        assert_eq!(parse("[1]", DataType::String, 1), Err("element 0: expected a string, found 1".to_owned()));
        assert_eq!(parse("[null]", DataType::String, 1), Err("element 0: expected a string, found null".to_owned()));
        assert_eq!(parse("[\"\\u00e4\"]", DataType::Bytes, 1), Ok(Tensor::from_bytes(["\u{e4}"], vec![1]).unwrap()));
    }

    #[test]
    fn written_as_a_flat_list() {
        let write = |tensor: &Tensor| serde_json::to_string(&FlatData(tensor)).unwrap();
        let numbers = Tensor::from_vec(vec![1.0_f32, 0.1, f32::NAN, f32::NEG_INFINITY], vec![2, 2]).unwrap();
        assert_eq!(write(&numbers), "[1.0,0.1,\"NaN\",\"-Infinity\"]");
        assert_eq!(write(&Tensor::scalar(u64::MAX)), "[18446744073709551615]");
        assert_eq!(write(&Tensor::from_vec(vec![BoolByte(1), BoolByte(0)], vec![2]).unwrap()), "[true,false]");
        let halves = Tensor::from_vec(vec![f16::from_f32(0.5), f16::INFINITY], vec![2]).unwrap();
        assert_eq!(write(&halves), "[0.5,\"Infinity\"]");
        assert_eq!(write(&Tensor::from_strings(["a\""], vec![1]).unwrap()), "[\"a\\\"\"]");
    }
}
