//! Converts floats to floats of 16 bits (spec/dataset.md §4.2).

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

/// Rounds to odd: returns the nearest `f32` if it is exact, else the neighbour of the value whose last bit is set.
///
/// Rounding the result to a format at least two bits shorter gives the same as rounding the value once: the odd bit keeps the side of the
/// midpoint that the value was on, where rounding to the nearest twice can arrive at a neighbour. `half::f16::from_f64` rounds twice or
/// drops bits, depending on the processor.
fn to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || f64::from(nearest) == value {
        return nearest;
    }
    // Exactly one of the value's two neighbours has an odd bit pattern. Patterns grow with the magnitude.
    let is_too_large = f64::from(nearest).abs() > value.abs();
    let toward_zero = if is_too_large { nearest.to_bits() - 1 } else { nearest.to_bits() };
    f32::from_bits(toward_zero | 1)
}

/// Truncates as the Spark connector does: drops the lower bits of the mantissa, and replaces a subnormal result by zero.
fn truncated_f16(value: f32) -> f16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    // Converts the bias of F32 to that of F16.
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    let magnitude = match exponent {
        _ if value.is_nan() => 0x7e00,
        31.. => 0x7c00,
        1..31 => (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16,
        _ => 0,
    };
    f16::from_bits(sign | magnitude)
}

/// The upper half of the bits. A NaN stays a NaN even if only its lower half had bits of the mantissa set.
fn truncated_bf16(value: f32) -> bf16 {
    let upper = (value.to_bits() >> 16) as u16;
    bf16::from_bits(if value.is_nan() { upper | 0x40 } else { upper })
}
