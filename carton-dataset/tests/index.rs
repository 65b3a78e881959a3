//! Writing, reading and refusing indexes (spec/dataset.md §6).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, LargeStringArray, ListArray, RecordBatch, StringArray,
};
use carton_dataset::DatasetError;
use carton_dataset::index::{self, IndexLayout, IndexRow};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;

fn row(key: &str, file: &str, shape: &[u64]) -> IndexRow {
    IndexRow { tensor_key: key.into(), file_name: file.into(), shape: shape.into(), dtype: "F32".into() }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, DatasetError>) -> String {
    std::error::Error::source(&result.unwrap_err()).unwrap().to_string()
}

/// The columns of an index with one row.
fn columns() -> [(&'static str, ArrayRef); 4] {
    let shape = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(2), Some(3)])]);
    [
        ("tensor_key", Arc::new(StringArray::from(vec!["x"]))),
        ("file_name", Arc::new(StringArray::from(vec!["a.safetensors"]))),
        ("shape", Arc::new(shape)),
        ("dtype", Arc::new(StringArray::from(vec!["F32"]))),
    ]
}

fn save<'c>(path: &Path, columns: impl IntoIterator<Item = (&'c str, ArrayRef)>) {
    let rows = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)));
    let rows = rows.unwrap();
    let mut file = ArrowWriter::try_new(fs::File::create(path).unwrap(), rows.schema(), None).unwrap();
    file.write(&rows).unwrap();
    file.close().unwrap();
}

/// Reads an index in which one column is replaced by `array`.
fn with(column: &str, array: impl Array + 'static) -> Result<Vec<IndexRow>, DatasetError> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("index");
    let array: ArrayRef = Arc::new(array);
    let columns = columns().map(|(name, old)| (name, if name == column { Arc::clone(&array) } else { old }));
    save(&path, columns);
    index::read(&path).map(|index| index.rows().to_vec())
}

#[test]
fn column_types_of_other_writers_are_read() {
    let expected = vec![row("x", "a.safetensors", &[2, 3])];
    assert_eq!(with("none", StringArray::from(vec!["x"])).unwrap(), expected);
    assert_eq!(with("tensor_key", LargeStringArray::from(vec!["x"])).unwrap(), expected);
    let longs = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(2), Some(3)])]);
    assert_eq!(with("shape", longs).unwrap(), expected);
    let scalar = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(Vec::<Option<i32>>::new())]);
    assert_eq!(with("shape", scalar).unwrap()[0].shape.len(), 0);

    // The order of the columns does not matter, and neither do further columns.
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("index");
    let [key, file, shape, dtype] = columns();
    save(&path, [("more", Arc::new(Int32Array::from(vec![1])) as ArrayRef), dtype, shape, file, key]);
    assert_eq!(index::read(&path).unwrap().rows(), expected);
}

#[test]
fn invalid_indexes_are_refused() {
    let check = |result, expected: &str| assert_eq!(refusal::<Vec<IndexRow>>(result), expected);
    let null = |column| format!("row 0 of column `{column}` is null (spec/dataset.md §6.2)");
    for column in ["tensor_key", "file_name", "dtype"] {
        check(with(column, StringArray::from(vec![None::<&str>])), &null(column));
    }
    let no_shape = ListArray::from_iter_primitive::<Int32Type, _, _>([None::<[Option<i32>; 0]>]);
    check(with("shape", no_shape), &null("shape"));
    let no_size = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None])]);
    check(with("shape", no_size), &null("shape"));
    check(
        with("shape", Int64Array::from(vec![1])),
        "column `shape` is of type Int64, expected list of int32 or int64 (spec/dataset.md §6.1)",
    );
    check(
        with("dtype", Int32Array::from(vec![1])),
        "column `dtype` is of type Int32, expected string (spec/dataset.md §6.1)",
    );
    let negative = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(-1)])]);
    check(with("shape", negative), "tensor `x` has a dimension of -1, expected none below 0 (spec/dataset.md §6.2)");
    let many = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1); 65])]);
    check(with("shape", many), "tensor `x` has 65 dimensions, expected at most 64 (spec/dataset.md §6.2)");
    for path in ["../a", "/a", "", "a\\b", "C:a"] {
        let error = refusal(with("file_name", StringArray::from(vec![path])));
        assert!(error.ends_with("which is no path below the dataset's folder (spec/dataset.md §6.2)"), "{error}");
    }

    // A dictionary without values, and so without keys.
    let keys = Int32Array::from(vec![None::<i32>]);
    let nothing = DictionaryArray::new(keys, Arc::new(StringArray::from(Vec::<&str>::new())));
    check(with("dtype", nothing), &null("dtype"));

    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("index");
    for missing in 0..4 {
        let mut left = columns().to_vec();
        let (column, _) = left.remove(missing);
        save(&path, left);
        let expected = format!("there is no column `{column}` (spec/dataset.md §6.1)");
        assert_eq!(refusal(index::read(&path)), expected);
    }
    let twice = columns().map(|(name, array)| (name, arrow_select::concat::concat(&[&array, &array]).unwrap()));
    save(&path, twice);
    let expected = "tensor `x` of `a.safetensors` is there twice (spec/dataset.md §6.2)";
    assert_eq!(refusal(index::read(&path)), expected);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("_SUCCESS"), "").unwrap();
    assert_eq!(refusal(index::read(&path)), "is neither a Parquet file nor a folder of them (spec/dataset.md §6.3)");
}

#[test]
fn an_index_with_too_many_rows_for_its_size_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("index");
    let n = 3 << 19;
    let same = |value: &str| Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, n))) as ArrayRef;
    let mut shapes = ListBuilder::new(Int32Builder::new());
    (0..n).for_each(|_| shapes.append(true));
    let columns = [
        ("tensor_key", same("x")),
        ("file_name", same("a")),
        ("shape", Arc::new(shapes.finish()) as _),
        ("dtype", same("F32")),
    ];
    save(&path, columns);
    let n_bytes = fs::metadata(&path).unwrap().len();
    let error = refusal(index::read(&path));
    assert!(n_bytes < 100_000 && error.starts_with("more than "), "{error}");
    // The footer says it: damage to all that precedes it is not seen.
    let mut bytes = fs::read(&path).unwrap();
    let page_end = bytes.len() - 8 - u32::from_le_bytes(*bytes[bytes.len() - 8..].first_chunk().unwrap()) as usize;
    bytes[4..page_end].fill(0xff);
    fs::write(&path, bytes).unwrap();
    assert_eq!(refusal(index::read(&path)), error);
}

/// A dictionary repeats a long name in a few bytes.
#[test]
fn an_index_with_too_long_strings_for_its_size_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("index");
    let check = |column: &str, length: usize, n: usize, expected: &str| {
        let same = |name: &str, value: &str| -> ArrayRef {
            let value = if name == column { "k".repeat(length) } else { value.to_owned() };
            let keys = Int32Array::from(vec![0; n]);
            Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(vec![value]))))
        };
        let mut shapes = ListBuilder::new(Int32Builder::new());
        (0..n).for_each(|_| shapes.append(true));
        let columns = [
            ("tensor_key", same("tensor_key", "x")),
            ("file_name", same("file_name", "a")),
            ("shape", Arc::new(shapes.finish()) as _),
            ("dtype", same("dtype", "F32")),
        ];
        let compression = parquet::basic::Compression::ZSTD(Default::default());
        let properties = parquet::file::properties::WriterProperties::builder()
            .set_compression(compression)
            .set_dictionary_page_size_limit(1 << 30)
            .build();
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let mut file = ArrowWriter::try_new(fs::File::create(&path).unwrap(), rows.schema(), Some(properties)).unwrap();
        file.write(&rows).unwrap();
        file.close().unwrap();
        assert!(fs::metadata(&path).unwrap().len() < 100_000);
        let error = refusal(index::read(&path));
        assert!(error.starts_with(expected), "{error}");
    };
    let sum = "the strings up to row 10";
    check("tensor_key", 5_000_000, 200, sum);
    check("tensor_key", 100_000_001, 1, "row 0 has a string of 100000001 bytes, expected at most 100000000");
}

#[test]
fn an_index_is_a_folder_or_a_file_and_replaces_the_other() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("index");
    for (layout, n_rows) in [
        (IndexLayout::Folder, 1),
        (IndexLayout::Folder, 2),
        (IndexLayout::File, 3),
        (IndexLayout::File, 4),
        (IndexLayout::Folder, 5),
    ] {
        let rows: Vec<IndexRow> = (0..n_rows).map(|i| row(&format!("x{i}"), "a", &[1])).collect();
        index::write(&path, rows.clone(), layout).unwrap();
        assert_eq!(index::read(&path).unwrap().rows(), rows);
        assert_eq!((path.is_dir(), path.is_file()), (layout == IndexLayout::Folder, layout == IndexLayout::File));
        // No temporary file is left.
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
    // A folder that is not an index is kept.
    let other = place.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("notes.txt"), "mine").unwrap();
    for layout in [IndexLayout::Folder, IndexLayout::File] {
        let error = refusal(index::write(&other, [row("x", "a", &[1])], layout));
        assert!(error.contains("is no index, it has `notes.txt` in it"), "{error}");
        assert_eq!(fs::read_to_string(other.join("notes.txt")).unwrap(), "mine");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    // It has the permissions of any new folder and file.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let expected = place.path().join("new");
        fs::create_dir(&expected).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&expected));
        fs::write(expected.join("new"), "").unwrap();
        assert_eq!(mode(&path.join("part-00000.parquet")), mode(&expected.join("new")));
    }
}

#[test]
fn rows_that_an_index_cannot_hold_are_not_written() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("index");
    let error = refusal(index::write(&path, [row("x", "a", &[1 << 31])], IndexLayout::File));
    assert_eq!(error, "tensor `x` has a dimension of 2147483648, expected at most 2147483647 (spec/dataset.md §6.1)");
    let error = refusal(index::write(&path, [row("x", "a", &[1]), row("x", "a", &[2])], IndexLayout::File));
    assert_eq!(error, "tensor `x` of `a` is there twice (spec/dataset.md §6.2)");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn written_rows_are_read_back(
        rows in prop::collection::btree_map(("\\PC{0,9}", "[a-z]{1,3}(/[a-z]{1,3})?"), prop::collection::vec(0..=i32::MAX as u64, 0..5), 0..40),
    ) {
        let rows: Vec<IndexRow> = rows.iter().map(|((key, file), shape)| row(key, file, shape)).collect();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("index");
        index::write(&path, rows.iter().rev().cloned(), IndexLayout::File).unwrap();
        let index = index::read(&path).unwrap();
        prop_assert_eq!(index.rows(), &rows);
        for expected in &rows {
            prop_assert!(index.find(&expected.tensor_key).contains(expected));
        }
        prop_assert!(index.find("none of these").is_empty());
    }
}
