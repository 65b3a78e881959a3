//! The elements of a tensor in the field for its datatype (`InferTensorContents`). Pure.
//!
//! No list can make this allocate more than the shape, which the caller has compared with its limits.

use bytes::Bytes;
use carton_core::tensor::{BoolByte, Element, bf16, f16};
use carton_core::{DataType, NumericTensor, Tensor};

use super::request::Input;
use super::wire::{Fields, Kind, Value};
use crate::failure::Failure;
use crate::protocol::datatype;
use crate::protocol::parameter::Place;

/// The fields of the message, by their numbers.
const FIELDS: [&str; 8] = [
    "bool_contents",
    "int_contents",
    "int64_contents",
    "uint_contents",
    "uint64_contents",
    "fp32_contents",
    "fp64_contents",
    "bytes_contents",
];

/// Parses the elements of an input, which is declared with this dtype, if with any.
///
/// # Errors
/// The elements are in another field than the one for the dtype, do not have its range, or are not as many as the shape says.
pub(super) fn parse(input: &Input, contents: Bytes, declared: Option<DataType>) -> Result<Tensor, Failure> {
    let (place, shape, count) = (Place::input(&input.name), input.shape.clone(), input.count);
    match input.dtype {
        DataType::Float32 => numbers::<f32>(place, contents, shape, count),
        DataType::Float64 => numbers::<f64>(place, contents, shape, count),
        DataType::Int8 => numbers::<i8>(place, contents, shape, count),
        DataType::Int16 => numbers::<i16>(place, contents, shape, count),
        DataType::Int32 => numbers::<i32>(place, contents, shape, count),
        DataType::Int64 => numbers::<i64>(place, contents, shape, count),
        DataType::Uint8 => numbers::<u8>(place, contents, shape, count),
        DataType::Uint16 => numbers::<u16>(place, contents, shape, count),
        DataType::Uint32 => numbers::<u32>(place, contents, shape, count),
        DataType::Uint64 => numbers::<u64>(place, contents, shape, count),
        DataType::Bool => numbers::<BoolByte>(place, contents, shape, count),
        DataType::Float16 => numbers::<f16>(place, contents, shape, count),
        DataType::BFloat16 => numbers::<bf16>(place, contents, shape, count),
        DataType::String | DataType::Bytes => {
            let elements = elements::<Vec<u8>>(place, contents, DataType::Bytes, count)?;
            let tensor = input.kind(declared).tensor(elements, shape);
            tensor.map_err(|reason| Failure::invalid(format!("{place}: {reason}")))
        }
        other => Err(Failure::invalid(format!("{place}: the dtype {other} is not known"))),
    }
}

fn numbers<T: Typed + Element>(
    place: Place<'_>,
    contents: Bytes,
    shape: Vec<usize>,
    count: usize,
) -> Result<Tensor, Failure> {
    let elements = elements::<T>(place, contents, T::DTYPE, count)?;
    let tensor = NumericTensor::from_vec(elements, shape);
    tensor.map(Tensor::Numeric).map_err(|error| Failure::invalid(format!("{place}: {error}")))
}

fn elements<T: Typed>(place: Place<'_>, contents: Bytes, dtype: DataType, count: usize) -> Result<Vec<T>, Failure> {
    let invalid = |reason: String| Failure::invalid(format!("{place}: {reason}"));
    let most = contents.len() / min_bytes(T::KIND);
    let mut found = Vec::with_capacity(count.min(most));
    let mut push = |value: Value| {
        if found.len() == count {
            return Err(invalid(format!("expected {count} elements, as the shape says, found more")));
        }
        let unfit = || format!("element {} is not {} {}", found.len(), T::EXPECTED, datatype::name(dtype));
        let element = T::of(value).ok_or_else(|| invalid(unfit()));
        found.push(element?);
        Ok(())
    };
    let mut fields = Fields(contents);
    while let Some((number, value)) = fields.next()? {
        match value {
            // Clients may write a list without elements.
            Value::Bytes(list) if list.is_empty() && number != FIELD_OF_BYTES => {}
            value if number != T::FIELD => {
                let name = |number: u32| number.checked_sub(1).and_then(|index| FIELDS.get(index as usize)).copied();
                // A field of a later version of the protocol.
                let Some(other) = name(number) else { continue };
                drop(value);
                let (dtype, expected) = (datatype::name(dtype), name(T::FIELD).unwrap_or_default());
                return Err(invalid(format!("expected `{expected}` for {dtype}, found `{other}`")));
            }
            Value::Bytes(mut list) if T::KIND != Kind::Length => {
                while !list.is_empty() {
                    push(Value::take(&mut list, T::KIND)?)?;
                }
            }
            value => push(value)?,
        }
    }
    if found.len() != count {
        return Err(invalid(format!("expected {count} elements, as the shape says, found {}", found.len())));
    }
    Ok(found)
}

const FIELD_OF_BYTES: u32 = 8;

/// The fewest bytes that an element takes.
fn min_bytes(kind: Kind) -> usize {
    match kind {
        Kind::Varint => 1,
        // The key and the length.
        Kind::Length => 2,
        Kind::Fixed32 => 4,
        Kind::Fixed64 => 8,
    }
}

/// An element that the message has a field for.
trait Typed: Sized {
    /// The number of the field.
    const FIELD: u32;
    const KIND: Kind;
    /// What an element must be, before the name of the datatype.
    const EXPECTED: &'static str = "in the range of";

    /// The element of a value. `None` if it does not have the range of the type.
    fn of(value: Value) -> Option<Self>;
}

macro_rules! varints {
    ($($element:ty, $field:literal, $wide:ty;)*) => {$(
        impl Typed for $element {
            const FIELD: u32 = $field;
            const KIND: Kind = Kind::Varint;

            fn of(value: Value) -> Option<Self> {
                match value {
                    // Protobuf reads the lowest bits of a number as one of the field's type.
                    Value::Varint(value) => (value as $wide).try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}

varints! {
    i8, 2, i32;
    i16, 2, i32;
    i32, 2, i32;
    i64, 3, i64;
    u8, 4, u32;
    u16, 4, u32;
    u32, 4, u32;
    u64, 5, u64;
}

impl Typed for f32 {
    const FIELD: u32 = 6;
    const KIND: Kind = Kind::Fixed32;

    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Fixed32(bytes) => Some(Self::from_le_bytes(bytes)),
            _ => None,
        }
    }
}

impl Typed for f64 {
    const FIELD: u32 = 7;
    const KIND: Kind = Kind::Fixed64;

    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Fixed64(bytes) => Some(Self::from_le_bytes(bytes)),
            _ => None,
        }
    }
}

impl Typed for BoolByte {
    const FIELD: u32 = 1;
    const KIND: Kind = Kind::Varint;

    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Varint(value) => Some(Self::from(value != 0)),
            _ => None,
        }
    }
}

/// The protocol has no field for short floats. Those of FP32 are taken, if each is a value of the type.
macro_rules! short_floats {
    ($($float:ident),*) => {$(
        impl Typed for $float {
            const FIELD: u32 = f32::FIELD;
            const KIND: Kind = f32::KIND;
            const EXPECTED: &'static str = "a value of";

            fn of(value: Value) -> Option<Self> {
                let wide = f32::of(value)?;
                let short = Self::from_f32(wide);
                (short.to_f32() == wide || wide.is_nan()).then_some(short)
            }
        }
    )*};
}

short_floats!(f16, bf16);

impl Typed for Vec<u8> {
    const FIELD: u32 = FIELD_OF_BYTES;
    const KIND: Kind = Kind::Length;

    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use prost::Message;

    use super::super::proto::InferTensorContents;
    use super::*;

    fn parsed(contents: &InferTensorContents, dtype: DataType, shape: &[usize]) -> Result<Tensor, String> {
        let count = shape.iter().product();
        let parsed = parse(&input(dtype, shape.to_vec(), count), contents.encode_to_vec().into(), Some(dtype));
        parsed.map_err(|failure| failure.message)
    }

    fn input(dtype: DataType, shape: Vec<usize>, count: usize) -> Input {
        Input { name: "x".to_owned(), dtype, shape, count, is_base64: false, contents: None }
    }

    #[test]
    fn every_dtype() {
        fn check<T: Element>(dtype: DataType, elements: [T; 3], contents: InferTensorContents) {
            let expected = Tensor::from_vec(elements.to_vec(), vec![3]).unwrap();
            assert_eq!(parsed(&contents, dtype, &[3]), Ok(expected));
        }
        let contents = InferTensorContents::default;
        let int_contents = |elements: [i32; 3]| InferTensorContents { int_contents: elements.to_vec(), ..contents() };
        check(DataType::Int8, [-128_i8, 127, 0], int_contents([-128, 127, 0]));
        check(DataType::Int16, [i16::MIN, i16::MAX, -1], int_contents([-32768, 32767, -1]));
        check(DataType::Int32, [i32::MIN, i32::MAX, -1], int_contents([i32::MIN, i32::MAX, -1]));
        let longs = [i64::MIN, i64::MAX, -1];
        check(DataType::Int64, longs, InferTensorContents { int64_contents: longs.to_vec(), ..contents() });
        let uint_contents = |elements: [u32; 3]| InferTensorContents { uint_contents: elements.to_vec(), ..contents() };
        check(DataType::Uint8, [0_u8, 255, 1], uint_contents([0, 255, 1]));
        check(DataType::Uint16, [0_u16, u16::MAX, 1], uint_contents([0, 65535, 1]));
        check(DataType::Uint32, [0, u32::MAX, 1], uint_contents([0, u32::MAX, 1]));
        let longs = [0, u64::MAX, 1];
        check(DataType::Uint64, longs, InferTensorContents { uint64_contents: longs.to_vec(), ..contents() });
        let floats = [0.1_f32, -0.0, f32::MAX];
        check(DataType::Float32, floats, InferTensorContents { fp32_contents: floats.to_vec(), ..contents() });
        let floats = [0.1_f64, -0.0, f64::MAX];
        check(DataType::Float64, floats, InferTensorContents { fp64_contents: floats.to_vec(), ..contents() });
        let strings = ["", "ä", "two words"];
        let bytes = strings.map(|string| Bytes::from_static(string.as_bytes())).to_vec();
        let found = parsed(&InferTensorContents { bytes_contents: bytes, ..contents() }, DataType::String, &[3]);
        assert_eq!(found, Ok(Tensor::from_strings(strings, vec![3]).unwrap()));
        let bytes = vec![Bytes::from_static(b"\xff"), Bytes::new(), Bytes::from_static(b"\0")];
        let found = parsed(&InferTensorContents { bytes_contents: bytes, ..contents() }, DataType::Bytes, &[3]);
        assert_eq!(found, Ok(Tensor::from_bytes([vec![0xff], vec![], vec![0]], vec![3]).unwrap()));
        let bools = [true, false, true];
        let expected = bools.map(BoolByte::from);
        check(DataType::Bool, expected, InferTensorContents { bool_contents: bools.to_vec(), ..contents() });
        let halves = InferTensorContents { fp32_contents: vec![0.5, -2.0, f32::INFINITY], ..contents() };
        check(DataType::Float16, [f16::from_f32(0.5), f16::from_f32(-2.0), f16::INFINITY], halves.clone());
        check(DataType::BFloat16, [bf16::from_f32(0.5), bf16::from_f32(-2.0), bf16::INFINITY], halves);
    }

    /// Lists may be written element by element, and in parts.
    #[test]
    fn lists_in_every_form() {
        let check = |bytes: &'static [u8], dtype, expected: Tensor| {
            let found = parse(&input(dtype, vec![3], 3), Bytes::from_static(bytes), None);
            assert_eq!(found, Ok(expected));
        };
        let bytes = Tensor::from_vec(vec![1_u8, 200, 3], vec![3]).unwrap();
        check(b"\x22\x04\x01\xc8\x01\x03", DataType::Uint8, bytes.clone());
        check(b"\x20\x01\x20\xc8\x01\x20\x03", DataType::Uint8, bytes.clone());
        check(b"\x22\x01\x01\x22\x00\x32\x00\x22\x03\xc8\x01\x03", DataType::Uint8, bytes);
        let floats = Tensor::from_vec(vec![1.0_f32, 2.0, 0.5], vec![3]).unwrap();
        check(b"\x35\0\0\x80\x3f\x32\x08\0\0\0\x40\0\0\0\x3f", DataType::Float32, floats);
    }

    #[test]
    fn what_is_refused() {
        let check = |contents: InferTensorContents, dtype, shape: &[usize], expected: &str| {
            assert_eq!(parsed(&contents, dtype, shape).unwrap_err(), format!("input `x`: {expected}"));
        };
        let contents = InferTensorContents::default;
        let ints = || InferTensorContents { int_contents: vec![1, 128], ..contents() };
        check(ints(), DataType::Int8, &[2], "element 1 is not in the range of INT8");
        check(ints(), DataType::Float32, &[2], "expected `fp32_contents` for FP32, found `int_contents`");
        check(ints(), DataType::Int16, &[1], "expected 1 elements, as the shape says, found more");
        check(ints(), DataType::Int16, &[3], "expected 3 elements, as the shape says, found 2");
        check(
            contents(),
            DataType::String,
            &[1 << 60],
            "expected 1152921504606846976 elements, as the shape says, found 0",
        );
        let booleans = InferTensorContents { bool_contents: vec![true], ..contents() };
        check(booleans, DataType::Uint8, &[1], "expected `uint_contents` for UINT8, found `bool_contents`");
        let bytes = InferTensorContents { bytes_contents: vec![Bytes::from_static(b"\xff")], ..contents() };
        check(
            bytes,
            DataType::String,
            &[1],
            "element 0 is not UTF-8, as an input of strings needs; one that takes any bytes is declared with `dtype = \"bytes\"`",
        );
        let tenth = InferTensorContents { fp32_contents: vec![0.1], ..contents() };
        check(tenth, DataType::Float16, &[1], "element 0 is not a value of FP16");
        let cut_off = parse(&input(DataType::Float32, vec![1], 1), Bytes::from_static(b"\x32\x03\0\0\0"), None);
        assert_eq!(cut_off.unwrap_err().message, "the request is not valid protobuf: a field is cut off");
    }
}
