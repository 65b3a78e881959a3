//! Reads rows from Parquet files, Arrow IPC files and Arrow IPC streams (spec/dataset.md §4.1).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, File};
use std::io::Cursor;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder};
use arrow_array::{ArrayRef, BinaryArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use carton_dataset::{DatasetError, Input};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// The `n` rows from `from` on.
fn rows(from: i64, n: i64) -> RecordBatch {
    let ids = Int64Array::from_iter_values(from..from + n);
    let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), 3);
    for row in from..from + n {
        vectors.values().append_slice(&[row as f32, 0.5, -1.0]);
        vectors.append(true);
    }
    let names = StringArray::from_iter_values((from..from + n).map(|row| format!("row {row}")));
    let bytes = BinaryArray::from_iter((from..from + n).map(|row| (row % 3 > 0).then(|| row.to_le_bytes())));
    // A file has one dictionary for all its batches.
    let keys = Int32Array::from_iter_values((from..from + n).map(|row| row as i32 % 2));
    let words = DictionaryArray::new(keys, Arc::new(StringArray::from_iter_values(["a", "b"])));
    let columns: [(&str, ArrayRef); 5] = [
        ("id", Arc::new(ids)),
        ("vector", Arc::new(vectors.finish())),
        ("name", Arc::new(names)),
        ("bytes", Arc::new(bytes)),
        ("word", Arc::new(words)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn stream(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn ipc_file(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn parquet(batches: &[RecordBatch], compression: Compression) -> Vec<u8> {
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batches[0].schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.into_inner().unwrap()
}

fn save(place: &Path, bytes: &[u8]) -> PathBuf {
    // The file name does not reveal the format.
    let path = place.join("rows");
    fs::write(&path, bytes).unwrap();
    path
}

fn read(input: Input) -> Result<RecordBatch, DatasetError> {
    let schema: SchemaRef = input.schema();
    let batches = input.collect::<Result<Vec<_>, _>>()?;
    Ok(concat_batches(&schema, &batches).unwrap())
}

/// Returns the error of an input with its causes, on one line.
fn refusal(input: Result<Input, DatasetError>) -> String {
    let error = input.and_then(read).unwrap_err();
    let mut text = error.to_string();
    let mut error: &dyn std::error::Error = &error;
    while let Some(source) = error.source() {
        text = format!("{text}: {source}");
        error = source;
    }
    text
}

#[test]
fn every_kind_of_file_is_read_as_it_was_written() {
    let place = tempfile::tempdir().unwrap();
    let batches = [rows(0, 100), rows(100, 1), rows(101, 50)];
    let expected = concat_batches(&batches[0].schema(), &batches).unwrap();
    let (lz4, zstd) = (Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD));
    let files = [
        (parquet(&batches, Compression::UNCOMPRESSED), true),
        (parquet(&batches, Compression::SNAPPY), true),
        (parquet(&batches, Compression::ZSTD(ZstdLevel::default())), true),
        (ipc_file(&batches, None), true),
        (ipc_file(&batches, lz4), true),
        (ipc_file(&batches, zstd), true),
        (stream(&batches, None), false),
        (stream(&batches, lz4), false),
        (stream(&batches, zstd), false),
    ];
    for (position, (bytes, n_rows_known)) in files.iter().enumerate() {
        let path = save(place.path(), bytes);
        let input = Input::open(&path).unwrap();
        assert_eq!(input.n_rows(), n_rows_known.then_some(151), "file {position}");
        assert_eq!(input.schema().fields(), expected.schema().fields(), "file {position}");
        assert_eq!(read(input).unwrap(), expected, "file {position}");

        let projected = Input::open(&path).unwrap().project(&["bytes", "id"]).unwrap();
        assert_eq!(read(projected).unwrap(), expected.project(&[0, 3]).unwrap(), "file {position}");
        let sizes = |max_rows: usize| {
            let input = Input::open(&path).unwrap().max_rows(NonZeroUsize::new(max_rows).unwrap());
            input.map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>()
        };
        assert!(sizes(7).iter().all(|n_rows| *n_rows <= 7), "file {position}: {:?}", sizes(7));
        assert_eq!(sizes(7).iter().sum::<usize>(), 151);

        let error = Input::open(&path).unwrap().project(&["x"]).unwrap_err();
        assert_eq!(error.to_string(), "there is no column `x`; there are `id`, `vector`, `name`, `bytes`, `word`");
    }
}

#[test]
fn columns_that_are_not_requested_are_not_read() {
    let place = tempfile::tempdir().unwrap();
    for compression in [None, Some(CompressionType::LZ4_FRAME)] {
        let whole = ipc_file(&[rows(0, 5000)], compression);
        let path = save(place.path(), &whole);
        let expected = rows(0, 5000);
        // Damages strings, which must be UTF-8, or if compressed the frame of LZ4, which has a magic number.
        let needle =
            if compression.is_some() { [4, 0x22, 0x4d, 0x18].as_slice() } else { b"row 4000row 4001".as_slice() };
        let mut damaged = whole.clone();
        let hits: Vec<usize> = (0..whole.len() - 16).filter(|&at| whole[at..].starts_with(needle)).collect();
        let hit = hits[hits.len() / 2];
        damaged[hit..hit + 4].fill(0xff);
        fs::write(&path, &damaged).unwrap();
        assert!(Input::open(&path).and_then(read).is_err());
        let readable: Vec<usize> = (0..5)
            .filter(|&column| {
                let name = expected.schema().field(column).name().clone();
                let found = Input::open(&path).unwrap().project(&[name]).and_then(read);
                found.is_ok_and(|found| found == expected.project(&[column]).unwrap())
            })
            .collect();
        assert_eq!(readable.len(), 4, "{readable:?}");
    }
}

#[test]
fn a_stream_needs_no_file() {
    let batches = [rows(0, 10), rows(10, 10)];
    let bytes = stream(&batches, None);
    let input = Input::stream(Cursor::new(bytes.clone()), "standard input").unwrap();
    assert_eq!(read(input).unwrap().num_rows(), 20);
    // The bytes after the marker belong to another reader.
    let input = Input::stream(Cursor::new([bytes, vec![1, 2, 3]].concat()), "standard input").unwrap();
    assert_eq!(read(input).unwrap().num_rows(), 20);

    let refused = |bytes| refusal(Input::stream(Cursor::new(bytes), "standard input"));
    let needs_file = "cannot be read from a pipe, expected an Arrow IPC stream";
    assert_eq!(
        refused(parquet(&batches, Compression::UNCOMPRESSED)),
        format!("cannot read rows from `standard input`: Parquet {needs_file}")
    );
    assert_eq!(
        refused(ipc_file(&batches, None)),
        format!("cannot read rows from `standard input`: an Arrow IPC file {needs_file}")
    );
}

#[test]
fn a_truncated_stream_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let bytes = stream(&[rows(0, 10), rows(10, 10)], None);
    let one = stream(&[rows(0, 10)], None);
    // The position where the second batch begins. Without the marker both streams begin alike.
    let boundary = one.len() - 8;
    assert_eq!(bytes[..boundary], one[..boundary]);
    let message = "the stream ends without its end-of-stream marker: its writer was stopped before it was done";
    for end in [boundary, bytes.len() - 8] {
        let error = refusal(Input::stream(Cursor::new(bytes[..end].to_vec()), "input"));
        assert_eq!(error, format!("cannot read rows from `input`: {message}"));
    }
    for end in 8..bytes.len() {
        refusal(Input::stream(Cursor::new(bytes[..end].to_vec()), "input"));
    }
    let twice = save(place.path(), &[bytes.clone(), bytes.clone()].concat());
    assert_eq!(
        refusal(Input::open(&twice)),
        format!(
            "cannot read rows from `{}`: {} bytes follow the end of the stream, expected none",
            twice.display(),
            bytes.len()
        )
    );
}

#[test]
fn files_that_end_early_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let batches = [rows(0, 10), rows(10, 10)];
    for bytes in [parquet(&batches, Compression::UNCOMPRESSED), ipc_file(&batches, None)] {
        for end in (0..bytes.len()).step_by(7) {
            refusal(Input::open(save(place.path(), &bytes[..end])));
        }
    }
}

#[test]
fn other_formats_are_refused_with_their_first_bytes() {
    let place = tempfile::tempdir().unwrap();
    let check = |bytes: &[u8], expected: &str| {
        let path = save(place.path(), bytes);
        let expected = format!("cannot read rows from `{}`: {expected}", path.display());
        assert_eq!(refusal(Input::open(&path)), expected);
    };
    check(b"", "is neither Parquet nor Arrow IPC: it is empty");
    check(b"id,name\n1,a\n", "is neither Parquet nor Arrow IPC: it begins with `id,name\\n`");
    check(b"PARE and so on", "is an encrypted Parquet file, which is not supported");
    check(b"PAR1PAR1", "metadata of 827474256 bytes, expected at most 0");
    check(b"ARROW1\0\0", "the file ends inside its first bytes");
    assert!(refusal(Input::open(place.path())).contains("is a directory"));
    assert!(refusal(Input::open(place.path().join("none"))).ends_with("No such file or directory (os error 2)"));
}

#[test]
fn a_named_pipe_is_a_stream() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no mkfifo");
        return;
    }
    let writer = {
        let path = path.clone();
        std::thread::spawn(move || {
            let bytes = stream(&[rows(0, 10)], None);
            std::io::Write::write_all(&mut File::options().write(true).open(path).unwrap(), &bytes).unwrap();
        })
    };
    assert_eq!(read(Input::open(&path).unwrap()).unwrap(), rows(0, 10));
    writer.join().unwrap();
}

/// Returns the number of bytes that this thread has read; `None` if the system does not count them.
fn bytes_read() -> Option<u64> {
    let counters = fs::read_to_string("/proc/thread-self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}

#[test]
fn a_projection_reads_little_of_a_file() {
    let place = tempfile::tempdir().unwrap();
    for bytes in [ipc_file(&[rows(0, 50_000)], None), parquet(&[rows(0, 50_000)], Compression::UNCOMPRESSED)] {
        let path = save(place.path(), &bytes);
        let Some(before) = bytes_read() else {
            eprintln!("skipped: the system does not count what is read");
            return;
        };
        let n_rows: usize =
            Input::open(&path).unwrap().project(&["word"]).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
        let n_bytes = bytes_read().unwrap() - before;
        assert_eq!(n_rows, 50_000);
        assert!(n_bytes * 4 < bytes.len() as u64, "{n_bytes} of {}", bytes.len());
    }
}
