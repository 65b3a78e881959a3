//! Builds files of zTensor 2 byte by byte, also ones that no library writes.

use std::io::Write;

use twox_hash::XxHash3_64;

pub(crate) const MAGIC: &[u8] = b"\x89ZT2\r\n\x1a\n";
pub(crate) const ZSTD: &str = "zt.zstd-seekable/1";

/// A value of CBOR.
#[derive(Clone)]
pub(crate) enum Value {
    Number(u64),
    Text(String),
    Array(Vec<Value>),
    /// Written in the order of encoded keys.
    Map(Vec<(Value, Value)>),
    /// Bytes that are encoded already, or are no CBOR.
    Raw(Vec<u8>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

pub(crate) fn map<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Map(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

pub(crate) fn array(numbers: &[u64]) -> Value {
    Value::Array(numbers.iter().copied().map(Value::Number).collect())
}

fn head(major: u8, number: u64) -> Vec<u8> {
    let first = |information: u8| vec![major << 5 | information];
    match number {
        0..=23 => first(number as u8),
        24..=0xff => [first(24), vec![number as u8]].concat(),
        0x100..=0xffff => [first(25), (number as u16).to_be_bytes().to_vec()].concat(),
        0x1_0000..=0xffff_ffff => [first(26), (number as u32).to_be_bytes().to_vec()].concat(),
        _ => [first(27), number.to_be_bytes().to_vec()].concat(),
    }
}

impl Value {
    pub(crate) fn encoded(&self) -> Vec<u8> {
        match self {
            Self::Number(number) => head(0, *number),
            Self::Text(text) => [head(3, text.len() as u64), text.as_bytes().to_vec()].concat(),
            Self::Array(values) => {
                [head(4, values.len() as u64), values.iter().flat_map(Self::encoded).collect()].concat()
            }
            Self::Map(pairs) => {
                let mut encoded: Vec<(Vec<u8>, Vec<u8>)> =
                    pairs.iter().map(|(key, value)| (key.encoded(), value.encoded())).collect();
                encoded.sort();
                [
                    head(5, pairs.len() as u64),
                    encoded.into_iter().flat_map(|(key, value)| [key, value].concat()).collect(),
                ]
                .concat()
            }
            Self::Raw(bytes) => bytes.clone(),
        }
    }

    /// Sets a field of the map at a path.
    pub(crate) fn with(mut self, path: &[&str], value: impl Into<Value>) -> Self {
        self.set(path, Some(value.into()));
        self
    }

    /// Removes the field at a path.
    pub(crate) fn without(mut self, path: &[&str]) -> Self {
        self.set(path, None);
        self
    }

    fn set(&mut self, path: &[&str], new: Option<Value>) {
        let Self::Map(pairs) = self else { panic!("no map at {path:?}") };
        let found = pairs.iter().position(|(key, _)| matches!(key, Self::Text(text) if text == path[0]));
        match (path.len(), found, new) {
            (1, Some(found), Some(new)) => pairs[found].1 = new,
            (1, Some(found), None) => drop(pairs.remove(found)),
            (1, None, Some(new)) => pairs.push((path[0].into(), new)),
            (_, Some(found), new) => pairs[found].1.set(&path[1..], new),
            _ => panic!("no {path:?}"),
        }
    }
}

/// A file with these blobs, each at a multiple of 4096 from 4096 on, and then this manifest.
pub(crate) fn file(blobs: &[&[u8]], manifest: &Value) -> Vec<u8> {
    raw_file(blobs, &manifest.encoded())
}

pub(crate) fn raw_file(blobs: &[&[u8]], manifest: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for blob in blobs.iter().copied().chain([manifest]) {
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        bytes.extend_from_slice(blob);
    }
    let offset = (bytes.len() - manifest.len()) as u64;
    bytes.extend(footer(offset, manifest.len() as u64, XxHash3_64::oneshot(manifest), 2));
    bytes
}

pub(crate) fn footer(offset: u64, length: u64, hash: u64, version: u32) -> Vec<u8> {
    let numbers = [offset, length, hash].map(u64::to_le_bytes).concat();
    [numbers.as_slice(), &version.to_le_bytes(), &[0; 4], MAGIC].concat()
}

/// A manifest with one object, `x`.
pub(crate) fn one(object: Value) -> Value {
    map([("objects", map([("x", object)]))])
}

pub(crate) fn part(dtype: &str, offset: u64, length: u64) -> Value {
    map([("dtype", dtype.into()), ("blob", array(&[offset, length]))])
}

/// A dense object of 4 bytes at byte 4096.
pub(crate) fn dense() -> Value {
    object("dense", &[4], [("data", part("u8", 4096, 4))])
}

pub(crate) fn object<const N: usize>(layout: &str, shape: &[u64], parts: [(&str, Value); N]) -> Value {
    map([("shape", array(shape)), ("layout", layout.into()), ("parts", map(parts))])
}

pub(crate) fn xxh3(bytes: &[u8]) -> String {
    format!("xxh3:{:016x}", XxHash3_64::oneshot(bytes))
}

/// A frame of zstd, with a checksum.
pub(crate) fn frame(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Frames, each with the size that the table states, and the table.
pub(crate) fn seekable(frames: &[(Vec<u8>, u32)]) -> Vec<u8> {
    let mut bytes: Vec<u8> = frames.iter().flat_map(|(frame, _)| frame.clone()).collect();
    bytes.extend(0x184D_2A5E_u32.to_le_bytes());
    bytes.extend((frames.len() as u32 * 8 + 9).to_le_bytes());
    for (frame, size) in frames {
        bytes.extend((frame.len() as u32).to_le_bytes());
        bytes.extend(size.to_le_bytes());
    }
    bytes.extend((frames.len() as u32).to_le_bytes());
    bytes.push(0);
    bytes.extend(0x8F92_EAB1_u32.to_le_bytes());
    bytes
}

/// A dense object of compressed bytes at byte 4096.
pub(crate) fn compressed(stored: &[u8], length: u64) -> Value {
    let data = part("u8", 4096, stored.len() as u64).with(&["encoding"], ZSTD).with(&["decoded_length"], length);
    object("dense", &[length], [("data", data)])
}
