//! Compares with pyarrow, Python's `safetensors` and JSON schemas, by the interpreter that `CARTON_TEST_PYTHON` names. Without one the
//! tests are skipped.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_array::{Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use carton_dataset::index::{self, IndexLayout, IndexRow};
use carton_dataset::{
    Checks, Dataset, Input, KeyValue, MANIFEST_NAME, Manifest, Mode, Shard, TailStrategy, TensorSchema, WriteOptions,
    verify, write,
};
use carton_tensor::context::Context;
use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::safetensors::{self, Metadata};

/// Returns the interpreter to use. Without one, prints that the test is skipped and returns `None`.
fn python() -> Option<OsString> {
    let python = std::env::var_os("CARTON_TEST_PYTHON");
    if python.is_none() {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has pyarrow (tests/python/setup.sh makes one)");
    }
    python
}

fn run(python: &OsString, task: &str, places: &[&Path]) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/dataset_interop.py");
    let output = Command::new(python).arg(script).arg(task).args(places).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn files_of_pyarrow_and_the_connector_are_read() {
    let Some(python) = python() else { return };
    let place = tempfile::tempdir().unwrap();
    run(&python, "make", &[place.path()]);
    for entry in fs::read_dir(place.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() != Some(OsStr::new("rows")) {
            continue;
        }
        let input = Input::open(&path).unwrap().max_rows(NonZeroUsize::new(77).unwrap());
        let mut writer =
            StreamWriter::try_new(File::create(path.with_extension("read")).unwrap(), &input.schema()).unwrap();
        for batch in input {
            writer.write(&batch.unwrap_or_else(|error| panic!("{}: {error:?}", path.display()))).unwrap();
        }
        writer.finish().unwrap();
    }
    run(&python, "check-rows", &[place.path()]);

    let index = index::read(&place.path().join("_tensor_index.parquet")).unwrap();
    let keys: Vec<&str> = index.rows().iter().map(|row| &*row.tensor_key).collect();
    assert_eq!(keys, ["a", "b", "c"]);
    let row = &index.find("b")[0];
    assert_eq!((&*row.file_name, &*row.shape, &*row.dtype), ("b.safetensors", &[1, 2][..], "BF16"));

    let dataset = place.path().join("dataset");
    let verification = verify(&dataset, Checks::Headers, &Context::default()).unwrap();
    assert!(verification.is_sound(), "{:?}", verification.findings);
    let dataset = Dataset::open(dataset).unwrap();
    let labels: Vec<f64> =
        dataset.samples().flat_map(|sample| sample.unwrap().get("label").unwrap().to_f64().unwrap()).collect();
    assert_eq!(labels, [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0]);
    let last = dataset.samples().last().unwrap().unwrap();
    assert_eq!(last.get("image").unwrap().to_f64().unwrap(), [1.0; 6]);
    assert_eq!(last.get("image").unwrap().shape(), [2, 3]);
}

#[test]
fn pyarrow_reads_our_index() {
    let Some(python) = python() else { return };
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("_tensor_index.parquet");
    let row = |key: &str, file: &str, shape: &[u64], dtype: &str| IndexRow {
        tensor_key: key.into(),
        file_name: file.into(),
        shape: shape.into(),
        dtype: dtype.into(),
    };
    let mut rows = vec![
        row("x", "b.safetensors", &[i32::MAX as u64], "F32"),
        row("é", "a.safetensors", &[0], "I64"),
        row("x", "a.safetensors", &[2, 3], "BF16"),
        row("scalar", "a.safetensors", &[], "F8_E4M3"),
    ];
    index::write(&path, rows.clone(), IndexLayout::File).unwrap();
    run(&python, "check-index", &[&path]);
    rows.sort();
    assert_eq!(index::read(&path).unwrap().rows(), rows);
}

/// A dataset with a tensor of every element type that safetensors has.
fn every_dtype(place: &Path) {
    let dtypes = ElementType::ALL.into_iter().filter_map(|dtype| Some((dtype, safetensors::dtype_name(dtype)?)));
    let tensors: Vec<(String, RawTensor)> = dtypes
        .map(|(dtype, name)| {
            let bytes = vec![0_u8; dtype.n_bytes(24).unwrap()];
            (name.to_owned(), RawTensor::new(dtype, vec![1, 24], bytes.into()).unwrap())
        })
        .collect();
    let mut file = Vec::new();
    let pairs = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    safetensors::write(pairs, &Metadata::default(), &mut file).unwrap();
    fs::write(place.join("all.safetensors"), &file).unwrap();
    let shard = Shard { shard_path: "all.safetensors".to_owned(), samples_count: 1, bytes: file.len() as u64 };
    let schema =
        tensors.iter().map(|(name, _)| (name.clone(), TensorSchema { dtype: name.clone(), shape: vec![1, 24] }));
    let manifest = Manifest::new(vec![shard], schema.collect()).unwrap();
    fs::write(place.join(MANIFEST_NAME), manifest.to_json().unwrap()).unwrap();
}

#[test]
fn written_manifests_and_headers_match_the_schemas() {
    let Some(python) = python() else { return };
    let [batches, named, dtypes] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let rows = RecordBatch::try_from_iter([
        ("name", Arc::new(StringArray::from(vec!["a", "é", "c"])) as _),
        ("x", Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0])) as _),
        ("id", Arc::new(Int64Array::from(vec![1, i64::MIN, i64::MAX])) as _),
    ])
    .unwrap();
    let batch = Mode::Batch { batch_size: NonZeroUsize::new(2).unwrap(), tail: TailStrategy::Write };
    let mut options = WriteOptions::new(batch);
    options.columns = Some(vec!["x".to_owned(), "id".to_owned()]);
    options.dtypes.insert("x".to_owned(), ElementType::BFloat16);
    let context = Context::default();
    write(&rows.schema(), [Ok(rows.clone())], batches.path(), &options, &context).unwrap();
    let options = WriteOptions::new(Mode::KeyValue(KeyValue::new("name")));
    write(&rows.schema(), [Ok(rows)], named.path(), &options, &context).unwrap();
    every_dtype(dtypes.path());
    let places = [batches.path(), named.path(), dtypes.path()];
    for place in places {
        let verification = verify(place, Checks::Headers, &Context::default()).unwrap();
        assert!(verification.is_sound(), "{:?}", verification.findings);
    }
    run(&python, "check-schemas", &places);
}
