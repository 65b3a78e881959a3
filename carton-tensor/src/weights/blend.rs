//! Blends the numbers of one tensor of several models (spec/weights.md §8): bytes in, numbers out. Pure.
//!
//! Numbers are computed in float32, and in float64 where the tensors are float64. Products are added by fused multiply-add where the formula of
//! the model's framework is, because its results are the reference.

use std::ops::{Add, Div, Mul, Sub};

use super::fused::{self, Fused};
use crate::files::ElementType;

/// The most models that are merged at once, and how an error says it. Each model has a thread and some MB of memory.
const MAX_MODELS: (usize, &str) = (64, "at most 64");

/// How the tensors of several models become one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MergeMethod {
    /// The sum of the tensors, each times its weight; divided by the sum of the weights if it is normalized.
    Linear {
        /// A weight for each model.
        weights: Vec<f64>,
        /// Whether to divide by their sum.
        normalize: bool,
    },
    /// Spherical interpolation between two models, from the first at 0 to the second at 1.
    Slerp {
        /// Where between them.
        t: f64,
    },
    /// The first model, and the differences of the others from it, each times its weight.
    TaskArithmetic {
        /// A weight for each model but the first.
        weights: Vec<f64>,
        /// Whether to divide the sum of the differences by that of the weights.
        normalize: bool,
        /// A factor of that sum.
        lambda: f64,
    },
}

/// The reason that tensors cannot be blended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BlendError {
    /// Another number of weights than models.
    #[error("{expected} weights are needed, one for each model, and {found} were given")]
    Weights {
        /// The number of models that have a weight.
        expected: usize,
        /// The number of weights.
        found: usize,
    },
    /// Another number of models than the method takes.
    #[error("{method} takes {expected} models, and {found} were given")]
    Models {
        /// The method.
        method: &'static str,
        /// How many it takes.
        expected: &'static str,
        /// How many were given.
        found: usize,
    },
    /// A number of the method is not finite, or too large for the numbers of the tensors.
    #[error("{name} is {value}, which is not a finite number in {dtype}")]
    Number {
        /// What it is: `a weight`, `t`, `lambda`.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The type in which it is used.
        dtype: ElementType,
    },
    /// The weights cannot be normalized.
    #[error("the weights sum to {sum}, and cannot be normalized")]
    Sum {
        /// Their sum.
        sum: f64,
    },
    /// A tensor has no direction.
    #[error("its norm is {norm} in one of the models, so there is no angle between them")]
    Norm {
        /// The norm, which is not finite.
        norm: f64,
    },
}

impl MergeMethod {
    /// The name of the method.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Linear { .. } => "linear",
            Self::Slerp { .. } => "slerp",
            Self::TaskArithmetic { .. } => "task-arithmetic",
        }
    }

    /// Whether the numbers of [`Angle`] are needed before tensors can be blended.
    #[must_use]
    pub const fn needs_angle(&self) -> bool {
        matches!(self, Self::Slerp { .. })
    }

    /// Checks the method for this many models.
    ///
    /// # Errors
    /// [`BlendError`], except [`BlendError::Norm`].
    pub fn check(&self, n_models: usize) -> Result<(), BlendError> {
        let wrong = |expected| Err(BlendError::Models { method: self.name(), expected, found: n_models });
        match self {
            Self::Linear { .. } if n_models < 2 => return wrong("two or more"),
            Self::Slerp { .. } if n_models != 2 => return wrong("two"),
            Self::TaskArithmetic { .. } if n_models < 2 => return wrong("a base and one or more"),
            _ if n_models > MAX_MODELS.0 => return wrong(MAX_MODELS.1),
            _ => {}
        }
        let (expected, weights): (usize, &[f64]) = match self {
            Self::Linear { weights, .. } => (n_models, weights),
            Self::TaskArithmetic { weights, .. } => (n_models - 1, weights),
            Self::Slerp { .. } => (0, &[]),
        };
        if weights.len() != expected {
            return Err(BlendError::Weights { expected, found: weights.len() });
        }
        Blend::<f32>::new(self, None)?;
        Blend::<f64>::new(self, None).map(drop)
    }
}

/// What the angle between two tensors is computed from, in float64, from one pass over both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Angle {
    dot: f64,
    squares: [f64; 2],
}

impl Angle {
    /// Adds a piece of both tensors. `None` if they have no real numbers.
    #[must_use]
    pub fn add(&mut self, (from_a, a): (ElementType, &[u8]), (from_b, b): (ElementType, &[u8])) -> Option<()> {
        /// The sums of a piece are those of its interleaved parts, which vector instructions add.
        const LANES: usize = 8;
        let (a, b) = (from_a.to_f64(a)?, from_b.to_f64(b)?);
        let mut sums = [[0.0_f64; LANES]; 3];
        for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
            for (lane, (a, b)) in a.iter().zip(b).enumerate() {
                sums[0][lane] += a * b;
                sums[1][lane] += a * a;
                sums[2][lane] += b * b;
            }
        }
        let [dot, of_a, of_b] = sums.map(|lanes| lanes.iter().sum::<f64>());
        self.dot += dot;
        self.squares = [self.squares[0] + of_a, self.squares[1] + of_b];
        Some(())
    }

    /// The cosine of the angle. A tensor whose norm is at most 1e-8 is taken as it is, as if its norm were 1.
    fn cosine(self) -> Result<f64, BlendError> {
        let norms = self.squares.map(f64::sqrt);
        if let Some(norm) = norms.into_iter().find(|norm| !norm.is_finite()) {
            return Err(BlendError::Norm { norm });
        }
        let [a, b] = norms.map(|norm| if norm > 1e-8 { norm } else { 1.0 });
        Ok((self.dot / a / b).clamp(-1.0, 1.0))
    }
}

/// A float type in which numbers are computed.
pub trait Compute:
    Fused + Copy + PartialEq + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// The element type.
    const DTYPE: ElementType;
    /// Zero.
    const ZERO: Self;

    /// The nearest number of this type.
    fn of(number: f64) -> Self;

    /// As a float64.
    fn to_f64(self) -> f64;

    /// The bytes of numbers, little-endian.
    fn as_bytes(numbers: &[Self]) -> &[u8];

    /// Elements of a file as numbers of this type. `None` if they are complex.
    fn decode(dtype: ElementType, bytes: &[u8]) -> Option<Vec<Self>>;
}

impl Compute for f32 {
    const DTYPE: ElementType = ElementType::Float32;
    const ZERO: Self = 0.0;

    fn of(number: f64) -> Self {
        number as Self
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn as_bytes(numbers: &[Self]) -> &[u8] {
        bytemuck::cast_slice(numbers)
    }

    fn decode(dtype: ElementType, bytes: &[u8]) -> Option<Vec<Self>> {
        dtype.to_f32(bytes)
    }
}

impl Compute for f64 {
    const DTYPE: ElementType = ElementType::Float64;
    const ZERO: Self = 0.0;

    fn of(number: f64) -> Self {
        number
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn as_bytes(numbers: &[Self]) -> &[u8] {
        bytemuck::cast_slice(numbers)
    }

    fn decode(dtype: ElementType, bytes: &[u8]) -> Option<Vec<Self>> {
        dtype.to_f64(bytes)
    }
}

/// A method with its numbers in the type in which it computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Blend<F> {
    kind: Kind<F>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind<F> {
    /// Coefficients, and what their sum is divided by.
    Sum(Vec<F>, Option<F>),
    /// Two coefficients. The products are rounded before they are added.
    Interpolation(F, F),
    /// Weights of differences from the first, what their sum is divided by, and what it is multiplied by.
    Differences(Vec<F>, Option<F>, Option<F>),
}

impl<F: Compute> Blend<F> {
    /// Prepares the method. The angle is that of the tensor to blend, for [methods that need it](MergeMethod::needs_angle).
    ///
    /// # Errors
    /// [`BlendError`].
    pub fn new(method: &MergeMethod, angle: Option<&Angle>) -> Result<Self, BlendError> {
        let number = |name: &'static str, value: f64| {
            let found = F::of(value);
            let refused = BlendError::Number { name, value, dtype: F::DTYPE };
            if found.to_f64().is_finite() { Ok(found) } else { Err(refused) }
        };
        let numbers = |weights: &[f64]| {
            weights.iter().map(|weight| number("a weight", *weight)).collect::<Result<Vec<F>, BlendError>>()
        };
        let sum = |weights: &[F]| weights.iter().fold(F::ZERO, |sum, weight| sum + *weight);
        let kind = match method {
            MergeMethod::Linear { weights, normalize } => {
                let weights = numbers(weights)?;
                let sum = sum(&weights);
                if *normalize && (!sum.to_f64().is_finite() || sum == F::ZERO) {
                    return Err(BlendError::Sum { sum: sum.to_f64() });
                }
                Kind::Sum(weights, normalize.then_some(sum))
            }
            MergeMethod::TaskArithmetic { weights, normalize, lambda } => {
                let weights = numbers(weights)?;
                let sum = sum(&weights);
                if *normalize && !sum.to_f64().is_finite() {
                    return Err(BlendError::Sum { sum: sum.to_f64() });
                }
                let divisor = if sum.to_f64().abs() < 1e-8 { F::of(1.0) } else { sum };
                let lambda = number("lambda", *lambda)?;
                Kind::Differences(weights, normalize.then_some(divisor), Some(lambda).filter(|of| *of != F::of(1.0)))
            }
            MergeMethod::Slerp { t } => {
                let t = number("t", *t)?;
                let (a, b) = coefficients(t, angle.copied().unwrap_or_default().cosine()?);
                Kind::Interpolation(a, b)
            }
        };
        Ok(Self { kind })
    }

    /// Blends a piece of the tensor of each model, all of `dtype` and of one length. The numbers replace those in `out`. `None` if they are complex,
    /// or of other lengths or another number of models than the method has.
    #[must_use]
    pub fn apply(&self, dtype: ElementType, pieces: &[&[u8]], out: &mut Vec<F>) -> Option<()> {
        let n_models = match &self.kind {
            Kind::Sum(weights, _) => weights.len(),
            Kind::Interpolation(..) => 2,
            Kind::Differences(weights, ..) => weights.len() + 1,
        };
        let (first, others) = pieces.split_first().filter(|_| pieces.len() == n_models)?;
        let decoded = |bytes: &[u8]| F::decode(dtype, bytes).filter(|_| bytes.len() == first.len());
        let numbers = decoded(first)?;
        out.clear();
        match &self.kind {
            Kind::Sum(weights, divisor) => {
                out.resize(numbers.len(), F::ZERO);
                let mut weights = weights.iter();
                fused::add_products(out, &numbers, *weights.next()?);
                for (piece, weight) in others.iter().zip(weights) {
                    fused::add_products(out, &decoded(piece)?, *weight);
                }
                if let Some(divisor) = divisor {
                    out.iter_mut().for_each(|number| *number = *number / *divisor);
                }
            }
            Kind::Interpolation(of_first, of_second) => {
                let second = decoded(others.first()?)?;
                out.extend(numbers.iter().zip(second).map(|(a, b)| *of_first * *a + *of_second * b));
            }
            Kind::Differences(weights, divisor, lambda) => {
                out.resize(numbers.len(), F::ZERO);
                for (piece, weight) in others.iter().zip(weights) {
                    for ((sum, base), number) in out.iter_mut().zip(&numbers).zip(decoded(piece)?) {
                        *sum = *sum + (number - *base) * *weight;
                    }
                }
                for (sum, base) in out.iter_mut().zip(&numbers) {
                    let divided = divisor.map_or(*sum, |divisor| *sum / divisor);
                    *sum = *base + lambda.map_or(divided, |lambda| divided * lambda);
                }
            }
        }
        Some(())
    }
}

/// The coefficients of the two tensors, at `t` between them.
fn coefficients<F: Compute>(t: F, cosine: f64) -> (F, F) {
    /// From this cosine on, the tensors are nearly parallel, and are interpolated linearly.
    const PARALLEL: f64 = 0.9995;
    let rest = F::of(1.0) - t;
    if cosine.abs() > PARALLEL {
        return (rest, t);
    }
    let angle = cosine.acos();
    let of = |share: F| F::of((share.to_f64() * angle).sin() / angle.sin());
    (of(rest), of(t))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn models_without_a_blend() {
        let linear = |weights: &[f64]| MergeMethod::Linear { weights: weights.to_vec(), normalize: true };
        assert!(matches!(linear(&[1.0, -1.0]).check(2), Err(BlendError::Sum { .. })));
        assert!(matches!(linear(&[1.0]).check(1), Err(BlendError::Models { found: 1, .. })));
        assert!(matches!(linear(&[1.0]).check(2), Err(BlendError::Weights { expected: 2, found: 1 })));
        assert!(matches!(linear(&[1.0, f64::NAN]).check(2), Err(BlendError::Number { .. })));
    }

    #[test]
    fn a_norm_that_is_not_finite_gives_no_angle() {
        let bytes = |numbers: [f64; 2]| numbers.map(f64::to_le_bytes).concat();
        let of = |a, b| {
            let mut angle = Angle::default();
            let (a, b) = (bytes(a), bytes(b));
            angle.add((ElementType::Float64, &a), (ElementType::Float64, &b)).unwrap();
            angle.cosine()
        };
        assert!(matches!(of([f64::INFINITY, 0.0], [1.0, 1.0]), Err(BlendError::Norm { .. })));
        assert!(matches!(of([1.0, 1.0], [f64::NAN, 1.0]), Err(BlendError::Norm { .. })));
        assert_eq!(of([1.0, 0.0], [0.0, 2.0]).unwrap(), 0.0);
    }
}
