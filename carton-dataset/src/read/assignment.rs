//! Divides shards among workers. Pure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroUsize;

/// How shards are divided among workers. Each shard goes to exactly one worker, and every process that computes the division from the
/// same manifest gets the same result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assignment {
    /// Worker k of n gets the shards k, k + n, k + 2n and so on, in the order of the manifest.
    #[default]
    RoundRobin,
    /// Assigns the largest shards first, each to the worker with the fewest bytes so far. No worker gets more than 4/3 of the bytes that
    /// the best division would give its busiest worker.
    Balanced,
}

impl Assignment {
    /// Returns the positions of each worker's shards, ascending, given the sizes of all shards in bytes. The result has at most one entry
    /// per shard: workers beyond that have no shards.
    #[must_use]
    pub fn divide(self, sizes: &[u64], n_workers: NonZeroUsize) -> Vec<Vec<usize>> {
        // Workers beyond the number of shards have nothing to do. Leaving them out makes a claim of 2^60 workers cost nothing.
        let n_busy = n_workers.get().min(sizes.len());
        let mut workers = vec![Vec::new(); n_busy];
        match self {
            Self::RoundRobin => {
                for (position, worker) in (0..sizes.len()).zip((0..n_busy).cycle()) {
                    workers[worker].push(position);
                }
            }
            Self::Balanced => {
                let mut positions: Vec<usize> = (0..sizes.len()).collect();
                // The sort is stable: shards of equal size stay in their order.
                positions.sort_by_key(|&position| Reverse(sizes[position]));
                let mut loads: BinaryHeap<_> = (0..n_busy).map(|worker| Reverse((0_u128, worker))).collect();
                for position in positions {
                    let Some(Reverse((load, worker))) = loads.pop() else { break };
                    workers[worker].push(position);
                    loads.push(Reverse((load + u128::from(sizes[position]), worker)));
                }
                workers.iter_mut().for_each(|positions| positions.sort_unstable());
            }
        }
        workers
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn divide(assignment: Assignment, sizes: &[u64], n_workers: usize) -> Vec<Vec<usize>> {
        assignment.divide(sizes, NonZeroUsize::new(n_workers).unwrap())
    }

    #[test]
    fn small_cases() {
        let sizes = [10, 10, 80, 20, 40];
        assert_eq!(divide(Assignment::RoundRobin, &sizes, 2), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(divide(Assignment::Balanced, &sizes, 2), [vec![2], vec![0, 1, 3, 4]]);
        assert_eq!(divide(Assignment::Balanced, &[5, 5], 3), [vec![0], vec![1]]);
        assert!(divide(Assignment::Balanced, &[], usize::MAX).is_empty());
    }

    proptest! {
        #[test]
        fn every_shard_has_one_worker(
            sizes in prop::collection::vec(prop_oneof![any::<u64>(), 0..100_u64], 0..50),
            n_workers in 1..20_usize,
        ) {
            for assignment in [Assignment::RoundRobin, Assignment::Balanced] {
                let workers = divide(assignment, &sizes, n_workers);
                prop_assert!(workers.len() <= n_workers);
                prop_assert!(workers.iter().all(|positions| positions.is_sorted()));
                let mut all = workers.concat();
                all.sort_unstable();
                prop_assert_eq!(all, (0..sizes.len()).collect::<Vec<_>>());
            }
        }

        #[test]
        fn nobody_has_much_more_than_is_needed(sizes in prop::collection::vec(0..100_u64, 1..8), n_workers in 2..4_usize) {
            let workers = divide(Assignment::Balanced, &sizes, n_workers);
            let load = |positions: &Vec<usize>| positions.iter().map(|&position| sizes[position]).sum::<u64>();
            let busiest = workers.iter().map(load).max().unwrap();
            // Tries every possible division.
            let best = (0..n_workers.pow(sizes.len() as u32)).map(|mut division| {
                let mut loads = vec![0; n_workers];
                for size in &sizes {
                    loads[division % n_workers] += size;
                    division /= n_workers;
                }
                loads.into_iter().max().unwrap()
            });
            let best = best.min().unwrap();
            prop_assert!(3 * busiest <= 4 * best, "{busiest}, but {best} is possible");
        }
    }
}
