//! Arbitrary bytes as rows: a Parquet file, or an Arrow IPC file or stream. The rows that are read have the number that the file
//! states, pass Arrow's own validation, and are the same if only one column is read, if fewer rows are read at once, and after writing
//! and reading them again as a stream.

use std::io::Cursor;
use std::num::NonZeroUsize;

use arrow_array::{Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use carton_dataset::{DatasetError, Input};

use crate::generate::file::MemoryFile;

/// The most rows that are compared. Compressed bytes can represent any number.
const MAX_ROWS: usize = 1 << 12;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let file = MemoryFile::new(bytes);
    let Ok(input) = Input::open(file.path()) else { return false };
    let (n_rows, columns) = (input.n_rows(), input.schema().fields().clone());
    let mut batches = Vec::new();
    let (mut found, mut is_whole) = (0_usize, true);
    for batch in input {
        let Ok(batch) = batch else {
            is_whole = false;
            break;
        };
        assert_eq!(*batch.schema().fields(), columns);
        found += batch.num_rows();
        if found <= MAX_ROWS {
            batch.columns().iter().for_each(|column| column.to_data().validate_full().expect("it was read"));
            batches.push(batch);
        }
    }
    if is_whole && let Some(n_rows) = n_rows {
        assert_eq!(found as u64, n_rows);
    }
    if !is_whole || found > MAX_ROWS {
        return is_whole;
    }
    let in_sevens = Input::open(file.path()).expect("it was read").max_rows(NonZeroUsize::new(7).expect("it is 7"));
    compare(in_sevens, &batches);
    // If several columns have one name, projecting to the name selects all of them.
    if let Some(field) = columns.first()
        && columns.iter().filter(|other| other.name() == field.name()).count() == 1
    {
        let first = |batch: &RecordBatch| batch.project(&[0]).expect("there is one");
        let input = Input::open(file.path()).expect("it was read").project(&[field.name()]).expect("there is one");
        compare(input, &batches.iter().map(first).collect::<Vec<_>>());
    }
    if let Some(written) = written(&batches) {
        compare(Input::stream(Cursor::new(written), "written").expect("it was written"), &batches);
    }
    true
}

/// Writes the batches as a stream; `None` for types that Arrow's writer does not support.
fn written(batches: &[RecordBatch]) -> Option<Vec<u8>> {
    let schema = batches.first()?.schema();
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).ok()?;
    batches.iter().try_for_each(|batch| writer.write(batch)).ok()?;
    writer.into_inner().ok()
}

/// Checks that the rows are the same, whatever the size of batches.
fn compare(input: Input, expected: &[RecordBatch]) {
    let rows = |batches: &[RecordBatch]| -> Vec<RecordBatch> {
        batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| batch.slice(row, 1))).collect()
    };
    let found: Result<Vec<RecordBatch>, DatasetError> = input.collect();
    let found = rows(&found.expect("it was read"));
    let expected = rows(expected);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        // NaN is not equal to itself, but its text is.
        assert!(found.columns() == expected.columns() || format!("{found:?}") == format!("{expected:?}"));
    }
}
