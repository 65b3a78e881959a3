//! How close numbers must be.

/// How close numbers must be: `|actual - expected| <= atol + rtol * |expected|`.
///
/// The tolerances are for floats; integers and strings must be equal.
///
/// ```
/// use carton_tensor::Tolerance;
/// let tolerance = Tolerance::new(1e-3, 0.0).equal_nan(true);
/// assert_eq!(tolerance.rtol, 1e-3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tolerance {
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Whether NaN equals NaN.
    pub equal_nan: bool,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self::new(1e-5, 1e-8)
    }
}

impl Tolerance {
    /// Makes a tolerance for which NaN does not equal NaN.
    #[must_use]
    pub const fn new(rtol: f64, atol: f64) -> Self {
        Self { rtol, atol, equal_nan: false }
    }

    /// Whether NaN equals NaN.
    #[must_use]
    pub const fn equal_nan(self, equal_nan: bool) -> Self {
        Self { equal_nan, ..self }
    }
}
