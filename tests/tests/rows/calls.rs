//! Rows are cut into calls, and the calls are divided among workers.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, UInt8Array};
use carton_core::{NumericTensor, StringTensor};
use carton_rows::{MapRows, RowsError};

use crate::{Echo, chain, column, joined, lengths, map_all, table};

fn n(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap()
}

/// Rows that are numbered from `first` on, with an input `x` of two numbers.
fn rows(first: i64, n_rows: i64) -> RecordBatch {
    let pairs = (first..first + n_rows).map(|row| Some([Some(row as f32), Some(-row as f32)]));
    table([
        ("id", Arc::new(Int64Array::from_iter_values(first..first + n_rows))),
        ("x", Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(pairs))),
    ])
}

const PAIRS: (&str, &str, &str) = ("x", "float32", "['n', 2]");

/// Checks that the results are the rows `0..n_rows` that [`rows`] makes, in order.
fn check_rows(results: &[RecordBatch], n_rows: i64) {
    let (found, expected) = (joined(results), rows(0, n_rows));
    assert_eq!(&column(&found, "id"), &column(&expected, "id"));
    let values = column(&found, "x");
    let numbers = |array: &ArrayRef| -> Vec<f32> {
        let flat = match array.data_type() {
            arrow_schema::DataType::FixedSizeList(..) => {
                arrow_array::cast::as_fixed_size_list_array(array).values().clone()
            }
            _ => arrow_array::cast::as_list_array(array).values().clone(),
        };
        arrow_array::cast::as_primitive_array::<Float32Type>(&flat).values().to_vec()
    };
    assert_eq!(numbers(&values), numbers(&column(&expected, "x")));
}

#[tokio::test]
async fn small_batches_are_joined_and_large_ones_cut() {
    let echo = Echo::of(&[PAIRS]).await;
    let tiny: Vec<RecordBatch> = (0..2500).map(|row| rows(row, 1)).collect();
    let results = map_all(echo.map(&tiny[0]), &tiny).await.unwrap();
    assert_eq!(lengths(&results), [1024, 1024, 452]);
    check_rows(&results, 2500);
    let large = rows(0, 2500);
    let results = map_all(echo.map(&large), std::slice::from_ref(&large)).await.unwrap();
    assert_eq!(lengths(&results), [1024, 1024, 452]);
    check_rows(&results, 2500);
    // A call has rows of several record batches.
    let mixed = [rows(0, 700), rows(700, 0), rows(700, 700), rows(1400, 1100)];
    let results = map_all(echo.map(&large), &mixed).await.unwrap();
    assert_eq!(lengths(&results), [1024, 1024, 452]);
    check_rows(&results, 2500);
}

#[tokio::test]
async fn calls_have_limits() {
    let echo = Echo::of(&[PAIRS]).await;
    let all = rows(0, 10);
    let check = async |map: MapRows<'_>, expected: &[usize]| {
        let results = map_all(map, std::slice::from_ref(&all)).await.unwrap();
        assert_eq!(lengths(&results), expected);
        check_rows(&results, 10);
    };
    check(echo.map(&all).batch_rows(n(4)), &[4, 4, 2]).await;
    check(echo.map(&all).batch_rows(n(5)), &[5, 5]).await;
    // A row has eight bytes.
    check(echo.map(&all).batch_bytes(n(24)), &[3, 3, 3, 1]).await;
    check(echo.map(&all).batch_bytes(n(31)).batch_rows(n(2)), &[2; 5]).await;
    // A row that is larger than the limit is a call of its own.
    check(echo.map(&all).batch_bytes(n(7)), &[1; 10]).await;
}

/// The sizes of calls do not depend on where the strings are in the record batch.
#[tokio::test]
async fn calls_of_strings_have_limits() {
    let echo = Echo::of(&[("s", "string", "['n']")]).await;
    let texts: Vec<String> = (0..1000).map(|row| format!("{row:0100}")).collect();
    let all = table([("s", Arc::new(StringArray::from_iter_values(&texts)))]);
    let map = || echo.map(&all).batch_bytes(n(20_000));
    let results = map_all(map(), std::slice::from_ref(&all)).await.unwrap();
    let expected = lengths(&results);
    assert!(expected[0] > 100 && expected[0] <= 200, "{expected:?}");
    let rest = expected.split_last().unwrap().1;
    assert!(rest.iter().all(|length| *length == expected[0]), "{expected:?}");
    assert_eq!(&column(&joined(&results), "s"), &column(&all, "s"));
    // Each row is a slice of the one large array.
    let slices: Vec<RecordBatch> = (0..1000).map(|row| all.slice(row, 1)).collect();
    let results = map_all(map(), &slices).await.unwrap();
    assert_eq!(lengths(&results), expected);
    assert_eq!(&column(&joined(&results), "s"), &column(&all, "s"));
}

#[tokio::test]
async fn rows_of_equal_shapes_share_a_call() {
    let echo = Echo::of(&[("x", "int64", "['n', 'length']"), ("y", "float32", "['n', 2]")]).await;
    let sizes = [2, 2, 2, 3, 3, 1, 2, 0, 0, 2];
    let lists = |range: std::ops::Range<usize>| {
        let list = move |row: usize| Some((0..sizes[row]).map(move |i| Some((10 * row + i) as i64)));
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(range.map(list))) as ArrayRef
    };
    let batch = |range: std::ops::Range<usize>| {
        let pairs = rows(range.start as i64, range.len() as i64);
        table([("x", lists(range)), ("y", column(&pairs, "x")), ("id", column(&pairs, "id"))])
    };
    for batches in [
        vec![batch(0..10)],
        vec![batch(0..2), batch(2..7), batch(7..10)],
        (0..10).map(|row| batch(row..row + 1)).collect(),
    ] {
        let results = map_all(echo.map(&batches[0]), &batches).await.unwrap();
        assert_eq!(lengths(&results), [3, 2, 1, 1, 2, 1]);
        let all = joined(&results);
        assert_eq!(&column(&all, "x"), &lists(0..10));
        assert_eq!(&column(&all, "id"), &column(&rows(0, 10), "id"));
    }
    let limited = [batch(0..10)];
    let results = map_all(echo.map(&limited[0]).batch_rows(n(2)), &limited).await.unwrap();
    assert_eq!(lengths(&results), [2, 1, 2, 1, 1, 2, 1]);
}

/// A carton may declare the number of rows of every call.
#[tokio::test]
async fn the_last_call_is_filled_up() {
    let echo = Echo::of(&[("x", "float32", "[4, 2]"), ("s", "string", "[4, 'm']")]).await;
    let batch = |first: i64, n_rows: i64| {
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter_values((first..first + n_rows).map(|row| format!("row {row}"))));
        let field = Arc::new(arrow_schema::Field::new_list_field(arrow_schema::DataType::Utf8, true));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths(std::iter::repeat_n(1, n_rows as usize));
        let lists: ArrayRef = Arc::new(ListArray::new(field, offsets, texts, None));
        table([("id", column(&rows(first, n_rows), "id")), ("x", column(&rows(first, n_rows), "x")), ("s", lists)])
    };
    for batches in [vec![batch(0, 10)], vec![batch(0, 3), batch(3, 3), batch(6, 4)]] {
        // The declared number of rows has priority over other limits.
        let map = echo.map(&batches[0]).batch_bytes(n(1)).batch_rows(n(3));
        let results = map_all(map, &batches).await.unwrap();
        assert_eq!(lengths(&results), [4, 4, 2]);
        check_rows(&results, 10);
        assert_eq!(&column(&joined(&results), "s"), &column(&batch(0, 10), "s"));
    }
    let one = [batch(0, 1)];
    check_rows(&map_all(echo.map(&one[0]), &one).await.unwrap(), 1);
}

#[tokio::test]
async fn no_call_takes_rows_if_the_carton_declares_none() {
    let echo = Echo::of(&[("x", "float32", "[0, 2]")]).await;
    let batch = rows(0, 2);
    let error = map_all(echo.map(&batch), std::slice::from_ref(&batch)).await.unwrap_err();
    assert_eq!(chain(&error), "input `x` takes calls of 0 rows");
}

#[tokio::test]
async fn inputs_may_have_one_value_for_all_rows() {
    let echo = Echo::of(&[PAIRS, ("scale", "float64", "[]"), ("names", "string", "['k']")]).await;
    let batch = rows(0, 3);
    let map = echo
        .map(&batch)
        .constant("scale", NumericTensor::from_vec(vec![0.5_f64], vec![]).unwrap())
        .constant("names", StringTensor::new(vec!["a".to_owned(); 2], vec![2]).unwrap())
        .output("x", "y");
    let results = map_all(map, std::slice::from_ref(&batch)).await.unwrap();
    assert_eq!(crate::names(&results[0]), ["id", "y"]);
    // The runner returns all inputs: the value has no element for each row.
    let map = echo
        .map(&batch)
        .constant("scale", NumericTensor::from_vec(vec![0.5_f64], vec![]).unwrap())
        .constant("names", StringTensor::new(vec!["a".to_owned(); 2], vec![2]).unwrap())
        .output("names", "names");
    let error = map_all(map, std::slice::from_ref(&batch)).await.unwrap_err();
    assert_eq!(chain(&error), "output `names` has shape [2] for 3 rows: it has no value for each row");
    assert_eq!(error.kind(), carton_core::ErrorKind::Model);
}

#[tokio::test]
async fn optional_inputs_are_columns_on_request() {
    let metadata =
        crate::echo(&[PAIRS]) + "[[input]]\nname = \"id\"\ndtype = \"int64\"\nshape = ['n']\noptional = true\n";
    let mut echo = Echo::new(&metadata).await;
    // The runner returns the input, which is not declared as an output.
    let load =
        echo.place.load(echo.place.path().join("noop.carton")).signature(carton_core::signature::SignatureMode::Off);
    echo.model = load.await.unwrap();
    let batch = rows(0, 3);
    let results = map_all(echo.map(&batch), std::slice::from_ref(&batch)).await.unwrap();
    assert_eq!(crate::names(&results[0]), ["id", "x"]);
    let results = map_all(echo.map(&batch).input("id", "id"), std::slice::from_ref(&batch)).await.unwrap();
    assert_eq!(crate::names(&results[0]), ["x"]);
    // The column is passed: one of another type is refused.
    let error = map_all(echo.map(&batch).input("id", "x"), std::slice::from_ref(&batch)).await.unwrap_err();
    assert!(chain(&error).contains("column `x`"), "{}", chain(&error));
}

/// The calls of a runner that takes long for some of them.
#[tokio::test(flavor = "multi_thread")]
async fn results_are_in_order_with_any_number_of_workers() {
    let echo = crate::faults::plain("slow-sometimes").await;
    let batches: Vec<RecordBatch> = (0..40).map(|batch| rows(50 * batch, 50)).collect();
    for workers in [1, 2, 3] {
        let map = MapRows::new(&echo.model, &batches[0].schema()).batch_rows(n(20)).workers(n(workers));
        let results = map_all(map, &batches).await.unwrap();
        assert_eq!(lengths(&results), [20; 100]);
        check_rows(&results, 2000);
    }
}

/// Several workers run calls at the same time, and a single one whose runner allows only one call at once does not.
#[tokio::test(flavor = "multi_thread")]
async fn workers_share_the_calls() {
    let echo = Echo::new(&(crate::echo(&[PAIRS]) + "[runner.opts]\ndelay_ms = 100\nmax_concurrency = 1\n")).await;
    let batch = rows(0, 12);
    let time = async |workers: usize| {
        let mut mapped = echo.map(&batch).batch_rows(n(1)).workers(n(workers)).await.unwrap();
        let start = Instant::now();
        let mut rows = std::iter::once(Ok::<_, RowsError>(batch.clone()));
        let mut n_rows = 0;
        while let Some(result) = mapped.next_of(&mut rows).await {
            n_rows += result.unwrap().num_rows();
        }
        assert_eq!(n_rows, 12);
        start.elapsed()
    };
    let (one, three) = (time(1).await, time(3).await);
    assert!(one >= Duration::from_millis(1200), "{one:?}");
    assert!(three >= Duration::from_millis(400) && three < one * 2 / 3, "{three:?} against {one:?}");
}

#[tokio::test]
async fn a_caller_can_push_and_take_by_itself() {
    let echo = Echo::of(&[PAIRS]).await;
    let mut mapped = echo.map(&rows(0, 1)).batch_rows(n(10)).await.unwrap();
    assert!(mapped.next().await.is_none() && mapped.has_room());
    let (mut pushed, mut results) = (0, Vec::new());
    while pushed < 1000 {
        while mapped.has_room() && pushed < 1000 {
            mapped.push(&rows(pushed, 5)).unwrap();
            pushed += 5;
        }
        results.push(mapped.next().await.unwrap().unwrap());
    }
    mapped.end();
    assert!(!mapped.has_room());
    while let Some(result) = mapped.next().await {
        results.push(result.unwrap());
    }
    assert_eq!(lengths(&results), [10; 100]);
    check_rows(&results, 1000);
    // Rows after the end would be lost.
    let error = mapped.push(&rows(0, 1)).unwrap_err();
    assert_eq!(chain(&error), "rows come after the last one");
}

#[tokio::test]
async fn the_digits_of_the_example() {
    let place = carton_tests::place::TestPlace::new(crate::RUNNER);
    let metadata =
        carton_core::metadata::Draft::parse(&std::fs::read_to_string(crate::digits("carton.toml")).unwrap()).unwrap();
    let carton = place.path().join("digits.carton");
    let pack = place.pack(crate::digits("model.onnx"), "onnx", &carton).metadata(metadata);
    pack.metadata_folder(crate::digits("")).check(false).await.unwrap();
    let model = place.load(&carton).await.unwrap();
    let mut cases = carton_tensor::npy::Npz::open(crate::digits("cases.npz")).unwrap();
    let read = |tensor: carton_tensor::Tensor| -> Vec<f32> {
        let carton_tensor::Tensor::Numeric(tensor) = tensor else { panic!("numbers") };
        tensor.as_slice::<f32>().unwrap().to_vec()
    };
    let (images, expected) = (read(cases.read("images").unwrap()), read(cases.read("probabilities").unwrap()));
    let pixels = images.chunks(64).map(|image| Some(image.iter().map(|pixel| Some(*pixel)).collect::<Vec<_>>()));
    let labels: ArrayRef = Arc::new(UInt8Array::from_iter_values(0..16));
    let batch =
        table([("label", labels), ("pixels", Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(pixels)))]);
    let map = MapRows::new(&model, &batch.schema()).input("image", "pixels").batch_rows(n(5)).workers(n(2));
    let results = map_all(map, std::slice::from_ref(&batch)).await.unwrap();
    assert_eq!(lengths(&results), [5, 5, 5, 1]);
    let all = joined(&results);
    let lists = column(&all, "probabilities");
    let values = arrow_array::cast::as_fixed_size_list_array(&lists).values().clone();
    let found = arrow_array::cast::as_primitive_array::<Float32Type>(&values).values();
    assert_eq!((found.len(), expected.len()), (160, 160));
    assert!(found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-5));
    assert_eq!(&column(&all, "label"), &column(&batch, "label"));
}
