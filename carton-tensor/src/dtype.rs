//! The element types of tensors, and how carton format v1 carries those that it lacks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The type of a tensor's elements.
///
/// Carton format v1 has eleven of them ([`V1`](Self::V1)). A file of that format says the others by two fields: `dtype`, a type of v1 that
/// holds every value exactly ([`carrier`](Self::carrier)), and `element` beside it ([`element`](Self::element)); see
/// spec/carton-format-extensions.md, "What elements are".
///
/// ```
/// use carton_tensor::DataType;
/// assert_eq!("float32".parse(), Ok(DataType::Float32));
/// assert_eq!(DataType::Int64.size(), Some(8));
/// assert_eq!(DataType::String.size(), None);
/// assert_eq!((DataType::Bool.carrier(), DataType::Bool.element()), (DataType::Uint8, Some("bool")));
/// assert_eq!(DataType::Float32.with_element("bfloat16"), Some(DataType::BFloat16));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DataType {
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
    /// UTF-8 strings of any length.
    String,
    /// Signed, 1 byte.
    Int8,
    /// Signed, 2 bytes.
    Int16,
    /// Signed, 4 bytes.
    Int32,
    /// Signed, 8 bytes.
    Int64,
    /// Unsigned, 1 byte.
    Uint8,
    /// Unsigned, 2 bytes.
    Uint16,
    /// Unsigned, 4 bytes.
    Uint32,
    /// Unsigned, 8 bytes.
    Uint64,
    /// Booleans, 1 byte: 0 or 1.
    Bool,
    /// IEEE 754 binary16.
    Float16,
    /// The upper half of a binary32.
    BFloat16,
    /// 4 bits of exponent (bias 7), 3 of mantissa; no infinity (OCP FP8).
    Float8E4m3Fn,
    /// 5 bits of exponent (bias 15), 2 of mantissa (OCP FP8).
    Float8E5m2,
    /// 4 bits of exponent (bias 8), 3 of mantissa; no infinity, no negative zero.
    Float8E4m3Fnuz,
    /// 5 bits of exponent (bias 16), 2 of mantissa; no infinity, no negative zero.
    Float8E5m2Fnuz,
    /// Two binary32: real, imaginary.
    Complex64,
    /// Two binary64: real, imaginary.
    Complex128,
    /// Bytes of any length and content.
    Bytes,
}

impl DataType {
    /// Every dtype of format v1, in the order of its specification.
    pub const V1: [Self; 11] = [
        Self::Float32,
        Self::Float64,
        Self::String,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
    ];

    /// Every dtype: those of format v1, then those that it carries.
    pub const ALL: [Self; 21] = [
        Self::Float32,
        Self::Float64,
        Self::String,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Bool,
        Self::Float16,
        Self::BFloat16,
        Self::Float8E4m3Fn,
        Self::Float8E5m2,
        Self::Float8E4m3Fnuz,
        Self::Float8E5m2Fnuz,
        Self::Complex64,
        Self::Complex128,
        Self::Bytes,
    ];

    /// The name, that of NumPy and `ml_dtypes`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::String => "string",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Bool => "bool",
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Float8E4m3Fn => "float8_e4m3fn",
            Self::Float8E5m2 => "float8_e5m2",
            Self::Float8E4m3Fnuz => "float8_e4m3fnuz",
            Self::Float8E5m2Fnuz => "float8_e5m2fnuz",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
            Self::Bytes => "bytes",
        }
    }

    /// Returns the bytes per element; `None` for strings and bytes, whose size varies.
    #[must_use]
    pub const fn size(self) -> Option<usize> {
        match self {
            Self::String | Self::Bytes => None,
            Self::Int8
            | Self::Uint8
            | Self::Bool
            | Self::Float8E4m3Fn
            | Self::Float8E5m2
            | Self::Float8E4m3Fnuz
            | Self::Float8E5m2Fnuz => Some(1),
            Self::Int16 | Self::Uint16 | Self::Float16 | Self::BFloat16 => Some(2),
            Self::Float32 | Self::Int32 | Self::Uint32 => Some(4),
            Self::Float64 | Self::Int64 | Self::Uint64 | Self::Complex64 => Some(8),
            Self::Complex128 => Some(16),
        }
    }

    /// Returns the alignment of elements in bytes: their size, for complex numbers that of their parts; `None` for strings and bytes.
    #[must_use]
    pub const fn alignment(self) -> Option<usize> {
        if self.is_complex() { self.carrier().size() } else { self.size() }
    }

    /// The dtype of format v1 that holds every value of this one: what `dtype` says in a file of that format. A dtype of v1 is its own.
    #[must_use]
    pub const fn carrier(self) -> Self {
        match self {
            Self::Bool => Self::Uint8,
            Self::Float16
            | Self::BFloat16
            | Self::Float8E4m3Fn
            | Self::Float8E5m2
            | Self::Float8E4m3Fnuz
            | Self::Float8E5m2Fnuz
            | Self::Complex64 => Self::Float32,
            Self::Complex128 => Self::Float64,
            Self::Bytes => Self::String,
            v1 => v1,
        }
    }

    /// What the field `element` says beside [`carrier`](Self::carrier); `None` for a dtype of format v1.
    #[must_use]
    pub fn element(self) -> Option<&'static str> {
        (self.carrier() != self).then(|| self.name())
    }

    /// The dtype that `element` says beside this one; `None` if it says nothing, because it is unknown or is carried by another dtype.
    #[must_use]
    pub fn with_element(self, element: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|dtype| dtype.element().is_some_and(|name| name == element))
            .filter(|dtype| dtype.carrier() == self)
    }

    /// Whether the elements are complex numbers. Their carrier has one more dimension, the last, of the real and the imaginary part.
    #[must_use]
    pub const fn is_complex(self) -> bool {
        matches!(self, Self::Complex64 | Self::Complex128)
    }

    /// Whether the elements are real floating-point numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Float64) || (matches!(self.carrier(), Self::Float32) && !self.is_complex())
    }

    /// Whether the elements are integers.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Self::Int8
                | Self::Int16
                | Self::Int32
                | Self::Int64
                | Self::Uint8
                | Self::Uint16
                | Self::Uint32
                | Self::Uint64
        )
    }

    /// Whether every number of `other` is a number of this type, so that a cast from there loses nothing. Booleans are no numbers here, and
    /// complex numbers are in no other type.
    ///
    /// ```
    /// use carton_tensor::DataType;
    /// assert!(DataType::Float32.holds(DataType::BFloat16) && DataType::Float64.holds(DataType::Int32));
    /// assert!(!DataType::Float16.holds(DataType::BFloat16) && !DataType::Float32.holds(DataType::Int32));
    /// ```
    #[must_use]
    pub fn holds(self, other: Self) -> bool {
        if self == other {
            return true;
        }
        match (self.range(), other.range()) {
            (
                Some(Range::Integer { signed, bits }),
                Some(Range::Integer { signed: other_signed, bits: other_bits }),
            ) => match (signed, other_signed) {
                (false, true) => false,
                (true, false) => bits > other_bits,
                _ => bits >= other_bits,
            },
            (Some(Range::Float(float)), Some(Range::Integer { signed, bits })) => {
                let digits = bits - i32::from(signed);
                digits <= float.digits && bits <= float.highest
            }
            (Some(Range::Float(float)), Some(Range::Float(other))) => {
                float.digits >= other.digits
                    && float.highest >= other.highest
                    && float.lowest - float.digits <= other.lowest - other.digits
                    && (float.is_ieee || !other.is_ieee)
            }
            _ => false,
        }
    }

    /// What [`holds`](Self::holds) compares; `None` if the elements are no numbers of it.
    fn range(self) -> Option<Range> {
        let integer = |signed, bits| Some(Range::Integer { signed, bits });
        let float =
            |digits, lowest, highest, is_ieee| Some(Range::Float(FloatRange { digits, lowest, highest, is_ieee }));
        match self {
            Self::Int8 => integer(true, 8),
            Self::Int16 => integer(true, 16),
            Self::Int32 => integer(true, 32),
            Self::Int64 => integer(true, 64),
            Self::Uint8 => integer(false, 8),
            Self::Uint16 => integer(false, 16),
            Self::Uint32 => integer(false, 32),
            Self::Uint64 => integer(false, 64),
            Self::Float64 => float(53, -1022, 1023, true),
            Self::Float32 => float(24, -126, 127, true),
            Self::Float16 => float(11, -14, 15, true),
            Self::BFloat16 => float(8, -126, 127, true),
            Self::Float8E4m3Fn => float(4, -6, 8, false),
            Self::Float8E5m2 => float(3, -14, 15, true),
            Self::Float8E4m3Fnuz => float(4, -7, 7, false),
            Self::Float8E5m2Fnuz => float(3, -15, 15, false),
            Self::Bool | Self::String | Self::Bytes | Self::Complex64 | Self::Complex128 => None,
        }
    }
}

/// Which numbers a type has.
enum Range {
    Integer { signed: bool, bits: i32 },
    Float(FloatRange),
}

struct FloatRange {
    /// The binary digits of a number, with the leading one.
    digits: i32,
    /// The exponent of the smallest normal number.
    lowest: i32,
    /// The exponent of the largest number.
    highest: i32,
    /// Whether there are infinities.
    is_ieee: bool,
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name.
impl Serialize for DataType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for DataType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = DataType;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a dtype")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<DataType, E> {
                name.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// A name that is no dtype.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown dtype `{name}`, expected one of {known}{advice}", name = .0, known = known(), advice = advice(.0))]
pub struct UnknownDataType(pub String);

impl UnknownDataType {
    /// What to do about a type that frameworks have and tensors of cartons do not, to follow an error; empty for other names.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        advice(&self.0)
    }
}

fn known() -> String {
    DataType::ALL.map(DataType::name).join(", ")
}

/// What to do about types that frameworks have and tensors of cartons do not.
fn advice(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    if name.starts_with("int4") || name.starts_with("uint4") || name.starts_with("int2") || name.starts_with("uint2") {
        "; integers of less than a byte are `int8` or `uint8`, one a byte"
    } else if name.starts_with("datetime") || name.starts_with("timestamp") || name.starts_with("timedelta") {
        "; times are `int64`, which count in a unit that the description names"
    } else if matches!(name.as_str(), "str" | "text" | "utf8") {
        "; texts are `string`"
    } else {
        ""
    }
}

impl FromStr for DataType {
    type Err = UnknownDataType;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name).ok_or_else(|| UnknownDataType(name.to_owned()))
    }
}
