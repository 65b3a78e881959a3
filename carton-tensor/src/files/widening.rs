//! Converts elements of every real type to `f32` or `f64`.

use half::{bf16, f16};

use super::ElementType;
use crate::small_float;

impl ElementType {
    /// Returns the value of each byte, for the float types of at most eight bits; `None` for other types. For types smaller than a
    /// byte, the index is the lowest bits of the byte.
    #[must_use]
    pub fn small_float_values(self) -> Option<&'static [f32; 256]> {
        Some(match self {
            Self::Float8E4m3Fn => &small_float::E4M3FN_VALUES,
            Self::Float8E5m2 => &small_float::E5M2_VALUES,
            Self::Float8E4m3Fnuz => &small_float::E4M3FNUZ_VALUES,
            Self::Float8E5m2Fnuz => &small_float::E5M2FNUZ_VALUES,
            Self::Float8E8m0Fnu => &small_float::E8M0FNU_VALUES,
            Self::Float6E2m3Fn => &small_float::E2M3FN_VALUES,
            Self::Float6E3m2Fn => &small_float::E3M2FN_VALUES,
            Self::Float4E2m1 => &small_float::E2M1FN_VALUES,
            _ => return None,
        })
    }

    /// Converts the elements in `bytes` to `f64`. Integers of more than 53 bits are rounded to the nearest `f64`. Returns `None` for
    /// complex numbers, which have no order. Ignores bytes after the last whole element.
    ///
    /// Elements smaller than a byte are packed from the lowest bit of the first byte upwards.
    ///
    /// ```
    /// use carton_tensor::files::ElementType;
    /// assert_eq!(ElementType::Float4E2m1.to_f64(&[0x21]), Some(vec![0.5, 1.0]));
    /// assert_eq!(ElementType::Float8E4m3Fn.to_f64(&[0x7e, 0x81]), Some(vec![448.0, -0.001953125]));
    /// assert_eq!(ElementType::Complex64.to_f64(&[0; 8]), None);
    /// ```
    #[must_use]
    pub fn to_f64(self, bytes: &[u8]) -> Option<Vec<f64>> {
        Some(match self {
            Self::Complex64 | Self::Complex128 => return None,
            Self::Bool => bytes.iter().map(|&byte| f64::from(u8::from(byte != 0))).collect(),
            Self::Uint8 => each(bytes, |[byte]| f64::from(byte)),
            Self::Int8 => each(bytes, |element| f64::from(i8::from_le_bytes(element))),
            Self::Uint16 => each(bytes, |element| f64::from(u16::from_le_bytes(element))),
            Self::Int16 => each(bytes, |element| f64::from(i16::from_le_bytes(element))),
            Self::Uint32 => each(bytes, |element| f64::from(u32::from_le_bytes(element))),
            Self::Int32 => each(bytes, |element| f64::from(i32::from_le_bytes(element))),
            Self::Uint64 => each(bytes, |element| u64::from_le_bytes(element) as f64),
            Self::Int64 => each(bytes, |element| i64::from_le_bytes(element) as f64),
            Self::Float16 => each(bytes, |element| f16::from_le_bytes(element).to_f64()),
            Self::BFloat16 => each(bytes, |element| bf16::from_le_bytes(element).to_f64()),
            Self::Float32 => each(bytes, |element| f64::from(f32::from_le_bytes(element))),
            Self::Float64 => each(bytes, f64::from_le_bytes),
            _ => self.small_floats(bytes)?.map(f64::from).collect(),
        })
    }

    /// Converts elements like [`to_f64`](Self::to_f64), but rounds to the nearest `f32`.
    #[must_use]
    pub fn to_f32(self, bytes: &[u8]) -> Option<Vec<f32>> {
        Some(match self {
            Self::Float32 => each(bytes, f32::from_le_bytes),
            Self::Float16 => each(bytes, |element| f16::from_le_bytes(element).to_f32()),
            Self::BFloat16 => each(bytes, |element| bf16::from_le_bytes(element).to_f32()),
            // Converts directly, because the way through an f64 would round twice.
            Self::Uint64 => each(bytes, |element| u64::from_le_bytes(element) as f32),
            Self::Int64 => each(bytes, |element| i64::from_le_bytes(element) as f32),
            _ => match self.small_floats(bytes) {
                Some(elements) => elements.collect(),
                None => self.to_f64(bytes)?.into_iter().map(|element| element as f32).collect(),
            },
        })
    }

    fn small_floats(self, bytes: &[u8]) -> Option<impl Iterator<Item = f32>> {
        let values = self.small_float_values()?;
        let bits = self.bits();
        // One byte holds one 8-bit or two 4-bit elements; three bytes hold four 6-bit elements.
        let n_bytes = if bits == 6 { 3 } else { 1 };
        let mask = (1_u32 << bits) - 1;
        Some(bytes.chunks_exact(n_bytes).flat_map(move |chunk| {
            let packed = chunk.iter().rev().fold(0_u32, |packed, &byte| packed << 8 | u32::from(byte));
            (0..n_bytes * 8 / bits).map(move |index| values[(packed >> (index * bits) & mask) as usize])
        }))
    }
}

fn each<const N: usize, T>(bytes: &[u8], decode: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|element| decode(*element)).collect()
}
