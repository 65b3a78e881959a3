//! Truncates floats to floats of 16 bits, as the Spark connector does (spec/dataset.md §4.2). Rounding is done by `carton-tensor`.

use half::{bf16, f16};

/// Drops the lower bits of the mantissa, and replaces a subnormal result by zero.
pub(super) fn truncated_f16(value: f32) -> f16 {
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
pub(super) fn truncated_bf16(value: f32) -> bf16 {
    let upper = (value.to_bits() >> 16) as u16;
    bf16::from_bits(if value.is_nan() { upper | 0x40 } else { upper })
}
