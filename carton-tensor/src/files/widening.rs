//! Converts elements of every real type to `f32` or `f64`.

use half::{bf16, f16};

use super::ElementType;

/// A float of at most eight bits. From the highest bit down: sign, exponent, mantissa.
#[derive(Clone, Copy)]
struct SmallFloat {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    special: Special,
}

/// Which bit patterns are not finite numbers.
#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// As in IEEE 754: the highest exponent means infinity if the mantissa is zero, otherwise NaN.
    Ieee,
    /// All bits except the sign set means NaN. There is no infinity.
    AllOnes,
    /// Negative zero means NaN. There is no infinity.
    NegativeZero,
    /// Every bit pattern is a finite number.
    None,
}

const E4M3FN: SmallFloat = SmallFloat { exponent_bits: 4, mantissa_bits: 3, bias: 7, special: Special::AllOnes };
const E5M2: SmallFloat = SmallFloat { exponent_bits: 5, mantissa_bits: 2, bias: 15, special: Special::Ieee };
const E4M3FNUZ: SmallFloat = SmallFloat { exponent_bits: 4, mantissa_bits: 3, bias: 8, special: Special::NegativeZero };
const E5M2FNUZ: SmallFloat =
    SmallFloat { exponent_bits: 5, mantissa_bits: 2, bias: 16, special: Special::NegativeZero };
const E2M3FN: SmallFloat = SmallFloat { exponent_bits: 2, mantissa_bits: 3, bias: 1, special: Special::None };
const E3M2FN: SmallFloat = SmallFloat { exponent_bits: 3, mantissa_bits: 2, bias: 3, special: Special::None };
const E2M1FN: SmallFloat = SmallFloat { exponent_bits: 2, mantissa_bits: 1, bias: 1, special: Special::None };

/// The value of each byte. Every value of these types is exact in binary32.
static E4M3FN_VALUES: [f32; 256] = E4M3FN.values();
static E5M2_VALUES: [f32; 256] = E5M2.values();
static E4M3FNUZ_VALUES: [f32; 256] = E4M3FNUZ.values();
static E5M2FNUZ_VALUES: [f32; 256] = E5M2FNUZ.values();
static E8M0FNU_VALUES: [f32; 256] = powers_of_two();
static E2M3FN_VALUES: [f32; 256] = E2M3FN.values();
static E3M2FN_VALUES: [f32; 256] = E3M2FN.values();
static E2M1FN_VALUES: [f32; 256] = E2M1FN.values();

impl SmallFloat {
    const fn values(self) -> [f32; 256] {
        let mut values = [0.0; 256];
        let mut pattern = 0;
        while pattern < 1 << (1 + self.exponent_bits + self.mantissa_bits) {
            values[pattern as usize] = self.value(pattern);
            pattern += 1;
        }
        values
    }

    const fn value(self, pattern: u32) -> f32 {
        let is_negative = pattern >> (self.exponent_bits + self.mantissa_bits) == 1;
        let exponent_ones = (1 << self.exponent_bits) - 1;
        let mantissa_ones = (1 << self.mantissa_bits) - 1;
        let (exponent, mantissa) = (pattern >> self.mantissa_bits & exponent_ones, pattern & mantissa_ones);
        let special = match self.special {
            Special::Ieee if exponent == exponent_ones => Some(if mantissa == 0 { f32::INFINITY } else { f32::NAN }),
            Special::AllOnes if exponent == exponent_ones && mantissa == mantissa_ones => Some(f32::NAN),
            Special::NegativeZero if is_negative && exponent == 0 && mantissa == 0 => return f32::NAN,
            _ => None,
        };
        let magnitude = match special {
            Some(special) => special,
            // A subnormal, which lacks the implicit leading one.
            None if exponent == 0 => mantissa as f32 * power_of_two(1 - self.bias - self.mantissa_bits as i32),
            None => {
                let scale = power_of_two(exponent as i32 - self.bias - self.mantissa_bits as i32);
                (mantissa + mantissa_ones + 1) as f32 * scale
            }
        };
        if is_negative { -magnitude } else { magnitude }
    }
}

/// Returns 2 to the power of `exponent`, which must be the exponent of a normal binary32.
const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

const fn powers_of_two() -> [f32; 256] {
    let mut values = [f32::NAN; 256];
    // 2 to the power of -127 is subnormal. The last pattern is NaN.
    values[0] = f32::from_bits(1 << 22);
    let mut pattern = 1;
    while pattern < 255 {
        values[pattern] = power_of_two(pattern as i32 - 127);
        pattern += 1;
    }
    values
}

impl ElementType {
    /// Returns the value of each byte, for the float types of at most eight bits; `None` for other types. For types smaller than a
    /// byte, the index is the lowest bits of the byte.
    #[must_use]
    pub fn small_float_values(self) -> Option<&'static [f32; 256]> {
        Some(match self {
            Self::Float8E4m3Fn => &E4M3FN_VALUES,
            Self::Float8E5m2 => &E5M2_VALUES,
            Self::Float8E4m3Fnuz => &E4M3FNUZ_VALUES,
            Self::Float8E5m2Fnuz => &E5M2FNUZ_VALUES,
            Self::Float8E8m0Fnu => &E8M0FNU_VALUES,
            Self::Float6E2m3Fn => &E2M3FN_VALUES,
            Self::Float6E3m2Fn => &E3M2FN_VALUES,
            Self::Float4E2m1 => &E2M1FN_VALUES,
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
