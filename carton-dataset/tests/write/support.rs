//! Shared helpers: writing rows, and reading tensors back.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use carton_dataset::{
    CommitOptions, DatasetError, KeyValue, Manifest, Mode, TailStrategy, TaskReport, TaskWriter, WriteOptions, write,
};
use carton_tensor::context::Context;
use safetensors::{Dtype, SafeTensors};
use uuid::Uuid;

/// A tensor as the `safetensors` library reads it.
pub(crate) type Tensor = (Dtype, Vec<usize>, Vec<u8>);

/// The tensors of a file.
pub(crate) fn tensors(path: &Path) -> BTreeMap<String, Tensor> {
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let tensor = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
    };
    file.tensors().into_iter().map(tensor).collect()
}

/// Returns the tensors of each shard, in the order of the manifest, after checking that the manifest describes them exactly.
pub(crate) fn shards(folder: &Path) -> Vec<BTreeMap<String, Tensor>> {
    let manifest = Manifest::parse(&std::fs::read(folder.join("dataset_manifest.json")).unwrap()).unwrap();
    let mut expected: Vec<String> = manifest.shards().iter().map(|shard| shard.shard_path.clone()).collect();
    expected.push("dataset_manifest.json".to_owned());
    let mut found = files(folder);
    found.retain(|name| name != "_tensor_index.parquet");
    expected.sort();
    assert_eq!(found, expected);
    let shards = manifest.shards().iter().map(|shard| {
        let path = folder.join(&shard.shard_path);
        assert_eq!(path.metadata().unwrap().len(), shard.bytes);
        tensors(&path)
    });
    shards.collect()
}

/// The names in a folder, sorted.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Writes record batches with one schema as a dataset.
pub(crate) fn dataset(
    folder: &Path,
    options: &WriteOptions,
    batches: impl IntoIterator<Item = RecordBatch>,
) -> Result<Manifest, DatasetError> {
    let mut batches = batches.into_iter().peekable();
    let schema = batches.peek().unwrap().schema();
    write(&schema, batches.map(Ok), folder, options, &Context::default())
}

pub(crate) fn batch_mode(batch_size: usize, tail: TailStrategy) -> WriteOptions {
    WriteOptions::new(Mode::Batch { batch_size: NonZeroUsize::new(batch_size).unwrap(), tail })
}

pub(crate) fn key_value_mode(target_shard_bytes: u64) -> WriteOptions {
    WriteOptions::new(Mode::KeyValue(KeyValue { target_shard_bytes, ..KeyValue::new("name") }))
}

/// Returns `n_rows` rows from `first` on: three floats each, and the row's number.
pub(crate) fn rows(first: usize, n_rows: usize) -> RecordBatch {
    let values: Vec<f32> = (first * 3..(first + n_rows) * 3).map(|value| value as f32).collect();
    let item = Arc::new(Field::new_list_field(DataType::Float32, false));
    let lists = FixedSizeListArray::new(item, 3, Arc::new(Float32Array::from(values)), None);
    let labels = Int64Array::from_iter_values((first..first + n_rows).map(|row| row as i64));
    RecordBatch::try_from_iter([("x", Arc::new(lists) as ArrayRef), ("label", Arc::new(labels))]).unwrap()
}

/// Returns the numbers of the [`rows`] in a dataset, in its order.
pub(crate) fn labels(folder: &Path) -> Vec<i64> {
    let labels = shards(folder).into_iter().flat_map(|shard| {
        let (_, shape, x) = &shard["x"];
        let (_, _, label) = &shard["label"];
        let labels: Vec<i64> = label.as_chunks().0.iter().map(|value| i64::from_le_bytes(*value)).collect();
        assert_eq!(*shape, [labels.len(), 3]);
        let x = x.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value));
        assert!(x.eq(labels.iter().flat_map(|label| (label * 3..label * 3 + 3).map(|value| value as f32))));
        labels
    });
    labels.collect()
}

/// Formats an error and its causes on one line.
pub(crate) fn told(error: &DatasetError) -> String {
    let causes = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Batches of two rows.
pub(crate) fn options() -> WriteOptions {
    batch_mode(2, TailStrategy::Write)
}

/// Begins an attempt at a task.
pub(crate) fn writer(folder: &Path, task: u32) -> TaskWriter {
    TaskWriter::create(folder, &rows(0, 0).schema(), &options(), task).unwrap()
}

/// Writes the rows `10 * task..10 * task + 5` in an attempt at a task.
pub(crate) fn attempt(folder: &Path, task: u32) -> TaskReport {
    let mut writer = writer(folder, task);
    writer.write(&rows(10 * task as usize, 5)).unwrap();
    writer.finish().unwrap()
}

/// Returns the labels that [`attempt`]s at these tasks write.
pub(crate) fn of_tasks(tasks: &[i64]) -> Vec<i64> {
    tasks.iter().flat_map(|task| 10 * task..10 * task + 5).collect()
}

/// Options that name the attempts that count.
pub(crate) fn of_attempts(attempts: &[&TaskReport]) -> CommitOptions {
    let attempts = attempts.iter().map(|report| report.attempt).collect();
    CommitOptions { attempts: Some(attempts), ..CommitOptions::default() }
}

/// Like [`attempt`], for a job.
pub(crate) fn attempt_of_job(folder: &Path, task: u32, job: Option<Uuid>) -> TaskReport {
    let options = WriteOptions { job, ..options() };
    let mut writer = TaskWriter::create(folder, &rows(0, 0).schema(), &options, task).unwrap();
    writer.write(&rows(10 * task as usize, 5)).unwrap();
    writer.finish().unwrap()
}

/// Copies the shards of attempts into a folder, as from many machines.
pub(crate) fn copied(from: &Path, to: &Path) {
    for name in files(from) {
        let path = from.join(&name);
        if path.is_dir() {
            copied(&path, to);
        } else if name.starts_with("part-") {
            fs::copy(path, to.join(name)).unwrap();
        }
    }
}
