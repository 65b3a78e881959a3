//! Whole tables: `write_mapped` reads, maps and writes at the same time.

use std::io::{self, Cursor, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Float32Array, Int64Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use carton_core::ErrorKind;
use carton_dataset::Input;
use carton_rows::{MapCounts, MapRows, RowFormat, RowsError, write_mapped};
use carton_tensor::context::{Context, ProgressEvent};
use tokio::runtime::Handle;

use crate::{Echo, chain, column, joined, table};

const FORMATS: [(RowFormat, &str); 3] =
    [(RowFormat::Parquet, "parquet"), (RowFormat::ArrowFile, "arrow"), (RowFormat::ArrowStream, "arrows")];

fn rows(n_rows: i64) -> RecordBatch {
    table([
        ("id", Arc::new(Int64Array::from_iter_values(0..n_rows))),
        ("x", Arc::new(Float32Array::from_iter_values((0..n_rows).map(|row| row as f32 / 8.0)))),
    ])
}

/// Writes the mapped batches, in calls of at most 100 rows, and cancels the work after `max_rows` rows.
async fn written<W: Write + Send + 'static>(
    echo: &Echo,
    batches: Vec<RecordBatch>,
    output: W,
    format: RowFormat,
    max_rows: u64,
) -> Result<(W, MapCounts), RowsError> {
    let map = MapRows::new(&echo.model, &batches[0].schema()).batch_rows(NonZeroUsize::new(100).unwrap());
    let mapped = map.await?;
    let runtime = Handle::current();
    let work = move || {
        let mut rows = batches.into_iter().map(Ok::<_, RowsError>);
        let context = Context::watched(move |event: &ProgressEvent, cancel_token| {
            if event.done >= max_rows {
                cancel_token.cancel();
            }
        });
        write_mapped(mapped, &mut rows, output, format, &runtime, &context)
    };
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Reads a file of any of the formats.
fn read(bytes: &[u8], extension: &str) -> RecordBatch {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table").with_extension(extension);
    std::fs::write(&path, bytes).unwrap();
    let input = Input::open(&path).unwrap();
    let schema = input.schema();
    let batches: Vec<RecordBatch> = input.map(Result::unwrap).collect();
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_written_in_every_format() {
    let echo = Echo::of(&[("x", "float32", "['n']")]).await;
    for (format, extension) in FORMATS {
        for n_rows in [0, 1, 1234] {
            let (bytes, progress) = written(&echo, vec![rows(n_rows)], Vec::new(), format, u64::MAX).await.unwrap();
            assert_eq!((progress.rows, progress.calls), (n_rows as u64, (n_rows as u64).div_ceil(100)));
            let found = read(&bytes, extension);
            assert_eq!(found.num_rows(), n_rows as usize);
            for name in ["id", "x"] {
                assert_eq!(&column(&found, name), &column(&rows(n_rows), name), "{extension}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn undeclared_outputs_of_no_rows_are_unknown() {
    let echo = Echo::new("").await;
    let empty = rows(0);
    let mapped = MapRows::new(&echo.model, &empty.schema()).input("x", "x").await.unwrap();
    let runtime = Handle::current();
    let work = move || {
        let mut rows = std::iter::once(Ok::<_, RowsError>(empty));
        write_mapped(mapped, &mut rows, Vec::new(), RowFormat::ArrowFile, &runtime, &Context::default())
    };
    let error = tokio::task::spawn_blocking(work).await.unwrap().unwrap_err();
    assert_eq!(
        chain(&error),
        "the columns of the result are unknown: the carton does not declare its outputs, and there are no rows"
    );
}

/// An Arrow IPC file has one dictionary for each column, and record batches each have their own.
#[tokio::test(flavor = "multi_thread")]
async fn dictionaries_that_differ_are_written_in_every_format() {
    let echo = Echo::of(&[("x", "float32", "['n']")]).await;
    let words = |words: [&str; 2]| -> ArrayRef { Arc::new(words.into_iter().collect::<DictionaryArray<Int8Type>>()) };
    let batch = |values: [&str; 2]| {
        // So many rows that the record batches are not joined into one call.
        let keys: ArrayRef = words(values);
        let take = arrow_array::UInt32Array::from_iter_values((0..100).map(|row| row % 2));
        let keys = arrow_select::take::take(&keys, &take, None).unwrap();
        table([("w", keys), ("x", column(&rows(100), "x"))])
    };
    for (format, extension) in FORMATS {
        let batches = vec![batch(["a", "b"]), batch(["c", "a"])];
        let (bytes, _) = written(&echo, batches, Vec::new(), format, u64::MAX)
            .await
            .unwrap_or_else(|error| panic!("{extension}: {}", chain(&error)));
        let found = read(&bytes, extension);
        let found = column(&found, "w");
        let text = |row: usize| arrow_array_text(&found, row);
        assert_eq!([text(0), text(1), text(100), text(199)], ["a", "b", "c", "a"], "{extension}");
    }
}

/// The text in a row of strings or of a dictionary of strings.
fn arrow_array_text(array: &ArrayRef, row: usize) -> String {
    use arrow_array::cast::AsArray;
    match array.as_any_dictionary_opt() {
        Some(dictionary) => {
            let keys = dictionary.normalized_keys();
            dictionary.values().as_string::<i32>().value(keys[row]).to_owned()
        }
        None => array.as_string::<i32>().value(row).to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_ended_has_no_end_marker() {
    let echo = Echo::of(&[("x", "float32", "['n']")]).await;
    let shared = Shared::default();
    let error = written(&echo, vec![rows(5000)], shared.clone(), RowFormat::ArrowStream, 700).await.unwrap_err();
    assert!(matches!(error, RowsError::Interrupted), "{}", chain(&error));
    let bytes = shared.0.lock().unwrap().clone();
    let results: Result<Vec<RecordBatch>, _> =
        StreamReader::try_new(Cursor::new(bytes.clone()), None).unwrap().collect();
    // Readers that do not ask for the marker see complete record batches.
    assert!(joined(&results.unwrap()).num_rows() <= 700);
    assert_ne!(bytes.get(bytes.len() - 8..), Some([0xff_u8, 0xff, 0xff, 0xff, 0, 0, 0, 0].as_slice()));
    let shared = Shared::default();
    written(&echo, vec![rows(50)], shared.clone(), RowFormat::ArrowStream, u64::MAX).await.unwrap();
    let bytes = shared.0.lock().unwrap().clone();
    assert_eq!(bytes.get(bytes.len() - 8..), Some([0xff_u8, 0xff, 0xff, 0xff, 0, 0, 0, 0].as_slice()));
}

/// Bytes that outlive the writer.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<std::sync::Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A disk that is full after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(rest) => self.0 = rest,
            None => return Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_cannot_be_written_is_the_error() {
    let echo = Echo::of(&[("x", "float32", "['n']")]).await;
    for (format, extension) in FORMATS {
        for room in [0, 3000] {
            let error = written(&echo, vec![rows(20_000)], Full(room), format, u64::MAX).await.map(|_| ()).unwrap_err();
            assert!(matches!(error, RowsError::Write(_)), "{extension}: {}", chain(&error));
            assert!(chain(&error).contains("no storage space"), "{extension}: {}", chain(&error));
            assert_eq!(error.kind(), ErrorKind::Machine);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_of_a_row_is_not_hidden_by_the_writer() {
    let echo = Echo::of(&[("x", "float32", "['n']")]).await;
    let bad =
        table([("id", Arc::new(Int64Array::from(vec![1]))), ("x", Arc::new(Float32Array::from(vec![None::<f32>])))]);
    let bad = RecordBatch::try_new(
        Arc::new(arrow_schema::Schema::new(
            bad.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>(),
        )),
        bad.columns().to_vec(),
    )
    .unwrap();
    let first = RecordBatch::try_new(bad.schema(), rows(300).columns().to_vec()).unwrap();
    let error = written(&echo, vec![first, bad], Vec::new(), RowFormat::Parquet, u64::MAX).await.unwrap_err();
    assert_eq!(chain(&error), "row 300 of column `x`: is null");
}
