//! The types of tensors: what a block of each holds, and how many bytes it takes (spec/gguf.md §4).

use std::fmt;

use crate::files::ElementType;

macro_rules! types {
    ($($variant:ident $id:literal $name:literal $elements:literal $bytes:literal $doc:literal),* $(,)?) => {
        /// How the elements of a tensor are stored: one after another, or in blocks that share scales.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum GgmlType {
            $(#[doc = $doc] $variant,)*
        }

        impl GgmlType {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

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

            /// The name that ggml prints, in upper case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The elements and the bytes of a block. A type whose elements are stored one after another has blocks of one.
            #[must_use]
            pub const fn block(self) -> (usize, usize) {
                match self {
                    $(Self::$variant => ($elements, $bytes),)*
                }
            }
        }
    };
}

types! {
    F32 0 "F32" 1 4 "IEEE 754 binary32.",
    F16 1 "F16" 1 2 "IEEE 754 binary16.",
    Q4_0 2 "Q4_0" 32 18 "4 bits, and a scale.",
    Q4_1 3 "Q4_1" 32 20 "4 bits, a scale and a minimum.",
    Q5_0 6 "Q5_0" 32 22 "5 bits, and a scale.",
    Q5_1 7 "Q5_1" 32 24 "5 bits, a scale and a minimum.",
    Q8_0 8 "Q8_0" 32 34 "8 bits, and a scale.",
    Q8_1 9 "Q8_1" 32 40 "8 bits, a scale and a sum; a type of intermediate results.",
    Q2K 10 "Q2_K" 256 84 "2 bits, with scales and minimums of 4 bits for 16 elements each.",
    Q3K 11 "Q3_K" 256 110 "3 bits, with scales of 6 bits for 16 elements each.",
    Q4K 12 "Q4_K" 256 144 "4 bits, with scales and minimums of 6 bits for 32 elements each.",
    Q5K 13 "Q5_K" 256 176 "5 bits, with scales and minimums of 6 bits for 32 elements each.",
    Q6K 14 "Q6_K" 256 210 "6 bits, with scales of 8 bits for 16 elements each.",
    Q8K 15 "Q8_K" 256 292 "8 bits, a scale and sums; a type of intermediate results.",
    Iq2Xxs 16 "IQ2_XXS" 256 66 "Points of a grid of 256 for 8 elements each, and signs.",
    Iq2Xs 17 "IQ2_XS" 256 74 "Points of a grid of 512 for 8 elements each, and signs.",
    Iq3Xxs 18 "IQ3_XXS" 256 98 "Points of a grid of 256 for 4 elements each, and signs.",
    Iq1S 19 "IQ1_S" 256 50 "Points of a grid of 2048 for 8 elements each.",
    Iq4Nl 20 "IQ4_NL" 32 18 "4 bits that number unevenly spaced values, and a scale.",
    Iq3S 21 "IQ3_S" 256 110 "Points of a grid of 512 for 4 elements each, and signs.",
    Iq2S 22 "IQ2_S" 256 82 "Points of a grid of 1024 for 8 elements each, and signs.",
    Iq4Xs 23 "IQ4_XS" 256 136 "4 bits that number unevenly spaced values, with scales of 6 bits for 32 elements each.",
    I8 24 "I8" 1 1 "Signed, 1 byte.",
    I16 25 "I16" 1 2 "Signed, 2 bytes.",
    I32 26 "I32" 1 4 "Signed, 4 bytes.",
    I64 27 "I64" 1 8 "Signed, 8 bytes.",
    F64 28 "F64" 1 8 "IEEE 754 binary64.",
    Iq1M 29 "IQ1_M" 256 56 "Points of a grid of 2048 for 8 elements each, with more scales.",
    Bf16 30 "BF16" 1 2 "The upper half of a binary32.",
    Tq1_0 34 "TQ1_0" 256 54 "-1, 0 or 1, five in a byte, and a scale.",
    Tq2_0 35 "TQ2_0" 256 66 "-1, 0 or 1, four in a byte, and a scale.",
    Mxfp4 39 "MXFP4" 32 17 "Floats of 4 bits, and a power of two as their scale (OCP MX).",
    Nvfp4 40 "NVFP4" 64 36 "Floats of 4 bits, with scales of 8 bits for 16 elements each.",
    Q1_0 41 "Q1_0" 128 18 "1 bit, and a scale.",
}

impl GgmlType {
    /// The elements of a block.
    #[must_use]
    pub const fn block_elements(self) -> usize {
        self.block().0
    }

    /// The bytes of a block.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        self.block().1
    }

    /// The type of elements that are stored one after another; `None` for blocks.
    #[must_use]
    pub const fn element_type(self) -> Option<ElementType> {
        Some(match self {
            Self::F32 => ElementType::Float32,
            Self::F16 => ElementType::Float16,
            Self::Bf16 => ElementType::BFloat16,
            Self::F64 => ElementType::Float64,
            Self::I8 => ElementType::Int8,
            Self::I16 => ElementType::Int16,
            Self::I32 => ElementType::Int32,
            Self::I64 => ElementType::Int64,
            _ => return None,
        })
    }

    /// The type whose elements these are; `None` if files have no such elements.
    #[must_use]
    pub fn of_elements(dtype: ElementType) -> Option<Self> {
        Self::ALL.iter().copied().find(|of| of.element_type() == Some(dtype))
    }

    /// Whether elements are stored in blocks that share scales.
    #[must_use]
    pub const fn is_quantized(self) -> bool {
        self.element_type().is_none()
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn plain_types_have_the_size_of_their_elements() {
        for &of in GgmlType::ALL {
            assert_eq!(GgmlType::of_id(of.id()), Some(of));
            let (elements, bytes) = of.block();
            match of.element_type() {
                Some(dtype) => assert_eq!((elements, Some(bytes)), (1, dtype.n_bytes(1)), "{of}"),
                None => assert!(elements % 32 == 0, "{of}"),
            }
        }
        // Numbers of types that ggml has removed.
        assert!([4, 5, 31, 32, 33, 36, 37, 38].into_iter().all(|id| GgmlType::of_id(id).is_none()));
    }
}
