//! Writing in key-value mode (spec/dataset.md §4.4).

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int64Array, LargeStringArray, RecordBatch, StringArray, StringViewArray};
use carton_dataset::{Duplicates, KeyValue, Mode, TaskWriter, WriteOptions};

use crate::support::{dataset, files, key_value_mode, shards, told};

/// Rows with these names, in which `x` is the row's number.
fn named(names: &[&str]) -> RecordBatch {
    let x = Float32Array::from_iter_values((0..names.len()).map(|row| row as f32));
    let names: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
    RecordBatch::try_from_iter([("name", names), ("x", Arc::new(x))]).unwrap()
}

#[test]
fn tensors_are_named_after_row_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let names: [ArrayRef; 3] = [
        Arc::new(StringArray::from(vec!["a/é \"b\\", "b"])),
        Arc::new(LargeStringArray::from(vec!["a/é \"b\\", "b"])),
        Arc::new(StringViewArray::from(vec!["a/é \"b\\", "b"])),
    ];
    for names in names {
        let columns: [(&str, ArrayRef); 3] = [
            ("x", Arc::new(Float32Array::from(vec![1.0, 2.0]))),
            ("name", names),
            ("y", Arc::new(Int64Array::from(vec![i64::MAX, i64::MIN]))),
        ];
        let mut options = key_value_mode(1 << 20);
        options.overwrite = true;
        let manifest = dataset(folder.path(), &options, [RecordBatch::try_from_iter(columns).unwrap()]).unwrap();
        assert_eq!(manifest.total_samples(), 2);
        assert_eq!(manifest.schema().len(), 4);
        let shards = shards(folder.path());
        let [shard] = shards.as_slice() else { panic!("{} shards", shards.len()) };
        assert_eq!(shard.keys().collect::<Vec<_>>(), ["a/é \"b\\__x", "a/é \"b\\__y", "b__x", "b__y"]);
        assert_eq!(shard["b__x"].2, 2.0_f32.to_le_bytes());
        assert_eq!((&shard["b__y"].1, shard["b__y"].2.as_slice()), (&vec![], i64::MIN.to_le_bytes().as_slice()));
    }
}

#[test]
fn shards_are_closed_when_they_are_large_enough() {
    // A row counts as 204 bytes, so the fifth reaches the target.
    let check = |target, expected: &[usize]| {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..12).map(|row| format!("row {row}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        dataset(folder.path(), &key_value_mode(target), [named(&names[..7]), named(&names[7..])]).unwrap();
        let found: Vec<usize> = shards(folder.path()).iter().map(|shard| shard.len()).collect();
        assert_eq!(found, expected, "{target}");
    };
    check(204 * 5, &[5, 5, 2]);
    check(204 * 5 + 1, &[6, 6]);
    check(1, &[1; 12]);
    check(u64::MAX, &[12]);
}

#[test]
fn names_that_come_twice() {
    let mut key_value = KeyValue { target_shard_bytes: 204 * 3, ..KeyValue::new("name") };
    let batches = || [named(&["a", "b", "a"]), named(&["c", "a"])];
    let folder = tempfile::tempdir().unwrap();
    let error = dataset(folder.path(), &WriteOptions::new(Mode::KeyValue(key_value.clone())), batches()).unwrap_err();
    assert_eq!(told(&error), "row 2 of column `name`: the name `a` already occurs in row 0");
    assert_eq!(files(folder.path()), [] as [&str; 0]);

    // The name repeats in another shard.
    let error = dataset(
        folder.path(),
        &WriteOptions::new(Mode::KeyValue(key_value.clone())),
        [named(&["a", "b", "c"]), named(&["d", "a"])],
    );
    assert_eq!(told(&error.unwrap_err()), "row 4 of column `name`: the name `a` already occurs in row 0");

    // The name repeats in another input.
    let options = WriteOptions::new(Mode::KeyValue(key_value.clone()));
    let mut writer = TaskWriter::create(folder.path(), &named(&[]).schema(), &options, 0).unwrap();
    for (input, names) in [("A", ["a", "b"]), ("B", ["c", "d"])] {
        writer.begin_input(input);
        writer.write(&named(&names)).unwrap();
    }
    let error = told(&writer.write(&named(&["e", "b"])).unwrap_err());
    assert_eq!(error, "`B`: row 3 of column `name`: the name `b` already occurs in row 1 of `A`");
    drop(writer);

    key_value.duplicates = Duplicates::LastWins;
    let manifest = dataset(folder.path(), &WriteOptions::new(Mode::KeyValue(key_value)), batches()).unwrap();
    // The last row counts in each shard separately: the first shard is full with `c`.
    let found: Vec<Vec<(String, Vec<u8>)>> = shards(folder.path())
        .into_iter()
        .map(|shard| shard.into_iter().map(|(name, tensor)| (name, tensor.2)).collect())
        .collect();
    let row = |name: &str, value: f32| (format!("{name}__x"), value.to_le_bytes().to_vec());
    assert_eq!(found, [vec![row("a", 2.0), row("b", 1.0), row("c", 0.0)], vec![row("a", 1.0)]]);
    assert_eq!(manifest.total_samples(), 4);
}

#[test]
fn shards_say_how_their_tensors_are_named() {
    let folder = tempfile::tempdir().unwrap();
    dataset(folder.path(), &key_value_mode(1 << 20), [named(&["a", "b"])]).unwrap();
    let shard = files(folder.path()).into_iter().find(|name| name.starts_with("part-")).unwrap();
    let bytes = std::fs::read(folder.path().join(shard)).unwrap();
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let mut metadata: Vec<_> = header.metadata().clone().unwrap().into_iter().collect();
    metadata.sort();
    let expected = [("columns", "[\"x\"]"), ("mode", "key-value"), ("samples", "2"), ("separator", "__")];
    assert_eq!(metadata, expected.map(|(key, value)| (format!("dataset.{key}"), value.to_owned())));
}

#[test]
fn what_names_can_be() {
    let check = |name: &str, is_name: bool| {
        let folder = tempfile::tempdir().unwrap();
        let result = dataset(folder.path(), &key_value_mode(1 << 20), [named(&["first", name])]);
        assert_eq!(result.is_ok(), is_name, "{name:?}: {result:?}");
        if let Err(error) = result {
            assert_eq!(told(&error), format!("row 1 of column `name`: `{}` cannot name a tensor", name.escape_debug()));
        }
    };
    for name in ["a", "../../etc/passwd", "/", ".", "con", "a\\b", " ", "…", "__", "__metadata", &"x".repeat(100_000)]
    {
        check(name, true);
    }
    for name in ["", "__metadata__", "a\0", "\n", "\u{7f}", "a\u{85}b"] {
        check(name, false);
    }
}

#[test]
fn columns_that_cannot_name_or_be_named() {
    let check = |columns: &[&str], separator: &str, expected: Option<&str>| {
        let folder = tempfile::tempdir().unwrap();
        let column = |name: &&str| -> (String, ArrayRef) {
            match *name {
                "name" => ("name".to_owned(), Arc::new(StringArray::from(vec!["a"]))),
                other => (other.to_owned(), Arc::new(Int64Array::from(vec![1]))),
            }
        };
        let rows = RecordBatch::try_from_iter(columns.iter().map(column)).unwrap();
        let key_value = KeyValue { separator: separator.to_owned(), ..KeyValue::new("name") };
        let result = dataset(folder.path(), &WriteOptions::new(Mode::KeyValue(key_value)), [rows]);
        assert_eq!(result.err().map(|error| told(&error)).as_deref(), expected);
    };
    check(&["name", "x", "max", "x_x"], "__", None);
    check(&["name", "x"], "", None);
    check(&["x", "y"], "__", Some("there is no column `name`; there are `x`, `y`"));
    check(&["name"], "__", Some("there is no column to write"));
    let ambiguous = "the names of tensors would be ambiguous: column `y__x` ends with `x`, after the separator `__`";
    check(&["name", "x", "y__x"], "__", Some(ambiguous));
    let ambiguous = "the names of tensors would be ambiguous: column `ax` ends with `x`, after the separator ``";
    check(&["name", "x", "ax"], "", Some(ambiguous));
    let long = "x".repeat(1 << 20);
    check(&["name", &long], "__", Some("`dataset.columns` has 1048580 bytes, expected at most 1048576"));
    check(&["name", "x"], "\n", Some("the separator `\\n` has control characters"));
    check(&["name", "x\n"], "__", Some("column `x\\n`: `x\\n` cannot name a tensor"));
}

#[test]
fn null_names_and_names_that_are_no_strings() {
    let folder = tempfile::tempdir().unwrap();
    let x: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let rows = RecordBatch::try_from_iter([("name", names), ("x", x.clone())]).unwrap();
    let error = dataset(folder.path(), &key_value_mode(1 << 20), [rows]).unwrap_err();
    assert_eq!(told(&error), "row 1 of column `name`: is null");
    let rows = RecordBatch::try_from_iter([("name", x.clone()), ("x", x)]).unwrap();
    let error = dataset(folder.path(), &key_value_mode(1 << 20), [rows]).unwrap_err();
    assert_eq!(told(&error), "column `name`: values of type Int64 cannot name rows, expected strings");
}
