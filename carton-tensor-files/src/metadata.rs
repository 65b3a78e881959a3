//! The metadata of files and of their tensors.

use carton_tensor::any_file::TensorFile;
use carton_tensor::gguf;
use carton_tensor::ztensor::{Attribute, Attributes};
use serde_json::{Number, Value};

use crate::error::TensorFilesError;
use crate::source::TensorSource;

/// Names and values, in the order of the file.
pub type Metadata = Vec<(String, Attribute)>;

impl TensorSource {
    /// Returns the metadata of the file: `__metadata__` of safetensors, the attributes of zTensor, the keys of GGUF but for its
    /// [long arrays](Self::long_arrays), what an ONNX model says of itself (spec/onnx-tensors.md §5).
    ///
    /// # Errors
    /// The attributes are malformed, or beyond the limits.
    pub fn metadata(&self) -> Result<Metadata, TensorFilesError> {
        if let Some(reader) = self.as_ztensor() {
            return Ok(reader.manifest().attributes()?.into_iter().collect());
        }
        if let Some(reader) = self.as_ztensor2() {
            return Ok(reader.manifest().attributes()?.into_iter().collect());
        }
        if let Some(first) = self.file().and_then(|file| file.as_gguf()?.first()) {
            let pairs = first.header().metadata().iter().filter(|(_, value)| is_whole(value));
            return Ok(pairs.map(|(key, value)| (key.clone(), attribute_of_gguf(value))).collect());
        }
        let pairs = self.file().map(TensorFile::metadata).transpose()?.unwrap_or_default();
        Ok(pairs.into_iter().map(|(key, value)| (key, Attribute::Text(value))).collect())
    }

    /// Returns the arrays of the metadata of a GGUF file of which only the first values are known, each in words: the words of a tokenizer, its
    /// scores. Other formats have none.
    #[must_use]
    pub fn long_arrays(&self) -> Metadata {
        let first = self.file().and_then(|file| file.as_gguf()?.first());
        let pairs = first.into_iter().flat_map(|first| first.header().metadata());
        let long = pairs.filter_map(|(key, value)| match value {
            gguf::Value::Array(array) if !array.is_whole() => Some((key.clone(), Attribute::Text(in_words(array)))),
            _ => None,
        });
        long.collect()
    }

    /// Returns the attributes of an object in a zTensor file; empty for other formats.
    ///
    /// # Errors
    /// There is no such object, or its attributes are malformed.
    pub fn attributes(&self, name: &str) -> Result<Attributes, TensorFilesError> {
        match (self.as_ztensor(), self.as_ztensor2()) {
            (Some(reader), _) => Ok(reader.object(name)?.attributes()?),
            (None, Some(reader)) => Ok(reader.object(name)?.attributes()?),
            (None, None) => Ok(Attributes::new()),
        }
    }
}

fn is_whole(value: &gguf::Value) -> bool {
    if let gguf::Value::Array(array) = value { array.is_whole() } else { true }
}

/// Describes an array by its first values and its length.
fn in_words(array: &gguf::Array) -> String {
    const SHOWN: usize = 4;
    const MAX_CHARACTERS: usize = 80;
    let first = array.first.iter().take(SHOWN).map(|value| match value {
        gguf::Value::Text(text) => Value::String(text.chars().take(MAX_CHARACTERS).collect()).to_string(),
        gguf::Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        gguf::Value::Array(array) => format!("{} values", array.len),
        number => attribute_to_json(&attribute_of_gguf(number)).to_string(),
    });
    let first: Vec<String> = first.collect();
    format!("[{}, …] ({} values of {})", first.join(", "), array.len, array.item)
}

/// Converts a value of a GGUF file.
fn attribute_of_gguf(value: &gguf::Value) -> Attribute {
    match value {
        gguf::Value::Unsigned(value) => Attribute::Integer((*value).into()),
        gguf::Value::Signed(value) => Attribute::Integer((*value).into()),
        gguf::Value::Float32(value) => Attribute::Float((*value).into()),
        gguf::Value::Float64(value) => Attribute::Float(*value),
        gguf::Value::Bool(value) => Attribute::Bool(*value),
        gguf::Value::Text(text) => Attribute::Text(text.clone()),
        gguf::Value::Bytes(bytes) => Attribute::Bytes(bytes.clone()),
        gguf::Value::Array(array) if !array.is_whole() => Attribute::Text(in_words(array)),
        gguf::Value::Array(array) => Attribute::Array(array.first.iter().map(attribute_of_gguf).collect()),
        _ => Attribute::Null,
    }
}

fn in_hexadecimal(bytes: &[u8]) -> String {
    let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// Converts an attribute to JSON. Values that JSON lacks become text: bytes in hexadecimal digits, large integers and NaN in their usual
/// form. Values without a meaning of their own become null.
#[must_use]
pub fn attribute_to_json(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Bool(value) => Value::Bool(*value),
        Attribute::Integer(value) => {
            let number = i64::try_from(*value).map(Number::from).or_else(|_| u64::try_from(*value).map(Number::from));
            number.map_or_else(|_| Value::String(value.to_string()), Value::Number)
        }
        Attribute::Float(value) => {
            Number::from_f64(*value).map_or_else(|| Value::String(value.to_string()), Value::Number)
        }
        Attribute::Text(text) => Value::String(text.clone()),
        Attribute::Bytes(bytes) => Value::String(in_hexadecimal(bytes)),
        Attribute::Array(values) => Value::Array(values.iter().map(attribute_to_json).collect()),
        Attribute::Map(pairs) => {
            let key = |key: &Attribute| key.as_text().map_or_else(|| attribute_to_json(key).to_string(), str::to_owned);
            Value::Object(pairs.iter().map(|(name, value)| (key(name), attribute_to_json(value))).collect())
        }
        Attribute::Tagged(_, value) => attribute_to_json(value),
        _ => Value::Null,
    }
}
