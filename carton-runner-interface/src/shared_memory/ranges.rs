//! The free ranges of one region. Pure.

use std::collections::BTreeMap;

/// Free ranges by offset; neighbours are always joined.
pub(crate) struct FreeRanges(BTreeMap<usize, usize>);

impl FreeRanges {
    /// One free range of `size` bytes.
    pub(crate) fn new(size: usize) -> Self {
        Self(BTreeMap::from([(0, size)]))
    }

    /// Takes `length` bytes at a multiple of `alignment` (a power of two) from the first range that has room. This reuses low addresses
    /// first, whose memory is warm.
    pub(crate) fn take(&mut self, length: usize, alignment: usize) -> Option<usize> {
        let (start, size, offset) = self.0.iter().find_map(|(&start, &size)| {
            let offset = start.checked_next_multiple_of(alignment)?;
            (offset.checked_add(length)? <= start + size).then_some((start, size, offset))
        })?;
        self.0.remove(&start);
        if offset > start {
            self.0.insert(start, offset - start);
        }
        let rest = start + size - (offset + length);
        if rest > 0 {
            self.0.insert(offset + length, rest);
        }
        Some(offset)
    }

    /// Gives back a range that [`take`](Self::take) returned.
    pub(crate) fn give_back(&mut self, mut offset: usize, mut length: usize) {
        if let Some((&before, &size)) = self.0.range(..offset).next_back()
            && before + size == offset
        {
            self.0.remove(&before);
            offset = before;
            length += size;
        }
        if let Some(size) = self.0.remove(&(offset + length)) {
            length += size;
        }
        self.0.insert(offset, length);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 1 << 16;

    proptest! {
        #[test]
        fn ranges_never_overlap_and_all_come_back(
            steps in prop::collection::vec((1..9000_usize, 0..3_u32, any::<prop::sample::Index>()), 1..200),
        ) {
            let mut free = FreeRanges::new(SIZE);
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for (length, action, index) in steps {
                if action == 0 && !taken.is_empty() {
                    let (offset, length) = taken.swap_remove(index.index(taken.len()));
                    free.give_back(offset, length);
                } else if let Some(offset) = free.take(length, if length > 4096 { 4096 } else { 64 }) {
                    prop_assert_eq!(offset % if length > 4096 { 4096 } else { 64 }, 0);
                    prop_assert!(offset + length <= SIZE);
                    prop_assert!(taken.iter().all(|&(start, size)| start + size <= offset || offset + length <= start));
                    taken.push((offset, length));
                }
            }
            for (offset, length) in taken {
                free.give_back(offset, length);
            }
            prop_assert_eq!(free.0, BTreeMap::from([(0, SIZE)]));
        }
    }
}
