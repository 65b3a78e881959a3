//! Reaps orphans when this program is process 1, as the only program of a container: the kernel gives it every process whose parent ended.
//!
//! The library waits for the processes of runners within milliseconds. A process that has been dead for longer is an orphan.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, waitpid};

/// The library has waited for its own dead processes long before this is over.
const GRACE: Duration = Duration::from_secs(2);

/// Starts to reap, if this is process 1.
pub(crate) fn reap_as_init() {
    if getpid() != Pid::INIT {
        return;
    }
    let thread = std::thread::Builder::new().name("carton-orphans".to_owned());
    let started = thread.spawn(|| {
        let mut seen = BTreeSet::new();
        loop {
            std::thread::sleep(GRACE);
            let dead = dead_children();
            for pid in dead.intersection(&seen) {
                // It can only be gone already.
                let _ = Pid::from_raw(*pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
            }
            seen = dead;
        }
    });
    if let Err(error) = started {
        tracing::warn!("orphaned processes are not reaped: {error}");
    }
}

/// The dead children of this process that still need to be waited for.
fn dead_children() -> BTreeSet<i32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| is_dead_child(&stat)))
        .collect()
}

/// Whether `/proc/PID/stat` is that of a zombie whose parent is process 1. The name before the state may hold anything.
fn is_dead_child(stat: &str) -> bool {
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let mut fields = fields.split(' ');
    (fields.next(), fields.next()) == (Some("Z"), Some("1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_processes() {
        assert!(is_dead_child("12 (a) b) Z 1 12 12 0"));
        assert!(!is_dead_child("12 (a) S 1 12 12 0"));
        assert!(!is_dead_child("12 (Z 1) S 2 12"));
        assert!(!is_dead_child(""));
    }
}
