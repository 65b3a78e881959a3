//! Datasets as they are written, read back with the `safetensors` library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use carton_dataset::{Mode, TailStrategy, TaskWriter, WriteOptions};
use safetensors::SafeTensors;

fn batch(first: usize, n_rows: usize) -> RecordBatch {
    let values: Vec<f32> = (first * 3..(first + n_rows) * 3).map(|value| value as f32).collect();
    let item = Arc::new(Field::new_list_field(DataType::Float32, false));
    let lists = FixedSizeListArray::new(item, 3, Arc::new(Float32Array::from(values)), None);
    let labels = Int64Array::from_iter_values((first..first + n_rows).map(|row| row as i64));
    RecordBatch::try_from_iter([("x", Arc::new(lists) as ArrayRef), ("label", Arc::new(labels))]).unwrap()
}

fn batch_mode(batch_size: usize, tail: TailStrategy) -> WriteOptions {
    WriteOptions::new(Mode::Batch { batch_size: NonZeroUsize::new(batch_size).unwrap(), tail })
}

/// Writes ten rows in record batches of three, and says what the shards hold: shape and elements of both tensors.
fn ten_rows(folder: &Path, options: &WriteOptions) -> Vec<(Vec<usize>, Vec<f32>, Vec<i64>)> {
    let mut writer = TaskWriter::create(folder, &batch(0, 1).schema(), options, 3).unwrap();
    for first in (0..10).step_by(3) {
        writer.write(&batch(first, 3.min(10 - first))).unwrap();
    }
    let staging = writer.folder();
    let report = writer.finish().unwrap();
    let shards = report.shards.iter().map(|shard| {
        let bytes = std::fs::read(staging.join(&shard.shard_path)).unwrap();
        assert_eq!(shard.bytes, bytes.len() as u64);
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let (x, label) = (file.tensor("x").unwrap(), file.tensor("label").unwrap());
        assert_eq!(label.shape(), [shard.samples_count as usize]);
        let x_values = x.data().as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect();
        let labels = label.data().as_chunks().0.iter().map(|value| i64::from_le_bytes(*value)).collect();
        (x.shape().to_vec(), x_values, labels)
    });
    shards.collect()
}

#[test]
fn batches_and_tails() {
    let folder = tempfile::tempdir().unwrap();
    let floats = |range: std::ops::Range<usize>| range.map(|value| value as f32).collect::<Vec<_>>();
    let check = |tail, n_shards, last: Option<(Vec<usize>, Vec<f32>, Vec<i64>)>| {
        let shards = ten_rows(folder.path(), &batch_mode(4, tail));
        assert_eq!(shards.len(), n_shards);
        assert_eq!(shards[0], (vec![4, 3], floats(0..12), vec![0, 1, 2, 3]));
        assert_eq!(shards[1], (vec![4, 3], floats(12..24), vec![4, 5, 6, 7]));
        assert_eq!(shards.get(2), last.as_ref());
    };
    check(TailStrategy::Drop, 2, None);
    check(TailStrategy::Write, 3, Some((vec![2, 3], floats(24..30), vec![8, 9])));
    let padded = [floats(24..30), vec![0.0; 6]].concat();
    check(TailStrategy::Pad, 3, Some((vec![4, 3], padded, vec![8, 9, 0, 0])));
}
