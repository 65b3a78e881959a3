//! Converts tensors to JSON, as `carton run --json` prints them.
//!
//! The form is `{"dtype", "shape", "data"}`, with data as nested lists. Numbers that JSON lacks are the strings `"NaN"`, `"Infinity"` and
//! `"-Infinity"`; complex numbers are pairs, and bytes are base64. A nested tensor has `"shapes"` in place of `"shape"`.

use carton_tensor::{
    BoolByte, Complex, Float8E4m3Fn, Float8E4m3Fnuz, Float8E5m2, Float8E5m2Fnuz, NumericTensor, Tensor, bf16, carried,
    element_count, f16,
};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::elements::with_elements;

/// Writes `"dtype"` and `"shape"`, or `"shapes"` for a nested tensor.
pub(super) fn serialize_kind<M: SerializeMap>(tensor: &Tensor, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("dtype", &tensor.dtype())?;
    match tensor {
        Tensor::Nested(nested) => {
            let shapes: Vec<_> = nested.elements().iter().map(Tensor::shape).collect();
            map.serialize_entry("shapes", &shapes)
        }
        other => map.serialize_entry("shape", &other.shape()),
    }
}

/// Serializes a tensor. Numbers are written one by one, so that a large tensor needs no second copy.
pub(crate) struct JsonTensor<'a>(pub(crate) &'a Tensor);

impl Serialize for JsonTensor<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        serialize_kind(self.0, &mut map)?;
        map.serialize_entry("data", &Data(self.0))?;
        map.end()
    }
}

/// Returns the parts of a tensor along its first dimension, each as one line of JSON.
pub(crate) fn json_rows(tensor: &Tensor) -> Vec<String> {
    match tensor {
        Tensor::Numeric(numbers) => {
            with_elements!(numbers, elements => rows(&elements, numbers.shape()), else Vec::new())
        }
        Tensor::String(strings) => rows(strings.elements(), strings.shape()),
        Tensor::Bytes(_) => carried(tensor).map(|base64| json_rows(&base64)).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn rows<T: JsonElement>(elements: &[T], shape: &[usize]) -> Vec<String> {
    // Without elements, the first dimension may have any size.
    let Some((&length, inner)) = shape.split_first().filter(|_| !elements.is_empty()) else { return Vec::new() };
    let stride = elements.len().checked_div(length).unwrap_or(0);
    let row = |index| {
        let elements = elements.get(index * stride..(index + 1) * stride).unwrap_or_default();
        // Writing to memory, with text for keys, cannot fail.
        serde_json::to_string(&Lists { elements, shape: inner }).unwrap_or_default()
    };
    (0..length).map(row).collect()
}

/// The nested lists of a tensor.
struct Data<'a>(&'a Tensor);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Tensor::Numeric(tensor) => serialize_numeric(tensor, serializer),
            Tensor::String(tensor) => {
                Lists { elements: tensor.elements(), shape: tensor.shape() }.serialize(serializer)
            }
            Tensor::Bytes(_) => Data(&carried(self.0).map_err(serde::ser::Error::custom)?).serialize(serializer),
            Tensor::Nested(tensor) => serializer.collect_seq(tensor.elements().iter().map(Data)),
            // A kind of tensor that this version does not know.
            _ => serializer.serialize_none(),
        }
    }
}

fn serialize_numeric<S: Serializer>(tensor: &NumericTensor, serializer: S) -> Result<S::Ok, S::Error> {
    let shape = tensor.shape();
    with_elements!(tensor, elements => Lists { elements: &elements, shape }.serialize(serializer), else serializer.serialize_none())
}

/// The largest number of empty inner lists that a tensor without elements is written as. Beyond it, the tensor is written as one empty
/// list.
const MAX_EMPTY_LISTS: usize = 1024;

/// Elements in C order as lists in lists.
struct Lists<'a, T> {
    elements: &'a [T],
    shape: &'a [usize],
}

impl<T: JsonElement> Serialize for Lists<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let before_empty = self.shape.split(|&dimension| dimension == 0).next().unwrap_or_default();
        if self.elements.is_empty() && element_count(before_empty).is_none_or(|lists| lists > MAX_EMPTY_LISTS) {
            // The shape says everything, and writing 2^40 empty lists would never end.
            return serializer.serialize_seq(Some(0))?.end();
        }
        let Some((&length, inner)) = self.shape.split_first() else {
            return match self.elements.first() {
                Some(element) => One(element).serialize(serializer),
                None => serializer.serialize_none(),
            };
        };
        let mut list = serializer.serialize_seq(Some(length))?;
        if inner.is_empty() {
            for element in self.elements {
                list.serialize_element(&One(element))?;
            }
        } else {
            let stride = self.elements.len().checked_div(length).unwrap_or(0);
            for index in 0..length {
                let elements = self.elements.get(index * stride..(index + 1) * stride).unwrap_or_default();
                list.serialize_element(&Lists { elements, shape: inner })?;
            }
        }
        list.end()
    }
}

struct One<'a, T>(&'a T);

impl<T: JsonElement> Serialize for One<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_element(serializer)
    }
}

/// An element that can be written as JSON.
trait JsonElement {
    fn serialize_element<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

impl JsonElement for String {
    fn serialize_element<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl JsonElement for $integer {
            fn serialize_element<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.serialize(serializer)
            }
        }
    )*};
}

macro_rules! floats {
    ($($float:ty),*) => {$(
        impl JsonElement for $float {
            fn serialize_element<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if self.is_nan() {
                    serializer.serialize_str("NaN")
                } else if self.is_infinite() {
                    serializer.serialize_str(if *self > 0.0 { "Infinity" } else { "-Infinity" })
                } else {
                    // In its own type, because the shortest text of a float32 is not that of the same float64.
                    self.serialize(serializer)
                }
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);
floats!(f32, f64);

macro_rules! short_floats {
    ($($float:ty),*) => {$(
        impl JsonElement for $float {
            fn serialize_element<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.to_f32().serialize_element(serializer)
            }
        }
    )*};
}

short_floats!(f16, bf16, Float8E4m3Fn, Float8E5m2, Float8E4m3Fnuz, Float8E5m2Fnuz);

impl<T: JsonElement> JsonElement for Complex<T> {
    fn serialize_element<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pair = serializer.serialize_seq(Some(2))?;
        pair.serialize_element(&One(&self.re))?;
        pair.serialize_element(&One(&self.im))?;
        pair.end()
    }
}

impl JsonElement for BoolByte {
    fn serialize_element<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(self.get())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rows_as_json() {
        let check = |tensor: Tensor, expected: &[&str]| assert_eq!(json_rows(&tensor), expected);
        check(Tensor::from_vec(vec![0.1_f32, f32::NAN, 1e10], vec![3]).unwrap(), &["0.1", "\"NaN\"", "10000000000.0"]);
        check(Tensor::from_vec(vec![0.1_f32, 0.2, 0.3, 0.4], vec![2, 2]).unwrap(), &["[0.1,0.2]", "[0.3,0.4]"]);
        check(Tensor::from_vec(Vec::<i64>::new(), vec![0]).unwrap(), &[]);
        check(Tensor::from_vec(Vec::<i64>::new(), vec![1 << 40, 0]).unwrap(), &[]);
        check(Tensor::from_strings(["a", "\n"], vec![2]).unwrap(), &["\"a\"", "\"\\n\""]);
    }

    #[test]
    fn tensors_as_json() {
        let check = |tensor: Tensor, expected: &str| {
            assert_eq!(serde_json::to_string(&JsonTensor(&tensor)).unwrap(), expected);
        };
        check(Tensor::scalar(0.1_f32), r#"{"dtype":"float32","shape":[],"data":0.1}"#);
        check(
            Tensor::from_vec(vec![1_u8, 2, 3, 4], vec![2, 2]).unwrap(),
            r#"{"dtype":"uint8","shape":[2,2],"data":[[1,2],[3,4]]}"#,
        );
        check(
            Tensor::from_vec(vec![BoolByte(1), BoolByte(0)], vec![2]).unwrap(),
            r#"{"dtype":"bool","shape":[2],"data":[true,false]}"#,
        );
        check(
            Tensor::from_vec(vec![Complex::new(1.0_f32, f32::NAN)], vec![1]).unwrap(),
            r#"{"dtype":"complex64","shape":[1],"data":[[1.0,"NaN"]]}"#,
        );
        check(
            Tensor::from_bytes([vec![0xff], vec![]], vec![2]).unwrap(),
            r#"{"dtype":"bytes","shape":[2],"data":["/w==",""]}"#,
        );
        check(
            Tensor::from_vec(vec![f16::from_f32(0.5), f16::INFINITY], vec![2]).unwrap(),
            r#"{"dtype":"float16","shape":[2],"data":[0.5,"Infinity"]}"#,
        );
        check(
            Tensor::from_vec(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0], vec![4]).unwrap(),
            r#"{"dtype":"float64","shape":[4],"data":["NaN","Infinity","-Infinity",1.0]}"#,
        );
        check(
            Tensor::from_vec(Vec::<i64>::new(), vec![2, 0]).unwrap(),
            r#"{"dtype":"int64","shape":[2,0],"data":[[],[]]}"#,
        );
        check(
            Tensor::from_vec(Vec::<i64>::new(), vec![1 << 40, 0]).unwrap(),
            r#"{"dtype":"int64","shape":[1099511627776,0],"data":[]}"#,
        );
        check(Tensor::from_vec(Vec::<i64>::new(), vec![0, 2]).unwrap(), r#"{"dtype":"int64","shape":[0,2],"data":[]}"#);
        check(
            Tensor::from_strings(["a", "\""], vec![2]).unwrap(),
            r#"{"dtype":"string","shape":[2],"data":["a","\""]}"#,
        );
        check(
            Tensor::nested(vec![Tensor::scalar(1_i32), Tensor::from_vec(vec![2, 3], vec![2]).unwrap()]).unwrap(),
            r#"{"dtype":"int32","shapes":[[],[2]],"data":[1,[2,3]]}"#,
        );
    }
}
