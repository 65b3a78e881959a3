//! Reads CBOR in its core deterministic encoding (spec/ztensor2.md §2.1). Whatever is not the only encoding of a value is refused, so that
//! two equal keys have the same bytes.

use half::f16;

use super::ZTensor2Error;
use super::error::malformed;
use crate::ztensor::{Attribute, Attributes, Span};

/// The deepest value, counted from the manifest itself, which has depth 0.
pub(super) const MAX_DEPTH: usize = 32;
/// The most values that are decoded for one map of attributes.
const MAX_ATTRIBUTES: usize = 1 << 20;

/// A position in a manifest.
pub(super) struct Cursor<'b> {
    input: &'b [u8],
    /// Where the input is in the file.
    base: u64,
    position: usize,
}

/// One value, or the head of one with items.
enum Item<'b> {
    Unsigned(u64),
    /// The number -1 - n.
    Negative(u64),
    Bytes(&'b [u8]),
    Text(&'b str),
    /// The number of items.
    Array(u64),
    /// The number of pairs.
    Map(u64),
    Bool(bool),
    Null,
    Float(f64),
}

/// The key of a map.
#[derive(Clone, Copy)]
pub(super) struct Key<'b> {
    /// The key, if it is text.
    pub(super) text: Option<&'b str>,
    /// Where its text is in the input.
    pub(super) span: Span,
    /// Where the key is in the file.
    pub(super) at: u64,
}

impl<'b> Cursor<'b> {
    pub(super) fn new(input: &'b [u8], base: u64) -> Self {
        Self { input, base, position: 0 }
    }

    /// The position in the file.
    pub(super) fn at(&self) -> u64 {
        self.base + self.position as u64
    }

    /// The position in the manifest, which has at most 1 GiB.
    pub(super) fn position(&self) -> u32 {
        self.position as u32
    }

    /// Refuses bytes after the value.
    pub(super) fn check_end(&self) -> Result<(), ZTensor2Error> {
        match self.left() {
            0 => Ok(()),
            left => Err(malformed("2.1", self.at(), format!("{left} bytes follow the manifest's map"))),
        }
    }

    fn left(&self) -> usize {
        self.input.len() - self.position
    }

    fn take(&mut self, n_bytes: u64) -> Result<&'b [u8], ZTensor2Error> {
        let left = self.left();
        let end = usize::try_from(n_bytes).ok().and_then(|n_bytes| self.position.checked_add(n_bytes));
        let Some(bytes) = end.and_then(|end| self.input.get(self.position..end)) else {
            let problem = format!("{n_bytes} bytes are claimed where the manifest has {left} more");
            return Err(malformed("2.1", self.at(), problem));
        };
        self.position += bytes.len();
        Ok(bytes)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], ZTensor2Error> {
        Ok(self.take(N as u64)?.first_chunk().copied().unwrap_or([0; N]))
    }

    /// Reads the number in a head, which must have the fewest bytes.
    fn argument(&mut self, information: u8, at: u64) -> Result<u64, ZTensor2Error> {
        let (number, least) = match information {
            small @ ..24 => return Ok(small.into()),
            24 => (u8::from_be_bytes(self.number()?).into(), 24),
            25 => (u16::from_be_bytes(self.number()?).into(), 1 << 8),
            26 => (u32::from_be_bytes(self.number()?).into(), 1 << 16),
            27 => (u64::from_be_bytes(self.number()?), 1 << 32),
            31 => return Err(malformed("2.1", at, "an indefinite length, expected a definite one")),
            _ => return Err(malformed("2.1", at, format!("a head with the reserved information {information}"))),
        };
        if number < least {
            return Err(malformed("2.1", at, format!("the number {number} in more bytes than it needs")));
        }
        Ok(number)
    }

    fn item(&mut self) -> Result<Item<'b>, ZTensor2Error> {
        let at = self.at();
        let [first] = self.number()?;
        let (major, information) = (first >> 5, first & 31);
        if major == 7 {
            return self.simple(information, at);
        }
        if major == 6 {
            return Err(malformed("2.1", at, "a tag, expected none"));
        }
        let argument = self.argument(information, at)?;
        // Each item takes a byte at least, and each pair two.
        let (left, n_items) = (self.left() as u64, if major == 5 { argument.saturating_mul(2) } else { argument });
        if matches!(major, 4 | 5) && n_items > left {
            let problem = format!("{argument} items are claimed where the manifest has {left} more bytes");
            return Err(malformed("2.1", at, problem));
        }
        Ok(match major {
            0 => Item::Unsigned(argument),
            1 => Item::Negative(argument),
            2 => Item::Bytes(self.take(argument)?),
            3 => {
                let text = std::str::from_utf8(self.take(argument)?);
                Item::Text(text.map_err(|error| malformed("2.1", at, format!("text that is not UTF-8: {error}")))?)
            }
            4 => Item::Array(argument),
            _ => Item::Map(argument),
        })
    }

    /// Reads a simple value or a float. There is one NaN, and a float has the fewest bytes that hold it.
    fn simple(&mut self, information: u8, at: u64) -> Result<Item<'b>, ZTensor2Error> {
        let (float, is_shortest) = match information {
            20 => return Ok(Item::Bool(false)),
            21 => return Ok(Item::Bool(true)),
            22 => return Ok(Item::Null),
            25 => {
                let bits = u16::from_be_bytes(self.number()?);
                let half = f16::from_bits(bits);
                (half.to_f64(), !half.is_nan() || bits == 0x7e00)
            }
            26 => {
                let single = f32::from_be_bytes(self.number()?);
                (f64::from(single), !single.is_nan() && f16::from_f32(single).to_f32() != single)
            }
            27 => {
                let double = f64::from_be_bytes(self.number()?);
                (double, !double.is_nan() && f64::from(double as f32) != double)
            }
            _ => {
                return Err(malformed(
                    "2.1",
                    at,
                    format!("the simple value {information}, expected a bool, null or a float"),
                ));
            }
        };
        if is_shortest {
            Ok(Item::Float(float))
        } else {
            Err(malformed("2.1", at, format!("the float {float} in an encoding that is not its shortest")))
        }
    }

    fn check_depth(&self, depth: usize) -> Result<(), ZTensor2Error> {
        if depth > MAX_DEPTH {
            return Err(malformed("2.1", self.at(), format!("values are nested more than {MAX_DEPTH} deep")));
        }
        Ok(())
    }

    /// Passes over a value of any type.
    pub(super) fn skip(&mut self, depth: usize) -> Result<(), ZTensor2Error> {
        self.check_depth(depth)?;
        match self.item()? {
            Item::Array(n_items) => (0..n_items).try_for_each(|_| self.skip(depth + 1)),
            Item::Map(n_pairs) => self.pairs(n_pairs, depth, &mut |cursor, _| cursor.skip(depth + 1)),
            _ => Ok(()),
        }
    }

    /// Passes the keys of a map to `each`, which must read the value of each.
    pub(super) fn map(
        &mut self,
        depth: usize,
        what: &str,
        each: &mut dyn FnMut(&mut Self, Key<'b>) -> Result<(), ZTensor2Error>,
    ) -> Result<(), ZTensor2Error> {
        let at = self.at();
        match self.item()? {
            Item::Map(n_pairs) => self.pairs(n_pairs, depth, each),
            _ => Err(wrong_type(at, what, "a map")),
        }
    }

    fn pairs(
        &mut self,
        n_pairs: u64,
        depth: usize,
        each: &mut dyn FnMut(&mut Self, Key<'b>) -> Result<(), ZTensor2Error>,
    ) -> Result<(), ZTensor2Error> {
        let mut previous: &[u8] = &[];
        for position in 0..n_pairs {
            let (start, at) = (self.position, self.at());
            self.skip(depth + 1)?;
            let encoded = self.input.get(start..self.position).unwrap_or_default();
            if position > 0 && encoded <= previous {
                let problem =
                    if encoded == previous { "a map has a key twice" } else { "the keys of a map are not in order" };
                return Err(malformed("2.1", at, problem));
            }
            previous = encoded;
            let text = match Cursor::new(encoded, at).item()? {
                Item::Text(text) => Some(text),
                _ => None,
            };
            // A text is the end of its encoding.
            let length = text.map_or(0, str::len);
            let span = Span { start: (self.position - length) as u32, end: self.position as u32 };
            each(self, Key { text, span, at })?;
        }
        Ok(())
    }

    pub(super) fn unsigned(&mut self, what: &str) -> Result<u64, ZTensor2Error> {
        let at = self.at();
        match self.item()? {
            Item::Unsigned(number) => Ok(number),
            _ => Err(wrong_type(at, what, "an integer that is not negative")),
        }
    }

    /// Reads text, and returns where it is too.
    pub(super) fn text(&mut self, what: &str) -> Result<(&'b str, Span), ZTensor2Error> {
        let at = self.at();
        match self.item()? {
            Item::Text(text) => {
                Ok((text, Span { start: (self.position - text.len()) as u32, end: self.position as u32 }))
            }
            _ => Err(wrong_type(at, what, "text")),
        }
    }

    /// Reads the head of an array, and returns how many items follow.
    pub(super) fn array(&mut self, what: &str) -> Result<u64, ZTensor2Error> {
        let at = self.at();
        match self.item()? {
            Item::Array(n_items) => Ok(n_items),
            _ => Err(wrong_type(at, what, "an array")),
        }
    }
}

fn wrong_type(at: u64, what: &str, expected: &str) -> ZTensor2Error {
    malformed("2.1", at, format!("`{what}` is not {expected}"))
}

/// Decodes a map of attributes, which the parser of the manifest has checked.
pub(super) fn attributes(cbor: &[u8], base: u64) -> Result<Attributes, ZTensor2Error> {
    let mut left = MAX_ATTRIBUTES;
    let mut attributes = Attributes::new();
    Cursor::new(cbor, base).map(0, "attributes", &mut |cursor, key| {
        let value = value(cursor, &mut left, 0)?;
        attributes.extend(key.text.map(|text| (text.to_owned(), value)));
        Ok(())
    })?;
    Ok(attributes)
}

fn value(cursor: &mut Cursor<'_>, left: &mut usize, depth: usize) -> Result<Attribute, ZTensor2Error> {
    let Some(fewer) = left.checked_sub(1) else {
        let problem = format!("a map of attributes has more than {MAX_ATTRIBUTES} values, which are not decoded");
        return Err(ZTensor2Error::Unsupported { section: "2.6", problem });
    };
    *left = fewer;
    cursor.check_depth(depth)?;
    Ok(match cursor.item()? {
        Item::Unsigned(number) => Attribute::Integer(number.into()),
        Item::Negative(number) => Attribute::Integer(-1 - i128::from(number)),
        Item::Bytes(bytes) => Attribute::Bytes(bytes.to_vec()),
        Item::Text(text) => Attribute::Text(text.to_owned()),
        Item::Bool(value) => Attribute::Bool(value),
        Item::Null => Attribute::Null,
        Item::Float(float) => Attribute::Float(float),
        Item::Array(n_items) => {
            let items: Result<Vec<_>, _> = (0..n_items).map(|_| value(cursor, left, depth + 1)).collect();
            Attribute::Array(items?)
        }
        Item::Map(n_pairs) => {
            let pairs: Result<Vec<_>, _> = (0..n_pairs)
                .map(|_| Ok::<_, ZTensor2Error>((value(cursor, left, depth + 1)?, value(cursor, left, depth + 1)?)))
                .collect();
            Attribute::Map(pairs?)
        }
    })
}
