//! The elements of a storage that a tensor has, by its offset, shape and strides. Pure.

/// Returns how many elements of the storage are from the first to the last one of the tensor; 0 for a tensor of no elements, `None` if the number
/// overflows.
pub(super) fn extent(shape: &[usize], strides: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let last = shape
        .iter()
        .zip(strides)
        .try_fold(0_u64, |last, (&size, &stride)| last.checked_add((size as u64 - 1).checked_mul(stride)?))?;
    last.checked_add(1)
}

/// Whether the elements are one after another in C order. The strides of dimensions of one element do not matter.
pub(super) fn is_contiguous(shape: &[usize], strides: &[u64]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut expected = 1_u64;
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        if size != 1 {
            if stride != expected {
                return false;
            }
            expected = expected.saturating_mul(size as u64);
        }
    }
    true
}

/// Copies the elements in C order into `into`. `source` has the elements from the first to the last one of the tensor. `None` if a position is
/// outside of either, which a checked extent excludes.
pub(super) fn gather(source: &[u8], element: usize, shape: &[usize], strides: &[u64], into: &mut [u8]) -> Option<()> {
    // Trailing dimensions whose elements are one after another are copied together.
    let mut run = element;
    let mut outer = shape.len();
    while let (Some(&size), Some(&stride)) = (shape.get(outer.wrapping_sub(1)), strides.get(outer.wrapping_sub(1))) {
        // The stride of a dimension of one element is any.
        if size != 1 && distance_of(stride, element)? != run {
            break;
        }
        run = run.checked_mul(size)?;
        outer -= 1;
    }
    let shape = shape.get(..outer)?;
    let distances = shape.iter().zip(strides).map(|(&size, &stride)| match size {
        1 => Some(0),
        _ => distance_of(stride, element),
    });
    let distances: Vec<usize> = distances.collect::<Option<_>>()?;
    let mut index = vec![0_usize; outer];
    let mut position = 0_usize;
    for piece in into.chunks_mut(run.max(1)) {
        piece.copy_from_slice(source.get(position..position.checked_add(run)?)?);
        // The next index in C order.
        for ((at, &size), &distance) in index.iter_mut().zip(shape).zip(&distances).rev() {
            *at += 1;
            if *at < size {
                position = position.checked_add(distance)?;
                break;
            }
            position = position.checked_sub(distance.checked_mul(size - 1)?)?;
            *at = 0;
        }
    }
    Some(())
}

fn distance_of(stride: u64, element: usize) -> Option<usize> {
    usize::try_from(stride).ok()?.checked_mul(element)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn extents() {
        assert_eq!(extent(&[], &[]), Some(1));
        assert_eq!(extent(&[2, 3], &[3, 1]), Some(6));
        assert_eq!(extent(&[3, 2], &[1, 3]), Some(6));
        assert_eq!(extent(&[5, 0], &[u64::MAX, u64::MAX]), Some(0));
        assert_eq!(extent(&[1_000_000_000_000], &[0]), Some(1));
        assert_eq!(extent(&[3], &[u64::MAX]), None);
        assert_eq!(extent(&[2], &[u64::MAX]), None);
        assert_eq!(extent(&[2, 2], &[u64::MAX - 1, 1]), None);
    }

    #[test]
    fn contiguity() {
        assert!(is_contiguous(&[], &[]));
        assert!(is_contiguous(&[2, 1, 3], &[3, 99, 1]));
        assert!(is_contiguous(&[0, 3], &[7, 7]));
        assert!(!is_contiguous(&[2, 3], &[1, 2]));
        assert!(!is_contiguous(&[4], &[0]));
    }

    #[test]
    fn gathering() {
        let check = |shape: &[usize], strides: &[u64], expected: &[u8]| {
            let source: Vec<u8> = (0..24).collect();
            let mut found = vec![0; expected.len()];
            gather(&source, 1, shape, strides, &mut found).unwrap();
            assert_eq!(found, expected, "{shape:?} {strides:?}");
        };
        // As numpy.lib.stride_tricks.as_strided gives them.
        check(&[2, 3], &[1, 2], &[0, 2, 4, 1, 3, 5]);
        check(&[3], &[0], &[0, 0, 0]);
        check(&[2, 2, 2], &[12, 1, 4], &[0, 4, 1, 5, 12, 16, 13, 17]);
        check(&[2, 1, 3], &[5, 77, 1], &[0, 1, 2, 5, 6, 7]);
        check(&[1, 2, 1], &[u64::MAX, 2, u64::MAX], &[0, 2]);
        check(&[3, 2], &[1, 1], &[0, 1, 1, 2, 2, 3]);
        check(&[], &[], &[0]);
        let mut pairs = [0; 8];
        gather(&[1, 2, 3, 4, 5, 6, 7, 8], 2, &[2, 2], &[1, 2], &mut pairs).unwrap();
        assert_eq!(pairs, [1, 2, 5, 6, 3, 4, 7, 8]);
        assert!(gather(&[1, 2], 1, &[3], &[1], &mut [0; 3]).is_none());
    }
}
