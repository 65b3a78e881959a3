//! The error of quantization (spec/weights.md §2.4).

use serde::Serialize;

use super::kernels::Deviation;

/// The distance between the original numbers and those that the integers represent. Numbers that were not finite are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QuantizationError {
    /// The Euclidean norm of the differences.
    pub norm_of_error: f64,
    /// The Euclidean norm of the original numbers.
    pub norm: f64,
    /// The largest absolute difference.
    pub max_absolute: f64,
}

impl QuantizationError {
    /// The norm of the differences divided by that of the numbers: 0.01 is a loss of 1 %. 0 if all numbers were 0.
    #[must_use]
    pub fn relative(&self) -> f64 {
        if self.norm_of_error == 0.0 { 0.0 } else { self.norm_of_error / self.norm }
    }

    /// Returns the error of both together.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            // Squaring large float64 numbers would overflow.
            norm_of_error: self.norm_of_error.hypot(other.norm_of_error),
            norm: self.norm.hypot(other.norm),
            max_absolute: self.max_absolute.max(other.max_absolute),
        }
    }

    /// Makes the error from sums in units of `unit`.
    pub(super) fn in_units_of(unit: f64, deviation: Deviation) -> Self {
        Self {
            norm_of_error: deviation.squared_error.sqrt() * unit,
            norm: deviation.squares.sqrt() * unit,
            max_absolute: deviation.max_absolute * unit,
        }
    }

    /// Makes the error for numbers with one scale from sums in steps of `1 / scale`.
    pub(super) fn of(deviation: Deviation, scale: f64) -> Self {
        Self {
            norm_of_error: deviation.squared_error.sqrt() / scale,
            norm: deviation.squares.sqrt() / scale,
            max_absolute: deviation.max_absolute / scale,
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
}
