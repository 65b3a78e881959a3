//! Positions of elements.

/// Returns the index of the element at `position` in C order.
pub(crate) fn index_of(position: usize, shape: &[usize]) -> Vec<usize> {
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
