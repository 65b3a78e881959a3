//! Conversion from and to `ndarray`.
