//! Compares tensors as NumPy's `allclose` does, and reports the worst element.
//!
//! Floats are compared in their own precision, as NumPy does when its tolerances are Python floats. A borderline element therefore gets
//! the same verdict from both. Floats of 16 and 8 bits are compared as binary32, in which they and the tolerances have a value. Complex numbers are
//! compared by their distance. Integers, booleans, strings and bytes must be equal.

use std::fmt;

use crate::position::index_of;
use crate::{NestedTensor, Tensor, VariableElement, VariableTensor};

mod findings;
mod numbers;
mod tolerance;

use findings::{Findings, Worst, how_many, merge};
use numbers::compare_numeric;
#[cfg(feature = "weights")]
pub(crate) use numbers::{NotClose, NotCloseElement};
pub use tolerance::Tolerance;

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Whether the tensors have the same dtype and shape and every element is close.
    pub passed: bool,
    /// The largest absolute difference. NaN if one side is NaN and the other is not, or if both are NaN and `equal_nan` is not set.
    /// `None` if values were not compared as numbers (strings, or different dtypes or shapes).
    pub max_abs_diff: Option<f64>,
    /// The largest difference relative to the expected value, over elements whose expected value is not zero. `None` if there are no
    /// such elements, or if `max_abs_diff` is `None`.
    pub max_rel_diff: Option<f64>,
    /// What differs and where, for people: `element [1, 3]: expected 0.5, found 0.75`. Names the element with the largest absolute
    /// difference among those that are not close. `None` if nothing differs.
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
/// assert!(allclose(&actual, &expected, Tolerance::new(1e-5, 0.5)).passed);
/// # Ok::<(), carton_tensor::TensorError>(())
/// ```
#[must_use]
pub fn allclose(actual: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Comparison {
    let findings = match (actual, expected) {
        (Tensor::Numeric(actual), Tensor::Numeric(expected)) => compare_numeric(actual, expected, tolerance),
        (Tensor::String(actual), Tensor::String(expected)) => compare_variable(actual, expected),
        (Tensor::Bytes(actual), Tensor::Bytes(expected)) => compare_variable(actual, expected),
        (Tensor::Nested(actual), Tensor::Nested(expected)) => compare_nested(actual, expected, tolerance),
        _ => other_kind(actual, expected),
    };
    findings.into()
}

impl From<Findings> for Comparison {
    fn from(findings: Findings) -> Self {
        Self {
            passed: findings.worst.is_none(),
            max_abs_diff: findings.max_abs_diff,
            max_rel_diff: findings.max_rel_diff,
            detail: findings.worst.map(|worst| worst.detail),
        }
    }
}

fn other_kind(actual: &Tensor, expected: &Tensor) -> Findings {
    Findings::incomparable(format!("expected {}, found {}", describe(expected), describe(actual)))
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
            (Tensor::String(actual), Tensor::String(expected)) => compare_variable(actual, expected),
            (Tensor::Bytes(actual), Tensor::Bytes(expected)) => compare_variable(actual, expected),
            _ => other_kind(actual, expected),
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

fn compare_variable<T: VariableElement>(actual: &VariableTensor<T>, expected: &VariableTensor<T>) -> Findings {
    if actual.shape() != expected.shape() {
        let dtype = T::DTYPE;
        return Findings::incomparable(format!(
            "expected {dtype} {:?}, found {dtype} {:?}",
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
        Shortened(wanted.as_ref()),
        Shortened(found.as_ref()),
        how_many(1 + differing.count(), expected.elements().len()),
    ))
}

/// A text in quotes, or the size of other bytes and the first of them in hexadecimal, cut to a length that fits a line of output.
pub(crate) struct Shortened<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 60;
        let Ok(text) = std::str::from_utf8(self.0) else {
            let shown = &self.0[..self.0.len().min(LONGEST / 4)];
            let rest = if shown.len() < self.0.len() { "…" } else { "" };
            return write!(
                f,
                "{} bytes {}{rest}",
                self.0.len(),
                shown.iter().map(|b| format!("{b:02x}")).collect::<String>()
            );
        };
        match text.char_indices().nth(LONGEST) {
            None => write!(f, "{text:?}"),
            Some((end, _)) => write!(f, "{:?}… ({} bytes)", &text[..end], text.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::numbers::BLOCK;
    use super::*;
    use crate::{AlignedBytes, DataType, Element, NumericTensor};

    fn floats(elements: &[f32], shape: &[usize]) -> Tensor {
        Tensor::from_vec(elements.to_vec(), shape.to_vec()).unwrap()
    }

    fn compare(actual: &Tensor, expected: &Tensor) -> Comparison {
        allclose(actual, expected, Tolerance::default())
    }

    /// Checks that the tensors differ and that the detail is exactly this text.
    fn check(actual: &Tensor, expected: &Tensor, detail: &str) {
        let comparison = compare(actual, expected);
        assert_eq!(comparison.detail.as_deref(), Some(detail));
        assert!(!comparison.passed);
        assert!(compare(actual, actual).passed && compare(expected, expected).passed);
    }

    #[test]
    fn details_name_the_worst_element() {
        check(
            &floats(&[1.0, 2.5, 3.0, 4.0, 5.0, 7.0], &[2, 3]),
            &floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]),
            "element [1, 2]: expected 6.0, found 7.0 (differs by 1e0, allowed 6.001e-5); 2 of 6 elements differ",
        );
        check(
            &Tensor::scalar(0.5_f64),
            &Tensor::scalar(0.0_f64),
            "element []: expected 0.0, found 0.5 (differs by 5e-1, allowed 1e-8); 1 of 1 element differs",
        );
        check(
            &floats(&[9.0, 1.0], &[2]),
            &floats(&[1.0, f32::INFINITY], &[2]),
            "element [1]: expected inf, found 1.0; 2 of 2 elements differ",
        );
        check(
            &Tensor::from_vec(vec![u64::MAX, 0], vec![2]).unwrap(),
            &Tensor::from_vec(vec![u64::MAX - 1, 0], vec![2]).unwrap(),
            "element [0]: expected 18446744073709551614, found 18446744073709551615 (differs by 1); \
             1 of 2 elements differ",
        );
        check(
            &Tensor::from_strings(["a", "x", "c", "y"], vec![2, 2]).unwrap(),
            &Tensor::from_strings(["a", "b", "c", "d"], vec![2, 2]).unwrap(),
            "element [0, 1]: expected \"b\", found \"x\"; 2 of 4 elements differ",
        );
        let long = "ü".repeat(100);
        check(
            &Tensor::from_strings([long.as_str()], vec![1]).unwrap(),
            &Tensor::from_strings([""], vec![1]).unwrap(),
            &format!("element [0]: expected \"\", found \"{}\"… (200 bytes); 1 of 1 element differs", "ü".repeat(60)),
        );
    }

    #[test]
    fn another_dtype_or_shape_is_a_difference() {
        let numbers = floats(&[1.0, 2.0], &[2]);
        let strings = Tensor::from_strings(["a"], vec![1]).unwrap();
        let nested =
            |elements: &[&Tensor]| Tensor::nested(elements.iter().map(|&tensor| tensor.clone()).collect()).unwrap();
        check(&floats(&[1.0, 2.0], &[2, 1]), &numbers, "expected float32 [2], found float32 [2, 1]");
        check(&Tensor::scalar(1.0_f64), &Tensor::scalar(1.0_f32), "expected float32 [], found float64 []");
        check(&strings, &numbers, "expected float32 [2], found string [1]");
        check(&Tensor::from_strings(["a"], vec![]).unwrap(), &strings, "expected string [1], found string []");
        check(&numbers, &nested(&[&strings]), "expected a nested tensor of 1 string tensors, found float32 [2]");
        check(&nested(&[]), &numbers, "expected float32 [2], found an empty nested tensor");
        check(&nested(&[&numbers]), &nested(&[]), "expected a nested tensor of 0 tensors, found 1");
        check(
            &nested(&[&numbers, &floats(&[], &[0])]),
            &nested(&[&numbers, &numbers]),
            "tensor 1: expected float32 [2], found float32 [0]",
        );
        check(&nested(&[&strings]), &nested(&[&numbers]), "tensor 0: expected float32 [2], found string [1]");
        let comparison = compare(&strings, &numbers);
        assert_eq!((comparison.max_abs_diff, comparison.max_rel_diff), (None, None));
    }

    #[test]
    fn nested_tensors_report_the_worst_of_all() {
        let nested = |last: f32| {
            Tensor::nested(vec![floats(&[1.0, 2.0 + last], &[2]), floats(&[4.0, 4.0, 4.0 + 2.0 * last], &[3])]).unwrap()
        };
        let comparison = compare(&nested(0.5), &nested(0.0));
        assert_eq!((comparison.max_abs_diff, comparison.max_rel_diff), (Some(1.0), Some(0.25)));
        let detail = comparison.detail.unwrap();
        assert!(detail.starts_with("tensor 1: element [2]: expected 4.0, found 5.0"), "{detail}");
        assert!(compare(&nested(0.5), &nested(0.5)).passed);
    }

    #[test]
    fn differences_are_measured() {
        /// Takes the actual and the expected elements, then the largest absolute and relative difference.
        fn check<T: Element>(actual: &[T], expected: &[T], max_abs_diff: f64, max_rel_diff: Option<f64>) {
            let tensor = |elements: &[T]| Tensor::from_vec(elements.to_vec(), vec![elements.len()]).unwrap();
            let comparison = compare(&tensor(actual), &tensor(expected));
            let expected = (Some(max_abs_diff), max_rel_diff);
            let found = (comparison.max_abs_diff, comparison.max_rel_diff);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        }
        check::<f32>(&[], &[], 0.0, None);
        check(&[0.0_f32], &[0.0], 0.0, None);
        check(&[1e-9_f64, 2.0], &[0.0, 2.0], 1e-9, Some(0.0));
        check(&[1.5_f32, 4.0], &[1.0, 8.0], 4.0, Some(0.5));
        check(&[f64::INFINITY], &[f64::INFINITY], 0.0, Some(0.0));
        check(&[f64::INFINITY], &[f64::NEG_INFINITY], f64::INFINITY, Some(f64::INFINITY));
        check(&[f32::INFINITY], &[1.0], f64::INFINITY, Some(f64::INFINITY));
        check(&[1.0], &[f32::INFINITY], f64::INFINITY, Some(f64::INFINITY));
        check(&[f32::NAN, 5.0], &[1.0, 1.0], f64::NAN, Some(f64::NAN));
        check(&[5.0, 1.0], &[1.0, f32::NAN], f64::NAN, Some(f64::NAN));
        check(&[f64::NAN], &[f64::NAN], f64::NAN, Some(f64::NAN));
        check(&[i64::MAX], &[i64::MIN], u64::MAX as f64, Some(2.0));
        check(&[-1_i8, 3], &[0, 4], 1.0, Some(0.25));
        check(&[9_007_199_254_740_993_i64], &[9_007_199_254_740_992], 1.0, Some(1.0 / 9_007_199_254_740_992.0));
    }

    #[test]
    fn every_position_of_a_large_tensor_counts() {
        for length in [1, 15, 16, 17, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 21] {
            let expected = vec![1.0_f32; length];
            for position in [0, length / 2, length - 1] {
                for value in [1.5, 0.0, f32::NAN, f32::INFINITY] {
                    let mut actual = expected.clone();
                    actual[position] = value;
                    let comparison = compare(&floats(&actual, &[length]), &floats(&expected, &[length]));
                    let detail = comparison.detail.unwrap();
                    assert!(
                        detail.starts_with(&format!("element [{position}]: expected 1.0, found {value:?}")),
                        "{detail}"
                    );
                    assert!(detail.ends_with(&how_many(1, length)), "{detail}");
                }
            }
        }
    }

    #[test]
    fn nan_equals_nan_on_request() {
        let tolerance = Tolerance { equal_nan: true, ..Tolerance::default() };
        let (left, right) = (floats(&[f32::NAN, 1.0], &[2]), floats(&[-f32::NAN, 1.0], &[2]));
        assert_eq!(allclose(&left, &right, tolerance).max_abs_diff, Some(0.0));
        assert!(allclose(&left, &right, tolerance).passed);
        assert!(!allclose(&left, &floats(&[1.0, 1.0], &[2]), tolerance).passed);
        assert!(!compare(&left, &right).passed);
    }

    #[test]
    fn unaligned_elements_are_compared() {
        let mut bytes = vec![0];
        bytes.extend((0..5000).flat_map(|n| (n as f32).to_le_bytes()));
        let odd = |bytes: &[u8]| {
            let storage = Arc::new(AlignedBytes::copy_of(bytes));
            Tensor::from(NumericTensor::with_offset(DataType::Float32, vec![5000], storage, 1).unwrap())
        };
        let even: Vec<f32> = (0..5000).map(|n| n as f32).collect();
        assert!(compare(&odd(&bytes), &floats(&even, &[5000])).passed);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert!(!compare(&odd(&bytes), &floats(&even, &[5000])).passed);
    }

    use proptest::prelude::*;

    /// Floats that are often equal, nearly equal, or special.
    fn any_float() -> impl Strategy<Value = f32> {
        prop_oneof![
            4 => prop::sample::select(vec![0.0, -0.0, 1.0, 1.00001, 1.00002, f32::NAN, f32::INFINITY, f32::NEG_INFINITY]),
            1 => any::<f32>(),
        ]
    }

    proptest! {
        /// Blocks and lanes do not change the result: a loop over single elements finds the same.
        #[test]
        fn blocks_give_the_same_result_as_single_elements(
            pairs in prop::collection::vec((any_float(), any_float(), any::<bool>()), 0..70),
            start in 0_usize..2 * BLOCK,
            equal_nan: bool,
        ) {
            let tolerance = Tolerance { equal_nan, ..Tolerance::default() };
            let pairs = pairs.into_iter().map(|(actual, expected, same)| (if same { expected } else { actual }, expected));
            let (mut actual, mut expected): (Vec<f32>, Vec<f32>) = (vec![1.0; start], vec![1.0; start]);
            let mut differing = Vec::new();
            for (position, (a, e)) in pairs.enumerate() {
                actual.push(a);
                expected.push(e);
                let close = e.is_finite() && (a - e).abs() <= 1e-8 + 1e-5 * e.abs();
                if !(close || a == e || (equal_nan && a.is_nan() && e.is_nan())) {
                    differing.push(start + position);
                }
            }
            let shape = [actual.len()];
            let comparison = allclose(&floats(&actual, &shape), &floats(&expected, &shape), tolerance);
            prop_assert_eq!(comparison.passed, differing.is_empty());
            if let Some(detail) = comparison.detail {
                prop_assert!(detail.ends_with(&how_many(differing.len(), actual.len())), "{}", detail);
                let named: usize = detail["element [".len()..].split(']').next().unwrap().parse().unwrap();
                prop_assert!(differing.contains(&named), "{}", detail);
            }
        }

        #[test]
        fn whole_numbers_are_compared_exactly(actual: i64, offset in -2_i64..3) {
            let expected = actual.wrapping_add(offset);
            let comparison = compare(&Tensor::scalar(actual), &Tensor::scalar(expected));
            prop_assert_eq!(comparison.passed, offset == 0);
            prop_assert_eq!(comparison.max_abs_diff, Some(actual.abs_diff(expected) as f64));
        }

        #[test]
        fn an_index_leads_back_to_its_position(shape in prop::collection::vec(1_usize..5, 0..5), seed: usize) {
            let total: usize = shape.iter().product();
            let position = seed % total;
            let index = index_of(position, &shape);
            let back = index.iter().zip(&shape).fold(0, |position, (coordinate, size)| position * size + coordinate);
            prop_assert_eq!((back, index.len()), (position, shape.len()));
        }
    }
}
