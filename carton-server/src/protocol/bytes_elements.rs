//! The elements of the datatype `BYTES`, which strings and bytes share. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carton_core::tensor::BytesTensor;
use carton_core::{DataType, StringTensor, Tensor};

use super::parameter::{Parameter, Parameters};

/// The parameter of an input or output that says what its elements are, as MLServer has it.
const CONTENT_TYPE: &str = "content_type";
/// The elements are the base64 (RFC 4648, section 4) of what is meant.
const BASE64: &str = "base64";

/// What the elements of an input of `BYTES` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BytesElements {
    dtype: DataType,
    is_base64: bool,
}

impl BytesElements {
    /// Elements as they are, of strings or of bytes.
    #[cfg(test)]
    pub(crate) fn of(dtype: DataType) -> Self {
        Self { dtype, is_base64: false }
    }

    /// Elements for an input that is declared with this dtype, if with any. What is sent as base64 is taken as bytes where nothing is declared.
    pub(crate) fn declared(declared: Option<DataType>, is_base64: bool) -> Self {
        let dtype = match declared {
            Some(DataType::Bytes) => DataType::Bytes,
            None if is_base64 => DataType::Bytes,
            _ => DataType::String,
        };
        Self { dtype, is_base64 }
    }

    /// The tensor of these elements, as many as the shape has.
    ///
    /// # Errors
    /// An element is not base64, or not UTF-8 where strings are needed.
    pub(crate) fn tensor(self, mut elements: Vec<Vec<u8>>, shape: Vec<usize>) -> Result<Tensor, String> {
        if self.is_base64 {
            for (position, element) in elements.iter_mut().enumerate() {
                let decoded = STANDARD.decode(element.as_slice());
                *element = decoded.map_err(|error| {
                    format!("element {position} is not base64, as the input's parameter says: {error}")
                })?;
            }
        }
        if self.dtype == DataType::Bytes {
            return BytesTensor::new(elements, shape).map(Tensor::Bytes).map_err(|error| error.to_string());
        }
        let text = |(position, element)| {
            String::from_utf8(element).map_err(|_| {
                format!(
                    "element {position} is not UTF-8, as an input of strings needs; one that takes any bytes is declared with \
                     `dtype = \"bytes\"`"
                )
            })
        };
        let texts = elements.into_iter().enumerate().map(text).collect::<Result<_, _>>()?;
        StringTensor::new(texts, shape).map(Tensor::String).map_err(|error| error.to_string())
    }
}

/// Whether the parameters say that elements are base64.
pub(crate) fn is_base64(parameters: &Parameters) -> bool {
    matches!(parameters.get(CONTENT_TYPE), Some(Parameter::Text(text)) if text == BASE64)
}

/// What an output says of its elements, if they are base64.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Base64Parameters {
    content_type: &'static str,
}

/// The parameters of an output whose elements are base64.
pub(crate) const BASE64_PARAMETERS: Base64Parameters = Base64Parameters { content_type: BASE64 };

/// The bytes as texts that JSON can have, and whether they are base64: all of them are, or none.
pub(crate) fn texts(bytes: &BytesTensor, in_base64: bool) -> (Vec<String>, bool) {
    let text = |element: &Vec<u8>| String::from_utf8(element.clone()).ok();
    let texts = if in_base64 { None } else { bytes.elements().iter().map(text).collect::<Option<Vec<_>>>() };
    match texts {
        Some(texts) => (texts, false),
        None => (bytes.elements().iter().map(|element| STANDARD.encode(element)).collect(), true),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_an_input_takes() {
        let make = |declared, is_base64, element: &str| {
            BytesElements::declared(declared, is_base64).tensor(vec![element.as_bytes().to_vec()], vec![1])
        };
        let bytes = |bytes: &[u8]| Tensor::from_bytes([bytes.to_vec()], vec![1]).unwrap();
        let text = |text: &str| Tensor::from_strings([text], vec![1]).unwrap();
        assert_eq!(make(Some(DataType::Bytes), false, "/w=="), Ok(bytes(b"/w==")));
        assert_eq!(make(Some(DataType::Bytes), true, "/w=="), Ok(bytes(b"\xff")));
        assert_eq!(make(None, true, "/w=="), Ok(bytes(b"\xff")));
        assert_eq!(make(None, false, "/w=="), Ok(text("/w==")));
        assert_eq!(make(Some(DataType::String), true, "YQ=="), Ok(text("a")));
        assert!(make(Some(DataType::String), true, "/w==").unwrap_err().contains("element 0 is not UTF-8"));
        assert!(make(Some(DataType::Bytes), true, "-").unwrap_err().contains("element 0 is not base64"));
    }

    #[test]
    fn texts_of_bytes() {
        let tensor = |elements: &[&[u8]]| {
            BytesTensor::new(elements.iter().map(|one| one.to_vec()).collect(), vec![elements.len()]).unwrap()
        };
        assert_eq!(
            texts(&tensor(&[b"a", "\u{e4}".as_bytes()]), false),
            (vec!["a".to_owned(), "\u{e4}".to_owned()], false)
        );
        assert_eq!(texts(&tensor(&[b"a", b"\xff"]), false), (vec!["YQ==".to_owned(), "/w==".to_owned()], true));
        assert_eq!(texts(&tensor(&[b"a"]), true), (vec!["YQ==".to_owned()], true));
    }
}
