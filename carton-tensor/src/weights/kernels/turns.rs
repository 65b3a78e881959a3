//! The order in which a kernel reads consecutive data. A core that reads from the beginning to the end waits for memory, because the
//! processor's prefetch ends at the page boundary. A core that reads several runs alternately waits less.

/// Returns which of `n` items to process as the `index`-th, so that `RUNS` runs of items are read alternately. A remainder that does
/// not divide by `RUNS` comes last.
#[inline(always)]
pub(super) fn taking_turns<const RUNS: usize>(index: usize, n: usize) -> usize {
    let run = n / RUNS;
    if index < run * RUNS { index % RUNS * run + index / RUNS } else { index }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gets_one_turn() {
        for n in (0..100).chain([1000, 1003]) {
            let mut seen: Vec<usize> = (0..n).map(|index| taking_turns::<4>(index, n)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..n), "{n}");
        }
        let order: Vec<usize> = (0..9).map(|index| taking_turns::<4>(index, 9)).collect();
        assert_eq!(order, [0, 2, 4, 6, 1, 3, 5, 7, 8]);
    }
}
