//! Runs independent jobs on all cores, with threads that end before the call returns.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Calls `job` once for each number below `n_jobs`, in order of their start, on up to one thread a core. The first error
/// keeps further jobs from starting and is returned.
pub(crate) fn run<E: Send>(n_jobs: usize, job: impl Fn(usize) -> Result<(), E> + Sync) -> Result<(), E> {
    let n_cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= n_jobs {
                break;
            }
            if let Err(error) = job(index) {
                stop.store(true, Ordering::Relaxed);
                if let Ok(mut failure) = failure.lock() {
                    failure.get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..n_cores.min(n_jobs) {
            scope.spawn(work);
        }
        work();
    });
    match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_runs_once() {
        for n_jobs in [0, 1, 2, 1000] {
            let counts: Vec<AtomicUsize> = (0..n_jobs).map(|_| AtomicUsize::new(0)).collect();
            let result: Result<(), ()> = run(n_jobs, |index| {
                counts[index].fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            assert_eq!(result, Ok(()));
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{n_jobs}");
        }
    }

    #[test]
    fn an_error_stops_the_rest() {
        let started = AtomicUsize::new(0);
        let result = run(1_000_000, |index| {
            started.fetch_add(1, Ordering::Relaxed);
            if index == 10 { Err("tenth") } else { Ok(()) }
        });
        assert_eq!(result, Err("tenth"));
        assert!(started.load(Ordering::Relaxed) < 1_000_000);
    }
}
