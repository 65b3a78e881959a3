//! Attributes: metadata of a file or an object in addition to its tensors (spec/ztensor.md §2.6).

use std::collections::BTreeMap;

use half::f16;
use minicbor::data::{Tag, Type};
use minicbor::encode::Encoder;

use super::ZTensorError;
use super::cbor::{MAX_DEPTH, OBJECT_DEPTH, Walker};
use super::name::Name;
use super::place::FilePart;

/// Attributes by name.
pub type Attributes = BTreeMap<String, Attribute>;

/// The most values that are decoded for one map of attributes.
pub(super) const MAX_ATTRIBUTES: usize = 1 << 20;

/// The value of an attribute: any CBOR value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Attribute {
    /// Null.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer. CBOR can hold integers from -2^64 to 2^64 - 1; the writer refuses others.
    Integer(i128),
    /// A floating-point number of any precision.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A list of values.
    Array(Vec<Attribute>),
    /// Values by keys, which can be of any type.
    Map(Vec<(Attribute, Attribute)>),
    /// A value with a tag number that defines its interpretation.
    Tagged(u64, Box<Attribute>),
    /// One of the 256 simple values of CBOR, which have no content; `undefined` is number 23.
    Simple(u8),
}

impl Attribute {
    /// Returns the text, if the value is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the integer, if the value is an integer that fits in `i64`.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(integer) => i64::try_from(*integer).ok(),
            _ => None,
        }
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Attribute {
    fn from(integer: i64) -> Self {
        Self::Integer(integer.into())
    }
}

impl From<f64> for Attribute {
    fn from(float: f64) -> Self {
        Self::Float(float)
    }
}

impl From<bool> for Attribute {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// Decodes a map of attributes. The parser of the manifest has already checked that the map is well-formed, is not nested too deeply
/// and has no equal keys.
pub(super) fn decode(cbor: &[u8], at: &FilePart) -> Result<Attributes, ZTensorError> {
    let mut walker = Walker::new(cbor, 0);
    let mut left = MAX_ATTRIBUTES;
    let mut attributes = Attributes::new();
    let mut items = walker.map()?;
    while walker.more(&mut items)? {
        let key = walker.text()?.into_owned();
        let attribute = value(&mut walker, &mut left, at)?;
        if attributes.contains_key(&key) {
            return Err(ZTensorError::DuplicateKey { at: Box::new(at.clone()), key: Name::new(&key) });
        }
        attributes.insert(key, attribute);
    }
    Ok(attributes)
}

fn value(walker: &mut Walker<'_>, left: &mut usize, at: &FilePart) -> Result<Attribute, ZTensorError> {
    let Some(fewer) = left.checked_sub(1) else {
        return Err(ZTensorError::TooManyAttributes { at: Box::new(at.clone()), limit: MAX_ATTRIBUTES });
    };
    *left = fewer;
    let start = walker.position();
    let kind = walker.peek()?;
    let scalar = match kind {
        Type::Map | Type::MapIndef => {
            let mut items = walker.map()?;
            let mut map = Vec::new();
            while walker.more(&mut items)? {
                map.push((value(walker, left, at)?, value(walker, left, at)?));
            }
            return Ok(Attribute::Map(map));
        }
        Type::Array | Type::ArrayIndef => {
            let mut items = walker.array()?;
            let mut array = Vec::new();
            while walker.more(&mut items)? {
                array.push(value(walker, left, at)?);
            }
            return Ok(Attribute::Array(array));
        }
        Type::Tag => {
            let tag = walker.decoder().tag().map_err(|error| walker.wrong(start, "a tag", &error))?;
            return Ok(Attribute::Tagged(tag.as_u64(), Box::new(value(walker, left, at)?)));
        }
        Type::String | Type::StringIndef => return Ok(Attribute::Text(walker.text()?.into_owned())),
        Type::Bytes | Type::BytesIndef => walker.decoder().bytes_iter().and_then(|pieces| {
            let pieces: Result<Vec<&[u8]>, _> = pieces.collect();
            Ok(Attribute::Bytes(pieces?.concat()))
        }),
        Type::Null => walker.decoder().null().map(|()| Attribute::Null),
        Type::Undefined => walker.decoder().undefined().map(|()| Attribute::Simple(23)),
        Type::Bool => walker.decoder().bool().map(Attribute::Bool),
        Type::F16 | Type::F32 | Type::F64 => walker.decoder().f64().map(Attribute::Float),
        Type::Simple => walker.decoder().simple().map(Attribute::Simple),
        _ => walker.decoder().int().map(|integer| Attribute::Integer(integer.into())),
    };
    scalar.map_err(|error| walker.wrong(start, "a value", &error))
}

/// The result of an encoder whose output, a vector, cannot fail.
type Encoded = Result<(), minicbor::encode::Error<std::convert::Infallible>>;

/// Encodes a map of attributes for the manifest. Fails if a reader would refuse it.
pub(super) fn encode(attributes: &Attributes, at: &FilePart) -> Result<Vec<u8>, ZTensorError> {
    let mut cbor = Vec::new();
    let mut encoder = Encoder::new(&mut cbor);
    let written = encoder.map(attributes.len() as u64).map(drop).and_then(|()| {
        attributes.iter().try_for_each(|(name, attribute)| {
            encoder.str(name)?;
            encode_value(&mut encoder, attribute, 0)
        })
    });
    written.map_err(|error| ZTensorError::Attributes { at: Box::new(at.clone()), problem: error.to_string() })?;
    // Checks the nesting from the depth at which the attributes of an object start.
    Walker::new(&cbor, 0).skip_attributes(OBJECT_DEPTH, at)?;
    decode(&cbor, at)?;
    Ok(cbor)
}

fn encode_value(encoder: &mut Encoder<&mut Vec<u8>>, attribute: &Attribute, depth: usize) -> Encoded {
    // The check of the reader's limit follows and gives a precise error. This one prevents a stack overflow.
    if depth > MAX_DEPTH {
        return Err(minicbor::encode::Error::message("they are nested too deeply"));
    }
    match attribute {
        Attribute::Null => encoder.null()?,
        Attribute::Bool(value) => encoder.bool(*value)?,
        Attribute::Integer(integer) => encoder.int(
            minicbor::data::Int::try_from(*integer)
                .map_err(|_| minicbor::encode::Error::message("an integer is beyond what CBOR has"))?,
        )?,
        Attribute::Float(float) => return encode_float(encoder, *float),
        Attribute::Text(text) => encoder.str(text)?,
        Attribute::Bytes(bytes) => encoder.bytes(bytes)?,
        Attribute::Array(array) => {
            encoder.array(array.len() as u64)?;
            return array.iter().try_for_each(|value| encode_value(encoder, value, depth + 1));
        }
        Attribute::Map(map) => {
            encoder.map(map.len() as u64)?;
            return map.iter().try_for_each(|(key, value)| {
                encode_value(encoder, key, depth + 1)?;
                encode_value(encoder, value, depth + 1)
            });
        }
        Attribute::Tagged(tag, value) => {
            encoder.tag(Tag::new(*tag))?;
            return encode_value(encoder, value, depth + 1);
        }
        Attribute::Simple(23) => encoder.undefined()?,
        Attribute::Simple(20..=31) => {
            return Err(minicbor::encode::Error::message("a simple value means something else, or nothing"));
        }
        Attribute::Simple(value) => encoder.simple(*value)?,
    };
    Ok(())
}

/// Encodes a float in the fewest bytes that hold it exactly, like other writers.
fn encode_float(encoder: &mut Encoder<&mut Vec<u8>>, float: f64) -> Encoded {
    let (half, single) = (f16::from_f64(float), float as f32);
    if float.is_nan() || half.to_f64() == float {
        encoder.f16(half.to_f32())?;
    } else if f64::from(single) == float {
        encoder.f32(single)?;
    } else {
        encoder.f64(float)?;
    }
    Ok(())
}
