//! The dimensions of a tensor: how many there may be, and how many elements they make.

/// The most dimensions that a tensor may have, which is NumPy's limit. Shapes come from files and runners, and the limit bounds code
/// that works per dimension, such as printing.
pub const MAX_RANK: usize = 64;

/// Returns the number of elements of `shape`; `None` if the product overflows `usize`.
///
/// ```
/// assert_eq!(carton_tensor::element_count(&[2, 3]), Some(6));
/// assert_eq!(carton_tensor::element_count(&[]), Some(1));
/// assert_eq!(carton_tensor::element_count(&[usize::MAX, 2]), None);
/// assert_eq!(carton_tensor::element_count(&[usize::MAX, 2, 0]), Some(0));
/// ```
#[must_use]
pub fn element_count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_usize, |product, &dimension| product.checked_mul(dimension))
}
