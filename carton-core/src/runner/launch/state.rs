//! The state of a runner process, which decides whether its ID may still be used.

use parking_lot::MutexGuard;
use rustix::process::{Pid, Signal, kill_process_group};

/// Whether a process was reaped.
pub(super) enum State {
    /// Not reaped yet, so no other process or group can have this ID.
    Alive(Pid),
    Reaped,
}

pub(super) fn kill(state: &MutexGuard<'_, State>) {
    if let State::Alive(pid) = **state {
        // The only possible error is that no process is left to kill.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}
