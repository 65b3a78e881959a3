//! The runner processes that this program has started and not reaped yet, so that it can end without leaving any behind.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::{State, kill, lock};

/// Processes that were started and are not reaped.
static UNREAPED: Mutex<Vec<Arc<Mutex<State>>>> = Mutex::new(Vec::new());

/// Told whenever one of them was reaped.
static REAPED: Condvar = Condvar::new();

/// How long a killed process may take to disappear; only one that hangs in the kernel takes longer.
const AFTER_KILL: Duration = Duration::from_secs(2);

pub(super) fn add(state: &Arc<Mutex<State>>) {
    lock(&UNREAPED).push(Arc::clone(state));
}

pub(super) fn remove(state: &Arc<Mutex<State>>) {
    lock(&UNREAPED).retain(|known| !Arc::ptr_eq(known, state));
    REAPED.notify_all();
}

/// Waits until every runner process of this program has ended, and kills those that have not within `grace`.
///
/// A program that is about to exit calls it once its models are dropped: the threads that watch runners end with the
/// program, and a runner that hangs would outlive it.
pub fn end_all(grace: Duration) {
    if wait_for_none(grace) {
        return;
    }
    for state in lock(&UNREAPED).iter() {
        kill(&lock(state));
    }
    wait_for_none(AFTER_KILL);
}

/// Whether no process is left before the time is up.
fn wait_for_none(time: Duration) -> bool {
    let end = Instant::now().checked_add(time);
    let mut unreaped = lock(&UNREAPED);
    while !unreaped.is_empty() {
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return false;
        }
        let waited = REAPED.wait_timeout(unreaped, left);
        unreaped = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(unreaped, _)| unreaped);
    }
    true
}
