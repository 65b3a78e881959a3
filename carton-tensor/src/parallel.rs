//! A parallel map over numbered items. Free threads take the items in order.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The number of threads that the machine runs at once.
#[must_use]
pub fn available_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Calls `work` once for each number below `n_items`, on all cores.
///
/// # Errors
/// As [`par_map`].
pub fn par_for_each<E: Send>(n_items: usize, work: impl Fn(usize) -> Result<(), E> + Sync) -> Result<(), E> {
    par_map(n_items, available_threads(), || (), |(), item| work(item)).map(drop)
}

/// Calls `work` once for each number below `n_items` on up to `n_threads` threads, the calling one among them, and returns the
/// results in the order of the items. Each thread calls `state` once and hands the result to all of its calls of `work`.
///
/// # Errors
/// What `work` returns for the lowest item that fails. Items are begun in order, so a single thread would return the same error.
/// After an error no further item is begun.
pub fn par_map<S, R: Send, E: Send>(
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
            // If the system refuses a further thread, the existing ones do the work.
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
                let results = par_map(n_items, n_threads, || (), |(), item| Ok::<_, Infallible>(item * 2)).unwrap();
                assert_eq!(results, (0..n_items).map(|item| item * 2).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn each_item_is_worked_on_once() {
        for n_items in [0, 1, 2, 1000] {
            let counts: Vec<AtomicUsize> = (0..n_items).map(|_| AtomicUsize::new(0)).collect();
            let result = par_for_each(n_items, |item| {
                counts[item].fetch_add(1, Ordering::Relaxed);
                Ok::<_, Infallible>(())
            });
            assert_eq!(result, Ok(()));
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{n_items}");
        }
    }

    #[test]
    fn the_first_error_is_returned_and_nothing_is_begun_after_it() {
        for n_threads in [1, 2, 8] {
            let begun = AtomicUsize::new(0);
            let result = par_map(
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
