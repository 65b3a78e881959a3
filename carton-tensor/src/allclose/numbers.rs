//! Comparison of numeric tensors.
//!
//! Tensors are read in blocks. A loop without branches judges each block first; the compiler turns it into vector instructions. Only a
//! block with an element that is not close is walked element by element.

use half::{bf16, f16};
use num_complex::Complex;

use super::findings::{Findings, Worst, how_many, merge};
use super::tolerance::Tolerance;
use crate::position::index_of;
use crate::{
    BoolByte, Element, Float8E4m3Fn, Float8E4m3Fnuz, Float8E5m2, Float8E5m2Fnuz, NumericTensor, element_count,
};

pub(super) fn compare_numeric(actual: &NumericTensor, expected: &NumericTensor, tolerance: Tolerance) -> Findings {
    if actual.dtype() != expected.dtype() || actual.shape() != expected.shape() {
        return Findings::incomparable(format!(
            "expected {} {:?}, found {} {:?}",
            expected.dtype(),
            expected.shape(),
            actual.dtype(),
            actual.shape()
        ));
    }
    crate::with_element!(
        expected.dtype(),
        T => compare_elements::<T>(actual, expected, tolerance),
        // A numeric tensor of strings cannot be built.
        else Findings::incomparable("a numeric tensor of strings".to_owned())
    )
}

/// Elements in a block. A block of each tensor fits in the first-level cache together.
pub(super) const BLOCK: usize = 2048;
/// Elements that the branch-free loop judges at once.
const LANES: usize = 8;

fn compare_elements<T: Compare>(actual: &NumericTensor, expected: &NumericTensor, tolerance: Tolerance) -> Findings {
    let shape = expected.shape();
    let total = element_count(shape).unwrap_or(usize::MAX);
    let (actual_bytes, expected_bytes) = (actual.bytes(), expected.bytes());
    let n_bytes = total.saturating_mul(size_of::<T>());
    if actual_bytes.len() != n_bytes || expected_bytes.len() != n_bytes {
        // Storage that returns fewer bytes than when the tensor was built must not make the comparison pass.
        return Findings::incomparable(format!(
            "{} {shape:?} needs {n_bytes} bytes, but the storage gives {} for the expected and {} for the found tensor",
            T::DTYPE,
            expected_bytes.len(),
            actual_bytes.len()
        ));
    }

    let tolerance = T::tolerance(tolerance);
    let mut all = Findings { max_abs_diff: Some(0.0), ..Findings::default() };
    let (mut n_differing, mut worst) = (0_usize, None::<(f64, usize, T, T)>);
    for_each_block::<T>(actual_bytes, expected_bytes, |start, actual, expected| {
        let quick = T::judge(actual, expected, tolerance);
        if quick.close {
            merge(&mut all.max_abs_diff, Some(quick.max_abs_diff));
            merge(&mut all.max_rel_diff, quick.max_rel_diff);
            return;
        }
        for (position, (&found, &wanted)) in actual.iter().zip(expected).enumerate() {
            let (abs_diff, rel_diff) = T::differences(found, wanted, tolerance);
            merge(&mut all.max_abs_diff, Some(abs_diff));
            merge(&mut all.max_rel_diff, rel_diff);
            if T::is_close(found, wanted, tolerance) {
                continue;
            }
            n_differing += 1;
            let severity = severity(abs_diff);
            if worst.is_none_or(|(known, ..)| severity > known) {
                worst = Some((severity, start + position, found, wanted));
            }
        }
    });
    all.worst = worst.map(|(severity, position, found, wanted)| Worst {
        severity,
        detail: format!(
            "element {:?}: expected {}, found {}{}; {}",
            index_of(position, shape),
            T::text(wanted),
            T::text(found),
            T::margin(found, wanted, tolerance),
            how_many(n_differing, total),
        ),
    });
    all
}

/// Calls `visit` for each block of both tensors, with the position of its first element.
fn for_each_block<T: Element>(actual: &[u8], expected: &[u8], mut visit: impl FnMut(usize, &[T], &[T])) {
    let mut scratch = (Vec::new(), Vec::new());
    let block_bytes = BLOCK * size_of::<T>();
    let blocks = actual.chunks(block_bytes).zip(expected.chunks(block_bytes)).enumerate();
    for (block, (actual, expected)) in blocks {
        visit(block * BLOCK, aligned(actual, &mut scratch.0), aligned(expected, &mut scratch.1));
    }
}

/// How bad a difference is: NaN is as bad as an infinite one.
fn severity(difference: f64) -> f64 {
    if difference.is_nan() { f64::INFINITY } else { difference }
}

/// The elements that are not close, of a part of two tensors or of all.
#[cfg(feature = "weights")]
#[derive(Clone, Debug, Default)]
pub(crate) struct NotClose {
    pub(crate) n_elements: u64,
    pub(crate) n_differing: u64,
    /// The one with the largest absolute difference, and the one with the largest relative one; of several, the first.
    pub(crate) largest: Option<NotCloseElement>,
    pub(crate) largest_relative: Option<NotCloseElement>,
}

/// An element that is not close.
#[cfg(feature = "weights")]
#[derive(Clone, Debug)]
pub(crate) struct NotCloseElement {
    /// Its position in C order.
    pub(crate) position: u64,
    /// The expected element, as a text that gives it exactly.
    pub(crate) expected: String,
    /// The actual one.
    pub(crate) actual: String,
    /// The difference; infinite or NaN if it cannot be measured.
    pub(crate) difference: f64,
}

#[cfg(feature = "weights")]
impl NotClose {
    /// The elements of two parts of the same dtype and length that are not close. The first element is at the position `start`.
    pub(crate) fn of(dtype: crate::DataType, actual: &[u8], expected: &[u8], start: u64, tolerance: Tolerance) -> Self {
        crate::with_element!(
            dtype,
            T => not_close::<T>(actual, expected, start, tolerance),
            // Strings and bytes are not numbers of a fixed size.
            else Self::default()
        )
    }

    /// Adds those of the next part.
    pub(crate) fn merge(&mut self, next: Self) {
        let worse = |known: &Option<NotCloseElement>, next: &Option<NotCloseElement>| match (known, next) {
            (Some(known), Some(next)) => severity(next.difference) > severity(known.difference),
            (known, next) => known.is_none() && next.is_some(),
        };
        self.n_elements += next.n_elements;
        self.n_differing += next.n_differing;
        if worse(&self.largest, &next.largest) {
            self.largest = next.largest;
        }
        if worse(&self.largest_relative, &next.largest_relative) {
            self.largest_relative = next.largest_relative;
        }
    }
}

#[cfg(feature = "weights")]
fn not_close<T: Compare>(actual: &[u8], expected: &[u8], start: u64, tolerance: Tolerance) -> NotClose {
    /// Severity, difference, position, and the elements.
    type Known<T> = Option<(f64, f64, usize, T, T)>;
    fn keep<T>(known: &mut Known<T>, difference: f64, position: usize, actual: T, expected: T) {
        let severity = severity(difference);
        if known.as_ref().is_none_or(|(worst, ..)| severity > *worst) {
            *known = Some((severity, difference, position, actual, expected));
        }
    }
    let tolerance = T::tolerance(tolerance);
    let (mut n_differing, mut largest, mut relative): (u64, Known<T>, Known<T>) = (0, None, None);
    for_each_block::<T>(actual, expected, |first, actual, expected| {
        if T::judge(actual, expected, tolerance).close {
            return;
        }
        // A block without an element that is worse than those known is only counted.
        if let (Some((largest, ..)), Some((relative, ..))) = (&largest, &relative)
            && let Some(survey) = T::survey(actual, expected, tolerance)
            && survey.largest <= *largest
            && survey.largest_relative <= *relative
        {
            n_differing += survey.n_differing;
            return;
        }
        for (position, (&actual, &expected)) in actual.iter().zip(expected).enumerate() {
            if T::is_close(actual, expected, tolerance) {
                continue;
            }
            n_differing += 1;
            let (abs_diff, rel_diff) = T::differences(actual, expected, tolerance);
            keep(&mut largest, abs_diff, first + position, actual, expected);
            if let Some(rel_diff) = rel_diff {
                keep(&mut relative, rel_diff, first + position, actual, expected);
            }
        }
    });
    let element = |(_, difference, position, actual, expected): (f64, f64, usize, T, T)| NotCloseElement {
        position: start + position as u64,
        expected: T::text(expected),
        actual: T::text(actual),
        difference,
    };
    NotClose {
        n_elements: (expected.len() / size_of::<T>()) as u64,
        n_differing,
        largest: largest.map(element),
        largest_relative: relative.map(element),
    }
}

/// Returns the elements of a block, copied to `scratch` if they are not aligned.
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
    /// Whether every element is close. If not, the differences below must not be used.
    close: bool,
    max_abs_diff: f64,
    max_rel_diff: Option<f64>,
}

/// The elements of a block that are not close.
#[cfg(feature = "weights")]
struct Survey {
    n_differing: u64,
    /// The largest absolute difference among them, and the largest relative one.
    largest: f64,
    largest_relative: f64,
}

/// How elements of a type are compared.
trait Compare: Element {
    /// The tolerances in the precision in which elements are compared.
    type Tolerance: Copy;

    fn tolerance(tolerance: Tolerance) -> Self::Tolerance;
    fn is_close(actual: Self, expected: Self, tolerance: Self::Tolerance) -> bool;
    /// Returns the absolute difference, and the relative one unless `expected` is zero.
    fn differences(actual: Self, expected: Self, tolerance: Self::Tolerance) -> (f64, Option<f64>);
    /// Judges a block of any length without branches. May report a close element as not close, because such blocks are walked again,
    /// but never the reverse.
    fn judge(actual: &[Self], expected: &[Self], tolerance: Self::Tolerance) -> Verdict;
    /// Finds how many elements of a block are not close, and how far they are, without branches. `None` for a type without such a loop, and where
    /// an element is not finite.
    #[cfg(feature = "weights")]
    fn survey(_actual: &[Self], _expected: &[Self], _tolerance: Self::Tolerance) -> Option<Survey> {
        None
    }
    /// Formats the distance between the elements and the allowed distance, as a suffix to the values in a message.
    fn margin(actual: Self, expected: Self, tolerance: Self::Tolerance) -> String;
    /// The element in messages.
    fn text(self) -> String {
        format!("{self:?}")
    }
}

macro_rules! compare_floats {
    ($($float:ty as $word:ty),*) => {$(
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
                    // All ones while every element is close. The word is as wide as the floats, so that their vectors have equal lanes.
                    close: [$word; LANES],
                    magnitude: [$float; LANES],
                    abs_diff: [$float; LANES],
                    rel_diff: [$float; LANES],
                }
                let mut lanes = Lanes {
                    close: [<$word>::MAX; LANES],
                    magnitude: [0.0; LANES],
                    abs_diff: [0.0; LANES],
                    rel_diff: [0.0; LANES],
                };
                let mut step = |lane: usize, actual: $float, expected: $float| {
                    let difference = (actual - expected).abs();
                    let magnitude = expected.abs();
                    let equal = actual == expected;
                    let close = (difference <= atol + rtol * magnitude) & (magnitude < <$float>::INFINITY);
                    // Equal infinities have the difference NaN, which both comparisons below skip.
                    let relative = difference / magnitude;
                    let non_zero = magnitude != 0.0;
                    lanes.close[lane] &= if close | equal { <$word>::MAX } else { 0 };
                    lanes.magnitude[lane] =
                        if magnitude > lanes.magnitude[lane] { magnitude } else { lanes.magnitude[lane] };
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
                    close: lanes.close == [<$word>::MAX; LANES],
                    max_abs_diff: largest(lanes.abs_diff),
                    max_rel_diff: (lanes.magnitude != [0.0; LANES]).then(|| largest(lanes.rel_diff)),
                }
            }

            #[cfg(feature = "weights")]
            fn survey(actual: &[Self], expected: &[Self], (rtol, atol, _): Self::Tolerance) -> Option<Survey> {
                #[derive(Clone, Copy)]
                struct Lanes {
                    finite: [bool; LANES],
                    n_differing: [u64; LANES],
                    largest: [f64; LANES],
                    relative: [f64; LANES],
                }
                let mut lanes = Lanes {
                    finite: [true; LANES],
                    n_differing: [0; LANES],
                    largest: [0.0; LANES],
                    relative: [0.0; LANES],
                };
                let mut step = |lane: usize, actual: $float, expected: $float| {
                    let close = ((actual - expected).abs() <= atol + rtol * expected.abs()) | (actual == expected);
                    let (wide, wide_expected) = (f64::from(actual), f64::from(expected));
                    // As `differences` has them.
                    let difference = (wide - wide_expected).abs();
                    let relative = if expected == 0.0 { 0.0 } else { difference / wide_expected.abs() };
                    let (difference, relative) = if close { (0.0, 0.0) } else { (difference, relative) };
                    lanes.finite[lane] &= difference < f64::INFINITY && expected.abs() < <$float>::INFINITY;
                    lanes.n_differing[lane] += u64::from(!close);
                    lanes.largest[lane] = if difference > lanes.largest[lane] { difference } else { lanes.largest[lane] };
                    lanes.relative[lane] = if relative > lanes.relative[lane] { relative } else { lanes.relative[lane] };
                };
                let (full_actual, rest_actual) = actual.as_chunks::<LANES>();
                let (full_expected, rest_expected) = expected.as_chunks::<LANES>();
                for (actual, expected) in full_actual.iter().zip(full_expected) {
                    for lane in 0..LANES {
                        step(lane, actual[lane], expected[lane]);
                    }
                }
                for (lane, (&actual, &expected)) in rest_actual.iter().zip(rest_expected).enumerate() {
                    step(lane, actual, expected);
                }
                let largest = |lanes: [f64; LANES]| lanes.into_iter().fold(0.0, f64::max);
                lanes.finite.iter().all(|finite| *finite).then(|| Survey {
                    n_differing: lanes.n_differing.iter().sum(),
                    largest: largest(lanes.largest),
                    largest_relative: largest(lanes.relative),
                })
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

compare_floats!(f32 as u32, f64 as u64);

macro_rules! compare_short_floats {
    ($($float:ty),*) => {$(
        impl Compare for $float {
            type Tolerance = <f32 as Compare>::Tolerance;

            fn tolerance(tolerance: Tolerance) -> Self::Tolerance {
                f32::tolerance(tolerance)
            }

            fn is_close(actual: Self, expected: Self, tolerance: Self::Tolerance) -> bool {
                f32::is_close(actual.to_f32(), expected.to_f32(), tolerance)
            }

            fn differences(actual: Self, expected: Self, tolerance: Self::Tolerance) -> (f64, Option<f64>) {
                f32::differences(actual.to_f32(), expected.to_f32(), tolerance)
            }

            fn judge(actual: &[Self], expected: &[Self], tolerance: Self::Tolerance) -> Verdict {
                let widened = |elements: &[Self]| elements.iter().map(|element| element.to_f32()).collect::<Vec<_>>();
                f32::judge(&widened(actual), &widened(expected), tolerance)
            }

            #[cfg(feature = "weights")]
            fn survey(actual: &[Self], expected: &[Self], tolerance: Self::Tolerance) -> Option<Survey> {
                let widened = |elements: &[Self]| elements.iter().map(|element| element.to_f32()).collect::<Vec<_>>();
                f32::survey(&widened(actual), &widened(expected), tolerance)
            }

            fn margin(actual: Self, expected: Self, tolerance: Self::Tolerance) -> String {
                f32::margin(actual.to_f32(), expected.to_f32(), tolerance)
            }
        }
    )*};
}

compare_short_floats!(f16, bf16, Float8E4m3Fn, Float8E5m2, Float8E4m3Fnuz, Float8E5m2Fnuz);

macro_rules! compare_complex {
    ($($float:ty),*) => {$(
        impl Compare for Complex<$float> {
            type Tolerance = ($float, $float, bool);

            fn tolerance(tolerance: Tolerance) -> Self::Tolerance {
                <$float>::tolerance(tolerance)
            }

            fn is_close(actual: Self, expected: Self, (rtol, atol, equal_nan): Self::Tolerance) -> bool {
                let is_nan = |value: Self| value.re.is_nan() || value.im.is_nan();
                let allowed = atol + rtol * <$float>::hypot(expected.re, expected.im);
                (<$float>::hypot((actual - expected).re, (actual - expected).im) <= allowed && (expected.re.is_finite() && expected.im.is_finite()))
                    || actual == expected
                    || (equal_nan && is_nan(actual) && is_nan(expected))
            }

            fn differences(actual: Self, expected: Self, (.., equal_nan): Self::Tolerance) -> (f64, Option<f64>) {
                let is_nan = |value: Self| value.re.is_nan() || value.im.is_nan();
                let equal = actual == expected || (equal_nan && is_nan(actual) && is_nan(expected));
                let abs_diff = if equal { 0.0 } else { f64::from(<$float>::hypot((actual - expected).re, (actual - expected).im)) };
                let magnitude = f64::from(<$float>::hypot(expected.re, expected.im));
                let rel_diff = if abs_diff == 0.0 || abs_diff == f64::INFINITY { abs_diff } else { abs_diff / magnitude };
                (abs_diff, (magnitude != 0.0).then_some(rel_diff))
            }

            fn judge(actual: &[Self], expected: &[Self], tolerance: Self::Tolerance) -> Verdict {
                let mut verdict = Verdict { close: true, max_abs_diff: 0.0, max_rel_diff: None };
                for (&actual, &expected) in actual.iter().zip(expected) {
                    let (abs_diff, rel_diff) = Self::differences(actual, expected, tolerance);
                    verdict.close &= Self::is_close(actual, expected, tolerance);
                    verdict.max_abs_diff = verdict.max_abs_diff.max(abs_diff);
                    merge(&mut verdict.max_rel_diff, rel_diff);
                }
                verdict
            }

            fn text(self) -> String {
                self.to_string()
            }

            fn margin(actual: Self, expected: Self, (rtol, atol, _): Self::Tolerance) -> String {
                let difference = <$float>::hypot((actual - expected).re, (actual - expected).im);
                if !difference.is_finite() {
                    return String::new();
                }
                format!(" (differs by {difference:e}, allowed {:e})", atol + rtol * <$float>::hypot(expected.re, expected.im))
            }
        }
    )*};
}

compare_complex!(f32, f64);

macro_rules! compare_integers {
    ($($integer:ty),*) => {$(
        impl Compare for $integer {
            type Tolerance = ();

            fn tolerance(_: Tolerance) -> Self::Tolerance {}

            fn is_close(actual: Self, expected: Self, (): Self::Tolerance) -> bool {
                actual == expected
            }

            #[allow(clippy::cast_precision_loss, clippy::cast_lossless)] // Only the reported differences are rounded.
            fn differences(actual: Self, expected: Self, (): Self::Tolerance) -> (f64, Option<f64>) {
                let abs_diff = actual.abs_diff(expected) as f64;
                // Divides by the distance to zero, because the absolute value of the smallest signed number does not fit its type.
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

impl Compare for BoolByte {
    type Tolerance = ();

    fn tolerance(_: Tolerance) -> Self::Tolerance {}

    fn is_close(actual: Self, expected: Self, (): Self::Tolerance) -> bool {
        actual == expected
    }

    fn differences(actual: Self, expected: Self, (): Self::Tolerance) -> (f64, Option<f64>) {
        let abs_diff = f64::from(u8::from(actual != expected));
        (abs_diff, expected.get().then_some(abs_diff))
    }

    fn judge(actual: &[Self], expected: &[Self], (): Self::Tolerance) -> Verdict {
        let max_rel_diff = expected.iter().any(|element| element.get()).then_some(0.0);
        Verdict { close: actual == expected, max_abs_diff: 0.0, max_rel_diff }
    }

    fn margin(_: Self, _: Self, (): Self::Tolerance) -> String {
        String::new()
    }
}
