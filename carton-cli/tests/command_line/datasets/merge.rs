//! `carton dataset merge`.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use carton_dataset::{Mode, TailStrategy, TaskWriter, WriteOptions};
use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::safetensors::{self, Metadata};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

use super::{rows, stream, tree, with_input};
use crate::interruption::{has_open_file_in, interrupt, wait_until};
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
    // The attempts on standard input, from the program that started the tasks.
    let merged =
        with_input(&sandbox, "dataset merge out --attempts - --json", format!("{first}\n{again}\n").as_bytes());
    assert_snapshot!(merged.expect_code(0).json(), @r#"{"bytes":304,"index":false,"n_shards":2,"path":"out","samples":6,"warnings":[]}"#);
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
    error: `1` is not the id of an attempt, expected a UUID

    hint: `carton dataset write --task N` prints it: attempt 550e8400-…
    ");
    assert_snapshot!(sandbox.carton("dataset merge nowhere"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: there is no folder `nowhere`
    ");
    for command in ["ls", "verify", "cat"] {
        let key = if command == "cat" { " x" } else { "" };
        let outcome = sandbox.carton(&format!("dataset {command} nowhere{key}")).expect_code(1);
        assert!(outcome.stderr.contains("error: there is no folder `nowhere`"), "{outcome}");
    }
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

/// Writes a shard of vectors as other programs do: without metadata.
fn write_bare(folder: &Path, number: u32, names: &[&str]) {
    let part = format!("part-0000{number}-0000-550e8400-e29b-41d4-a716-44665544000{number}.safetensors");
    let tensor = RawTensor::new(ElementType::Float32, vec![768], vec![0_u8; 768 * 4].into()).unwrap();
    let mut file = Vec::new();
    safetensors::write(names.iter().map(|name| (*name, &tensor)), &Metadata::default(), &mut file).unwrap();
    fs::write(folder.join(part), file).unwrap();
}

/// As the Spark connector writes them with `duplicatesStrategy` `lastWin`.
#[test]
fn a_name_may_be_in_several_bare_shards_on_request() {
    let sandbox = Sandbox::new();
    let out = sandbox.work().join("out");
    fs::create_dir(&out).unwrap();
    write_bare(&out, 0, &["a::emb", "b::emb"]);
    write_bare(&out, 1, &["a::emb"]);
    assert_snapshot!(sandbox.carton("dataset merge out --kv-separator ::"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: shard `part-00001-0000-[UUID].safetensors` contradicts the options: has `a::emb`, as shard `part-00000-0000-[UUID].safetensors` has

    hint: --duplicates last-win says that a name may be in several shards, as `duplicatesStrategy` `lastWin` of the Spark connector leaves it
    ");
    let merged = sandbox.carton("dataset merge out --kv-separator :: --duplicates-strategy lastWin --json");
    assert_eq!(merged.expect_code(0).json()["samples"], 3);
    sandbox.carton("dataset verify out").expect_code(0);
}

/// Shards of other programs, in which the dimensions of an embedding look like rows.
#[test]
fn ambiguous_samples_of_bare_shards_are_refused() {
    let sandbox = Sandbox::new();
    let out = sandbox.work().join("out");
    fs::create_dir(&out).unwrap();
    let write = |number, names: &[&str]| write_bare(&out, number, names);
    write(0, &["a::emb", "b::emb"]);
    assert_snapshot!(sandbox.carton("dataset merge out"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the number of samples in shard `part-00000-0000-[UUID].safetensors` is unknown: its tensors, such as `a::emb`, may be columns of 768 rows, or named after rows that each have all of one or more columns

    hint: --batch-size N says that tensors are columns of N rows, --kv-separator S that they are named after rows: NAME S COLUMN, with `__` for S unless another was chosen
    ");
    write(1, &["c::emb"]);
    assert_snapshot!(sandbox.carton("dataset merge out"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the number of samples in shard `part-00001-0000-[UUID].safetensors` is unknown: it has other tensors than shard `part-00000-0000-[UUID].safetensors`, so they are named after rows, with a separator that is not known

    hint: --kv-separator S says what stands between the names of rows and columns, `__` unless another was chosen, and --columns A,B which columns there are
    ");
    // Wrong options are a usage error, not damage.
    assert_snapshot!(sandbox.carton("dataset merge out --batch-size 768"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: shard `part-00001-0000-[UUID].safetensors` contradicts the options: has the columns `c::emb`, and shard `part-00000-0000-[UUID].safetensors` `a::emb`, `b::emb`

    hint: --batch-size, --kv-separator and --columns say what the shards are that do not say it themselves
    ");
    assert_snapshot!(sandbox.carton("dataset merge out --kv-separator :: --columns pair"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: shard `part-00000-0000-[UUID].safetensors` contradicts the options: tensor `a::emb` does not end with `::` and one of the columns

    hint: --batch-size, --kv-separator and --columns say what the shards are that do not say it themselves
    ");
    // Options of the other layout are ignored with a warning, as `write` does it.
    let merged = sandbox.carton("dataset merge out --batch-size 7 --columns emb --duplicates fail").expect_code(2);
    for option in ["--columns", "--duplicates"] {
        let warning = format!("warning: {option} is ignored, it goes with --kv-separator");
        assert!(merged.stderr.contains(&warning), "{merged}");
    }
    for arguments in ["--batch-size 7", "--kv-separator /"] {
        let outcome = sandbox.carton(&format!("dataset merge out {arguments}")).expect_code(2);
        assert!(outcome.stderr.contains("contradicts the options"), "{outcome}");
    }
    assert_eq!(names(&out).len(), 2);
    assert_snapshot!(sandbox.carton("dataset merge out --kv-separator ::"), @"
    exit code: 0
    ----- stdout -----
    wrote out: 3 samples in 2 shards, 9.2 KiB
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("dataset verify out --json").json(), @r#"{"findings":[],"n_shards":2,"omitted":0,"passed":true,"samples":3}"#);
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("dataset_manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["key_value"], serde_json::json!({"separator": "::", "columns": ["emb"]}));
    // A separator may begin with a hyphen.
    let hyphen = sandbox.carton("dataset merge out --overwrite --kv-separator ->").expect_code(2);
    assert!(hyphen.stderr.contains("has no separator `->` in its name"), "{hyphen}");
    // From now on the manifest has the number.
    let again = sandbox.carton("dataset merge out --overwrite --json").expect_code(0).json();
    assert_eq!(again["samples"], 3);
    sandbox.carton("dataset verify out").expect_code(0);
}

/// Writes `n_tasks` tasks of one row each.
fn write_tasks(sandbox: &Sandbox, n_tasks: u32) {
    let out = sandbox.work().join("out");
    let batch = rows(1, 2).project(&[0]).unwrap();
    let options = WriteOptions::new(Mode::Batch { batch_size: NonZeroUsize::MIN, tail: TailStrategy::Write });
    for task in 0..n_tasks {
        let mut writer = TaskWriter::create(&out, &batch.schema(), &options, task).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    }
}

#[test]
fn a_merge_is_interrupted_before_it_commits_or_not_at_all() {
    let sandbox = Sandbox::new();
    let out = sandbox.work().join("out");
    write_tasks(&sandbox, 1000);
    let staged = tree(&out);
    // The merge waits for the lock.
    let lock = fs::File::create(out.join("_tasks/commit.lock")).unwrap();
    lock.lock().unwrap();
    let child = sandbox.command(["dataset", "merge", "out", "--json"]).spawn().unwrap();
    wait_until("the lock to be opened", || has_open_file_in(&child, &out));
    // Waits until the command handles signals; before that a signal would kill it without an exit code.
    std::thread::sleep(Duration::from_millis(500));
    let interrupted = interrupt(child, Signal::INT);
    assert_eq!(interrupted.status.code(), Some(130));
    drop(lock);
    assert_eq!(tree(&out).len(), staged.len() + 1, "the attempts and the lock");
    // The commit has begun.
    let child = sandbox.command(["dataset", "merge", "out", "--json"]).spawn().unwrap();
    wait_until("the record of the commit", || out.join("_tasks/commit.json").exists());
    let done = interrupt(child, Signal::INT);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told["samples"], 1000);
    assert_eq!(tree(&out).len(), 1001);
}

#[test]
fn an_interrupted_merge_does_not_wait_for_attempts() {
    let sandbox = Sandbox::new();
    let arguments = ["dataset", "merge", "out", "--attempts", "-"];
    let mut child = sandbox.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    // Keeps standard input open and empty.
    let _stdin = child.stdin.take().unwrap();
    // Waits until the command handles signals; before that a signal would kill it without an exit code.
    std::thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}
