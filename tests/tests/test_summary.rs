//! Tests `scripts/test-summary` on output of cargo, unittest, pytest and Node, which is recorded in `test_summary/`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/test-summary")
}

fn run_of(tool: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/test_summary").join(format!("{tool}.txt"))
}

/// Returns the filtered output of `cargo test`, as it is shown and counted.
fn filtered() -> String {
    let input = Stdio::from(File::open(run_of("cargo")).unwrap());
    let output = Command::new(script()).arg("filter").stdin(input).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the summary that is printed at the end.
fn counted(log: &str, parts: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, log).unwrap();
    let output = Command::new(script()).arg("count").arg(path).args(parts).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn of_what_passing_tests_print_reasons_are_left() {
    let shown = filtered();
    let skipped = "test tests::skips skipped: there is no nginx\n\
                   test tests::skips_twice skipped: there is no nginx\n    and: there is no uv\n";
    assert!(shown.contains(skipped), "{shown}");
    for absent in ["nothing\n", "skipped by hand", "test tests::prints skipped", "test tests::fails skipped"] {
        assert!(!shown.contains(absent), "{shown}");
    }
    // The output of a failing test is unchanged, and so are all counts.
    assert!(shown.contains("---- tests::fails stdout ----\nskipped: half of it\n"), "{shown}");
    assert_eq!(shown.matches("\ntest result: ").count(), 2, "{shown}");
}

#[test]
fn skipped_tests_are_not_passed_ones() {
    let last = |log: &str, parts: &[&str]| counted(log, parts).lines().last().unwrap().to_owned();
    let read = |tool: &str| fs::read_to_string(run_of(tool)).unwrap();
    assert_eq!(last("", &[]), "0 passed, 0 failed, 0 skipped");
    assert_eq!(last(&filtered(), &[]), "3 passed, 1 failed, 3 skipped");
    assert_eq!(last(&read("unittest"), &[]), "1 passed, 2 failed, 1 skipped");
    // unittest's output for tests that are expected to fail, and for a failed setup, after which no test ran.
    let unittest = |ran: u32, result: &str| last(&format!("Ran {ran} tests in 0.001s\n\n{result}\n"), &[]);
    assert_eq!(unittest(2, "OK (expected failures=1)"), "2 passed, 0 failed, 0 skipped");
    assert_eq!(unittest(2, "FAILED (failures=1, unexpected successes=1)"), "0 passed, 2 failed, 0 skipped");
    assert_eq!(unittest(0, "FAILED (errors=1)"), "0 passed, 1 failed, 0 skipped");
    let pytest = read("pytest");
    assert_eq!(last(&pytest, &[]), "2 passed, 2 failed, 1 skipped");
    assert!(counted(&pytest, &[]).contains("1 there is no torch"), "{}", counted(&pytest, &[]));
    assert_eq!(last("12 passed in 3.45s\n", &[]), "12 passed, 0 failed, 0 skipped");
    assert_eq!(last("3 passed, 1 warning in 63.45s (0:01:03)\n", &[]), "3 passed, 0 failed, 0 skipped");
    assert_eq!(last(&read("node"), &[]), "1 passed, 1 failed, 1 skipped");
    // A part that does not build has failed, a part whose tests fail is counted once, and a part that cannot run here is skipped.
    let parts = [filtered(), read("unittest"), read("node"), "error: could not compile\n".to_owned()];
    let log: String = parts.iter().map(|part| format!("part begins\n{part}part failed\n")).collect();
    let all = counted(&log, &["the example for Spark: there is no Java 17"]);
    assert_eq!(all.lines().last(), Some("5 passed, 5 failed, 6 skipped"));
    for reason in [
        "1 needs a day",
        "1 the example for Spark: there is no Java 17",
        "1 there is no /proc",
        "2 there is no nginx",
        "1 this interpreter has no NumPy",
    ] {
        assert!(all.lines().any(|line| line.trim() == reason), "{all}");
    }
}
