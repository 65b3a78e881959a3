//! Commits that meet killed commits, concurrent commits, and late attempts.

use std::fs;
use std::path::Path;

use carton_dataset::index::IndexLayout;
use carton_dataset::{
    CommitOptions, DatasetError, Manifest, TaskReport, TaskWriter, WriteOptions, abort, commit, index, merge, write,
};
use carton_tensor::context::{Context, ProgressEvent};
use uuid::Uuid;

use crate::support::{attempt, copied, dataset, files, labels, of_attempts, of_tasks, options, rows, told, writer};

/// After a commit was killed, others begin only once it is finished.
#[test]
fn a_killed_commit_is_finished_first() {
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
    // The other attempt survives the commit that finishes the killed one, and may replace the dataset.
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
    check(&CommitOptions { index: Some(IndexLayout::Folder), ..of_attempts(&[&attempts[0]]) });
    let none = CommitOptions { attempts: Some(Vec::new()), overwrite: true, ..CommitOptions::default() };
    assert!(told(&commit(folder.path(), &none).unwrap_err()).ends_with("no attempts were named"));
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
        let options =
            CommitOptions { overwrite, index: Some(IndexLayout::Folder), ..of_attempts(&[&attempts[1], &attempts[2]]) };
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
fn a_late_attempt_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let done = attempt(folder.path(), 0);
    let mut writing = writer(folder.path(), 0);
    writing.write(&rows(0, 3)).unwrap();
    let mut idle = writer(folder.path(), 1);
    commit(folder.path(), &of_attempts(&[&done])).unwrap();
    let removed = |error: DatasetError, expected: Uuid| {
        assert!(matches!(&error, DatasetError::AttemptRemoved { attempt, .. } if *attempt == expected), "{error:?}");
    };
    let (busy, waiting) = (writing.attempt(), idle.attempt());
    removed(writing.write(&rows(3, 3)).unwrap_err(), busy);
    idle.write(&rows(0, 1)).unwrap();
    removed(idle.finish().unwrap_err(), waiting);
    drop(writing);
    let late = TaskWriter::create(folder.path(), &rows(0, 0).schema(), &options(), 0);
    assert!(matches!(late, Err(DatasetError::Exists { .. })));
    assert_eq!(labels(folder.path()), of_tasks(&[0]));
}

/// The first commit removes the attempts of all others, which may be at any point until their own commit.
#[test]
fn of_concurrent_writers_the_losers_say_that_another_has_committed() {
    let options = WriteOptions { overwrite: true, ..options() };
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let writers: Vec<_> =
            (0..6).map(|_| TaskWriter::create(folder.path(), &rows(0, 0).schema(), &options, 0).unwrap()).collect();
        let results: Vec<_> = std::thread::scope(|scope| {
            let write = |mut writer: TaskWriter| {
                writer.write(&rows(0, 5))?;
                writer.finish_and_commit()
            };
            let threads: Vec<_> = writers.into_iter().map(|writer| scope.spawn(move || write(writer))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!((done.len(), failed.len()), (1, 5));
        for error in failed.into_iter().map(Result::unwrap_err) {
            assert!(matches!(error, DatasetError::AttemptRemoved { .. }), "{}", told(&error));
        }
        assert_eq!(labels(folder.path()), [0, 1, 2, 3, 4]);
    }
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
    check(&record(elsewhere), "names files that do not belong to a commit");
    let elsewhere = r#"{"version":1,"attempts":[],"shards":[],"schema":{},"replaced":["/etc/passwd"]}"#;
    check(&record(elsewhere), "names files that do not belong to a commit");
    let elsewhere = r#"{"version":1,"attempts":[],"shards":[],"schema":{},"index":"../a"}"#;
    check(&record(elsewhere), "names files that do not belong to a commit");
}

/// A context that is cancelled when this stage is reported.
fn cancelled_at(stage: &'static str) -> Context {
    Context::watched(move |event: &ProgressEvent, cancel_token| {
        if event.stage == stage {
            cancel_token.cancel();
        }
    })
}

/// An interrupted commit leaves no trace, whether of attempts or of shards that came without reports.
#[test]
fn a_commit_is_interrupted_before_it_begins() {
    for (is_bare, given_up) in
        [false, true].into_iter().flat_map(|bare| ["reading", "publishing"].map(|stage| (bare, stage)))
    {
        let (machines, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        attempt(machines.path(), 0);
        copied(machines.path(), copies.path());
        let folder = if is_bare { copies.path() } else { machines.path() };
        let all = || [files(folder), files(&folder.join("_tasks"))];
        let before = all();
        let options = CommitOptions { index: Some(IndexLayout::Folder), ..CommitOptions::default() };
        let interrupted = merge(folder, &CommitOptions { context: cancelled_at(given_up), ..options.clone() });
        assert!(matches!(interrupted, Err(DatasetError::Interrupted)), "{interrupted:?}");
        assert_eq!(all(), before, "{given_up:?}");
        assert_eq!(merge(folder, &options).unwrap().total_samples(), 5);
    }
}

/// Writing that is interrupted just before publishing leaves nothing.
#[test]
fn writing_is_interrupted_before_publishing() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("dataset");
    let rows = rows(0, 5);
    let result = write(&rows.schema(), [Ok(rows.clone())], &place, &options(), &cancelled_at("publishing"));
    assert!(matches!(result, Err(DatasetError::Interrupted)), "{result:?}");
    assert!(files(&place).is_empty(), "{:?}", files(&place));
}
