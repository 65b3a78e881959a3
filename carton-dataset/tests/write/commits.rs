//! Attempts, and the datasets that are made of them.

use std::fs;
use std::path::Path;

use carton_dataset::{
    CommitOptions, DatasetError, Duplicates, KeyValue, Manifest, Mode, PartName, TailStrategy, TaskReport, TaskWriter,
    WriteOptions, abort, commit, index, merge,
};
use uuid::Uuid;

use crate::support::{batch_mode, dataset, files, key_value_mode, labels, rows, told};

fn options() -> WriteOptions {
    batch_mode(2, TailStrategy::Write)
}

fn writer(folder: &Path, task: u32) -> TaskWriter {
    TaskWriter::create(folder, &rows(0, 0).schema(), &options(), task).unwrap()
}

/// Writes the rows `10 * task..10 * task + 5` in an attempt at a task.
fn attempt(folder: &Path, task: u32) -> TaskReport {
    let mut writer = writer(folder, task);
    writer.write(&rows(10 * task as usize, 5)).unwrap();
    writer.finish().unwrap()
}

fn of_tasks(tasks: &[i64]) -> Vec<i64> {
    tasks.iter().flat_map(|task| 10 * task..10 * task + 5).collect()
}

fn of_attempts(attempts: &[&TaskReport]) -> CommitOptions {
    let attempts = attempts.iter().map(|report| report.attempt).collect();
    CommitOptions { attempts: Some(attempts), ..CommitOptions::default() }
}

#[test]
fn tasks_on_many_threads_become_one_dataset() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for task in 0..8 {
            scope.spawn(move || ());
            let folder = folder.path();
            scope.spawn(move || attempt(folder, task));
        }
    });
    assert_eq!(files(folder.path()), ["_tasks"]);
    let manifest = commit(folder.path(), &CommitOptions::default()).unwrap();
    assert_eq!(manifest.total_samples(), 40);
    assert_eq!(labels(folder.path()), of_tasks(&[0, 1, 2, 3, 4, 5, 6, 7]));
}

/// As [`attempt`], for a job.
fn attempt_of_job(folder: &Path, task: u32, job: Option<Uuid>) -> TaskReport {
    let options = WriteOptions { job, ..options() };
    let mut writer = TaskWriter::create(folder, &rows(0, 0).schema(), &options, task).unwrap();
    writer.write(&rows(10 * task as usize, 5)).unwrap();
    writer.finish().unwrap()
}

#[test]
fn of_several_attempts_at_a_task_one_counts() {
    let job = Some(Uuid::new_v4());
    for named in [None, Some(0), Some(1)] {
        let folder = tempfile::tempdir().unwrap();
        let attempts = [0, 0].map(|task| attempt_of_job(folder.path(), task, job));
        let other = attempt_of_job(folder.path(), 1, job);
        let options = named.map_or_else(CommitOptions::default, |named| of_attempts(&[&attempts[named], &other]));
        let manifest = commit(folder.path(), &options).unwrap();
        assert_eq!(labels(folder.path()), of_tasks(&[0, 1]));
        let expected = named.map_or(attempts[0].attempt.min(attempts[1].attempt), |named| attempts[named].attempt);
        let first = PartName::parse(&manifest.shards()[0].shard_path).unwrap();
        assert_eq!(first.attempt, expected);
    }
}

#[test]
fn attempts_of_other_jobs_are_not_mixed_in() {
    let check = |jobs: &[(u32, Option<u128>)], expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        for (task, job) in jobs {
            attempt_of_job(folder.path(), *task, job.map(Uuid::from_u128));
        }
        let error = told(&commit(folder.path(), &CommitOptions::default()).unwrap_err());
        assert!(error.contains(expected), "{error}");
        assert_eq!(files(folder.path()), ["_tasks"]);
    };
    check(&[(0, None), (0, None)], "task 0 was written more than once, by attempts ");
    check(&[(0, Some(1)), (0, Some(2))], "are of different jobs: name those that count");
    check(&[(0, Some(1)), (1, Some(2))], "are of different jobs: name those that count");
    check(&[(0, Some(1)), (1, None)], "are of different jobs: name those that count");
    check(&[(0, None), (2, None)], "no attempt at task 1 is complete");
}

#[test]
fn the_number_of_tasks_may_be_said() {
    let check = |n_tasks, is_named: bool, expected: Result<u64, &str>| {
        let folder = tempfile::tempdir().unwrap();
        let attempts = [attempt(folder.path(), 0), attempt(folder.path(), 1)];
        let options = if is_named { of_attempts(&[&attempts[0], &attempts[1]]) } else { CommitOptions::default() };
        match (commit(folder.path(), &CommitOptions { n_tasks: Some(n_tasks), ..options }), expected) {
            (Ok(manifest), Ok(expected)) => assert_eq!(manifest.total_samples(), expected),
            (Err(error), Err(expected)) => assert!(told(&error).ends_with(expected), "{}", told(&error)),
            (result, expected) => panic!("{result:?}, expected {expected:?}"),
        }
    };
    for is_named in [true, false] {
        check(2, is_named, Ok(10));
        check(3, is_named, Err("no attempt at task 2 is complete"));
        check(1, is_named, Err("there is a task 1, expected tasks 0 to 0"));
    }
}

/// A commit was killed after it had begun: others do not begin before it is finished.
#[test]
fn what_was_begun_is_finished_first() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (attempt(folder.path(), 0), attempt(folder.path(), 0));
    let record = |report: &TaskReport| {
        let shards = serde_json::to_value(&report.shards).unwrap();
        serde_json::json!({
            "version": 1, "attempts": [report.attempt], "shards": shards, "schema": report.schema,
            "index": null, "replaced": null
        })
    };
    fs::write(folder.path().join("_tasks/commit.json"), record(&old).to_string()).unwrap();
    let late =
        TaskWriter::create(folder.path(), &rows(0, 0).schema(), &WriteOptions { overwrite: true, ..options() }, 0);
    assert!(told(&late.err().unwrap()).ends_with("a commit of attempts before this one has begun: finish it first"));
    assert!(matches!(abort(folder.path(), &[old.attempt]), Err(DatasetError::Attempts { .. })));
    // The other attempt survives the commit that is finished for it, and may replace it.
    assert!(matches!(commit(folder.path(), &of_attempts(&[&new])), Err(DatasetError::Exists { .. })));
    let manifest = Manifest::parse(&fs::read(folder.path().join("dataset_manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest.shards(), old.shards);
    let replacing = CommitOptions { overwrite: true, ..of_attempts(&[&new]) };
    assert_eq!(commit(folder.path(), &replacing).unwrap().shards(), new.shards);
    assert_eq!(labels(folder.path()), of_tasks(&[0]));
}

#[test]
fn a_job_that_failed_is_aborted() {
    let folder = tempfile::tempdir().unwrap();
    let attempts = [attempt(folder.path(), 0), attempt(folder.path(), 1)];
    abort(folder.path(), &[attempts[0].attempt]).unwrap();
    assert_eq!(files(&folder.path().join("_tasks")).len(), 1);
    abort(folder.path(), &[attempts[1].attempt, Uuid::nil()]).unwrap();
    assert_eq!(files(folder.path()), [] as [&str; 0]);
}

#[test]
fn a_commit_again_is_not_done_by_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let attempts = [attempt(folder.path(), 0), attempt(folder.path(), 1)];
    commit(folder.path(), &of_attempts(&[&attempts[0]])).unwrap();
    let check = |options: &CommitOptions| {
        assert!(matches!(commit(folder.path(), options), Err(DatasetError::Exists { .. })), "{options:?}");
    };
    check(&of_attempts(&[&attempts[0], &attempts[1]]));
    check(&CommitOptions { generate_index: true, ..of_attempts(&[&attempts[0]]) });
    let none = CommitOptions { attempts: Some(Vec::new()), overwrite: true, ..CommitOptions::default() };
    assert!(told(&commit(folder.path(), &none).unwrap_err()).ends_with("no attempts were named"));
    assert_eq!(labels(folder.path()), of_tasks(&[0]));
}

/// Whatever its shards are called: the manifest says which they are.
#[test]
fn a_dataset_of_others_is_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let report = attempt(folder.path(), 0);
    commit(folder.path(), &of_attempts(&[&report])).unwrap();
    fs::create_dir(folder.path().join("train")).unwrap();
    let (part, place) = (&report.shards[0].shard_path, folder.path().join("dataset_manifest.json"));
    fs::rename(folder.path().join(part), folder.path().join("train/a.safetensors")).unwrap();
    let manifest = fs::read_to_string(&place).unwrap().replace(part, "train/a.safetensors");
    fs::write(&place, manifest).unwrap();
    let replaced = dataset(folder.path(), &WriteOptions { overwrite: true, ..options() }, [rows(7, 2)]);
    replaced.unwrap();
    assert_eq!(files(&folder.path().join("train")), [] as [&str; 0]);
    fs::remove_dir(folder.path().join("train")).unwrap();
    assert_eq!(labels(folder.path()), [7, 8]);
}

#[test]
fn a_straggler_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let done = attempt(folder.path(), 0);
    let mut writing = writer(folder.path(), 0);
    writing.write(&rows(0, 3)).unwrap();
    let mut idle = writer(folder.path(), 1);
    commit(folder.path(), &of_attempts(&[&done])).unwrap();
    assert!(matches!(writing.write(&rows(3, 3)), Err(DatasetError::Io { .. })));
    idle.write(&rows(0, 1)).unwrap();
    assert!(matches!(idle.finish(), Err(DatasetError::Io { .. })));
    drop(writing);
    let late = TaskWriter::create(folder.path(), &rows(0, 0).schema(), &options(), 0);
    assert!(matches!(late, Err(DatasetError::Exists { .. })));
    assert_eq!(labels(folder.path()), of_tasks(&[0]));
}

#[test]
fn what_is_committed_may_be_committed_again() {
    let folder = tempfile::tempdir().unwrap();
    let attempts = [attempt(folder.path(), 0), attempt(folder.path(), 1)];
    let options = of_attempts(&[&attempts[0], &attempts[1]]);
    let manifest = commit(folder.path(), &options).unwrap();
    for again in [commit, merge] {
        assert_eq!(again(folder.path(), &options).unwrap(), manifest);
        assert!(matches!(again(folder.path(), &CommitOptions::default()), Err(DatasetError::Exists { .. })));
        let other = CommitOptions { attempts: Some(vec![Uuid::new_v4()]), ..CommitOptions::default() };
        assert!(matches!(again(folder.path(), &other), Err(DatasetError::Exists { .. })));
    }
    assert_eq!(labels(folder.path()), of_tasks(&[0, 1]));
}

#[test]
fn two_commits_at_once_do_the_same() {
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let overwrite = round % 2 == 1;
        if overwrite {
            dataset(folder.path(), &options(), [rows(70, 3)]).unwrap();
        }
        let attempts = [0, 0, 1].map(|task| {
            let options = WriteOptions { overwrite, ..options() };
            let mut writer = TaskWriter::create(folder.path(), &rows(0, 0).schema(), &options, task).unwrap();
            writer.write(&rows(10 * task as usize, 5)).unwrap();
            writer.finish().unwrap()
        });
        let options = CommitOptions { overwrite, generate_index: true, ..of_attempts(&[&attempts[1], &attempts[2]]) };
        let manifests: Vec<_> = std::thread::scope(|scope| {
            let commits: Vec<_> = (0..4).map(|_| scope.spawn(|| commit(folder.path(), &options))).collect();
            commits.into_iter().map(|commit| commit.join().unwrap()).collect()
        });
        for manifest in &manifests {
            assert_eq!(manifest.as_ref().unwrap(), manifests[0].as_ref().unwrap());
        }
        assert_eq!(labels(folder.path()), of_tasks(&[0, 1]));
        assert_eq!(index::read(&folder.path().join(index::INDEX_NAME)).unwrap().rows().len(), 12);
    }
}

#[test]
fn tasks_that_make_no_dataset() {
    let check = |make: &dyn Fn(&Path) -> CommitOptions, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let options = make(folder.path());
        let before = files(&folder.path().join("_tasks"));
        let error = commit(folder.path(), &options).unwrap_err();
        let place = folder.path().display().to_string();
        assert!(told(&error).replace(&place, "D").contains(expected), "{}, expected {expected}", told(&error));
        assert!(!folder.path().join("dataset_manifest.json").exists());
        assert_eq!(files(&folder.path().join("_tasks")), before);
    };
    check(&|_| CommitOptions::default(), "the tasks of `D` cannot be committed: there are none");
    let leave_incomplete = |folder: &Path, task| std::mem::forget(writer(folder, task));
    check(
        &|folder| {
            attempt(folder, 0);
            leave_incomplete(folder, 3);
            CommitOptions::default()
        },
        "none of the 1 attempts at task 3 is complete",
    );
    check(
        &|folder| {
            let writer = writer(folder, 3);
            let attempts = Some(vec![writer.attempt()]);
            std::mem::forget(writer);
            CommitOptions { attempts, ..CommitOptions::default() }
        },
        "at task 3 is not complete",
    );
    check(&|folder| of_attempts(&[&attempt(folder, 0), &attempt(folder, 0)]), "are both at task 0");
    check(
        &|folder| {
            attempt(folder, 0);
            CommitOptions { attempts: Some(vec![Uuid::nil()]), ..CommitOptions::default() }
        },
        "there is no attempt 00000000-0000-0000-0000-000000000000",
    );
    check(
        &|folder| {
            let report = attempt(folder, 0);
            let part = PartName { task: 9, shard: 0, attempt: Uuid::nil() };
            fs::write(folder.join(part.to_string()), "").unwrap();
            of_attempts(&[&report])
        },
        "is there already, and belongs to none of them",
    );
}

#[test]
fn tasks_that_do_not_go_together() {
    let check = |other: &dyn Fn(&Path), expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        attempt(folder.path(), 0);
        other(folder.path());
        let error = commit(folder.path(), &CommitOptions::default()).unwrap_err();
        assert!(told(&error).ends_with(expected), "{}, expected {expected}", told(&error));
        assert_eq!(files(folder.path()), ["_tasks"]);
    };
    let write = |folder: &Path, options: &WriteOptions, batch: arrow_array::RecordBatch| {
        let mut writer = TaskWriter::create(folder, &batch.schema(), options, 1).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    };
    let named = || {
        let names: arrow_array::ArrayRef = std::sync::Arc::new(arrow_array::StringArray::from(vec!["a"]));
        let x: arrow_array::ArrayRef = std::sync::Arc::new(arrow_array::Int64Array::from(vec![1]));
        arrow_array::RecordBatch::try_from_iter([("name", names), ("x", x)]).unwrap()
    };
    let modes = "cannot be committed: tasks 0 and 1 have written in different modes";
    check(&|folder| write(folder, &key_value_mode(1), named()), modes);
    let numbers = |columns: &[&str]| {
        let one: arrow_array::ArrayRef = std::sync::Arc::new(arrow_array::Int64Array::from(vec![1]));
        arrow_array::RecordBatch::try_from_iter(columns.iter().map(|name| (*name, one.clone()))).unwrap()
    };
    let shapes = "task 1 has `x` as I64 of shape [1], and task 0 as F32 of shape [2, 3]";
    check(&|folder| write(folder, &options(), numbers(&["label", "x"])), shapes);
    let columns = "task 1 has the columns `x`, and task 0 `label`, `x`";
    check(&|folder| write(folder, &options(), numbers(&["x"])), columns);

    // The same of shards without reports.
    let (machines, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    attempt(machines.path(), 0);
    write(machines.path(), &options(), numbers(&["x", "y", "label"]));
    copied(machines.path(), folder.path());
    let error = told(&merge(folder.path(), &CommitOptions::default()).unwrap_err());
    assert!(
        error.contains("has the columns `label`, `x`, `y`, and shard `part-00000-0000-")
            && error.ends_with("` `label`, `x`"),
        "{error}"
    );
    assert!(!folder.path().join("dataset_manifest.json").exists());
}

#[test]
fn what_lies_below_tasks_is_not_trusted() {
    let check = |change: &dyn Fn(&Path, &str) -> Option<String>, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let writer = writer(folder.path(), 0);
        let staging = writer.folder();
        let mut writer = writer;
        writer.write(&rows(0, 5)).unwrap();
        writer.finish().unwrap();
        let report = fs::read_to_string(staging.join("task.json")).unwrap();
        if let Some(report) = change(&staging, &report) {
            fs::write(staging.join("task.json"), report).unwrap();
        }
        let error = commit(folder.path(), &CommitOptions::default()).unwrap_err();
        assert!(told(&error).contains(expected), "{}, expected {expected}", told(&error));
        assert_eq!(files(folder.path()), ["_tasks"]);
    };
    check(&|_, _| Some("{}".to_owned()), "task.json`: missing field");
    check(&|_, report| Some(report.replace("\"task\": 0", "\"task\": 1")), "is the report of another attempt");
    check(&|_, report| Some(report.replace("part-00000-0001", "part-00000-0002")), "` as shard 1");
    check(&|_, report| Some(report.replace("\"part-00000-0001", "\"../part-00000-0001")), "names `../part-");
    let second = |staging: &Path| {
        let name = files(staging).into_iter().find(|name| name.contains("-0001-")).unwrap();
        staging.join(name)
    };
    let cut = |staging: &Path, _: &str| {
        let file = fs::File::options().write(true).open(second(staging)).unwrap();
        file.set_len(100).unwrap();
        None
    };
    check(&cut, "100 bytes, expected a file of");
    let lose = |staging: &Path, _: &str| {
        fs::remove_file(second(staging)).unwrap();
        None
    };
    check(&lose, "part-00000-0001");
    let record = |json: &'static str| {
        move |staging: &Path, _: &str| {
            fs::write(staging.parent().unwrap().join("commit.json"), json).unwrap();
            None
        }
    };
    check(&record("[]"), "commit.json`: ");
    check(&record(r#"{"version":2,"attempts":[],"shards":[],"schema":{}}"#), "version 2, expected 1");
    let elsewhere =
        r#"{"version":1,"attempts":[],"shards":[{"shard_path":"../a","samples_count":1,"bytes":1}],"schema":{}}"#;
    check(&record(elsewhere), "names files that no commit has to do with");
    let elsewhere = r#"{"version":1,"attempts":[],"shards":[],"schema":{},"replaced":["/etc/passwd"]}"#;
    check(&record(elsewhere), "names files that no commit has to do with");
    let elsewhere = r#"{"version":1,"attempts":[],"shards":[],"schema":{},"index":"../a"}"#;
    check(&record(elsewhere), "names files that no commit has to do with");
}

#[test]
fn a_dataset_is_replaced_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    dataset(folder.path(), &options(), [rows(0, 5)]).unwrap();
    // As Spark leaves it.
    fs::create_dir(folder.path().join(index::INDEX_NAME)).unwrap();
    fs::write(folder.path().join(index::INDEX_NAME).join("part-0.parquet"), "").unwrap();
    let error = dataset(folder.path(), &options(), [rows(7, 2)]).unwrap_err();
    assert!(matches!(error, DatasetError::Exists { .. }));

    let overwrite = WriteOptions { overwrite: true, ..options() };
    let bad = dataset(
        folder.path(),
        &WriteOptions { columns: Some(vec!["z".to_owned()]), ..overwrite.clone() },
        [rows(7, 2)],
    );
    assert!(bad.is_err());
    assert_eq!(labels(folder.path()), [0, 1, 2, 3, 4]);

    dataset(folder.path(), &overwrite, [rows(7, 2)]).unwrap();
    assert_eq!(labels(folder.path()), [7, 8]);
    assert!(!folder.path().join(index::INDEX_NAME).exists());
    dataset(folder.path(), &WriteOptions { generate_index: true, ..overwrite }, [rows(1, 2)]).unwrap();
    assert_eq!(labels(folder.path()), [1, 2]);
    assert_eq!(index::read(&folder.path().join(index::INDEX_NAME)).unwrap().rows().len(), 2);
}

#[test]
fn names_that_come_again_in_another_task() {
    let mode = |duplicates| WriteOptions::new(Mode::KeyValue(KeyValue { duplicates, ..KeyValue::new("name") }));
    for duplicates in [Duplicates::Fail, Duplicates::LastWins] {
        let folder = tempfile::tempdir().unwrap();
        let batch = |task: i64| {
            let names = arrow_array::StringArray::from(vec!["a"]);
            let x = arrow_array::Int64Array::from(vec![task]);
            let columns: [(&str, arrow_array::ArrayRef); 2] =
                [("name", std::sync::Arc::new(names)), ("x", std::sync::Arc::new(x))];
            arrow_array::RecordBatch::try_from_iter(columns).unwrap()
        };
        for task in 0..2 {
            let batch = batch(task.into());
            let mut writer = TaskWriter::create(folder.path(), &batch.schema(), &mode(duplicates), task).unwrap();
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
        }
        let options = CommitOptions { generate_index: true, ..CommitOptions::default() };
        if duplicates == Duplicates::Fail {
            let error = told(&commit(folder.path(), &options).unwrap_err());
            assert!(error.ends_with("task 1 has `a__x`, as task 0 has"), "{error}");
            assert_eq!(files(folder.path()), ["_tasks"]);
            continue;
        }
        assert_eq!(commit(folder.path(), &options).unwrap().shards().len(), 2);
        let index = index::read(&folder.path().join(index::INDEX_NAME)).unwrap();
        let keys: Vec<&str> = index.rows().iter().map(|row| &*row.tensor_key).collect();
        assert_eq!(keys, ["a__x", "a__x"]);
    }
}

/// The shards of attempts, copied into a folder as from many machines.
fn copied(from: &Path, to: &Path) {
    for name in files(from) {
        let path = from.join(&name);
        if path.is_dir() {
            copied(&path, to);
        } else if name.starts_with("part-") {
            fs::copy(path, to.join(name)).unwrap();
        }
    }
}

#[test]
fn shards_from_many_machines_are_merged() {
    let machines = tempfile::tempdir().unwrap();
    let attempts: Vec<TaskReport> = (0..3).map(|task| attempt(machines.path(), task)).collect();
    let again = attempt(machines.path(), 1);
    let merged = |remove: &dyn Fn(&str) -> bool,
                  options: &CommitOptions|
     -> (tempfile::TempDir, Result<Manifest, DatasetError>) {
        let folder = tempfile::tempdir().unwrap();
        copied(machines.path(), folder.path());
        for name in files(folder.path()).iter().filter(|name| remove(name)) {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        let merged = merge(folder.path(), options);
        (folder, merged)
    };
    let of_again = |name: &str| name.contains(&again.attempt.to_string());
    let options = CommitOptions { generate_index: true, ..CommitOptions::default() };
    let (folder, manifest) = merged(&of_again, &options);
    assert_eq!(labels(folder.path()), of_tasks(&[0, 1, 2]));
    assert_eq!(manifest.unwrap().total_samples(), 15);
    assert_eq!(index::read(&folder.path().join(index::INDEX_NAME)).unwrap().rows().len(), 18);

    let (_, result) = merged(&|_| false, &CommitOptions::default());
    let ambiguous = told(&result.unwrap_err());
    assert!(ambiguous.contains("task 1 was written more than once, by attempts"), "{ambiguous}");
    // An index that is there is none of theirs.
    let folder = tempfile::tempdir().unwrap();
    copied(machines.path(), folder.path());
    let index = folder.path().join(index::INDEX_NAME);
    for is_asked in [false, true] {
        fs::create_dir(&index).unwrap();
        fs::write(index.join("part-0.parquet"), "").unwrap();
        let options = CommitOptions { generate_index: is_asked, overwrite: true, ..of_attempts(&[&attempts[0]]) };
        merge(folder.path(), &options).unwrap();
        assert_eq!(index.is_file(), is_asked);
        assert!(!index.is_dir());
    }
    let (_, manifest) = merged(&|_| false, &of_attempts(&[&attempts[0], &again]));
    assert_eq!(manifest.unwrap().shards().len(), 6);
    let (_, result) = merged(&|name| name.starts_with("part-00002-0001") || of_again(name), &CommitOptions::default());
    let missing = format!("shard 1 of task 2, attempt {}, is missing", attempts[2].attempt);
    assert!(told(&result.unwrap_err()).contains(&missing));
    let (_, result) = merged(&|_| true, &CommitOptions::default());
    assert!(told(&result.unwrap_err()).contains("there are no shards"));

    let folder = tempfile::tempdir().unwrap();
    copied(machines.path(), folder.path());
    let name = &attempts[0].shards[1].shard_path;
    fs::File::options().write(true).open(folder.path().join(name)).unwrap().set_len(210).unwrap();
    let error = merge(folder.path(), &of_attempts(&[&attempts[0]])).unwrap_err();
    assert!(told(&error).contains(name) && told(&error).contains("cut off"), "{}", told(&error));
    assert!(!folder.path().join("dataset_manifest.json").exists());
}

#[test]
fn samples_of_shards_that_do_not_say_how_many() {
    use safetensors::tensor::TensorView;
    type Tensors<'t> = &'t [(&'t str, &'t [usize])];
    let check = |shards: &[Tensors<'_>], expected: Option<u64>| {
        let folder = tempfile::tempdir().unwrap();
        let attempt = Uuid::new_v4();
        for (tensors, shard) in shards.iter().zip(0..) {
            let part = PartName { task: 0, shard, attempt };
            let tensors = tensors.iter().map(|(name, shape)| {
                let bytes: &'static [u8] = &[0; 64];
                let view = TensorView::new(safetensors::Dtype::U8, shape.to_vec(), &bytes[..shape.iter().product()]);
                (*name, view.unwrap())
            });
            safetensors::serialize_to_file(tensors, None, &folder.path().join(part.to_string())).unwrap();
        }
        let merged = merge(folder.path(), &CommitOptions::default());
        assert_eq!(merged.as_ref().ok().map(Manifest::total_samples), expected, "{merged:?}");
    };
    check(&[&[("x", &[4, 2]), ("y", &[4])]], Some(4));
    check(&[&[("x", &[4, 2]), ("y", &[3])]], None);
    check(&[&[("x", &[])]], None);
    check(&[&[("a__x", &[4, 2]), ("a__y", &[4]), ("b__x", &[4, 2]), ("b__y", &[])]], Some(2));
    // Columns of such names are no rows.
    check(&[&[("input__ids", &[4, 2]), ("attention__mask", &[4, 2])]], Some(4));
    check(&[&[("a__x", &[8]), ("b__x", &[8])], &[("c__x", &[8])]], Some(3));
}
