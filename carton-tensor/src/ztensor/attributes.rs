//! Attributes: what a file or an object says about itself beside its tensors (spec/ztensor.md §2.6).

use std::collections::BTreeMap;

use half::f16;
use minicbor::data::{Tag, Type};
use minicbor::encode::Encoder;

use super::ZTensorError;
use super::cbor::{MAX_DEPTH, Walker};
use super::name::Name;
use super::place::Place;

/// Attributes by name.
pub type Attributes = BTreeMap<String, Attribute>;

/// The most values that are decoded for one map of attributes.
pub(super) const MAX_ATTRIBUTES: usize = 1 << 20;

/// The value of an attribute: anything that CBOR can say.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Attribute {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer. CBOR has those from -2^64 to 2^64 - 1; others are not written.
    Integer(i128),
    /// A number with a fraction, of any precision.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Several values.
    Array(Vec<Attribute>),
    /// Values by keys, which need not be text.
    Map(Vec<(Attribute, Attribute)>),
    /// A value with a number that says how to understand it.
    Tagged(u64, Box<Attribute>),
    /// A value without a meaning of its own, of which CBOR has 256; `undefined` is number 23.
    Simple(u8),
}

impl Attribute {
    /// The text, if it is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, if it is one that fits.
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

/// Decodes a map of attributes that the manifest's parser has walked over already, so that it is well-formed, not nested too
/// deeply and without equal keys.
pub(super) fn decode(cbor: &[u8], at: &Place) -> Result<Attributes, ZTensorError> {
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

fn value(walker: &mut Walker<'_>, left: &mut usize, at: &Place) -> Result<Attribute, ZTensorError> {
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

/// What an encoder over a vector cannot fail with.
type Encoded = Result<(), minicbor::encode::Error<std::convert::Infallible>>;

/// Encodes a map of attributes as the manifest has it, if a reader would take it.
pub(super) fn encode(attributes: &Attributes, at: &Place) -> Result<Vec<u8>, ZTensorError> {
    let mut cbor = Vec::new();
    let mut encoder = Encoder::new(&mut cbor);
    let written = encoder.map(attributes.len() as u64).map(drop).and_then(|()| {
        attributes.iter().try_for_each(|(name, attribute)| {
            encoder.str(name)?;
            encode_value(&mut encoder, attribute, 0)
        })
    });
    written.map_err(|error| ZTensorError::Attributes { at: Box::new(at.clone()), problem: error.to_string() })?;
    // As deep as a reader finds those of an object.
    Walker::new(&cbor, 0).skip_attributes(super::parse::OBJECT_DEPTH, at)?;
    decode(&cbor, at)?;
    Ok(cbor)
}

fn encode_value(encoder: &mut Encoder<&mut Vec<u8>>, attribute: &Attribute, depth: usize) -> Encoded {
    // The reader's limit is told precisely afterwards; this one keeps the stack.
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

/// A float in the fewest bytes that hold it, as other writers do.
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
