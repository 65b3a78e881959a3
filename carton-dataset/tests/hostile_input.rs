//! Reads input files that were made to break their readers. Readers must not panic, abort, run forever, or allocate more memory than the
//! file could need.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::{ArrayRef, BinaryArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use carton_dataset::Input;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};

/// The system's allocator, which also counts the live bytes of each thread.
struct Counting;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

fn count(n_bytes: i64) {
    // The thread may be ending.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + n_bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: all calls are those of the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the peak memory in bytes that a call allocates on this thread.
fn peak(call: impl FnOnce()) -> i64 {
    let before = LIVE.get();
    PEAK.set(before);
    call();
    PEAK.get() - before
}

fn rows() -> RecordBatch {
    let n = 64_i64;
    let mut lists = ListBuilder::new(Float32Builder::new());
    for row in 0..n {
        lists.values().append_slice(&vec![row as f32; row as usize % 4]);
        lists.append(row % 7 > 0);
    }
    let keys = Int32Array::from_iter_values((0..n as i32).map(|row| row % 2));
    let columns: [(&str, ArrayRef); 5] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..n))),
        ("list", Arc::new(lists.finish())),
        ("name", Arc::new(StringArray::from_iter_values((0..n).map(|row| format!("row {row}"))))),
        ("bytes", Arc::new(BinaryArray::from_iter((0..n).map(|row| (row % 3 > 0).then(|| row.to_le_bytes()))))),
        ("word", Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from_iter_values(["a", "b"]))))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Files of every format, compression and encoding.
fn files() -> Vec<Vec<u8>> {
    let rows = rows();
    let mut files = Vec::new();
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let mut stream = StreamWriter::try_new_with_options(Vec::new(), &rows.schema(), options.clone()).unwrap();
        let mut file = FileWriter::try_new_with_options(Vec::new(), &rows.schema(), options).unwrap();
        for _ in 0..2 {
            stream.write(&rows).unwrap();
            file.write(&rows).unwrap();
        }
        files.push(stream.into_inner().unwrap());
        files.push(file.into_inner().unwrap());
    }
    let builder = WriterProperties::builder;
    let parquet = [
        builder().build(),
        builder().set_compression(Compression::SNAPPY).set_dictionary_enabled(false).build(),
        builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .build(),
        builder().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BYTE_ARRAY).build(),
    ];
    for (position, properties) in parquet.into_iter().enumerate() {
        // `DELTA_BYTE_ARRAY` encodes only strings.
        let rows = if position == 3 { rows.project(&[2, 3]).unwrap() } else { rows.clone() };
        let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties)).unwrap();
        writer.write(&rows).unwrap();
        files.push(writer.into_inner().unwrap());
    }
    files
}

fn mutate(random: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    for _ in 0..random.usize(1..=3) {
        let position = random.usize(0..bytes.len());
        match random.u8(0..6) {
            0 => bytes.truncate(position.max(1)),
            1 => bytes[position] = random.u8(..),
            2 => bytes[position] ^= 1 << random.u8(0..8),
            // Numbers at the limits of their ranges.
            3 => bytes[position] = *random.choice(&[0, 1, 0x7f, 0x80, 0xff]).unwrap(),
            4 => {
                let number = *random.choice(&[-1, i64::MAX, i64::MIN, 1 << 40, 1 << 31, i64::from(i32::MAX)]).unwrap();
                let end = bytes.len().min(position + random.usize(1..=8));
                let n_bytes = end - position;
                bytes[position..end].copy_from_slice(&number.to_le_bytes()[..n_bytes]);
            }
            // Repeats a piece.
            _ => {
                let end = random.usize(position..=bytes.len().min(position + 64));
                let piece = bytes[position..end].to_vec();
                let place = random.usize(0..=bytes.len());
                bytes.splice(place..place, piece);
            }
        }
    }
}

/// Reads the whole file, and returns whether that worked.
fn read(path: &Path) -> bool {
    let Ok(input) = Input::open(path) else { return false };
    let mut n_rows = 0;
    for batch in input {
        let Ok(batch) = batch else { return false };
        n_rows += batch.num_rows();
        // The file has one or two batches of small rows, so only a few rows can come out.
        assert!(n_rows < 1 << 32);
    }
    true
}

/// Mutates files of every format. `CARTON_TEST_ROUNDS` sets the number of mutations of each.
#[test]
fn mutated_files_are_errors() {
    let n_rounds: usize = std::env::var("CARTON_TEST_ROUNDS").map_or(200, |rounds| rounds.parse().unwrap());
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rows");
    // Hides panics that the reader turns into errors; they would fill the screen.
    std::panic::set_hook(Box::new(|info| {
        if info.location().is_some_and(|location| location.file().contains("hostile_input")) {
            eprintln!("{info}");
        }
        if std::env::var_os("CARTON_TEST_PANICS").is_some() {
            eprintln!("{info}");
        }
    }));
    let mut n_read = 0;
    for (kind, whole) in files().iter().enumerate() {
        fs::write(&path, whole).unwrap();
        assert!(read(&path), "file {kind}");
        for seed in 0..n_rounds {
            let mut bytes = whole.clone();
            mutate(&mut fastrand::Rng::with_seed(seed as u64), &mut bytes);
            fs::write(&path, &bytes).unwrap();
            let started = std::time::Instant::now();
            let peak = peak(|| n_read += usize::from(read(&path)));
            assert!(peak < 100 << 20, "file {kind}, seed {seed}: {peak} bytes");
            let elapsed = started.elapsed();
            assert!(elapsed.as_secs() < 10, "file {kind}, seed {seed}: {elapsed:?}");
        }
    }
    // Some mutations change only values, so some files must still be readable.
    assert!(n_read > n_rounds, "{n_read}");
}

/// A Parquet file without rows, whose schema has groups nested `depth` deep.
fn nested(depth: usize) -> Vec<u8> {
    // `version` = 1, then `schema`: a list of structs, whose number follows.
    let mut metadata = vec![0x15, 2, 0x19, 0xfc];
    let mut number = depth + 1;
    while number >= 0x80 {
        metadata.push(number as u8 | 0x80);
        number >>= 7;
    }
    metadata.push(number as u8);
    for _ in 0..depth {
        // `repetition_type` = REQUIRED, `name` = "a", `num_children` = 1.
        metadata.extend([0x35, 0, 0x18, 1, b'a', 0x15, 2, 0]);
    }
    // A leaf: `type` = INT32, `repetition_type`, `name`; then `num_rows` = 0 and no row groups.
    metadata.extend([0x15, 2, 0x25, 0, 0x18, 1, b'a', 0, 0x16, 0, 0x19, 0x0c, 0]);
    let length = (metadata.len() as u32).to_le_bytes();
    [b"PAR1".as_slice(), &metadata, &length, b"PAR1"].concat()
}

#[test]
fn deeply_nested_schemas_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rows");
    fs::write(&path, nested(5)).unwrap();
    assert!(read(&path), "{}", Input::open(&path).unwrap_err());
    fs::write(&path, nested(100_000)).unwrap();
    let error = Input::open(&path).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "a schema of more than 64 groups in each other");
    // Wrong field types, by which a reader could lose its position.
    let mut bytes = nested(100_000);
    for position in [4, 6, 11, 13, 16, 19] {
        for kind in 1..=12 {
            let whole = bytes[position];
            bytes[position] = whole & 0xf0 | kind;
            fs::write(&path, &bytes).unwrap();
            assert!(Input::open(&path).is_err());
            bytes[position] = whole;
        }
    }
}

#[test]
fn lists_whose_elements_are_missing_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rows");
    let mut writer = ArrowWriter::try_new(Vec::new(), rows().schema(), None).unwrap();
    writer.write(&rows()).unwrap();
    let mut bytes = writer.into_inner().unwrap();
    // The header of the first page now claims a list of two billion numbers, in a field that the format does not define.
    bytes[4..12].copy_from_slice(&[0xf9, 0xf7, 0xff, 0xff, 0xff, 0xff, 7, 0]);
    fs::write(&path, &bytes).unwrap();
    let error = Input::open(&path).unwrap().find_map(Result::err).unwrap();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "Parquet argument error: External: a page at 4 whose header does not end");
    // The same in the metadata, with booleans, which take no bytes in some readers.
    let mut bytes = nested(5);
    let end = bytes.len() - 9;
    bytes.splice(end..end, [0xf9, 0xf1, 0xff, 0xff, 0xff, 0xff, 7]);
    let length = u32::from_le_bytes(bytes[end + 8..end + 12].try_into().unwrap()) + 7;
    bytes[end + 8..end + 12].copy_from_slice(&length.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let error = Input::open(&path).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "metadata that ends inside a value");
}

/// A dictionary with one long value, which every row refers to.
#[test]
fn a_repeated_value_does_not_fill_the_memory() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rows");
    let value = vec![7_u8; 1 << 20];
    let rows = BinaryArray::from_iter_values(std::iter::repeat_n(&value, 64));
    let rows = RecordBatch::try_from_iter([("value", Arc::new(rows) as ArrayRef)]).unwrap();
    let properties = WriterProperties::builder().set_dictionary_page_size_limit(4 << 20).build();
    let mut writer = ArrowWriter::try_new(fs::File::create(&path).unwrap(), rows.schema(), Some(properties)).unwrap();
    for _ in 0..8 {
        writer.write(&rows).unwrap();
    }
    writer.close().unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 2 << 20);
    let mut n_rows = 0;
    let peak = peak(|| n_rows = Input::open(&path).unwrap().map(|batch| batch.unwrap().num_rows()).sum());
    assert_eq!(n_rows, 512);
    assert!(peak < 200 << 20, "{peak}");
}
