//! The element types of zTensor and safetensors files: those of tensors, and the small floats of OCP MX.

use std::fmt;

use crate::DataType;

/// The type of the elements of a tensor in a file.
///
/// Names are those that most libraries print. Each format's module maps them to its own spelling.
///
/// ```
/// use carton_tensor::{DataType, files::ElementType};
/// assert_eq!(ElementType::BFloat16.name(), "bfloat16");
/// assert_eq!(ElementType::Float4E2m1.n_bytes(6), Some(3));
/// assert_eq!(ElementType::Float4E2m1.n_bytes(5), None);
/// assert_eq!(ElementType::Int64.data_type(), Some(DataType::Int64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ElementType {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned, 1 byte.
    Uint8,
    /// Signed, 1 byte.
    Int8,
    /// Unsigned, 2 bytes.
    Uint16,
    /// Signed, 2 bytes.
    Int16,
    /// Unsigned, 4 bytes.
    Uint32,
    /// Signed, 4 bytes.
    Int32,
    /// Unsigned, 8 bytes.
    Uint64,
    /// Signed, 8 bytes.
    Int64,
    /// IEEE 754 binary16.
    Float16,
    /// The upper half of a binary32.
    BFloat16,
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
    /// Two binary32: real, imaginary.
    Complex64,
    /// Two binary64: real, imaginary.
    Complex128,
    /// 4 bits of exponent (bias 7), 3 of mantissa; no infinity (OCP FP8).
    Float8E4m3Fn,
    /// 5 bits of exponent (bias 15), 2 of mantissa (OCP FP8).
    Float8E5m2,
    /// 4 bits of exponent (bias 8), 3 of mantissa; no infinity, no negative zero.
    Float8E4m3Fnuz,
    /// 5 bits of exponent (bias 16), 2 of mantissa; no infinity, no negative zero.
    Float8E5m2Fnuz,
    /// 8 bits of exponent (bias 127), nothing else: a power of two (OCP MX scale).
    Float8E8m0Fnu,
    /// 6 bits: 2 of exponent (bias 1), 3 of mantissa (OCP MX).
    Float6E2m3Fn,
    /// 6 bits: 3 of exponent (bias 3), 2 of mantissa (OCP MX).
    Float6E3m2Fn,
    /// 4 bits: 2 of exponent (bias 1), 1 of mantissa (OCP MX).
    Float4E2m1,
}

impl ElementType {
    /// Every element type.
    pub const ALL: [Self; 23] = [
        Self::Bool,
        Self::Uint8,
        Self::Int8,
        Self::Uint16,
        Self::Int16,
        Self::Uint32,
        Self::Int32,
        Self::Uint64,
        Self::Int64,
        Self::Float16,
        Self::BFloat16,
        Self::Float32,
        Self::Float64,
        Self::Complex64,
        Self::Complex128,
        Self::Float8E4m3Fn,
        Self::Float8E5m2,
        Self::Float8E4m3Fnuz,
        Self::Float8E5m2Fnuz,
        Self::Float8E8m0Fnu,
        Self::Float6E2m3Fn,
        Self::Float6E3m2Fn,
        Self::Float4E2m1,
    ];

    /// The name in NumPy, or in `ml_dtypes` for types that NumPy lacks.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Uint8 => "uint8",
            Self::Int8 => "int8",
            Self::Uint16 => "uint16",
            Self::Int16 => "int16",
            Self::Uint32 => "uint32",
            Self::Int32 => "int32",
            Self::Uint64 => "uint64",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
            Self::Float8E4m3Fn => "float8_e4m3fn",
            Self::Float8E5m2 => "float8_e5m2",
            Self::Float8E4m3Fnuz => "float8_e4m3fnuz",
            Self::Float8E5m2Fnuz => "float8_e5m2fnuz",
            Self::Float8E8m0Fnu => "float8_e8m0fnu",
            Self::Float6E2m3Fn => "float6_e2m3fn",
            Self::Float6E3m2Fn => "float6_e3m2fn",
            Self::Float4E2m1 => "float4_e2m1fn",
        }
    }

    /// The number of bits per element.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Self::Float4E2m1 => 4,
            Self::Float6E2m3Fn | Self::Float6E3m2Fn => 6,
            Self::Bool
            | Self::Uint8
            | Self::Int8
            | Self::Float8E4m3Fn
            | Self::Float8E5m2
            | Self::Float8E4m3Fnuz
            | Self::Float8E5m2Fnuz
            | Self::Float8E8m0Fnu => 8,
            Self::Uint16 | Self::Int16 | Self::Float16 | Self::BFloat16 => 16,
            Self::Uint32 | Self::Int32 | Self::Float32 => 32,
            Self::Uint64 | Self::Int64 | Self::Float64 | Self::Complex64 => 64,
            Self::Complex128 => 128,
        }
    }

    /// Returns the bytes that `n_elements` take; `None` if the last element does not end at a byte boundary, or if the size overflows
    /// `usize`.
    #[must_use]
    pub const fn n_bytes(self, n_elements: usize) -> Option<usize> {
        // Divides before multiplying, because the size in bits could overflow where the size in bytes does not.
        match self.bits() {
            4 if n_elements.is_multiple_of(2) => Some(n_elements / 2),
            6 if n_elements.is_multiple_of(4) => (n_elements / 4).checked_mul(3),
            4 | 6 => None,
            bits => n_elements.checked_mul(bits / 8),
        }
    }

    /// Returns the bytes of a piece of a tensor, so that a piece ends where an element ends: those of `n_elements`, but of at least one and of
    /// no more than `usize` can count; of a type of less than a byte, those of the next multiple of 8 elements.
    #[cfg(feature = "weights")]
    pub(crate) fn piece_bytes(self, n_elements: usize) -> usize {
        // Any 8 elements are a whole number of bytes, as many as an element has bits.
        let (unit, n_bytes) = if self.bits() < 8 { (8, self.bits()) } else { (1, self.bits() / 8) };
        n_elements.div_ceil(unit).clamp(1, usize::MAX / n_bytes) * n_bytes
    }

    /// Whether the elements are real floating-point numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Self::Float16
                | Self::BFloat16
                | Self::Float32
                | Self::Float64
                | Self::Float8E4m3Fn
                | Self::Float8E5m2
                | Self::Float8E4m3Fnuz
                | Self::Float8E5m2Fnuz
                | Self::Float8E8m0Fnu
                | Self::Float6E2m3Fn
                | Self::Float6E3m2Fn
                | Self::Float4E2m1
        )
    }

    /// The same type of tensors; `None` for the floats that only weights have.
    #[must_use]
    pub const fn data_type(self) -> Option<DataType> {
        Some(match self {
            Self::Uint8 => DataType::Uint8,
            Self::Int8 => DataType::Int8,
            Self::Uint16 => DataType::Uint16,
            Self::Int16 => DataType::Int16,
            Self::Uint32 => DataType::Uint32,
            Self::Int32 => DataType::Int32,
            Self::Uint64 => DataType::Uint64,
            Self::Int64 => DataType::Int64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Bool => DataType::Bool,
            Self::Float16 => DataType::Float16,
            Self::BFloat16 => DataType::BFloat16,
            Self::Float8E4m3Fn => DataType::Float8E4m3Fn,
            Self::Float8E5m2 => DataType::Float8E5m2,
            Self::Float8E4m3Fnuz => DataType::Float8E4m3Fnuz,
            Self::Float8E5m2Fnuz => DataType::Float8E5m2Fnuz,
            Self::Complex64 => DataType::Complex64,
            Self::Complex128 => DataType::Complex128,
            Self::Float8E8m0Fnu | Self::Float6E2m3Fn | Self::Float6E3m2Fn | Self::Float4E2m1 => return None,
        })
    }

    /// The type in files of a numeric tensor; `None` for strings and bytes.
    #[must_use]
    pub const fn from_data_type(dtype: DataType) -> Option<Self> {
        Some(match dtype {
            DataType::String | DataType::Bytes => return None,
            DataType::Uint8 => Self::Uint8,
            DataType::Int8 => Self::Int8,
            DataType::Uint16 => Self::Uint16,
            DataType::Int16 => Self::Int16,
            DataType::Uint32 => Self::Uint32,
            DataType::Int32 => Self::Int32,
            DataType::Uint64 => Self::Uint64,
            DataType::Int64 => Self::Int64,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Bool => Self::Bool,
            DataType::Float16 => Self::Float16,
            DataType::BFloat16 => Self::BFloat16,
            DataType::Float8E4m3Fn => Self::Float8E4m3Fn,
            DataType::Float8E5m2 => Self::Float8E5m2,
            DataType::Float8E4m3Fnuz => Self::Float8E4m3Fnuz,
            DataType::Float8E5m2Fnuz => Self::Float8E5m2Fnuz,
            DataType::Complex64 => Self::Complex64,
            DataType::Complex128 => Self::Complex128,
        })
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_bytes_or_refused() {
        let check =
            |dtype: ElementType, n_elements, expected| assert_eq!(dtype.n_bytes(n_elements), expected, "{dtype}");
        check(ElementType::Float6E2m3Fn, 4, Some(3));
        check(ElementType::Float6E3m2Fn, 6, None);
        check(ElementType::Float4E2m1, usize::MAX - 1, Some(usize::MAX / 2));
        check(ElementType::Float6E2m3Fn, usize::MAX - 3, Some(usize::MAX / 4 * 3));
        check(ElementType::Complex128, usize::MAX / 16 + 1, None);
        check(ElementType::Complex64, 0, Some(0));
        for dtype in ElementType::ALL {
            assert_eq!(dtype.n_bytes(8), Some(dtype.bits()), "{dtype}");
        }
    }

    #[cfg(feature = "weights")]
    #[test]
    fn pieces_end_where_elements_end() {
        let check = |dtype: ElementType, n_elements, expected| {
            assert_eq!(dtype.piece_bytes(n_elements), expected, "{dtype}, {n_elements}");
        };
        check(ElementType::Float32, 3, 12);
        check(ElementType::Float32, 0, 4);
        check(ElementType::Float32, usize::MAX, usize::MAX - 3);
        check(ElementType::Uint8, usize::MAX, usize::MAX);
        check(ElementType::Float4E2m1, 8, 4);
        check(ElementType::Float4E2m1, 9, 8);
        check(ElementType::Float6E2m3Fn, 1, 6);
        check(ElementType::Float6E2m3Fn, usize::MAX, usize::MAX / 8 * 6 + 6);
    }

    #[test]
    fn data_types_there_and_back() {
        for dtype in DataType::ALL {
            let there = ElementType::from_data_type(dtype);
            assert_eq!(there.and_then(ElementType::data_type), Some(dtype).filter(|dtype| dtype.size().is_some()));
        }
    }
}
