//! Replacing datasets.

use std::fs;

use carton_dataset::index::IndexLayout;
use carton_dataset::{DatasetError, WriteOptions, commit, index};

use crate::support::{attempt, dataset, files, labels, of_attempts, options, rows};

/// The shards may have any names: the old manifest lists them.
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
fn a_dataset_is_replaced_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    dataset(folder.path(), &options(), [rows(0, 5)]).unwrap();
    // An index as Spark writes it.
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
    dataset(folder.path(), &WriteOptions { index: Some(IndexLayout::Folder), ..overwrite }, [rows(1, 2)]).unwrap();
    assert_eq!(labels(folder.path()), [1, 2]);
    assert_eq!(index::read(&folder.path().join(index::INDEX_NAME)).unwrap().rows().len(), 2);
}
