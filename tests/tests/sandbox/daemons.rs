//! Processes that try to live longer than the model, and longer than a host that is killed.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::host::{End, Host, holds_soon, remove};
use crate::setting::Confinement;

/// The daemons. Of each, whether it outlives a host that ends in order and does not confine its runners: it kills the group of the runner.
const DAEMONS: [(&str, bool); 8] = [
    ("leave_orphan", false),
    ("leave_daemon", true),
    ("leave_other_group", true),
    ("leave_stopped", false),
    ("leave_brother", false),
    ("leave_reaper", false),
    ("leave_hopping", false),
    ("leave_many", false),
];

/// The attempts, and the names of their processes.
fn attempts(kind: &str) -> (Vec<(&'static str, Value)>, Vec<String>) {
    let name = |index: usize| format!("e{}{kind}{index}", std::process::id() % 1_000_000);
    let names: Vec<String> = (0..DAEMONS.len()).map(name).collect();
    let attempts = DAEMONS.iter().zip(&names).map(|(&(attempt, _), name)| {
        let arguments = if attempt == "leave_many" { json!({"name": name, "count": 5}) } else { json!({"name": name}) };
        (attempt, arguments)
    });
    (attempts.collect(), names)
}

/// Returns the numbers and the names of living processes.
fn processes() -> Vec<(i32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter_map(|number| {
            let status = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            // A dead process that nobody has waited for yet does nothing any more.
            let is_alive = !field("State:")?.starts_with(['Z', 'X']);
            is_alive.then(|| (number, field("Name:").unwrap_or_default().to_owned()))
        })
        .collect()
}

/// Returns which of the named daemons live. A reaper has a second process.
fn living(names: &[String]) -> BTreeSet<usize> {
    let processes = processes();
    let lives = |name: &String| processes.iter().any(|(_, found)| found == name || *found == format!("{name}2"));
    names.iter().enumerate().filter(|(_, name)| lives(name)).map(|(index, _)| index).collect()
}

/// Ends what a sandbox that is off, or that failed, has left behind.
fn clean_up(names: &[String]) {
    for _ in 0..50 {
        let left: Vec<i32> = processes()
            .into_iter()
            .filter(|(_, found)| names.iter().any(|name| found == name || *found == format!("{name}2")))
            .map(|(number, _)| number)
            .collect();
        if left.is_empty() {
            return;
        }
        for number in left {
            if let Some(process) = rustix::process::Pid::from_raw(number) {
                let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Checks which daemons outlive the host.
fn check(confinement: Confinement, end: End, kind: &str) {
    let (attempts, names) = attempts(kind);
    let mut host = Host::start(confinement, &attempts, end);
    let scratch = host.scratch();
    let answers = host.answers.clone();
    if end == End::Waits {
        host.kill();
    } else {
        assert!(host.wait(), "the host failed: {answers:?}");
    }
    let expected: BTreeSet<usize> = DAEMONS
        .iter()
        .enumerate()
        .filter(|(_, (_, leaves))| confinement == Confinement::Off && *leaves)
        .map(|(index, _)| index)
        .collect();
    // A host that is killed ends no daemon, and only the sandbox would. Some daemons end by themselves, so only the ones that are sure to
    // live are expected.
    let may_be_more = confinement == Confinement::Off && end == End::Waits;
    // Killed processes end a moment later.
    let is_right = holds_soon(|| {
        let found = living(&names);
        found == expected || (may_be_more && found.is_superset(&expected))
    });
    let found: Vec<&str> = living(&names).iter().map(|&index| DAEMONS[index].0).collect();
    clean_up(&names);
    let expected: Vec<&str> = expected.iter().map(|&index| DAEMONS[index].0).collect();
    assert!(is_right, "sandbox {confinement:?}: expected {expected:?} to live, found {found:?}, answers {answers:?}");
    if confinement != Confinement::Off {
        for (answer, (name, _)) in answers.iter().zip(DAEMONS) {
            let leaves_the_group =
                ["leave_daemon", "leave_other_group"].contains(&name) && confinement == Confinement::Plain;
            assert_eq!(answer.starts_with("contained: EPERM"), leaves_the_group, "{name}: {answer}");
        }
        let is_gone = holds_soon(|| !scratch.exists());
        remove(&scratch);
        assert!(is_gone, "the scratch folder {} is still there", scratch.display());
    }
}

#[test]
fn nothing_outlives_a_model_that_is_dropped() {
    if crate::sources::Sources::find().is_none() {
        return;
    }
    check(Confinement::Off, End::Drops, "a");
    check(Confinement::Plain, End::Drops, "b");
    check(Confinement::Namespaces, End::Drops, "e");
}

#[test]
fn nothing_outlives_a_host_that_is_killed() {
    if crate::sources::Sources::find().is_none() {
        return;
    }
    check(Confinement::Off, End::Waits, "c");
    check(Confinement::Plain, End::Waits, "d");
    check(Confinement::Namespaces, End::Waits, "f");
}
