//! The values of metadata, and how they are read (spec/gguf.md §2).

use std::fmt;

use super::HeaderError;
use super::cursor::{Cursor, Failed};

/// The longest text of a value, in bytes.
pub(super) const MAX_TEXT: u64 = 16 << 20;

/// How deep arrays may be in arrays.
const MAX_DEPTH: usize = 8;

/// The values that are kept of an array.
const KEPT: u64 = 64;

/// The values that are kept of all arrays of a file.
pub(super) const KEPT_OF_ALL: usize = 1 << 20;

macro_rules! value_types {
    ($($variant:ident $id:literal $name:literal $doc:literal),* $(,)?) => {
        /// The type of a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ValueType {
            $(#[doc = $doc] $variant,)*
        }

        impl ValueType {
            /// The type of this number in a file.
            #[must_use]
            pub const fn of_id(id: u32) -> Option<Self> {
                match id {
                    $($id => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The number of the type in files.
            #[must_use]
            pub const fn id(self) -> u32 {
                match self {
                    $(Self::$variant => $id,)*
                }
            }

            /// The name that messages use.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

value_types! {
    Uint8 0 "uint8" "Unsigned, 1 byte.",
    Int8 1 "int8" "Signed, 1 byte.",
    Uint16 2 "uint16" "Unsigned, 2 bytes.",
    Int16 3 "int16" "Signed, 2 bytes.",
    Uint32 4 "uint32" "Unsigned, 4 bytes.",
    Int32 5 "int32" "Signed, 4 bytes.",
    Float32 6 "float32" "IEEE 754 binary32.",
    Bool 7 "bool" "One byte, 0 or 1.",
    String 8 "string" "A length of 8 bytes, and as many bytes of text.",
    Array 9 "array" "Values of one type.",
    Uint64 10 "uint64" "Unsigned, 8 bytes.",
    Int64 11 "int64" "Signed, 8 bytes.",
    Float64 12 "float64" "IEEE 754 binary64.",
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ValueType {
    /// The bytes of a value whose type states its size.
    const fn size(self) -> Option<u64> {
        match self {
            Self::Uint8 | Self::Int8 | Self::Bool => Some(1),
            Self::Uint16 | Self::Int16 => Some(2),
            Self::Uint32 | Self::Int32 | Self::Float32 => Some(4),
            Self::Uint64 | Self::Int64 | Self::Float64 => Some(8),
            Self::String | Self::Array => None,
        }
    }

    /// The fewest bytes of a value.
    const fn least_size(self) -> u64 {
        match (self, self.size()) {
            (_, Some(size)) => size,
            (Self::Array, None) => 12,
            (_, None) => 8,
        }
    }
}

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A float of 32 bits.
    Float32(f32),
    /// A float of 64 bits.
    Float64(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(String),
    /// Text that is not UTF-8.
    Bytes(Vec<u8>),
    /// Values of one type.
    Array(Array),
}

impl Value {
    /// Returns the text, if the value is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// An array of the metadata. Of a long one, such as the words of a tokenizer, only the first values are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The type of the values.
    pub item: ValueType,
    /// The number of the values in the file.
    pub len: u64,
    /// The first values.
    pub first: Vec<Value>,
}

impl Array {
    /// Whether all values are kept, also those of arrays in the array.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let is_whole = |value: &Value| if let Value::Array(array) = value { array.is_whole() } else { true };
        self.first.len() as u64 == self.len && self.first.iter().all(is_whole)
    }
}

/// Reads a value of a type that is given by its number. `left` counts down the values of arrays that are still kept.
pub(super) fn read(cursor: &mut Cursor<'_>, key: &str, left: &mut usize) -> Result<Value, Failed> {
    let of = read_type(cursor, key)?;
    read_of(cursor, key, of, left, 0)
}

fn read_type(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueType, Failed> {
    let at = cursor.position();
    let found = u32::from_le_bytes(cursor.array("the type of a value")?);
    let unknown = || HeaderError::UnknownValueType { at, key: key.to_owned(), found };
    Ok(ValueType::of_id(found).ok_or_else(unknown)?)
}

fn read_of(cursor: &mut Cursor<'_>, key: &str, of: ValueType, left: &mut usize, depth: usize) -> Result<Value, Failed> {
    const WHAT: &str = "a value";
    Ok(match of {
        ValueType::Uint8 => Value::Unsigned(u8::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueType::Uint16 => Value::Unsigned(u16::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueType::Uint32 => Value::Unsigned(u32::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueType::Uint64 => Value::Unsigned(u64::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::Int8 => Value::Signed(i8::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueType::Int16 => Value::Signed(i16::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueType::Int32 => Value::Signed(i32::from_le_bytes(cursor.array(WHAT)?).into()),
        ValueType::Int64 => Value::Signed(i64::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::Float32 => Value::Float32(f32::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::Float64 => Value::Float64(f64::from_le_bytes(cursor.array(WHAT)?)),
        ValueType::Bool => {
            let at = cursor.position();
            match cursor.array(WHAT)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [found] => return Err(HeaderError::NotBool { at, key: key.to_owned(), found }.into()),
            }
        }
        ValueType::String => match String::from_utf8(cursor.counted("the text of a value", MAX_TEXT)?.to_vec()) {
            Ok(text) => Value::Text(text),
            Err(error) => Value::Bytes(error.into_bytes()),
        },
        ValueType::Array => Value::Array(read_array(cursor, key, left, depth)?),
    })
}

fn read_array(cursor: &mut Cursor<'_>, key: &str, left: &mut usize, depth: usize) -> Result<Array, Failed> {
    let at = cursor.position();
    if depth == MAX_DEPTH {
        return Err(HeaderError::TooDeep { at, key: key.to_owned(), most: MAX_DEPTH }.into());
    }
    let item = read_type(cursor, key)?;
    let len = cursor.count("the values of an array", item.least_size())?;
    let mut first = Vec::new();
    let mut position = 0;
    while position < len {
        let is_kept = position < KEPT && *left > 0;
        match (is_kept, item.size()) {
            (true, _) => {
                *left -= 1;
                first.push(read_of(cursor, key, item, left, depth + 1)?);
            }
            // What is not kept is passed over, but for what could be wrong with it.
            (false, Some(size)) if item != ValueType::Bool => {
                cursor.skip((len - position).saturating_mul(size), "the values of an array")?;
                break;
            }
            (false, _) if item == ValueType::String => drop(cursor.counted("the text of a value", MAX_TEXT)?),
            (false, _) => drop(read_of(cursor, key, item, &mut 0, depth + 1)?),
        }
        position += 1;
    }
    Ok(Array { item, len, first })
}
