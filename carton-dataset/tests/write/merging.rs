//! Datasets of shards that came without reports.

use std::fs;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use carton_dataset::{
    CommitOptions, DatasetError, Duplicates, KeyValue, Manifest, Mode, PartName, TaskReport, TaskWriter, WriteOptions,
    index, merge,
};
use uuid::Uuid;

use crate::support::{attempt, copied, files, labels, of_attempts, of_tasks, told};

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
    assert!(told(&error).contains(name) && told(&error).contains("truncated"), "{}", told(&error));
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
    // The same row twice.
    check(&[&[("a__x", &[8]), ("b__x", &[8])], &[("a__x", &[8])]], None);
}

#[test]
fn a_name_in_two_shards_is_refused_unless_it_may_be() {
    for duplicates in [Duplicates::Fail, Duplicates::LastWins] {
        let (machines, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = WriteOptions::new(Mode::KeyValue(KeyValue { duplicates, ..KeyValue::new("name") }));
        for task in 0..2 {
            let names: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
            let x: ArrayRef = Arc::new(Int64Array::from(vec![i64::from(task)]));
            let batch = RecordBatch::try_from_iter([("name", names), ("x", x)]).unwrap();
            let mut writer = TaskWriter::create(machines.path(), &batch.schema(), &options, task).unwrap();
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
        }
        copied(machines.path(), folder.path());
        let merged = merge(folder.path(), &CommitOptions::default());
        if duplicates == Duplicates::LastWins {
            assert_eq!(merged.unwrap().total_samples(), 2);
            continue;
        }
        let error = told(&merged.unwrap_err());
        assert!(error.starts_with("shard `part-00001-0000-"), "{error}");
        assert!(error.contains("`: has `a__x`, as shard `part-00000-0000-") && error.ends_with("` has"), "{error}");
        assert!(!folder.path().join("dataset_manifest.json").exists());
    }
}

#[cfg(unix)]
#[test]
fn links_are_not_merged() {
    let (machines, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let report = attempt(machines.path(), 0);
    copied(machines.path(), folder.path());
    let shard = folder.path().join(&report.shards[1].shard_path);
    let moved = machines.path().join("elsewhere");
    fs::rename(&shard, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &shard).unwrap();
    let error = told(&merge(folder.path(), &CommitOptions::default()).unwrap_err());
    let expected = format!("`{}`: is a symbolic link, expected the file of a shard", shard.display());
    assert_eq!(error, expected);
    assert!(!folder.path().join("dataset_manifest.json").exists());
}
