//! Committing attempts as datasets (spec/dataset.md §5.2).

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use carton_dataset::index::IndexLayout;
use carton_dataset::{
    CommitOptions, Duplicates, KeyValue, Mode, PartName, TaskWriter, WriteOptions, commit, index, merge,
};
use uuid::Uuid;

use crate::support::{
    attempt, attempt_of_job, copied, files, key_value_mode, labels, of_attempts, of_tasks, options, rows, told, writer,
};

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
fn the_number_of_tasks_may_be_given() {
    let check = |n_tasks, is_named: bool, expected: Result<u64, &str>| {
        let folder = tempfile::tempdir().unwrap();
        let attempts = [attempt(folder.path(), 0), attempt(folder.path(), 1)];
        let options = if is_named { of_attempts(&[&attempts[0], &attempts[1]]) } else { CommitOptions::default() };
        match (commit(folder.path(), &CommitOptions { n_tasks: NonZeroU32::new(n_tasks), ..options }), expected) {
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

#[test]
fn a_task_that_is_alone_is_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut second = writer(folder.path(), 1);
    second.write(&rows(0, 5)).unwrap();
    let error = told(&second.finish_and_commit().unwrap_err());
    assert!(error.ends_with("no attempt at task 0 is complete"), "{error}");
    assert_eq!(files(folder.path()), [] as [&str; 0]);
    let mut first = writer(folder.path(), 0);
    first.write(&rows(0, 5)).unwrap();
    assert_eq!(first.finish_and_commit().unwrap().total_samples(), 5);
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

    // The same for shards without reports.
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
fn names_that_repeat_in_another_task() {
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
        let options = CommitOptions { index: Some(IndexLayout::Folder), ..CommitOptions::default() };
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
