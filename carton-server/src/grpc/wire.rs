//! The fields of a protobuf message, as protobuf's encoding lays them out. Pure.
//!
//! An inference request is read by this and not into generated types, because those take up to 160 times the memory of the bytes that a
//! hostile client sends: an input without fields has two bytes.

use bytes::{Buf, Bytes};

use crate::failure::Failure;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Numbers of any size, and booleans.
    Varint(u64),
    Fixed64([u8; 8]),
    /// Text, bytes, a message, or a list of numbers.
    Bytes(Bytes),
    Fixed32([u8; 4]),
}

/// How the value of a field is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Varint,
    Fixed64,
    Length,
    Fixed32,
}

/// A number that is read byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Varint {
    value: u64,
    n_bits: u32,
}

/// The fields of a message. Reading ends at the end of the bytes.
#[derive(Debug)]
pub(super) struct Fields(pub(super) Bytes);

impl Varint {
    /// Adds a byte. Returns the number if it was the last.
    ///
    /// # Errors
    /// The number has more than 64 bits.
    pub(super) fn push(&mut self, byte: u8) -> Result<Option<u64>, Failure> {
        let bits = u64::from(byte & 0x7f);
        if self.n_bits > 63 || self.n_bits == 63 && bits > 1 {
            return Err(malformed("a number has more than 64 bits"));
        }
        self.value |= bits << self.n_bits;
        self.n_bits += 7;
        Ok((byte & 0x80 == 0).then_some(self.value))
    }
}

/// Takes a number off the front.
///
/// # Errors
/// It is cut off, or has more than 64 bits.
pub(super) fn varint(bytes: &mut Bytes) -> Result<u64, Failure> {
    let mut varint = Varint::default();
    for (position, byte) in bytes.iter().enumerate() {
        if let Some(value) = varint.push(*byte)? {
            bytes.advance(position + 1);
            return Ok(value);
        }
    }
    Err(malformed("a number is cut off"))
}

/// The number and encoding of a field from its key.
///
/// # Errors
/// The key is not valid, or begins a group, which no message of the protocol has.
pub(super) fn key(key: u64) -> Result<(u32, Kind), Failure> {
    let kind = match key & 7 {
        0 => Kind::Varint,
        1 => Kind::Fixed64,
        2 => Kind::Length,
        5 => Kind::Fixed32,
        _ => return Err(malformed("a field has an encoding that the protocol does not use")),
    };
    let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0);
    number.map(|number| (number, kind)).ok_or_else(|| malformed("a field has an invalid number"))
}

/// The request is not protobuf.
pub(super) fn malformed(reason: &str) -> Failure {
    Failure::invalid(format!("the request is not valid protobuf: {reason}"))
}

fn cut_off() -> Failure {
    malformed("a field is cut off")
}

fn fixed<const N: usize>(bytes: &mut Bytes) -> Result<[u8; N], Failure> {
    let value = bytes.first_chunk().copied().ok_or_else(cut_off)?;
    bytes.advance(N);
    Ok(value)
}

impl Fields {
    /// The next field: its number and value. `None` at the end.
    ///
    /// # Errors
    /// The bytes are not a message.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value)>, Failure> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (number, kind) = key(varint(&mut self.0)?)?;
        Ok(Some((number, Value::take(&mut self.0, kind)?)))
    }
}

impl Value {
    /// Takes a value off the front.
    ///
    /// # Errors
    /// It is cut off, or a number of it has more than 64 bits.
    pub(super) fn take(bytes: &mut Bytes, kind: Kind) -> Result<Self, Failure> {
        Ok(match kind {
            Kind::Varint => Self::Varint(varint(bytes)?),
            Kind::Fixed64 => Self::Fixed64(fixed(bytes)?),
            Kind::Fixed32 => Self::Fixed32(fixed(bytes)?),
            Kind::Length => {
                let n_bytes = usize::try_from(varint(bytes)?).ok().filter(|n_bytes| *n_bytes <= bytes.len());
                Self::Bytes(n_bytes.map(|n_bytes| bytes.split_to(n_bytes)).ok_or_else(cut_off)?)
            }
        })
    }

    /// The bytes of a field that has a length.
    ///
    /// # Errors
    /// It has another encoding than the protocol says.
    pub(super) fn bytes(self) -> Result<Bytes, Failure> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(malformed("a field has an encoding that the protocol does not use")),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes), or it is not UTF-8.
    pub(super) fn text(self) -> Result<String, Failure> {
        text(&self.bytes()?)
    }
}

/// A text.
///
/// # Errors
/// It is not UTF-8.
pub(super) fn text(bytes: &[u8]) -> Result<String, Failure> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| malformed("a text is not UTF-8"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<(u32, Value)>, String> {
        let mut fields = Fields(Bytes::copy_from_slice(bytes));
        let mut found = Vec::new();
        while let Some(field) = fields.next().map_err(|failure| failure.message)? {
            found.push(field);
        }
        Ok(found)
    }

    #[test]
    fn every_encoding() {
        let bytes = b"\x08\x96\x01\x11\x01\0\0\0\0\0\0\x02\x1a\x03abc\x25\x01\0\0\x02\x80\x7d\x00";
        let expected = vec![
            (1, Value::Varint(150)),
            (2, Value::Fixed64([1, 0, 0, 0, 0, 0, 0, 2])),
            (3, Value::Bytes(Bytes::from_static(b"abc"))),
            (4, Value::Fixed32([1, 0, 0, 2])),
            (2000, Value::Varint(0)),
        ];
        assert_eq!(fields(bytes), Ok(expected));
        let most = [0xff; 9].into_iter().chain([1]).collect::<Vec<u8>>();
        assert_eq!(varint(&mut most.into()), Ok(u64::MAX));
    }

    #[test]
    fn every_prefix_of_a_message_is_an_error_or_ends_between_fields() {
        let bytes = b"\x08\x96\x01\x11\x01\0\0\0\0\0\0\x02\x1a\x03abc\x25\x01\0\0\x02";
        let whole: Vec<usize> = (0..=bytes.len()).filter(|end| fields(&bytes[..*end]).is_ok()).collect();
        assert_eq!(whole, [0, 3, 12, 17, 22]);
    }

    #[test]
    fn lies() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(fields(bytes), Err(format!("the request is not valid protobuf: {expected}")), "{bytes:?}");
        };
        check(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01ab", "a field is cut off");
        check(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02ab", "a number has more than 64 bits");
        check(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a number has more than 64 bits");
        check(b"\x08\x80", "a number is cut off");
        check(b"\x00\x00", "a field has an invalid number");
        check(b"\x0b", "a field has an encoding that the protocol does not use");
        check(b"\xf8\xff\xff\xff\xff\xff\xff\xff\xff\x01\0", "a field has an invalid number");
    }
}
