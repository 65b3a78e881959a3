//! Whether a runner that starts makes progress (spec/runner-descriptor.md, "The process"): its processes use processor time, wait for a processor,
//! or read from a disk. On a busy machine a start takes long, and is no failure; a runner that hangs does none of these.

#[cfg(any(target_os = "linux", test))]
use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Pid;

/// What the processes of a runner have used so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// The counters of the kernel, for each thread and process.
    counters: Vec<String>,
    /// Whether a thread runs, waits for a processor, or waits for a disk.
    is_active: bool,
}

/// Measures for how long a runner has made no progress.
#[derive(Default)]
pub(super) struct Idleness {
    last: Option<Usage>,
    idle: Duration,
}

impl Idleness {
    /// Adds an observation, `elapsed` after the one before. Returns for how long there has been no progress. A system that does not tell the
    /// usage, `None`, shows none.
    pub(super) fn observe(&mut self, usage: Option<Usage>, elapsed: Duration) -> Duration {
        let has_changed = usage.is_some() && usage != self.last;
        let is_active = usage.as_ref().is_some_and(|usage| usage.is_active);
        self.idle = if has_changed || is_active { Duration::ZERO } else { self.idle + elapsed };
        self.last = usage;
        self.idle
    }
}

/// Returns what the processes of the group of `leader`, and those below it, have used. `None` if this system does not tell.
#[cfg(target_os = "linux")]
pub(super) fn usage(leader: Pid) -> Option<Usage> {
    use std::fs;

    let numbers = |folder: &str| -> Vec<i32> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let stat = |folder: &str| Stat::parse(&fs::read_to_string(format!("{folder}/stat")).ok()?);
    let all = numbers("/proc").into_iter().filter_map(|number| Some((number, stat(&format!("/proc/{number}"))?)));
    let all: Vec<(i32, Stat)> = all.collect();
    let members = members(&all, leader.as_raw_pid());
    let mut usage = Usage::default();
    for process in &members {
        let folder = format!("/proc/{process}");
        // Not every process lets others of its user read this.
        let io = fs::read_to_string(format!("{folder}/io")).unwrap_or_default();
        let read = io.lines().filter(|line| line.starts_with("read_bytes"));
        usage.counters.extend(read.map(|line| format!("{process} {line}")));
        for thread in numbers(&format!("{folder}/task")) {
            let folder = format!("{folder}/task/{thread}");
            let Some(stat) = stat(&folder) else { continue };
            usage.is_active |= stat.is_active;
            let scheduled = fs::read_to_string(format!("{folder}/schedstat")).unwrap_or_default();
            usage.counters.push(format!("{thread} {} {}", stat.ticks, scheduled.trim_end()));
        }
    }
    usage.counters.sort_unstable();
    (!members.is_empty()).then_some(usage)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn usage(_leader: Pid) -> Option<Usage> {
    None
}

/// What `/proc/PID/stat` tells of a process or thread.
#[cfg(any(target_os = "linux", test))]
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    is_active: bool,
    parent: i32,
    group: i32,
    /// Processor time, in ticks.
    ticks: u64,
}

#[cfg(any(target_os = "linux", test))]
impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name before the last parenthesis may contain anything.
        let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            // Running or ready to run; waiting for a disk.
            is_active: matches!(*fields.first()?, "R" | "D"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            ticks: ticks(11)?.saturating_add(ticks(12)?),
        })
    }
}

/// Returns the processes of the group of `leader`, and all below them.
#[cfg(any(target_os = "linux", test))]
fn members(all: &[(i32, Stat)], leader: i32) -> BTreeSet<i32> {
    let mut members: BTreeSet<i32> = all
        .iter()
        .filter(|(number, stat)| *number == leader || stat.group == leader)
        .map(|(number, _)| *number)
        .collect();
    loop {
        let below = all.iter().filter(|(_, stat)| members.contains(&stat.parent)).map(|(number, _)| *number);
        let more: BTreeSet<i32> = members.iter().copied().chain(below).collect();
        if more.len() == members.len() {
            return members;
        }
        members = more;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn stat(state: &str, parent: i32, group: i32) -> Stat {
        Stat::parse(&format!("7 (a) b) {state} {parent} {group} 1 0 -1 4194304 9 8 7 6 30 12 0 0 20 0 1 0 5")).unwrap()
    }

    #[test]
    fn the_state_of_a_process_is_read_behind_its_name() {
        assert_eq!(stat("S", 1, 2), Stat { is_active: false, parent: 1, group: 2, ticks: 42 });
        for (state, is_active) in [("R", true), ("D", true), ("S", false), ("T", false), ("Z", false)] {
            assert_eq!(stat(state, 1, 1).is_active, is_active, "{state}");
        }
        assert_eq!(Stat::parse("7 (a) S 1"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn the_processes_of_a_runner_are_its_group_and_all_below() {
        let all = [(9, 1, 9), (5, 1, 5), (6, 5, 5), (7, 6, 7), (8, 7, 7), (10, 1, 5), (11, 9, 9)];
        let all: Vec<(i32, Stat)> = all.map(|(number, parent, group)| (number, stat("S", parent, group))).into();
        assert_eq!(members(&all, 5), BTreeSet::from([5, 6, 7, 8, 10]));
        assert_eq!(members(&all, 12), BTreeSet::new());
    }

    #[test]
    fn only_time_without_progress_counts() {
        let second = Duration::from_secs(1);
        let usage = |counter: &str, is_active| Some(Usage { counters: vec![counter.to_owned()], is_active });
        let mut idleness = Idleness::default();
        for (usage, expected) in [
            (usage("1", false), 0),
            (usage("1", false), 1),
            (usage("1", false), 2),
            (usage("2", false), 0),
            (usage("2", false), 1),
            (usage("2", true), 0),
            (usage("2", false), 0),
            (None, 1),
            (None, 2),
            (usage("2", false), 0),
        ] {
            let found = idleness.observe(usage.clone(), second);
            // Turning from active to waiting is a change.
            assert_eq!(found, second * expected, "{usage:?}");
        }
    }
}
