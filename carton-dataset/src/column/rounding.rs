//! Floats become floats of 16 bits.

use half::{bf16, f16};

use crate::options::Rounding;

pub(super) fn f16_of_f32(value: f32, rounding: Rounding) -> f16 {
    match rounding {
        Rounding::NearestEven => f16::from_f32(value),
        Rounding::Truncate => truncated_f16(value),
    }
}

pub(super) fn bf16_of_f32(value: f32, rounding: Rounding) -> bf16 {
    match rounding {
        Rounding::NearestEven => bf16::from_f32(value),
        Rounding::Truncate => truncated_bf16(value),
    }
}

pub(super) fn f16_of_f64(value: f64, rounding: Rounding) -> f16 {
    match rounding {
        Rounding::NearestEven => f16::from_f32(to_odd(value)),
        Rounding::Truncate => truncated_f16(value as f32),
    }
}

pub(super) fn bf16_of_f64(value: f64, rounding: Rounding) -> bf16 {
    match rounding {
        Rounding::NearestEven => bf16::from_f32(to_odd(value)),
        Rounding::Truncate => truncated_bf16(value as f32),
    }
}

/// The nearest `f32` if it is exact, else the one next to the value whose last bit is set.
///
/// A value that is then rounded to two bits fewer, or less, becomes what it would have become at once: the bit tells which
/// side of the middle it was on, where rounding to the nearest twice can arrive at a neighbour. `half::f16::from_f64` rounds
/// twice or leaves out bits, depending on the processor.
fn to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || f64::from(nearest) == value {
        return nearest;
    }
    // One of the two neighbours of the value has an odd pattern. Patterns grow with the magnitude.
    let is_too_large = f64::from(nearest).abs() > value.abs();
    let toward_zero = if is_too_large { nearest.to_bits() - 1 } else { nearest.to_bits() };
    f32::from_bits(toward_zero | 1)
}

/// As the Spark connector cuts numbers: the mantissa's lower bits are left out, what would be subnormal is zero.
fn truncated_f16(value: f32) -> f16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    // From the bias of one format to that of the other.
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    let magnitude = match exponent {
        _ if value.is_nan() => 0x7e00,
        31.. => 0x7c00,
        1..31 => (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16,
        _ => 0,
    };
    f16::from_bits(sign | magnitude)
}

/// The upper half. A NaN stays one also where all that told so was in the lower half.
fn truncated_bf16(value: f32) -> bf16 {
    let upper = (value.to_bits() >> 16) as u16;
    bf16::from_bits(if value.is_nan() { upper | 0x40 } else { upper })
}
