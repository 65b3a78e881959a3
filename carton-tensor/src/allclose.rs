//! Comparison of tensors as NumPy's `allclose` defines it, with the worst element reported.
//!
//! Floats are compared in their own precision, as NumPy does when it is given Python floats as tolerances, so that a
//! borderline element gets the same verdict from both. Integers and strings must be equal.
//!
//! Tensors are read in blocks. A block is first judged by a loop without branches, which the compiler turns into vector
//! instructions; only a block in which something is not close is walked element by element.

use std::fmt;

use crate::{DataType, Element, NestedTensor, NumericTensor, StringTensor, Tensor, element_count};

/// How close numbers must be: `|actual - expected| <= atol + rtol * |expected|`.
///
/// The tolerances are for floats; integers and strings must be equal.
#[derive(Clone, Copy, Debug, PartialEq)]
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
        Self { rtol: 1e-5, atol: 1e-8, equal_nan: false }
    }
}

/// What a comparison found.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Whether the tensors have the same dtype and shape and every element is close.
    pub passed: bool,
    /// The largest absolute difference; NaN where one side is NaN and the other is not (or both are, and NaN does not
    /// equal NaN). `None` when values were not compared as numbers (strings, or another dtype or shape).
    pub max_abs_diff: Option<f64>,
    /// The largest difference relative to the expected value, over elements whose expected value is not zero; `None`
    /// when there are none, and where `max_abs_diff` is `None`.
    pub max_rel_diff: Option<f64>,
    /// What differs and where, for people: `element [1, 3]: expected 0.5, found 0.75`. Of the elements that are not
    /// close it names the one with the largest absolute difference. `None` when nothing differs.
    pub detail: Option<String>,
}

/// Compares `actual` with `expected`.
///
/// Two tensors are close when they have the same dtype and shape and all their elements are close. Infinities are close
/// to infinities of the same sign only. Nested tensors are compared element by element.
///
/// ```
/// use carton_tensor::{Tensor, Tolerance, allclose};
/// let expected = Tensor::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0], vec![2, 2])?;
/// let actual = Tensor::from_vec(vec![1.0_f32, 2.0, 3.5, 4.0], vec![2, 2])?;
/// let comparison = allclose(&actual, &expected, Tolerance::default());
/// assert!(!comparison.passed);
/// assert_eq!(comparison.max_abs_diff, Some(0.5));
/// assert!(comparison.detail.is_some_and(|detail| detail.starts_with("element [1, 0]: expected 3.0, found 3.5")));
/// assert!(allclose(&actual, &expected, Tolerance { atol: 0.5, ..Tolerance::default() }).passed);
/// # Ok::<(), carton_tensor::TensorError>(())
/// ```
#[must_use]
pub fn allclose(actual: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Comparison {
    let findings = match (actual, expected) {
        (Tensor::Numeric(actual), Tensor::Numeric(expected)) => compare_numeric(actual, expected, tolerance),
        (Tensor::String(actual), Tensor::String(expected)) => compare_strings(actual, expected),
        (Tensor::Nested(actual), Tensor::Nested(expected)) => compare_nested(actual, expected, tolerance),
        _ => Findings::other_kind(actual, expected),
    };
    findings.into_comparison()
}

/// What is known after some or all elements were compared.
#[derive(Default)]
struct Findings {
    max_abs_diff: Option<f64>,
    max_rel_diff: Option<f64>,
    worst: Option<Worst>,
}

/// The element, or the difference of type, that decides that the tensors differ.
struct Worst {
    /// Its absolute difference, infinite where it cannot be measured.
    severity: f64,
    detail: String,
}

impl Findings {
    fn other_kind(actual: &Tensor, expected: &Tensor) -> Self {
        Self::incomparable(format!("expected {}, found {}", describe(expected), describe(actual)))
    }

    fn incomparable(detail: String) -> Self {
        Self { worst: Some(Worst { severity: f64::INFINITY, detail }), ..Self::default() }
    }

    fn into_comparison(self) -> Comparison {
        Comparison {
            passed: self.worst.is_none(),
            max_abs_diff: self.max_abs_diff,
            max_rel_diff: self.max_rel_diff,
            detail: self.worst.map(|worst| worst.detail),
        }
    }
}

/// The larger of two differences, where NaN is larger than everything: it must not get lost.
fn larger(left: f64, right: f64) -> f64 {
    if left.is_nan() || left > right { left } else { right }
}

fn merge(into: &mut Option<f64>, difference: Option<f64>) {
    if let Some(difference) = difference {
        *into = Some(into.map_or(difference, |found| larger(found, difference)));
    }
}

fn describe(tensor: &Tensor) -> String {
    match (tensor, tensor.dtype()) {
        (Tensor::Nested(nested), Some(dtype)) => {
            format!("a nested tensor of {} {dtype} tensors", nested.elements().len())
        }
        (_, Some(dtype)) => format!("{dtype} {:?}", tensor.shape().unwrap_or_default()),
        (_, None) => "an empty nested tensor".to_owned(),
    }
}

fn compare_nested(actual: &NestedTensor, expected: &NestedTensor, tolerance: Tolerance) -> Findings {
    let (n_actual, n_expected) = (actual.elements().len(), expected.elements().len());
    if n_actual != n_expected {
        return Findings::incomparable(format!("expected a nested tensor of {n_expected} tensors, found {n_actual}"));
    }
    let mut all = Findings::default();
    for (position, (actual, expected)) in actual.elements().iter().zip(expected.elements()).enumerate() {
        let found = match (actual, expected) {
            (Tensor::Numeric(actual), Tensor::Numeric(expected)) => compare_numeric(actual, expected, tolerance),
            (Tensor::String(actual), Tensor::String(expected)) => compare_strings(actual, expected),
            _ => Findings::other_kind(actual, expected),
        };
        merge(&mut all.max_abs_diff, found.max_abs_diff);
        merge(&mut all.max_rel_diff, found.max_rel_diff);
        if let Some(worst) = found.worst
            && all.worst.as_ref().is_none_or(|known| worst.severity > known.severity)
        {
            all.worst = Some(Worst { detail: format!("tensor {position}: {}", worst.detail), ..worst });
        }
    }
    all
}

fn compare_strings(actual: &StringTensor, expected: &StringTensor) -> Findings {
    if actual.shape() != expected.shape() {
        return Findings::incomparable(format!(
            "expected string {:?}, found string {:?}",
            expected.shape(),
            actual.shape()
        ));
    }
    let mut differing = actual.elements().iter().zip(expected.elements()).enumerate().filter(|(_, (a, e))| a != e);
    let Some((position, (found, wanted))) = differing.next() else {
        return Findings::default();
    };
    Findings::incomparable(format!(
        "element {:?}: expected {}, found {}; {}",
        index_of(position, expected.shape()),
        Shortened(wanted),
        Shortened(found),
        how_many(1 + differing.count(), expected.elements().len()),
    ))
}

/// A string in quotes, cut to a length that fits a line of output.
struct Shortened<'a>(&'a str);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 60;
        match self.0.char_indices().nth(LONGEST) {
            None => write!(f, "{:?}", self.0),
            Some((end, _)) => write!(f, "{:?}… ({} bytes)", &self.0[..end], self.0.len()),
        }
    }
}

fn how_many(differing: usize, total: usize) -> String {
    format!("{differing} of {total} {}", if total == 1 { "element differs" } else { "elements differ" })
}

/// The index of the element at `position` in C order.
fn index_of(position: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = position;
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let size = size.max(1);
            let coordinate = rest % size;
            rest /= size;
            coordinate
        })
        .collect();
    index.reverse();
    index
}

fn compare_numeric(actual: &NumericTensor, expected: &NumericTensor, tolerance: Tolerance) -> Findings {
    if actual.dtype() != expected.dtype() || actual.shape() != expected.shape() {
        return Findings::incomparable(format!(
            "expected {} {:?}, found {} {:?}",
            expected.dtype(),
            expected.shape(),
            actual.dtype(),
            actual.shape()
        ));
    }
    match expected.dtype() {
        DataType::Float32 => compare_elements::<f32>(actual, expected, tolerance),
        DataType::Float64 => compare_elements::<f64>(actual, expected, tolerance),
        DataType::Int8 => compare_elements::<i8>(actual, expected, tolerance),
        DataType::Int16 => compare_elements::<i16>(actual, expected, tolerance),
        DataType::Int32 => compare_elements::<i32>(actual, expected, tolerance),
        DataType::Int64 => compare_elements::<i64>(actual, expected, tolerance),
        DataType::Uint8 => compare_elements::<u8>(actual, expected, tolerance),
        DataType::Uint16 => compare_elements::<u16>(actual, expected, tolerance),
        DataType::Uint32 => compare_elements::<u32>(actual, expected, tolerance),
        DataType::Uint64 => compare_elements::<u64>(actual, expected, tolerance),
        // A numeric tensor of strings cannot be built.
        DataType::String => Findings::incomparable("a numeric tensor of strings".to_owned()),
    }
}

/// Elements in a block: small enough to stay in the first-level cache together with the other tensor's.
const BLOCK: usize = 2048;
/// Elements judged at once by the branch-free loop.
const LANES: usize = 16;

fn compare_elements<T: Compare>(actual: &NumericTensor, expected: &NumericTensor, tolerance: Tolerance) -> Findings {
    let shape = expected.shape();
    let total = element_count(shape).unwrap_or(usize::MAX);
    let (actual_bytes, expected_bytes) = (actual.bytes(), expected.bytes());
    let n_bytes = total.saturating_mul(size_of::<T>());
    if actual_bytes.len() != n_bytes || expected_bytes.len() != n_bytes {
        // Storage that gives fewer bytes than when the tensor was built must not make the comparison pass.
        return Findings::incomparable(format!(
            "{} {shape:?} needs {n_bytes} bytes, but the storage gives {} for the expected and {} for the found tensor",
            T::DTYPE,
            expected_bytes.len(),
            actual_bytes.len()
        ));
    }

    let tolerance = T::tolerance(tolerance);
    let mut scratch = (Vec::new(), Vec::new());
    let mut all = Findings { max_abs_diff: Some(0.0), ..Findings::default() };
    let (mut n_differing, mut worst) = (0_usize, None::<(f64, usize, T, T)>);
    let block_bytes = BLOCK * size_of::<T>();
    let blocks = actual_bytes.chunks(block_bytes).zip(expected_bytes.chunks(block_bytes)).enumerate();
    for (block, (actual, expected)) in blocks {
        let actual: &[T] = aligned(actual, &mut scratch.0);
        let expected: &[T] = aligned(expected, &mut scratch.1);
        let quick = T::judge(actual, expected, tolerance);
        if quick.close {
            merge(&mut all.max_abs_diff, Some(quick.max_abs_diff));
            merge(&mut all.max_rel_diff, quick.max_rel_diff);
            continue;
        }
        for (position, (&found, &wanted)) in actual.iter().zip(expected).enumerate() {
            let (abs_diff, rel_diff) = T::differences(found, wanted, tolerance);
            merge(&mut all.max_abs_diff, Some(abs_diff));
            merge(&mut all.max_rel_diff, rel_diff);
            if T::is_close(found, wanted, tolerance) {
                continue;
            }
            n_differing += 1;
            let severity = if abs_diff.is_nan() { f64::INFINITY } else { abs_diff };
            if worst.is_none_or(|(known, ..)| severity > known) {
                worst = Some((severity, block * BLOCK + position, found, wanted));
            }
        }
    }
    all.worst = worst.map(|(severity, position, found, wanted)| Worst {
        severity,
        detail: format!(
            "element {:?}: expected {wanted:?}, found {found:?}{}; {}",
            index_of(position, shape),
            T::margin(found, wanted, tolerance),
            how_many(n_differing, total),
        ),
    });
    all
}

/// The elements of a block, copied to `scratch` where they are not aligned.
fn aligned<'a, T: Element>(bytes: &'a [u8], scratch: &'a mut Vec<T>) -> &'a [T] {
    match bytemuck::try_cast_slice(bytes) {
        Ok(elements) => elements,
        Err(_) => {
            scratch.clear();
            scratch.extend(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>));
            scratch
        }
    }
}

/// The verdict on a block.
struct Verdict {
    /// Whether every element is close; where not, the differences below are not to be used.
    close: bool,
    max_abs_diff: f64,
    max_rel_diff: Option<f64>,
}

/// How elements of a type are compared.
trait Compare: Element {
    /// The tolerances in the precision in which elements are compared.
    type Tolerance: Copy;

    fn tolerance(tolerance: Tolerance) -> Self::Tolerance;
    fn is_close(actual: Self, expected: Self, tolerance: Self::Tolerance) -> bool;
    /// The absolute difference, and the relative one where `expected` is not zero.
    fn differences(actual: Self, expected: Self, tolerance: Self::Tolerance) -> (f64, Option<f64>);
    /// Judges a block of any length without walking it branch by branch. May call close elements not close (they are
    /// looked at again), never the other way round.
    fn judge(actual: &[Self], expected: &[Self], tolerance: Self::Tolerance) -> Verdict;
    /// How far the elements are apart and may be, to go after the values in a message.
    fn margin(actual: Self, expected: Self, tolerance: Self::Tolerance) -> String;
}

macro_rules! compare_floats {
    ($($float:ty),*) => {$(
        impl Compare for $float {
            type Tolerance = ($float, $float, bool);

            #[allow(clippy::cast_possible_truncation)] // Rounding to the elements' precision is what NumPy does.
            fn tolerance(tolerance: Tolerance) -> Self::Tolerance {
                (tolerance.rtol as $float, tolerance.atol as $float, tolerance.equal_nan)
            }

            fn is_close(actual: Self, expected: Self, (rtol, atol, equal_nan): Self::Tolerance) -> bool {
                let allowed = atol + rtol * expected.abs();
                ((actual - expected).abs() <= allowed && expected.is_finite())
                    || actual == expected
                    || (equal_nan && actual.is_nan() && expected.is_nan())
            }

            fn differences(actual: Self, expected: Self, (.., equal_nan): Self::Tolerance) -> (f64, Option<f64>) {
                let (actual, expected) = (f64::from(actual), f64::from(expected));
                let abs_diff = if actual == expected || (equal_nan && actual.is_nan() && expected.is_nan()) {
                    0.0
                } else {
                    (actual - expected).abs()
                };
                let rel_diff = if abs_diff == 0.0 || abs_diff == f64::INFINITY {
                    abs_diff
                } else {
                    abs_diff / expected.abs()
                };
                (abs_diff, (expected != 0.0).then_some(rel_diff))
            }

            fn judge(actual: &[Self], expected: &[Self], (rtol, atol, _): Self::Tolerance) -> Verdict {
                #[derive(Clone, Copy)]
                struct Lanes {
                    close: [bool; LANES],
                    non_zero: [bool; LANES],
                    abs_diff: [$float; LANES],
                    rel_diff: [$float; LANES],
                }
                let mut lanes = Lanes {
                    close: [true; LANES],
                    non_zero: [false; LANES],
                    abs_diff: [0.0; LANES],
                    rel_diff: [0.0; LANES],
                };
                let mut step = |lane: usize, actual: $float, expected: $float| {
                    let difference = (actual - expected).abs();
                    let magnitude = expected.abs();
                    let equal = actual == expected;
                    let close = (difference <= atol + rtol * magnitude) & (magnitude < <$float>::INFINITY);
                    // An infinity that is equal has the difference NaN, which both comparisons below pass over.
                    let relative = difference / magnitude;
                    let non_zero = magnitude != 0.0;
                    lanes.close[lane] &= close | equal;
                    lanes.non_zero[lane] |= non_zero;
                    lanes.abs_diff[lane] =
                        if difference > lanes.abs_diff[lane] { difference } else { lanes.abs_diff[lane] };
                    lanes.rel_diff[lane] =
                        if non_zero & (relative > lanes.rel_diff[lane]) { relative } else { lanes.rel_diff[lane] };
                };
                let (mut actual, mut expected) = (actual.chunks_exact(LANES), expected.chunks_exact(LANES));
                for (actual, expected) in actual.by_ref().zip(expected.by_ref()) {
                    for lane in 0..LANES {
                        step(lane, actual[lane], expected[lane]);
                    }
                }
                for (lane, (&actual, &expected)) in actual.remainder().iter().zip(expected.remainder()).enumerate() {
                    step(lane, actual, expected);
                }
                let largest = |lanes: [$float; LANES]| f64::from(lanes.into_iter().fold(0.0, <$float>::max));
                Verdict {
                    close: !lanes.close.contains(&false),
                    max_abs_diff: largest(lanes.abs_diff),
                    max_rel_diff: lanes.non_zero.contains(&true).then(|| largest(lanes.rel_diff)),
                }
            }

            fn margin(actual: Self, expected: Self, (rtol, atol, _): Self::Tolerance) -> String {
                let difference = (actual - expected).abs();
                if !difference.is_finite() {
                    return String::new();
                }
                format!(" (differs by {difference:e}, allowed {:e})", atol + rtol * expected.abs())
            }
        }
    )*};
}

compare_floats!(f32, f64);

macro_rules! compare_integers {
    ($($integer:ty),*) => {$(
        impl Compare for $integer {
            type Tolerance = ();

            fn tolerance(_: Tolerance) -> Self::Tolerance {}

            fn is_close(actual: Self, expected: Self, (): Self::Tolerance) -> bool {
                actual == expected
            }

            #[allow(clippy::cast_precision_loss, clippy::cast_lossless)] // Only what is reported is rounded.
            fn differences(actual: Self, expected: Self, (): Self::Tolerance) -> (f64, Option<f64>) {
                let abs_diff = actual.abs_diff(expected) as f64;
                // The distance to zero, because the smallest signed value has no absolute value of its own type.
                (abs_diff, (expected != 0).then(|| abs_diff / expected.abs_diff(0) as f64))
            }

            fn judge(actual: &[Self], expected: &[Self], (): Self::Tolerance) -> Verdict {
                Verdict {
                    close: actual == expected,
                    max_abs_diff: 0.0,
                    max_rel_diff: expected.iter().any(|&element| element != 0).then_some(0.0),
                }
            }

            fn margin(actual: Self, expected: Self, (): Self::Tolerance) -> String {
                format!(" (differs by {})", actual.abs_diff(expected))
            }
        }
    )*};
}

compare_integers!(i8, i16, i32, i64, u8, u16, u32, u64);
