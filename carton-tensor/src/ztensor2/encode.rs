//! Encodes a manifest in the core deterministic encoding of CBOR (spec/ztensor2.md §2). The keys of a map are sorted by their encoded bytes, and
//! numbers have the fewest bytes.

use half::f16;
use minicbor::encode::Encoder;

use super::types;
use crate::files::ElementType;
use crate::ztensor::{Attribute, Attributes};

/// An object that was written.
#[derive(Debug)]
pub(super) struct WrittenObject {
    pub(super) name: String,
    pub(super) dtype: ElementType,
    pub(super) shape: Vec<usize>,
    pub(super) attributes: Attributes,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) digest: String,
}

/// Encodes one item. Writing to a vector cannot fail.
fn item(write: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Encoder::new(&mut bytes));
    bytes
}

fn text(text: &str) -> Vec<u8> {
    item(|encoder| drop(encoder.str(text)))
}

fn unsigned(number: u64) -> Vec<u8> {
    item(|encoder| drop(encoder.u64(number)))
}

fn array(items: impl ExactSizeIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut bytes = item(|encoder| drop(encoder.array(items.len() as u64)));
    items.for_each(|item| bytes.extend(item));
    bytes
}

fn map(mut pairs: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    pairs.sort_unstable();
    let mut bytes = item(|encoder| drop(encoder.map(pairs.len() as u64)));
    for (key, value) in pairs {
        bytes.extend(key);
        bytes.extend(value);
    }
    bytes
}

/// Encodes the manifest of a file. A value that the format lacks is an error, in words.
pub(super) fn manifest(attributes: &Attributes, objects: &[WrittenObject]) -> Result<Vec<u8>, String> {
    let mut root = Vec::new();
    if !attributes.is_empty() {
        root.push((text("attributes"), self::attributes(attributes)?));
    }
    let objects = objects.iter().map(|written| Ok((text(&written.name), object(written)?)));
    root.push((text("objects"), map(objects.collect::<Result<_, String>>()?)));
    Ok(map(root))
}

fn object(written: &WrittenObject) -> Result<Vec<u8>, String> {
    let lacks = || format!("the format has no elements of {}", written.dtype);
    let (dtype, logical) = types::spelling(written.dtype).ok_or_else(lacks)?;
    let mut data = vec![
        (text("dtype"), text(dtype)),
        (text("blob"), array([written.offset, written.length].into_iter().map(unsigned))),
        (text("digest"), text(&written.digest)),
    ];
    data.extend(logical.map(|logical| (text("type"), text(logical))));
    let mut fields = vec![
        (text("shape"), array(written.shape.iter().map(|&size| unsigned(size as u64)))),
        (text("layout"), text("dense")),
        (text("parts"), map(vec![(text("data"), map(data))])),
    ];
    if !written.attributes.is_empty() {
        fields.push((text("attributes"), attributes(&written.attributes)?));
    }
    Ok(map(fields))
}

fn attributes(attributes: &Attributes) -> Result<Vec<u8>, String> {
    let pairs = attributes.iter().map(|(name, attribute)| Ok((text(name), value(attribute, 0)?)));
    Ok(map(pairs.collect::<Result<_, String>>()?))
}

fn value(attribute: &Attribute, depth: usize) -> Result<Vec<u8>, String> {
    // The check of the finished manifest counts exactly. This one prevents a stack overflow.
    if depth > super::cbor::MAX_DEPTH {
        return Err("values are nested too deeply".to_owned());
    }
    Ok(match attribute {
        Attribute::Null => item(|encoder| drop(encoder.null())),
        Attribute::Bool(value) => item(|encoder| drop(encoder.bool(*value))),
        Attribute::Integer(integer) => {
            let integer = minicbor::data::Int::try_from(*integer);
            let integer = integer.map_err(|_| "an integer is beyond what CBOR has".to_owned())?;
            item(|encoder| drop(encoder.int(integer)))
        }
        Attribute::Float(float) => self::float(*float),
        Attribute::Text(content) => text(content),
        Attribute::Bytes(bytes) => item(|encoder| drop(encoder.bytes(bytes))),
        Attribute::Array(values) => {
            let values: Result<Vec<_>, String> = values.iter().map(|item| value(item, depth + 1)).collect();
            array(values?.into_iter())
        }
        Attribute::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, item)| Ok((value(key, depth + 1)?, value(item, depth + 1)?)));
            map(pairs.collect::<Result<_, String>>()?)
        }
        _ => return Err("a value has a tag, or is a simple value, which this version lacks".to_owned()),
    })
}

/// Encodes a float in the fewest bytes that hold it. There is one NaN.
fn float(float: f64) -> Vec<u8> {
    let (half, single) = (f16::from_f64(float), float as f32);
    if float.is_nan() {
        vec![0xf9, 0x7e, 0x00]
    } else if half.to_f64() == float {
        [&[0xf9][..], &half.to_bits().to_be_bytes()].concat()
    } else if f64::from(single) == float {
        [&[0xfa][..], &single.to_bits().to_be_bytes()].concat()
    } else {
        [&[0xfb][..], &float.to_bits().to_be_bytes()].concat()
    }
}
