//! The metadata of files and of their tensors.

use carton_tensor::any_file::TensorFile;
use carton_tensor::ztensor::{Attribute, Attributes};
use serde_json::{Number, Value};

use crate::error::TensorFilesError;
use crate::source::TensorSource;

/// Names and values, in the order of the file.
pub type Metadata = Vec<(String, Attribute)>;

impl TensorSource {
    /// Returns the metadata of the file: `__metadata__` of safetensors, the attributes of zTensor.
    ///
    /// # Errors
    /// The attributes are malformed, or beyond the limits.
    pub fn metadata(&self) -> Result<Metadata, TensorFilesError> {
        if let Some(reader) = self.as_ztensor() {
            return Ok(reader.manifest().attributes()?.into_iter().collect());
        }
        let pairs = self.file().map(TensorFile::metadata).transpose()?.unwrap_or_default();
        Ok(pairs.into_iter().map(|(key, value)| (key, Attribute::Text(value))).collect())
    }

    /// Returns the attributes of an object in a zTensor file; empty for other formats.
    ///
    /// # Errors
    /// There is no such object, or its attributes are malformed.
    pub fn attributes(&self, name: &str) -> Result<Attributes, TensorFilesError> {
        match self.as_ztensor() {
            Some(reader) => Ok(reader.object(name)?.attributes()?),
            None => Ok(Attributes::new()),
        }
    }
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
        Attribute::Bytes(bytes) => Value::String(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        Attribute::Array(values) => Value::Array(values.iter().map(attribute_to_json).collect()),
        Attribute::Map(pairs) => {
            let key = |key: &Attribute| key.as_text().map_or_else(|| attribute_to_json(key).to_string(), str::to_owned);
            Value::Object(pairs.iter().map(|(name, value)| (key(name), attribute_to_json(value))).collect())
        }
        Attribute::Tagged(_, value) => attribute_to_json(value),
        _ => Value::Null,
    }
}
