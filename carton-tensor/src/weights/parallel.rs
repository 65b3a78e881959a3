//! Work shared among threads: numbered items, taken in order by whichever thread is free.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// As many threads as the machine runs at once.
pub(crate) fn available_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Calls `work` once for each of `n_items` on up to `n_threads` threads, the calling one among them, and returns the results
/// in the order of the items. Each thread makes a state of its own first and hands it to every call.
///
/// After an error no further item is begun. The error returned is that of the lowest item that failed: items are begun
/// in order, so it is the one that a single thread would have met.
pub(crate) fn share<S, R: Send, E: Send>(
    n_items: usize,
    n_threads: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let run = || {
        let mut state = state();
        let mut results = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let item = next.fetch_add(1, Ordering::Relaxed);
            if item >= n_items {
                break;
            }
            match work(&mut state, item) {
                Ok(result) => results.push((item, result)),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    return (results, Some((item, error)));
                }
            }
        }
        (results, None)
    };
    let parts = thread::scope(|scope| {
        let others: Vec<_> = (1..n_threads.min(n_items))
            // Where the system gives no further thread, those that there are do the work.
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, run).ok())
            .collect();
        let mut parts = vec![run()];
        for other in others {
            parts.push(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        parts
    });
    let (mut results, mut errors) = (Vec::with_capacity(n_items), Vec::new());
    for (done, error) in parts {
        results.extend(done);
        errors.extend(error);
    }
    if let Some((_, error)) = errors.into_iter().min_by_key(|(item, _)| *item) {
        return Err(error);
    }
    results.sort_unstable_by_key(|(item, _)| *item);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::convert::Infallible;

    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_threads() {
        for n_threads in [0, 1, 2, 7, 100] {
            for n_items in [0, 1, 2, 1000] {
                let results = share(n_items, n_threads, || (), |(), item| Ok::<_, Infallible>(item * 2)).unwrap();
                assert_eq!(results, (0..n_items).map(|item| item * 2).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_first_error_is_returned_and_nothing_is_begun_after_it() {
        for n_threads in [1, 2, 8] {
            let begun = AtomicUsize::new(0);
            let result = share(
                100_000,
                n_threads,
                || (),
                |(), item| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    if item == 10 || item == 12 { Err(item) } else { Ok(()) }
                },
            );
            assert_eq!(result, Err(10));
            assert!(begun.into_inner() < 100_000);
        }
    }
}
