//! The rule by which a number becomes one of another type. Every conversion of typed numbers that come in obeys it, wherever they come from.
//!
//! - A number keeps its value, with one exception: a float is rounded to a shorter float, to the nearest value, ties to even
//!   (IEEE 754-2019, 4.3.1), as NumPy's `astype` does.
//! - A finite float never becomes infinite.
//! - An integer that a float cannot hold exactly is refused, and so is anything but an integer in range where the type is an integer: a
//!   fraction, a NaN, an infinity.
//!
//! Numbers without a type are the exception: those of JSON and of Python's lists, where 2 and 2.0 are the same. For a type of floats they are
//! rounded, as decimals are.

use std::fmt;

use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::CastError;
use crate::position::index_of;
use crate::{BoolByte, Float8E4m3Fn, Float8E4m3Fnuz, Float8E5m2, Float8E5m2Fnuz};

/// The reason that a number has no value in another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CastProblem {
    /// The number is below or above the range of the type.
    OutOfRange,
    /// The type holds only integers, and the number is not one.
    NotAnInteger,
    /// The number is an integer with more digits than the floating-point type has.
    NotExact,
    /// The number is a float that the shorter type does not have, where it must not be rounded.
    Rounded,
}

/// A number that another type cannot hold, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostNumber {
    /// The position among the numbers that were to be converted.
    pub position: usize,
    /// The number.
    pub value: String,
    /// The type that cannot hold it.
    pub to: &'static str,
    /// The problem.
    pub problem: CastProblem,
}

impl LostNumber {
    /// The error for an element of a tensor of this shape, which names the index of the element.
    #[must_use]
    pub fn in_tensor(self, shape: &[usize]) -> CastError {
        CastError::Element { tensor: None, index: index_of(self.position, shape), lost: self }
    }
}

impl fmt::Display for LostNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, to, .. } = self;
        match self.problem {
            CastProblem::OutOfRange => write!(f, "{value} is out of range for {to}"),
            CastProblem::NotAnInteger => write!(f, "{value} is not an integer, which {to} needs"),
            CastProblem::NotExact => write!(f, "{value} is an integer that {to} cannot hold exactly"),
            CastProblem::Rounded => write!(f, "{value} is not a value of {to}"),
        }
    }
}

/// The exact value of a number of any type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NumberValue {
    /// An integer. Those of all types fit.
    Integer(i128),
    /// A float. Those of all types fit.
    Float(f64),
}

mod sealed {
    pub trait Sealed {}
}

/// A type of numbers, of tensors or of files.
pub trait Number: Pod + fmt::Debug + sealed::Sealed {
    /// The name of the type.
    const NAME: &'static str;

    /// The exact value of the number.
    fn value(self) -> NumberValue;

    /// The number of this value, by the rule of this module.
    ///
    /// # Errors
    /// The type cannot hold the value.
    fn of(value: NumberValue) -> Result<Self, CastProblem>;

    /// Whether the number is an infinity.
    #[doc(hidden)]
    fn is_infinite(self) -> bool {
        false
    }

    /// Rounds all of `from` in one tight loop, unchecked, if both types are floats for which there is such a loop. Returns whether they are.
    #[doc(hidden)]
    fn round_all<To: Number>(_from: &[Self], _to: &mut [To]) -> bool {
        false
    }

    #[doc(hidden)]
    fn of_f32s(_from: &[f32], _to: &mut [Self]) -> bool {
        false
    }

    #[doc(hidden)]
    fn of_f64s(_from: &[f64], _to: &mut [Self]) -> bool {
        false
    }
}

/// Converts numbers, as many as both slices have.
///
/// ```
/// use carton_tensor::convert_numbers;
/// let mut short = [0.0_f32; 2];
/// convert_numbers(&[0.1_f64, f64::INFINITY], &mut short)?;
/// assert_eq!(short, [0.1, f32::INFINITY]);
/// let lost = convert_numbers(&[1.0, 1e39], &mut short).unwrap_err();
/// assert_eq!((lost.position, lost.to_string()), (1, "1e39 is out of range for float32".to_owned()));
/// # Ok::<(), carton_tensor::LostNumber>(())
/// ```
///
/// # Errors
/// The first number that the other type cannot hold.
pub fn convert_numbers<From: Number, To: Number>(from: &[From], to: &mut [To]) -> Result<(), LostNumber> {
    if !From::round_all(from, to) {
        for (position, (from, to)) in from.iter().zip(to).enumerate() {
            *to = To::of(from.value()).map_err(|problem| lost::<From, To>(position, *from, problem))?;
        }
        return Ok(());
    }
    // Infinities are rare, so that a loop without branches looks for them first.
    const BLOCK: usize = 1024;
    for (block, (from, to)) in from.chunks(BLOCK).zip(to.chunks(BLOCK)).enumerate() {
        if !to.iter().fold(false, |found, to| found | to.is_infinite()) {
            continue;
        }
        let overflowed = |(_, (from, to)): &(usize, (&From, &To))| to.is_infinite() && !from.is_infinite();
        if let Some((position, (from, _))) = from.iter().zip(to).enumerate().find(overflowed) {
            return Err(lost::<From, To>(block * BLOCK + position, *from, CastProblem::OutOfRange));
        }
    }
    Ok(())
}

fn lost<From: Number, To: Number>(position: usize, value: From, problem: CastProblem) -> LostNumber {
    LostNumber { position, value: format!("{value:?}"), to: To::NAME, problem }
}

macro_rules! integers {
    ($($integer:ty => $name:literal),*) => {$(
        impl sealed::Sealed for $integer {}
        impl Number for $integer {
            const NAME: &'static str = $name;

            fn value(self) -> NumberValue {
                NumberValue::Integer(i128::from(self))
            }

            fn of(value: NumberValue) -> Result<Self, CastProblem> {
                Self::try_from(integer(value)?).map_err(|_| CastProblem::OutOfRange)
            }
        }
    )*};
}

fn integer(value: NumberValue) -> Result<i128, CastProblem> {
    match value {
        NumberValue::Integer(integer) => Ok(integer),
        // The cast to 128 bits saturates, and its limits are out of range for every type. The fraction of an infinity is NaN, so that
        // infinities go to the next arm.
        NumberValue::Float(float) if float.fract() == 0.0 => Ok(float as i128),
        NumberValue::Float(_) => Err(CastProblem::NotAnInteger),
    }
}

integers!(
    i8 => "int8", i16 => "int16", i32 => "int32", i64 => "int64",
    u8 => "uint8", u16 => "uint16", u32 => "uint32", u64 => "uint64"
);

impl sealed::Sealed for BoolByte {}
impl Number for BoolByte {
    const NAME: &'static str = "bool";

    fn value(self) -> NumberValue {
        NumberValue::Integer(i128::from(self.0 != 0))
    }

    fn of(value: NumberValue) -> Result<Self, CastProblem> {
        match integer(value)? {
            0 => Ok(Self(0)),
            1 => Ok(Self(1)),
            _ => Err(CastProblem::OutOfRange),
        }
    }
}

macro_rules! floats {
    ($($float:ty => $name:literal, $round:expr, $of_f32s:expr;)*) => {$(
        impl sealed::Sealed for $float {}
        impl Number for $float {
            const NAME: &'static str = $name;

            fn value(self) -> NumberValue {
                NumberValue::Float(f64::from(self))
            }

            fn of(value: NumberValue) -> Result<Self, CastProblem> {
                let float = match value {
                    NumberValue::Integer(integer) => exact(integer)?,
                    NumberValue::Float(float) => float,
                };
                let rounded: Self = $round(float);
                match value {
                    _ if rounded.is_infinite() && float.is_finite() => Err(CastProblem::OutOfRange),
                    NumberValue::Integer(_) if f64::from(rounded) != float => Err(CastProblem::NotExact),
                    _ => Ok(rounded),
                }
            }

            fn is_infinite(self) -> bool {
                self.is_infinite()
            }

            fn round_all<To: Number>(from: &[Self], to: &mut [To]) -> bool {
                RoundAll::round_all(from, to)
            }

            fn of_f32s(from: &[f32], to: &mut [Self]) -> bool {
                $of_f32s(from, to);
                true
            }

            fn of_f64s(from: &[f64], to: &mut [Self]) -> bool {
                from.iter().zip(to).for_each(|(from, to)| *to = $round(*from));
                true
            }
        }
    )*};
}

/// The loop for numbers of one floating-point type.
trait RoundAll: Sized {
    fn round_all<To: Number>(from: &[Self], to: &mut [To]) -> bool;
}

impl RoundAll for f32 {
    fn round_all<To: Number>(from: &[Self], to: &mut [To]) -> bool {
        To::of_f32s(from, to)
    }
}

impl RoundAll for f64 {
    fn round_all<To: Number>(from: &[Self], to: &mut [To]) -> bool {
        To::of_f64s(from, to)
    }
}

fn exact(integer: i128) -> Result<f64, CastProblem> {
    let float = integer as f64;
    if float as i128 == integer { Ok(float) } else { Err(CastProblem::NotExact) }
}

floats! {
    f64 => "float64", |float: f64| float, |from: &[f32], to: &mut [f64]| {
        from.iter().zip(to).for_each(|(from, to)| *to = f64::from(*from));
    };
    f32 => "float32", |float: f64| float as f32, |from: &[f32], to: &mut [f32]| {
        from.iter().zip(to).for_each(|(from, to)| *to = *from);
    };
}

floats! {
    f16 => "float16", |float: f64| f16::from_f32(to_odd(float)), round_f32s;
    bf16 => "bfloat16", |float: f64| bf16::from_f32(to_odd(float)), round_f32s;
}

/// Uses the CPU's conversion instructions if it has them.
fn round_f32s<H>(from: &[f32], to: &mut [H])
where
    [H]: HalfFloatSliceExt,
{
    let n = from.len().min(to.len());
    to[..n].convert_from_f32_slice(&from[..n]);
}

// Every value of the type is exact in longer floats, for which no loop is needed.
impl RoundAll for f16 {
    fn round_all<To: Number>(_: &[Self], _: &mut [To]) -> bool {
        false
    }
}

impl RoundAll for bf16 {
    fn round_all<To: Number>(_: &[Self], _: &mut [To]) -> bool {
        false
    }
}

/// Rounds to odd: returns the nearest `f32` if it is exact, else the neighbour of the value whose last bit is set.
///
/// Rounding the result to a format at least two bits shorter gives the same as rounding the value once: the odd bit keeps the side of
/// the midpoint that the value was on, where rounding to the nearest twice can arrive at a neighbour. `half::f16::from_f64` rounds
/// twice or drops bits, depending on the processor.
pub(crate) fn to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || f64::from(nearest) == value {
        return nearest;
    }
    // Exactly one of the value's two neighbours has an odd bit pattern. Patterns grow with the magnitude.
    let is_too_large = f64::from(nearest).abs() > value.abs();
    let toward_zero = if is_too_large { nearest.to_bits() - 1 } else { nearest.to_bits() };
    f32::from_bits(toward_zero | 1)
}

macro_rules! small_floats {
    ($($float:ty => $name:literal),*) => {$(
        impl sealed::Sealed for $float {}
        impl Number for $float {
            const NAME: &'static str = $name;

            fn value(self) -> NumberValue {
                NumberValue::Float(f64::from(self.to_f32()))
            }

            fn of(value: NumberValue) -> Result<Self, CastProblem> {
                let float = match value {
                    NumberValue::Integer(integer) => exact(integer)?,
                    NumberValue::Float(float) => float,
                };
                let rounded = Self::from_f64(float).ok_or(CastProblem::OutOfRange)?;
                match value {
                    NumberValue::Integer(_) if f64::from(rounded.to_f32()) != float => Err(CastProblem::NotExact),
                    _ => Ok(rounded),
                }
            }
        }
    )*};
}

small_floats!(
    Float8E4m3Fn => "float8_e4m3fn", Float8E5m2 => "float8_e5m2",
    Float8E4m3Fnuz => "float8_e4m3fnuz", Float8E5m2Fnuz => "float8_e5m2fnuz"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<From: Number, To: Number + PartialEq>(from: &[From], expected: Result<&[To], (usize, &str)>) {
        let mut to = vec![To::zeroed(); from.len()];
        let found = convert_numbers(from, &mut to).map_err(|lost| (lost.position, lost.to_string()));
        let expected = expected.map(<[To]>::to_vec).map_err(|(position, text)| (position, text.to_owned()));
        assert_eq!(found.map(|()| to), expected, "{from:?}");
    }

    #[test]
    fn integers_become_floats_that_have_them() {
        check(&[1_i64 << 24, -3], Ok(&[16_777_216.0_f32, -3.0]));
        check(
            &[0, (1_i64 << 24) + 1],
            Err::<&[f32], _>((1, "16777217 is an integer that float32 cannot hold exactly")),
        );
        check(
            &[u64::MAX],
            Err::<&[f64], _>((0, "18446744073709551615 is an integer that float64 cannot hold exactly")),
        );
        check(
            &[u64::MAX],
            Err::<&[f32], _>((0, "18446744073709551615 is an integer that float32 cannot hold exactly")),
        );
        check(&[i64::MIN], Ok(&[-(2_f32.powi(63))]));
    }

    #[test]
    fn booleans_are_bytes() {
        check(&[BoolByte(0), BoolByte(1), BoolByte(7)], Ok(&[0_u8, 1, 1]));
        check(&[BoolByte(1)], Ok(&[1.0_f32]));
        check(&[0_i8, 1], Ok(&[BoolByte(0), BoolByte(1)]));
        check(&[1_u8, 2], Err::<&[BoolByte], _>((1, "2 is out of range for bool")));
    }

    /// The loop looks at blocks of numbers.
    #[test]
    fn the_first_overflow_is_found_behind_infinities() {
        let mut many = vec![1.0_f64; 5000];
        many[10] = f64::INFINITY;
        many[3000] = f64::NEG_INFINITY;
        many[3001] = -1e39;
        many[4000] = 1e39;
        check(&many, Err::<&[f32], _>((3001, "-1e39 is out of range for float32")));
    }

    #[test]
    fn halves_overflow_where_rounding_does() {
        // 65520 lies in the middle between the largest float16 and the next power of two, and is rounded to the even one, which is none.
        let max = [f16::MAX, f16::NEG_INFINITY];
        check(&[65_519.996_f32, f32::NEG_INFINITY], Ok(&max));
        check(&[1.0, 65_520.0_f32], Err::<&[f16], _>((1, "65520.0 is out of range for float16")));
        check(&[65_519.999_999_f64, f64::NEG_INFINITY], Ok(&max));
        check(&[-65_520.0_f64], Err::<&[f16], _>((0, "-65520.0 is out of range for float16")));
        check(&[65_504_u32], Ok(&max[..1]));
        check(&[65_536_u32], Err::<&[f16], _>((0, "65536 is out of range for float16")));
        check(&[2049_u32], Err::<&[f16], _>((0, "2049 is an integer that float16 cannot hold exactly")));
        check(&[f32::MAX], Err::<&[bf16], _>((0, "3.4028235e38 is out of range for bfloat16")));
        check(&[f16::MAX, f16::from_f32(0.1)], Ok(&[65_504.0_f32, f16::from_f32(0.1).to_f32()]));
        check(&[f16::from_f32(1.5)], Err::<&[i8], _>((0, "1.5 is not an integer, which int8 needs")));
        check(&[bf16::MAX], Err::<&[f16], _>((0, "3.3895314e38 is out of range for float16")));
    }
}
