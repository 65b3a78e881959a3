//! Floats of at most eight bits: the value of each bit pattern, and the pattern that is nearest to a value.

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
    #[cfg(feature = "files")]
    None,
}

const E4M3FN: SmallFloat = SmallFloat { exponent_bits: 4, mantissa_bits: 3, bias: 7, special: Special::AllOnes };
const E5M2: SmallFloat = SmallFloat { exponent_bits: 5, mantissa_bits: 2, bias: 15, special: Special::Ieee };
const E4M3FNUZ: SmallFloat = SmallFloat { exponent_bits: 4, mantissa_bits: 3, bias: 8, special: Special::NegativeZero };
const E5M2FNUZ: SmallFloat =
    SmallFloat { exponent_bits: 5, mantissa_bits: 2, bias: 16, special: Special::NegativeZero };
#[cfg(feature = "files")]
const E2M3FN: SmallFloat = SmallFloat { exponent_bits: 2, mantissa_bits: 3, bias: 1, special: Special::None };
#[cfg(feature = "files")]
const E3M2FN: SmallFloat = SmallFloat { exponent_bits: 3, mantissa_bits: 2, bias: 3, special: Special::None };
#[cfg(feature = "files")]
const E2M1FN: SmallFloat = SmallFloat { exponent_bits: 2, mantissa_bits: 1, bias: 1, special: Special::None };

/// The value of each byte. Every value of these types is exact in binary32.
pub(crate) static E4M3FN_VALUES: [f32; 256] = E4M3FN.values();
pub(crate) static E5M2_VALUES: [f32; 256] = E5M2.values();
pub(crate) static E4M3FNUZ_VALUES: [f32; 256] = E4M3FNUZ.values();
pub(crate) static E5M2FNUZ_VALUES: [f32; 256] = E5M2FNUZ.values();
#[cfg(feature = "files")]
pub(crate) static E8M0FNU_VALUES: [f32; 256] = powers_of_two();
#[cfg(feature = "files")]
pub(crate) static E2M3FN_VALUES: [f32; 256] = E2M3FN.values();
#[cfg(feature = "files")]
pub(crate) static E3M2FN_VALUES: [f32; 256] = E3M2FN.values();
#[cfg(feature = "files")]
pub(crate) static E2M1FN_VALUES: [f32; 256] = E2M1FN.values();

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

#[cfg(feature = "files")]
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

/// The byte whose value is nearest to `value`, of a type of eight bits with these values. Ties go to the even byte (IEEE 754-2019, 4.3.1). `None`
/// where the rounded value would be beyond the largest finite one. Infinities and NaN stay what they are, where the type has them.
pub(crate) fn nearest(values: &[f32; 256], value: f64) -> Option<u8> {
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let find = |wanted: &dyn Fn(f32) -> bool| (0..=0xff_u8).find(|byte| wanted(values[usize::from(*byte)]));
    if value.is_nan() {
        return find(&f32::is_nan);
    }
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        return find(&|found| f64::from(found) == value);
    }
    // The values of the bytes without a sign grow up to the largest finite one.
    let n_finite = values[..0x80].iter().take_while(|found| found.is_finite()).count();
    let at = |byte: usize| f64::from(values[byte]);
    let above = values[..n_finite].partition_point(|found| f64::from(*found) < magnitude);
    let byte = if above == n_finite {
        // The next value would follow at the distance of the two largest. Half of that away, the even one of them is nearest.
        let (last, step) = (at(n_finite - 1), at(n_finite - 1) - at(n_finite - 2));
        let limit = last + step / 2.0;
        if magnitude > limit || (magnitude == limit && n_finite.is_multiple_of(2)) {
            return None;
        }
        n_finite - 1
    } else if above == 0 {
        0
    } else {
        let (low, high) = (magnitude - at(above - 1), at(above) - magnitude);
        if low < high || (low == high && above % 2 == 1) { above - 1 } else { above }
    };
    // Where there is no negative zero, its byte is NaN.
    let byte = byte as u8 | sign;
    Some(if values[usize::from(byte)].is_nan() { 0 } else { byte })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_value_is_its_own_nearest() {
        for values in [&E4M3FN_VALUES, &E5M2_VALUES, &E4M3FNUZ_VALUES, &E5M2FNUZ_VALUES] {
            for (byte, value) in values.iter().enumerate() {
                let found = nearest(values, f64::from(*value)).unwrap();
                let equal = values[usize::from(found)].to_bits() == value.to_bits();
                assert!(equal || (value.is_nan() && values[usize::from(found)].is_nan()), "{byte}: {value}, {found}");
            }
        }
    }

    // The bytes are those of `ml_dtypes` 0.6 (`numpy.float64(x).astype(ml_dtypes.float8_e4m3fn).view("u1")`), but for what it makes NaN or
    // an infinity of.
    #[test]
    fn values_in_between_are_rounded_to_even() {
        let check = |values, value, expected: Option<u8>| assert_eq!(nearest(values, value), expected, "{value}");
        check(&E4M3FN_VALUES, 0.3, Some(0x2a));
        check(&E4M3FN_VALUES, 1.0625, Some(0x38));
        check(&E4M3FN_VALUES, 1.1875, Some(0x3a));
        check(&E4M3FN_VALUES, -464.0, Some(0xfe));
        check(&E4M3FN_VALUES, 464.1, None);
        check(&E4M3FN_VALUES, f64::INFINITY, None);
        check(&E4M3FN_VALUES, -0.0, Some(0x80));
        check(&E5M2_VALUES, 61440.0, None);
        check(&E5M2_VALUES, 61439.0, Some(0x7b));
        check(&E5M2_VALUES, f64::NEG_INFINITY, Some(0xfc));
        check(&E4M3FNUZ_VALUES, -0.0, Some(0));
        check(&E4M3FNUZ_VALUES, -1e-9, Some(0));
        check(&E5M2FNUZ_VALUES, 57344.0, Some(0x7f));
    }
}
