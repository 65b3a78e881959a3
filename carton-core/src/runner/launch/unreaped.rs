//! The runner processes that this program has started and not yet reaped, so that it can exit without leaving any behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::state::{State, kill};

/// The processes that were started and are not reaped.
static UNREAPED: Mutex<Vec<Arc<Mutex<State>>>> = Mutex::new(Vec::new());

/// Notified whenever one of them was reaped.
static REAPED: Condvar = Condvar::new();

/// How long to wait for killed processes to disappear. Only a process that hangs in the kernel takes longer.
const AFTER_KILL: Duration = Duration::from_secs(2);

pub(super) fn add(state: &Arc<Mutex<State>>) {
    UNREAPED.lock().push(Arc::clone(state));
}

pub(super) fn remove(state: &Arc<Mutex<State>>) {
    UNREAPED.lock().retain(|known| !Arc::ptr_eq(known, state));
    REAPED.notify_all();
}

/// Waits until all runner processes of this program have ended. Kills those that have not ended within `grace`.
///
/// Call it after the models are dropped, right before the program exits: the threads that watch runners end with the program, and
/// a runner that hangs would outlive it.
pub fn end_all(grace: Duration) {
    if wait_for_none(grace) {
        return;
    }
    for state in UNREAPED.lock().iter() {
        kill(&state.lock());
    }
    wait_for_none(AFTER_KILL);
}

/// Waits until no process is left. Returns `false` if the time is up first.
fn wait_for_none(time: Duration) -> bool {
    let end = Instant::now().checked_add(time);
    let mut unreaped = UNREAPED.lock();
    while !unreaped.is_empty() {
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return false;
        }
        REAPED.wait_for(&mut unreaped, left);
    }
    true
}
