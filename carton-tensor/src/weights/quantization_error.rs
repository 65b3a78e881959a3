//! The error of quantization (spec/weights.md §2.4).

use serde::Serialize;

use super::kernels::Deviation;

/// A factor for norms that exceed float64. No tensor has so many elements that its scaled norm exceeds float64 as well. A power of two,
/// so that it rounds nothing.
const SCALE_OF_HUGE_NORMS: f64 = 1.0 / (1_u128 << 64) as f64;

/// The distance between the original numbers and those that the integers represent. Numbers that were not finite are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QuantizationError {
    /// The Euclidean norm of the differences; infinite if it exceeds float64.
    pub norm_of_error: f64,
    /// The Euclidean norm of the original numbers; infinite if it exceeds float64.
    pub norm: f64,
    /// The largest absolute difference.
    pub max_absolute: f64,
    /// `norm_of_error` times [`SCALE_OF_HUGE_NORMS`].
    #[serde(skip)]
    scaled_norm_of_error: f64,
    /// `norm` times [`SCALE_OF_HUGE_NORMS`].
    #[serde(skip)]
    scaled_norm: f64,
}

impl QuantizationError {
    /// The norm of the differences divided by that of the numbers: 0.01 is a loss of 1 %. 0 if all numbers were 0.
    #[must_use]
    pub fn relative(&self) -> f64 {
        match self {
            _ if self.norm_of_error == 0.0 => 0.0,
            _ if self.norm.is_finite() => self.norm_of_error / self.norm,
            _ => self.scaled_norm_of_error / self.scaled_norm,
        }
    }

    /// Returns the error of both together.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            // Squaring large float64 numbers would overflow.
            norm_of_error: self.norm_of_error.hypot(other.norm_of_error),
            norm: self.norm.hypot(other.norm),
            max_absolute: self.max_absolute.max(other.max_absolute),
            scaled_norm_of_error: self.scaled_norm_of_error.hypot(other.scaled_norm_of_error),
            scaled_norm: self.scaled_norm.hypot(other.scaled_norm),
        }
    }

    /// Makes the error from sums in units of `unit`.
    pub(super) fn in_units_of(unit: f64, deviation: Deviation) -> Self {
        Self::converted(deviation, |in_units| in_units * unit)
    }

    /// Makes the error for numbers with one scale from sums in steps of `1 / scale`.
    pub(super) fn of(deviation: Deviation, scale: f64) -> Self {
        Self::converted(deviation, |steps| steps / scale)
    }

    /// Makes the error from sums in a unit that `to_number` converts.
    fn converted(deviation: Deviation, to_number: impl Fn(f64) -> f64) -> Self {
        let (norm_of_error, norm) = (deviation.squared_error.sqrt(), deviation.squares.sqrt());
        Self {
            norm_of_error: to_number(norm_of_error),
            norm: to_number(norm),
            max_absolute: to_number(deviation.max_absolute),
            scaled_norm_of_error: to_number(norm_of_error * SCALE_OF_HUGE_NORMS),
            scaled_norm: to_number(norm * SCALE_OF_HUGE_NORMS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_merge_as_if_they_had_been_computed_at_once() {
        let of = |squared_error, squares, max_absolute, scale| {
            QuantizationError::of(Deviation { squared_error, squares, max_absolute }, scale)
        };
        let merged = of(9.0, 36.0, 0.5, 1.0).merge(of(64.0, 256.0, 0.25, 2.0));
        assert_eq!((merged.norm_of_error, merged.max_absolute), (5.0, 0.5));
        assert_eq!(merged.relative(), 5.0 / 10.0);
        assert_eq!(QuantizationError::default().relative(), 0.0);
        // The squares of these numbers overflow float64.
        let huge = of(1.0, 4.0, 0.5, 1e-300);
        assert!((huge.merge(huge).relative() - 0.5).abs() < 1e-15);
    }

    /// Numbers that are finite may have an infinite norm.
    #[test]
    fn norms_beyond_float64_have_a_relative_error() {
        let check = |error: QuantizationError, norm_of_error: f64, relative: f64| {
            let is_near =
                error.norm_of_error == norm_of_error || (error.norm_of_error / norm_of_error - 1.0).abs() < 1e-12;
            assert!(is_near && error.norm == f64::INFINITY, "{error:?}");
            assert!((error.relative() - relative).abs() < 1e-12, "{}", error.relative());
        };
        let sums = |squared_error, squares| Deviation { squared_error, squares, max_absolute: 0.0 };
        check(QuantizationError::of(sums(1.0, 4e16), 1e-307), 1e307, 0.5e-8);
        check(QuantizationError::in_units_of(1e308, sums(1e8, 4e8)), f64::INFINITY, 0.5);
        // The norm of each alone is finite, and that of all is not.
        let one = QuantizationError::in_units_of(1e308, sums(0.0625, 1.0));
        assert!(one.norm.is_finite());
        let all = one.merge(one).merge(one).merge(one);
        check(all, 5e307, 0.25);
        // Small numbers do not count beside them.
        let small = QuantizationError::of(sums(1.0, 4.0), f64::MAX);
        assert_eq!(small.relative(), 0.5);
        check(all.merge(small), 5e307, 0.25);
    }
}
