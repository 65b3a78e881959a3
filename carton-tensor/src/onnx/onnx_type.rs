//! The element types of ONNX (`TensorProto.DataType`), and the fields that hold elements of each.

use crate::files::ElementType;

macro_rules! onnx_types {
    ($($variant:ident $number:literal $name:literal $bits:literal $field:ident $element:expr),* $(,)?) => {
        /// The type of the elements of a tensor in an ONNX model.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the variants have the names of the format")]
        pub enum OnnxType {
            $($variant,)*
        }

        impl OnnxType {
            /// The type of this number in a file.
            #[must_use]
            pub const fn of_number(number: i64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name, as NumPy and `ml_dtypes` have it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The bits of an element in `raw_data`; 0 for strings.
            pub(super) const fn bits(self) -> u64 {
                match self {
                    $(Self::$variant => $bits,)*
                }
            }

            /// The field that holds the elements if `raw_data` does not.
            pub(super) const fn values(self) -> Values {
                match self {
                    $(Self::$variant => Values::$field,)*
                }
            }

            /// The type of the elements that are read; `None` for strings. Integers of less than a byte are read as bytes.
            #[must_use]
            pub const fn element_type(self) -> Option<ElementType> {
                match self {
                    $(Self::$variant => $element,)*
                }
            }
        }
    };
}

onnx_types! {
    Float 1 "float32" 32 Float Some(ElementType::Float32),
    Uint8 2 "uint8" 8 Int32 Some(ElementType::Uint8),
    Int8 3 "int8" 8 Int32 Some(ElementType::Int8),
    Uint16 4 "uint16" 16 Int32 Some(ElementType::Uint16),
    Int16 5 "int16" 16 Int32 Some(ElementType::Int16),
    Int32 6 "int32" 32 Int32 Some(ElementType::Int32),
    Int64 7 "int64" 64 Int64 Some(ElementType::Int64),
    String 8 "string" 0 String None,
    Bool 9 "bool" 8 Int32 Some(ElementType::Bool),
    Float16 10 "float16" 16 Int32 Some(ElementType::Float16),
    Double 11 "float64" 64 Double Some(ElementType::Float64),
    Uint32 12 "uint32" 32 Uint64 Some(ElementType::Uint32),
    Uint64 13 "uint64" 64 Uint64 Some(ElementType::Uint64),
    Complex64 14 "complex64" 64 Float Some(ElementType::Complex64),
    Complex128 15 "complex128" 128 Double Some(ElementType::Complex128),
    Bfloat16 16 "bfloat16" 16 Int32 Some(ElementType::BFloat16),
    Float8E4m3Fn 17 "float8_e4m3fn" 8 Int32 Some(ElementType::Float8E4m3Fn),
    Float8E4m3Fnuz 18 "float8_e4m3fnuz" 8 Int32 Some(ElementType::Float8E4m3Fnuz),
    Float8E5m2 19 "float8_e5m2" 8 Int32 Some(ElementType::Float8E5m2),
    Float8E5m2Fnuz 20 "float8_e5m2fnuz" 8 Int32 Some(ElementType::Float8E5m2Fnuz),
    Uint4 21 "uint4" 4 Int32 Some(ElementType::Uint8),
    Int4 22 "int4" 4 Int32 Some(ElementType::Int8),
    Float4E2m1 23 "float4_e2m1fn" 4 Int32 Some(ElementType::Float4E2m1),
    Float8E8m0 24 "float8_e8m0fnu" 8 Int32 Some(ElementType::Float8E8m0Fnu),
    Uint2 25 "uint2" 2 Int32 Some(ElementType::Uint8),
    Int2 26 "int2" 2 Int32 Some(ElementType::Int8),
    Float6E2m3 27 "float6_e2m3fn" 6 Int32 Some(ElementType::Float6E2m3Fn),
    Float6E3m2 28 "float6_e3m2fn" 6 Int32 Some(ElementType::Float6E3m2Fn),
}

/// A field of a tensor that holds values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    Float,
    Int32,
    String,
    Int64,
    Double,
    Uint64,
}

impl Values {
    pub(super) const ALL: [Self; 6] = [Self::Float, Self::Int32, Self::String, Self::Int64, Self::Double, Self::Uint64];

    /// The number of the field, and its name.
    pub(super) const fn field(self) -> (u64, &'static str) {
        match self {
            Self::Float => (4, "float_data"),
            Self::Int32 => (5, "int32_data"),
            Self::String => (6, "string_data"),
            Self::Int64 => (7, "int64_data"),
            Self::Double => (10, "double_data"),
            Self::Uint64 => (11, "uint64_data"),
        }
    }

    /// The field of this number.
    pub(super) fn of_field(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|values| values.field().0 == number)
    }

    /// The bytes of a value, if all have the same number.
    pub(super) const fn size(self) -> Option<u64> {
        match self {
            Self::Float => Some(4),
            Self::Double => Some(8),
            Self::Int32 | Self::String | Self::Int64 | Self::Uint64 => None,
        }
    }
}

impl OnnxType {
    /// Whether the elements are integers that take less than a byte in a file, and a byte each once they are read.
    pub(super) const fn is_narrow_integer(self) -> bool {
        matches!(self, Self::Uint4 | Self::Int4 | Self::Uint2 | Self::Int2)
    }

    const fn is_signed(self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 | Self::Int4 | Self::Int2)
    }

    /// The bytes of this many elements in `raw_data`.
    pub(super) fn raw_bytes(self, n_elements: u64) -> Option<u64> {
        match self.bits() {
            bits if bits < 8 => Some((n_elements / 8).checked_mul(bits)? + (n_elements % 8 * bits).div_ceil(8)),
            bits => n_elements.checked_mul(bits / 8),
        }
    }

    /// The number of values that hold this many elements.
    pub(super) fn n_values(self, n_elements: u64) -> Option<u64> {
        match self {
            Self::Complex64 | Self::Complex128 => n_elements.checked_mul(2),
            of if of.is_packed() => of.raw_bytes(n_elements),
            _ => Some(n_elements),
        }
    }

    /// Whether a value of `int32_data` is a byte that holds several elements.
    const fn is_packed(self) -> bool {
        self.is_narrow_integer() || matches!(self, Self::Float4E2m1)
    }

    /// The bits of a value of `int32_data`, `int64_data` or `uint64_data`.
    pub(super) const fn value_bits(self) -> u64 {
        if self.is_packed() { 8 } else { self.bits() }
    }

    /// Whether an integer is in the range of the values: those of floats are bit patterns.
    pub(super) fn has_value(self, value: i64) -> bool {
        match self.value_bits() {
            64 => true,
            bits if self.is_signed() && !self.is_packed() => (-(1 << (bits - 1))..1 << (bits - 1)).contains(&value),
            bits => (0..1 << bits).contains(&value),
        }
    }

    /// Writes the elements in `packed` bytes to `elements`, one byte each, and at most `most` of them.
    pub(super) fn unpack(self, packed: &[u8], most: usize, elements: &mut Vec<u8>) {
        let bits = self.bits() as u32;
        let empty = 8 - bits;
        let of_byte = |byte: &u8| {
            let byte = *byte;
            (0..8 / bits).map(move |index| {
                let shifted = byte << (empty - index * bits);
                if self.is_signed() { (shifted.cast_signed() >> empty).cast_unsigned() } else { shifted >> empty }
            })
        };
        elements.extend(packed.iter().flat_map(of_byte).take(most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(of: OnnxType, packed: &[u8], most: usize, expected: &[i8]) {
        let mut elements = Vec::new();
        of.unpack(packed, most, &mut elements);
        assert_eq!(elements.into_iter().map(u8::cast_signed).collect::<Vec<_>>(), expected, "{of:?}");
    }

    #[test]
    fn narrow_integers() {
        check(OnnxType::Uint4, &[0x21, 0xf3], 3, &[1, 2, 3]);
        check(OnnxType::Int4, &[0x8f, 0x07], 4, &[-1, -8, 7, 0]);
        check(OnnxType::Uint2, &[0b11_10_01_00], 9, &[0, 1, 2, 3]);
        check(OnnxType::Int2, &[0b11_10_01_00], 4, &[0, 1, -2, -1]);
    }

    #[test]
    fn sizes_and_ranges() {
        assert_eq!(OnnxType::Float6E2m3.raw_bytes(5), Some(4));
        assert_eq!(OnnxType::Int4.raw_bytes(3), Some(2));
        assert_eq!(OnnxType::Int2.raw_bytes(u64::MAX), Some(1 << 62));
        assert_eq!(OnnxType::Complex128.raw_bytes(u64::MAX), None);
        assert_eq!(OnnxType::Int4.n_values(3), Some(2));
        assert_eq!(OnnxType::Complex64.n_values(3), Some(6));
        for (of, lowest, highest) in [
            (OnnxType::Int8, -128, 127),
            (OnnxType::Int4, 0, 255),
            (OnnxType::Float16, 0, 65535),
            (OnnxType::Float6E3m2, 0, 63),
            (OnnxType::Uint32, 0, 4_294_967_295),
            (OnnxType::Int32, -2_147_483_648, 2_147_483_647),
        ] {
            let inside = [lowest - 1, lowest, highest, highest + 1].map(|value| of.has_value(value));
            assert_eq!(inside, [false, true, true, false], "{of:?}");
        }
        assert!(OnnxType::Uint64.has_value(-1) && OnnxType::Int64.has_value(i64::MIN));
    }
}
