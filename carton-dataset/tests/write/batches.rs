//! Writing in batch mode.

use std::sync::{Arc, Mutex};

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int32Array, ListArray, RecordBatch};
use carton_dataset::{DatasetError, TailStrategy, TaskWriter, write};
use carton_tensor::context::{Context, ProgressEvent};
use safetensors::Dtype;

use crate::support::{batch_mode, dataset, files, labels, rows, shards, told};

#[test]
fn tails() {
    let check = |tail, expected: &[i64]| {
        let folder = tempfile::tempdir().unwrap();
        let batches = (0..10).step_by(3).map(|first| rows(first, 3.min(10 - first)));
        let manifest = dataset(folder.path(), &batch_mode(4, tail), batches).unwrap();
        if tail != TailStrategy::Pad {
            assert_eq!(labels(folder.path()), expected);
        }
        assert_eq!(manifest.total_samples(), expected.len() as u64);
        let last: Vec<i64> = shards(folder.path()).last().unwrap()["label"]
            .2
            .as_chunks()
            .0
            .iter()
            .map(|v| i64::from_le_bytes(*v))
            .collect();
        assert_eq!(last, expected.chunks(4).last().unwrap());
    };
    check(TailStrategy::Drop, &[0, 1, 2, 3, 4, 5, 6, 7]);
    check(TailStrategy::Write, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    check(TailStrategy::Pad, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0]);
}

#[test]
fn no_rows_are_a_dataset_without_shards() {
    for tail in [TailStrategy::Drop, TailStrategy::Pad, TailStrategy::Write] {
        let folder = tempfile::tempdir().unwrap();
        let manifest = dataset(folder.path(), &batch_mode(4, tail), [rows(0, 0)]).unwrap();
        assert_eq!((manifest.total_samples(), manifest.shards().len()), (0, 0));
        assert_eq!(files(folder.path()), ["dataset_manifest.json"]);
    }
}

#[test]
fn the_manifest_is_as_the_connector_writes_it() {
    let folder = tempfile::tempdir().unwrap();
    dataset(folder.path(), &batch_mode(4, TailStrategy::Write), [rows(0, 6)]).unwrap();
    let json = std::fs::read(folder.path().join("dataset_manifest.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["format_version"], "1.0");
    assert_eq!(json["safetensors_version"], "1.0");
    assert_eq!(json["total_samples"], 6);
    let samples: Vec<u64> =
        json["shards"].as_array().unwrap().iter().map(|shard| shard["samples_count"].as_u64().unwrap()).collect();
    assert_eq!(samples, [4, 2]);
    // The entry comes from the first shard.
    assert_eq!(
        json["schema"],
        serde_json::json!({
            "x": {"dtype": "F32", "shape": [4, 3]}, "label": {"dtype": "I64", "shape": [4]}
        })
    );
}

#[test]
fn a_column_of_one_shape_may_be_ragged_lists() {
    let list = |lists: &[usize]| -> ArrayRef {
        let lists = lists.iter().map(|length| Some((0..*length as i32).map(Some).collect::<Vec<_>>()));
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
    };
    let check = |batches: &[&[usize]], expected: Result<Vec<usize>, &str>| {
        let folder = tempfile::tempdir().unwrap();
        let batches = batches.iter().map(|lists| RecordBatch::try_from_iter([("x", list(lists))]).unwrap());
        match (dataset(folder.path(), &batch_mode(100, TailStrategy::Write), batches), expected) {
            (Ok(_), Ok(shape)) => assert_eq!(shards(folder.path())[0]["x"].1, shape),
            (Err(error), Err(expected)) => {
                assert_eq!(told(&error), expected);
                assert_eq!(files(folder.path()), [] as [&str; 0]);
            }
            (result, expected) => panic!("{result:?}, expected {expected:?}"),
        }
    };
    check(&[&[3, 3], &[3]], Ok(vec![3, 3]));
    check(&[&[0, 0]], Ok(vec![2, 0]));
    let ragged = "row 2 of column `x`: is int32 of shape [4], expected int32 of shape [3] as the rows before";
    check(&[&[3, 3, 4]], Err(ragged));
    check(&[&[3, 3], &[4]], Err(ragged));
}

#[test]
fn progress_is_reported_and_can_interrupt() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tell = seen.clone();
    let options = batch_mode(4, TailStrategy::Write);
    let batches = || (0..10).map(|first| Ok(rows(first * 3, 3)));
    let context = Context::watched(move |event: &ProgressEvent, _| {
        tell.lock().unwrap().push((event.stage, event.done, event.unit));
    });
    let manifest = write(&rows(0, 1).schema(), batches(), folder.path(), &options, &context);
    let mut expected: Vec<_> = (1..=10).map(|batch| ("writing", batch * 3, "rows")).collect();
    expected.push(("publishing", 0, ""));
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(manifest.unwrap().shards().len(), 8);

    let folder = tempfile::tempdir().unwrap();
    let context = Context::watched(|event: &ProgressEvent, cancel_token| {
        if event.done == 9 {
            cancel_token.cancel();
        }
    });
    let result = write(&rows(0, 1).schema(), batches(), folder.path(), &options, &context);
    assert!(matches!(result, Err(DatasetError::Interrupted)));
    assert_eq!(files(folder.path()), [] as [&str; 0]);
}

#[test]
fn after_an_error_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let good = RecordBatch::try_from_iter([("x", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).unwrap();
    let bad = RecordBatch::try_from_iter([("x", Arc::new(Int32Array::from(vec![None, Some(1)])) as ArrayRef)]).unwrap();
    let mut writer = TaskWriter::create(folder.path(), &bad.schema(), &batch_mode(1, TailStrategy::Write), 0).unwrap();
    writer.write(&good).unwrap();
    assert_eq!(told(&writer.write(&bad).unwrap_err()), "row 1 of column `x`: is null");
    assert!(writer.write(&good).is_err());
    assert!(writer.finish().is_err());
    assert_eq!(files(folder.path()), [] as [&str; 0]);
}

#[test]
fn options_that_do_not_fit_the_columns() {
    let folder = tempfile::tempdir().unwrap();
    let check = |change: &dyn Fn(&mut carton_dataset::WriteOptions), expected: &str| {
        let mut options = batch_mode(4, TailStrategy::Write);
        change(&mut options);
        let error = dataset(folder.path(), &options, [rows(0, 4)]).unwrap_err();
        assert_eq!(told(&error), expected);
        assert_eq!(files(folder.path()), [] as [&str; 0]);
    };
    let strings = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    check(&|options| options.columns = strings(&["x", "y"]), "there is no column `y`; there are `x`, `label`");
    check(&|options| options.columns = strings(&["x", "x"]), "there are two columns `x`");
    check(&|options| options.columns = strings(&[]), "there is no column to write");
    check(
        &|options| drop(options.shapes.insert("z".to_owned(), vec![3])),
        "there is no column `z`; there are `label`, `x`",
    );
    let many = vec![1; 70];
    let expected = format!("column `x` cannot have samples of shape {many:?}");
    check(&|options| drop(options.shapes.insert("x".to_owned(), many.clone())), &expected);
    let complex = "column `label`: Int64 cannot become complex64";
    let dtype = carton_tensor::files::ElementType::Complex64;
    check(&|options| _ = options.dtypes.insert("label".to_owned(), dtype), complex);
}

#[test]
fn chosen_columns_are_written_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = batch_mode(4, TailStrategy::Write);
    options.columns = Some(vec!["x".to_owned()]);
    options.dtype = Some(carton_tensor::files::ElementType::Float64);
    options.shapes.insert("x".to_owned(), vec![1, 3]);
    dataset(folder.path(), &options, [rows(0, 2)]).unwrap();
    let shard = &shards(folder.path())[0];
    let values: Vec<u8> = (0..6).flat_map(|value| f64::from(value).to_le_bytes()).collect();
    assert_eq!(shard.keys().collect::<Vec<_>>(), ["x"]);
    assert_eq!(shard["x"], (Dtype::F64, vec![2, 1, 3], values));
}

#[test]
fn nothing_is_written_after_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let options = batch_mode(2, TailStrategy::Write);
    let mut writer = TaskWriter::create(folder.path(), &rows(0, 0).schema(), &options, 0).unwrap();
    let other = RecordBatch::try_from_iter([("y", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).unwrap();
    let error = writer.write(&other).unwrap_err();
    assert!(matches!(error, DatasetError::OtherColumns { .. }), "{error:?}");
    assert_eq!(error.to_string(), "a record batch has the columns `y`, expected `x`, `label`");
    assert!(matches!(writer.write(&rows(0, 2)), Err(DatasetError::WriterFailed)));
    assert!(matches!(writer.finish(), Err(DatasetError::WriterFailed)));
}
