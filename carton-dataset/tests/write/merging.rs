//! Merging shards that came without reports (spec/dataset.md §5.3, §5.4).

use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use carton_dataset::index::IndexLayout;
use carton_dataset::{
    Category, Checks, CommitOptions, Dataset, DatasetError, Duplicates, KeyValue, Manifest, Mode, PartName, Shard,
    ShardLayout, TaskReport, TaskWriter, TensorSchema, WriteOptions, index, merge, verify,
};
use carton_tensor::context::Context;
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
    let options = CommitOptions { index: Some(IndexLayout::Folder), ..CommitOptions::default() };
    let (folder, manifest) = merged(&of_again, &options);
    assert_eq!(labels(folder.path()), of_tasks(&[0, 1, 2]));
    assert_eq!(manifest.unwrap().total_samples(), 15);
    assert_eq!(index::read(&folder.path().join(index::INDEX_NAME)).unwrap().rows().len(), 18);

    let (_, result) = merged(&|_| false, &CommitOptions::default());
    let ambiguous = told(&result.unwrap_err());
    assert!(ambiguous.contains("task 1 was written more than once, by attempts"), "{ambiguous}");
    // An index that is already there does not belong to these shards.
    let folder = tempfile::tempdir().unwrap();
    copied(machines.path(), folder.path());
    let index = folder.path().join(index::INDEX_NAME);
    for is_asked in [false, true] {
        fs::create_dir(&index).unwrap();
        fs::write(index.join("part-0.parquet"), "").unwrap();
        let options = CommitOptions {
            index: is_asked.then_some(IndexLayout::Folder),
            overwrite: true,
            ..of_attempts(&[&attempts[0]])
        };
        merge(folder.path(), &options).unwrap();
        assert_eq!(index.exists(), is_asked);
        assert!(!index.join("part-0.parquet").exists());
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
fn the_number_of_merged_tasks_may_be_given() {
    let machines = tempfile::tempdir().unwrap();
    let attempts = [attempt(machines.path(), 0), attempt(machines.path(), 1)];
    let check = |n_tasks, is_named: bool, expected: Result<u64, &str>| {
        let folder = tempfile::tempdir().unwrap();
        copied(machines.path(), folder.path());
        let options = if is_named { of_attempts(&[&attempts[0], &attempts[1]]) } else { CommitOptions::default() };
        match (merge(folder.path(), &CommitOptions { n_tasks: NonZeroU32::new(n_tasks), ..options }), expected) {
            (Ok(manifest), Ok(expected)) => assert_eq!(manifest.total_samples(), expected),
            (Err(error), Err(expected)) => {
                assert!(told(&error).ends_with(expected), "{}", told(&error));
                assert!(!folder.path().join("dataset_manifest.json").exists());
            }
            (result, expected) => panic!("{result:?}, expected {expected:?}"),
        }
    };
    for is_named in [true, false] {
        check(2, is_named, Ok(10));
        check(3, is_named, Err("there are no shards of task 2"));
        check(1, is_named, Err("there is a task 1, expected tasks 0 to 0"));
    }
}

type Tensors<'t> = &'t [(&'t str, &'t [usize])];

/// Writes shards of task 0 as other programs do: without metadata.
fn write_bare(folder: &Path, shards: &[Tensors<'_>]) -> Vec<String> {
    use safetensors::tensor::TensorView;
    let attempt = Uuid::new_v4();
    let write = |(tensors, shard): (&Tensors<'_>, u32)| {
        let part = PartName { task: 0, shard, attempt }.to_string();
        let tensors = tensors.iter().map(|(name, shape)| {
            let bytes: &'static [u8] = &[0; 4096];
            let view = TensorView::new(safetensors::Dtype::U8, shape.to_vec(), &bytes[..shape.iter().product()]);
            (*name, view.unwrap())
        });
        safetensors::serialize_to_file(tensors, None, &folder.join(&part)).unwrap();
        part
    };
    shards.iter().zip(0..).map(write).collect()
}

fn batches_of(batch_size: usize) -> Option<ShardLayout> {
    Some(ShardLayout::Batch { batch_size: NonZeroUsize::new(batch_size).unwrap() })
}

fn named_with(separator: &str, columns: Option<&[&str]>) -> Option<ShardLayout> {
    let columns = columns.map(|columns| columns.iter().map(|&column| column.to_owned()).collect());
    Some(ShardLayout::KeyValue { separator: separator.to_owned(), columns, duplicates: Duplicates::Fail })
}

#[track_caller]
fn check_merge(shards: &[Tensors<'_>], layout: Option<ShardLayout>, expected: Result<u64, &str>) {
    let folder = tempfile::tempdir().unwrap();
    write_bare(folder.path(), shards);
    match (merge(folder.path(), &CommitOptions { layout, ..CommitOptions::default() }), expected) {
        (Ok(manifest), Ok(expected)) => {
            assert_eq!(manifest.total_samples(), expected);
            let found = verify(folder.path(), Checks::Headers, &Context::default()).unwrap();
            assert!(found.is_sound(), "{:?}", found.findings);
            let samples = Dataset::open(folder.path()).unwrap();
            assert_eq!(samples.samples().map(Result::unwrap).count() as u64, expected);
        }
        (Err(error), Err(expected)) => {
            assert!(told(&error).contains(expected), "{}", told(&error));
            assert!(!folder.path().join("dataset_manifest.json").exists());
        }
        (merged, expected) => panic!("{merged:?}, expected {expected:?}"),
    }
}

const MAY_BE_BOTH: &str = "may be columns of";
const NAMED: &str = "so they are named after rows, with a separator that is not known";

#[test]
fn shards_that_can_be_nothing_but_batches_are_merged() {
    check_merge(&[&[("x", &[4, 2]), ("y", &[4])]], None, Ok(4));
    check_merge(&[&[("x", &[4, 2]), ("y", &[4])], &[("x", &[3, 2]), ("y", &[3])]], None, Ok(7));
    check_merge(&[&[("image", &[4, 2]), ("label", &[4])]], None, Ok(4));
    check_merge(&[&[("input__ids", &[4, 2]), ("attention__mask", &[4, 2])]], None, Ok(4));
    check_merge(&[&[("x", &[4, 2])], &[("x", &[4, 3])]], None, Err("has `x` as U8 of shape [4, 3]"));
}

#[test]
fn ambiguous_numbers_of_samples_are_an_error() {
    // The dimensions of an embedding are not rows.
    let dim = &[768][..];
    check_merge(&[&[("a::emb", dim), ("b::emb", dim), ("c::emb", dim)]], None, Err(MAY_BE_BOTH));
    check_merge(&[&[("a__emb", dim)], &[("b__emb", dim)], &[("c__emb", dim)]], None, Err(NAMED));
    check_merge(&[&[("a__emb", dim), ("b__emb", dim)]], None, Err(MAY_BE_BOTH));
    check_merge(&[&[("a__emb", dim)], &[("a__emb", dim)]], None, Err(MAY_BE_BOTH));
    check_merge(&[&[("image", &[4, 2])]], None, Err("such as `image`, may be columns of 4 rows, or named after rows"));
    check_merge(&[&[("x", &[4, 2]), ("y", &[3])]], None, Err(NAMED));
    check_merge(&[&[("x", &[])]], None, Err(NAMED));
}

#[test]
fn samples_are_counted_by_the_options() {
    let dim = &[768][..];
    check_merge(&[&[("a::emb", dim), ("b::emb", dim), ("c::emb", dim)]], named_with("::", None), Ok(3));
    check_merge(&[&[("a__emb", dim)], &[("b__emb", dim)], &[("c__emb", dim)]], named_with("__", None), Ok(3));
    check_merge(&[&[("aemb", dim), ("bemb", dim)], &[("cemb", dim)]], named_with("", None), Ok(3));
    let two = &[("a__x", &[4, 2][..]), ("a__y", &[4]), ("b__x", &[4, 2]), ("b__y", &[])];
    check_merge(&[two], named_with("__", None), Ok(2));
    let of_one = [&[("a__in__x", &[1][..]), ("a__y", &[1])][..], &[("b__in__x", &[1]), ("b__y", &[1])]];
    check_merge(&of_one, named_with("__", None), Ok(2));
    // Ambiguous: two columns of each row, or rows of longer names with one column.
    let both = &[("a__in__x", dim), ("a__out__x", dim), ("b__in__x", dim), ("b__out__x", dim)];
    let several = "into 2 or 4 rows of all shards, and which columns there are is not known";
    check_merge(&[both], named_with("__", None), Err(several));
    check_merge(&[both], named_with("__", Some(&["in__x", "out__x"])), Ok(2));
    check_merge(&[both], named_with("__", Some(&["x"])), Ok(4));
    check_merge(
        &[both],
        named_with("__", Some(&["y"])),
        Err("tensor `a__in__x` does not end with `__` and one of the"),
    );
    // One column ends with the separator and the other column.
    let nested = &[("a_id", dim), ("a_user_id", dim), ("b_id", dim), ("b_user_id", dim)];
    check_merge(&[nested], named_with("_", None), Err(several));
    check_merge(&[nested], named_with("_", Some(&["id", "user_id"])), Ok(2));
    // Some rows lack a column.
    let some = &[("a__x", dim), ("a__y", dim), ("b__y", dim)];
    check_merge(&[some], named_with("__", None), Err("are not those of rows that all have the same columns"));
    check_merge(&[some], named_with("__", Some(&["x", "y"])), Ok(2));
    check_merge(&[some], named_with("/", None), Err("tensor `a__x` has no separator `/` in its name"));
    check_merge(&[some], named_with("\n", None), Err("has control characters"));
    // The same row is in two shards.
    check_merge(
        &[two, &[("a__x", &[8]), ("a__y", &[8])]],
        named_with("__", None),
        Err("contradicts the options: has `a__x`, as shard"),
    );
    let (separator, duplicates) = ("__".to_owned(), Duplicates::LastWins);
    let last_wins = Some(ShardLayout::KeyValue { separator, columns: None, duplicates });
    check_merge(&[two, &[("a__x", &[8]), ("a__y", &[8])]], last_wins, Ok(3));

    check_merge(&[&[("image", &[4, 2])], &[("image", &[3, 2])]], batches_of(4), Ok(7));
    check_merge(&[&[("image", &[3, 2])], &[("image", &[4, 2])]], batches_of(4), Err("have 3 rows, expected 4"));
    check_merge(&[&[("image", &[5, 2])]], batches_of(4), Err("have 5 rows, expected at most 4"));
    check_merge(
        &[&[("x", &[4]), ("y", &[3])]],
        batches_of(4),
        Err("it is no batch of rows: tensor `y` has 3 rows, expected 4"),
    );
    // Shards that readers would refuse are refused here.
    check_merge(&[&[("x", &[1 << 40, 0])]], None, Err("its tensors have 0 bytes, too few for 1099511627776 samples"));
    check_merge(&[&[("x", &[4])], &[("y", &[4])]], batches_of(4), Err("has the columns `y`"));
}

/// The metadata of a shard takes precedence over the options; shards of both modes do not go together.
#[test]
fn shards_of_both_modes_are_refused() {
    let (machines, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    attempt(machines.path(), 1);
    copied(machines.path(), folder.path());
    let options = |layout| CommitOptions { layout, overwrite: true, ..CommitOptions::default() };
    // Batches of two rows.
    assert_eq!(merge(folder.path(), &options(batches_of(7))).unwrap().total_samples(), 5);
    write_bare(folder.path(), &[&[("a__x", &[768])]]);
    let error = told(&merge(folder.path(), &options(named_with("__", None))).unwrap_err());
    assert!(error.contains("is in batch mode, and shard `part-00000-0000-"), "{error}");
}

/// Writes a shard of task 0 with this metadata and one tensor `a__x`.
fn write_with(folder: &Path, shard: u32, metadata: &[(&str, &str)]) {
    use safetensors::tensor::TensorView;
    let part = PartName { task: 0, shard, attempt: Uuid::nil() }.to_string();
    let tensor = TensorView::new(safetensors::Dtype::U8, vec![4, 2], &[0; 8]).unwrap();
    let metadata = metadata.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    safetensors::serialize_to_file([("a__x", tensor)], Some(metadata), &folder.join(part)).unwrap();
}

/// Metadata are hints, so that a mode of a later version is taken for none.
#[test]
fn a_mode_that_is_not_known_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (shard, mode, samples) in [(0, "batch", "4"), (1, "later", "1")] {
        write_with(folder.path(), shard, &[("dataset.mode", mode), ("dataset.samples", samples)]);
    }
    assert_eq!(merge(folder.path(), &CommitOptions::default()).unwrap().total_samples(), 5);
}

#[test]
fn a_malformed_list_of_columns_is_refused() {
    let check = |columns: &str, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let said = [("dataset.mode", "key-value"), ("dataset.samples", "1"), ("dataset.columns", columns)];
        write_with(folder.path(), 0, &said);
        let error = merge(folder.path(), &CommitOptions::default()).unwrap_err();
        assert!(matches!(error, DatasetError::Samples { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("x", "`dataset.columns` is no list of names: expected value");
    check("[1]", "`dataset.columns` is no list of names: invalid type");
    check(&format!("[\"{}\"]", "x".repeat(1 << 20)), "has 1048580 bytes, expected at most 1048576");
}

/// The connector counts all rows of one name, although it writes only the last one.
#[test]
fn a_replaced_manifest_gives_the_number_of_samples() {
    let folder = tempfile::tempdir().unwrap();
    let dim = &[768][..];
    let shards = write_bare(folder.path(), &[&[("a/emb", dim), ("b/emb", dim)], &[("c/emb", dim)]]);
    let manifest = |bytes: u64| {
        let shard = |(path, samples_count): (&String, u64)| Shard {
            shard_path: path.clone(),
            samples_count,
            bytes: bytes + fs::metadata(folder.path().join(path)).unwrap().len(),
        };
        let shards = shards.iter().zip([5, 1]).map(shard).collect();
        let json = Manifest::new(shards, Default::default()).unwrap().to_json().unwrap();
        fs::write(folder.path().join("dataset_manifest.json"), json).unwrap();
    };
    let options = CommitOptions { overwrite: true, ..CommitOptions::default() };
    manifest(0);
    assert_eq!(merge(folder.path(), &options).unwrap().total_samples(), 6);
    assert!(verify(folder.path(), Checks::Headers, &Context::default()).unwrap().is_sound());
    assert_eq!(Dataset::open(folder.path()).unwrap().samples().count(), 3);
    // The manifest does not count for files of other sizes.
    manifest(1);
    let error = told(&merge(folder.path(), &options).unwrap_err());
    assert!(error.contains(NAMED), "{error}");
    let options = CommitOptions { layout: named_with("/", None), ..options };
    assert_eq!(merge(folder.path(), &options).unwrap().total_samples(), 3);
}

/// As a writer leaves it that takes shards of one row each for batches.
#[test]
fn a_manifest_that_counts_dimensions_is_neither_sound_nor_kept() {
    let folder = tempfile::tempdir().unwrap();
    let dim = &[256][..];
    let shards = write_bare(folder.path(), &[&[("row0/emb", dim)], &[("row1/emb", dim)], &[("row2/emb", dim)]]);
    let write_manifest = |counts: [u64; 3]| {
        let bytes = |path: &String| fs::metadata(folder.path().join(path)).unwrap().len();
        let shard = |(path, samples_count): (&String, u64)| Shard {
            shard_path: path.clone(),
            samples_count,
            bytes: bytes(path),
        };
        let shards = shards.iter().zip(counts).map(shard).collect();
        let entry = || TensorSchema { dtype: "U8".to_owned(), shape: vec![256] };
        let schema = (0..3).map(|row| (format!("row{row}/emb"), entry())).collect();
        let json = Manifest::new(shards, schema).unwrap().to_json().unwrap();
        fs::write(folder.path().join("dataset_manifest.json"), json).unwrap();
    };
    let found = || verify(folder.path(), Checks::Headers, &Context::default()).unwrap();
    write_manifest([256; 3]);
    let categories: Vec<Category> = found().findings.iter().map(|finding| finding.category).collect();
    assert_eq!(categories, [Category::Samples; 3]);
    // A row of each shard is not what the manifest counts.
    assert_eq!(Dataset::open(folder.path()).unwrap().samples().count(), 3);
    let options = CommitOptions { overwrite: true, ..CommitOptions::default() };
    let error = told(&merge(folder.path(), &options).unwrap_err());
    assert!(error.contains(NAMED), "{error}");
    // Of one shard it may be a coincidence: the connector counts each row of a name of which it keeps the last.
    write_manifest([256, 1, 1]);
    assert!(found().is_sound(), "{:?}", found().findings);
    write_manifest([1; 3]);
    assert!(found().is_sound(), "{:?}", found().findings);
    assert_eq!(merge(folder.path(), &options).unwrap().total_samples(), 3);
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
