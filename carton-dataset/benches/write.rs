//! Benchmark: writes a dataset from Arrow and reads it back, compared with a memory copy and a plain file write of the same size.
//!
//! `cargo bench -p carton-dataset --bench write`. The contestants take turns, so that all meet the same noise; only the ratios count.
//! `CARTON_BENCH_DIR` names a folder on the disk to measure.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, RecordBatch};
use arrow_schema::{DataType, Field};
use carton_dataset::{Manifest, Mode, TailStrategy, WriteOptions, write};
use carton_tensor::context::Context;
use carton_tensor::files::ElementType;
use carton_tensor::safetensors::Reader;

/// Elements of a row, and rows of a record batch: 8 MiB, as readers of Parquet make them.
const ROW: usize = 256;
const BATCH: usize = 8192;

fn main() {
    // Only `cargo bench` passes this flag; `cargo test --benches` merely checks that the benchmark runs.
    let full = std::env::args().any(|argument| argument == "--bench");
    let (n_batches, n_rounds) = if full { (125, 5) } else { (2, 1) };
    let n_bytes = n_batches * BATCH * ROW * 4;
    let parent = std::env::var_os("CARTON_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(parent).unwrap();
    let batches: Vec<RecordBatch> = (0..n_batches).map(batch).collect();

    let mut copy = vec![0_u8; n_bytes];
    let source: Vec<u8> = vec![1; n_bytes];
    let dataset = folder.path().join("dataset");
    let plain = folder.path().join("plain");
    let mut times: [Vec<Duration>; 6] = Default::default();
    for round in 0..=n_rounds {
        let contestants: [&mut dyn FnMut(); 6] = [
            &mut || {
                copy.copy_from_slice(black_box(&source));
                black_box(&copy);
            },
            &mut || write_file(&plain, &source),
            &mut || write_dataset(&dataset, &batches, None),
            &mut || touch(&dataset),
            &mut || write_dataset(&dataset, &batches, Some(ElementType::BFloat16)),
            &mut || write_dataset(&dataset, &batches, Some(ElementType::Float16)),
        ];
        for (position, (run, times)) in contestants.into_iter().zip(&mut times).enumerate() {
            // Keeps the dataset for the contestant that reads it back; deletes it before every other one to free the disk.
            if position != 3 {
                let _ = fs::remove_dir_all(&dataset);
            }
            let _ = fs::remove_file(&plain);
            let start = Instant::now();
            run();
            // The first round warms up and is not counted.
            if round > 0 {
                times.push(start.elapsed());
            }
        }
    }
    let rates = times.map(|times| n_bytes as f64 / 1e9 / median(times).as_secs_f64());
    let [memcpy, file, f32, read, bf16, f16] = rates;
    let slower = memcpy.min(file);
    println!("{:.2} GB of F32 from Arrow, {} shards", n_bytes as f64 / 1e9, n_batches.div_ceil(4));
    let print =
        |name: &str, rate: f64, note: &str| println!("  {name:36} {rate:6.2} GB/s  {:5.2}{note}", rate / slower);
    print("memcpy", memcpy, "");
    print("write to a file", file, "");
    print("write a dataset", f32, " (target: at least 0.5 of the slower of these)");
    print("read it back, mapped and summed", read, "");
    print("write it as BF16, by bytes read", bf16, "");
    print("write it as F16, by bytes read", f16, "");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or(Duration::MAX)
}

fn batch(number: usize) -> RecordBatch {
    let values = Float32Array::from_iter_values((0..BATCH * ROW).map(|element| (element + number) as f32 * 0.37));
    let item = Arc::new(Field::new_list_field(DataType::Float32, false));
    let lists: ArrayRef = Arc::new(FixedSizeListArray::new(item, ROW as i32, Arc::new(values), None));
    RecordBatch::try_from_iter([("x", lists)]).unwrap()
}

/// The fastest plain write: large pieces and nothing else.
fn write_file(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).unwrap();
    for piece in bytes.chunks(8 << 20) {
        file.write_all(piece).unwrap();
    }
}

fn write_dataset(folder: &Path, batches: &[RecordBatch], dtype: Option<ElementType>) {
    // 32 MiB a shard; shards never end where a record batch ends.
    let batch_size = NonZeroUsize::new(4 * BATCH + 1).unwrap();
    let mut options = WriteOptions::new(Mode::Batch { batch_size, tail: TailStrategy::Write });
    options.dtype = dtype;
    let schema = batches[0].schema();
    let batches = batches.iter().cloned().map(Ok);
    let manifest = write(&schema, batches, folder, &options, &Context::default()).unwrap();
    assert_eq!(manifest.total_samples() % BATCH as u64, 0);
}

/// Sums all bytes of the dataset.
fn touch(folder: &Path) {
    let manifest = Manifest::parse(&fs::read(folder.join("dataset_manifest.json")).unwrap()).unwrap();
    let mut sum = 0_u64;
    for shard in manifest.shards() {
        let reader = Reader::map(folder.join(&shard.shard_path)).unwrap();
        let tensor = reader.read("x").unwrap();
        let words = tensor.bytes().as_chunks::<8>().0;
        sum = words.iter().fold(sum, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    }
    black_box(sum);
}
