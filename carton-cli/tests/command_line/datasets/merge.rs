//! `carton dataset merge`.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

use super::{rows, stream, tree, with_input};
use crate::sandbox::{Sandbox, names};

#[test]
fn tasks_are_merged_and_one_attempt_of_each_counts() {
    let sandbox = Sandbox::new();
    let task = |task: u32, n_rows| {
        let arguments = format!("dataset write - out --batch-size 4 --columns id --task {task} --json");
        let report = with_input(&sandbox, &arguments, &stream(&[rows(n_rows, 2)], true)).expect_code(0).json();
        assert_eq!(report["task"], task);
        report["attempt"].as_str().unwrap().to_owned()
    };
    let (first, second, again) = (task(0, 4), task(1, 3), task(1, 2));
    let out = sandbox.work().join("out");
    assert!(tree(&out).iter().all(|path| path.starts_with("_tasks/")), "{:?}", tree(&out));
    assert_snapshot!(sandbox.carton("dataset ls out"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `out` is no dataset: there is no dataset_manifest.json

    hint: `carton dataset merge` makes it of what tasks have written, or of the shards that are there
    ");
    // As the program that started the tasks knows them, on standard input.
    let merged =
        with_input(&sandbox, "dataset merge out --attempts - --json", format!("{first}\n{again}\n").as_bytes());
    assert_snapshot!(merged.expect_code(0).json(), @r#"{"bytes":304,"index":false,"n_shards":2,"path":"out","samples":6}"#);
    assert_eq!(tree(&out), ["dataset_manifest.json", "part-00000-0000", "part-00001-0000"]);
    assert!(names(&out).iter().all(|name| !name.contains(&second)));
    sandbox.carton("dataset verify out").expect_code(0);
    // A task that starts too late leaves the dataset alone.
    let late =
        with_input(&sandbox, "dataset write - out --batch-size 4 --columns id --task 2", &stream(&[rows(1, 2)], true));
    assert_snapshot!(late, @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `out` has a dataset already

    hint: --overwrite replaces it
    ");
    assert_eq!(tree(&out).len(), 3);
    assert_snapshot!(sandbox.carton("dataset merge out --attempts 1"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `1` names no attempt, expected a UUID

    hint: `carton dataset write --task N` prints it: attempt 550e8400-…
    ");
    assert_snapshot!(sandbox.carton("dataset merge nowhere"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `nowhere`

    Caused by:
      No such file or directory (os error 2)
    ");
}

#[test]
fn shards_from_many_machines_get_a_manifest() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.arrows", stream(&[rows(5, 2)], true));
    sandbox.carton("dataset write rows.arrows out --batch-size 2 --columns id,pair").expect_code(0);
    let manifest = sandbox.work().join("out/dataset_manifest.json");
    let expected = fs::read(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    assert_snapshot!(sandbox.carton("dataset merge out"), @"
    exit code: 0
    ----- stdout -----
    wrote out: 5 samples in 3 shards, 648 B
    ----- stderr -----
    ");
    assert_eq!(fs::read(&manifest).unwrap(), expected);
}

#[test]
fn an_interrupted_merge_does_not_wait_for_attempts() {
    let sandbox = Sandbox::new();
    let arguments = ["dataset", "merge", "out", "--attempts", "-"];
    let mut child = sandbox.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    // Open to the end, and empty.
    let _stdin = child.stdin.take().unwrap();
    // Before it listens to signals it would end by one, which is no exit code.
    std::thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}
