//! Runners that die or change their mind, and callers that stop early.

use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::types::Float32Type;
use arrow_array::{Int64Array, ListArray, RecordBatch};
use carton_core::ErrorKind;
use carton_rows::{MapRows, RowsError};
use carton_tests::place::TestPlace;
use rustix::process::{Pid, test_kill_process};

use crate::{Echo, RUNNER, chain, column, joined, lengths, map_all, table};

const PLAIN_RUNNER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/plain_runner.py");

/// A model that the runner written in Python runs in this mode; `x` is declared as pairs of float32.
pub(crate) async fn plain(mode: &str) -> Echo {
    plain_of(mode, &crate::echo(&[("x", "float32", "['n', 2]")])).await
}

async fn plain_of(mode: &str, metadata: &str) -> Echo {
    let place = TestPlace::new(RUNNER);
    let folder = place.config().runner_dir.join("plain");
    std::fs::create_dir_all(&folder).unwrap();
    let python = std::env::var("CARTON_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    // The runner is told how many starts there were.
    let script = format!("#!/bin/sh\nexec {python} {PLAIN_RUNNER} {mode} $CARTON_TEST_STARTS\n");
    // A child that is being forked may still have the file open for writing, and such a file cannot be executed.
    let unfinished = folder.join("run.new");
    std::fs::write(&unfinished, script).unwrap();
    std::fs::set_permissions(&unfinished, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&unfinished, folder.join("run")).unwrap();
    place.describe("plain", &[], "directory");
    let carton = place.pack_noop(metadata).await;
    let load =
        place.load(carton).config(place.counting_config()).runner("plain").framework_version("=1.0.0".parse().unwrap());
    Echo { model: load.await.unwrap_or_else(|error| panic!("{}", chain(&error))), place }
}

/// The processes that were started for the runner.
fn processes(echo: &Echo) -> Vec<Pid> {
    let starts = std::fs::read_to_string(echo.place.starts()).unwrap();
    starts.lines().map(|line| Pid::from_raw(line.trim().parse().unwrap()).unwrap()).collect()
}

fn rows(n_rows: i64) -> RecordBatch {
    let pairs = (0..n_rows).map(|row| Some([Some(row as f32), Some(0.5)]));
    table([
        ("id", Arc::new(Int64Array::from_iter_values(0..n_rows))),
        ("x", Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(pairs))),
    ])
}

fn small_calls<'a>(echo: &'a Echo, batch: &RecordBatch) -> MapRows<'a> {
    MapRows::new(&echo.model, &batch.schema()).batch_rows(NonZeroUsize::new(10).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_runner_that_dies_once_are_made_again() {
    let echo = plain("exit-in-first-run").await;
    let batch = rows(200);
    let results = map_all(small_calls(&echo, &batch), std::slice::from_ref(&batch)).await.unwrap();
    assert_eq!(lengths(&results), [10; 20]);
    let all = joined(&results);
    assert_eq!(&column(&all, "id"), &column(&batch, "id"));
    let values = column(&all, "x");
    let values = arrow_array::cast::as_fixed_size_list_array(&values).values().clone();
    let values = arrow_array::cast::as_primitive_array::<Float32Type>(&values).values().to_vec();
    assert_eq!(values, (0..200).flat_map(|row| [row as f32, 0.5]).collect::<Vec<_>>());
    assert_eq!(processes(&echo).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_always_dies_is_an_error_that_names_the_rows() {
    let echo = plain("exit-in-infer").await;
    let batch = rows(45);
    let mut mapped = small_calls(&echo, &batch).await.unwrap();
    let mut batches = [batch.slice(0, 7), batch.slice(7, 38)].into_iter().map(Ok::<_, RowsError>);
    let error = mapped.next_of(&mut batches).await.unwrap().unwrap_err();
    assert!(chain(&error).starts_with("rows 0 to 9: "), "{}", chain(&error));
    assert!(chain(&error).contains("I am leaving"), "{}", chain(&error));
    assert_eq!(error.kind(), ErrorKind::RunnerCrashed);
    assert!(mapped.next_of(&mut batches).await.is_none());
}

/// A runner that dies takes calls along whose rows are harmless.
#[tokio::test(flavor = "multi_thread")]
async fn the_rows_that_kill_the_runner_are_named() {
    let echo = plain("exit-at-25").await;
    let batch = rows(45);
    let mut mapped = small_calls(&echo, &batch).await.unwrap();
    let mut batches = std::iter::once(Ok::<_, RowsError>(batch));
    for _ in 0..2 {
        assert_eq!(mapped.next_of(&mut batches).await.unwrap().unwrap().num_rows(), 10);
    }
    let error = mapped.next_of(&mut batches).await.unwrap().unwrap_err();
    assert!(chain(&error).starts_with("rows 20 to 29: "), "{}", chain(&error));
    assert_eq!(error.kind(), ErrorKind::RunnerCrashed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_model_names_the_row() {
    let echo = plain("refuse-45").await;
    let batch = rows(95);
    let error = map_all(small_calls(&echo, &batch), std::slice::from_ref(&batch)).await.unwrap_err();
    assert!(chain(&error).starts_with("row 45: "), "{}", chain(&error));
    assert!(chain(&error).contains("no more"), "{}", chain(&error));
    assert_eq!(error.kind(), ErrorKind::Model);
    assert_eq!(processes(&echo).len(), 1);
}

/// What the carton does not declare must be the same in all calls.
#[tokio::test]
async fn outputs_that_come_or_go_are_an_error() {
    let batch = rows(30);
    for (mode, expected) in [
        ("fewer-outputs-later", "the model returned the outputs `x`, expected `id`, `x` as before"),
        ("more-outputs-later", "the model returned the outputs `id`, `more`, `x`, expected `id`, `x` as before"),
    ] {
        let echo = plain_of(mode, "").await;
        let map = small_calls(&echo, &batch).input("id", "id").input("x", "x");
        let error = map_all(map, std::slice::from_ref(&batch)).await.unwrap_err();
        assert_eq!(chain(&error), expected, "{mode}");
        assert_eq!(error.kind(), ErrorKind::Model);
    }
    let echo = plain("fewer-outputs-later").await;
    let error = map_all(small_calls(&echo, &batch), std::slice::from_ref(&batch)).await.unwrap_err();
    assert!(chain(&error).contains("output `x`: expected a tensor"), "{}", chain(&error));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_dropped_in_the_middle_leave_no_runner() {
    let echo = plain("slow-sometimes").await;
    let batch = rows(1000);
    let mut mapped = small_calls(&echo, &batch).workers(NonZeroUsize::new(3).unwrap()).await.unwrap();
    let mut batches = std::iter::once(Ok::<_, RowsError>(batch.clone()));
    for _ in 0..2 {
        mapped.next_of(&mut batches).await.unwrap().unwrap();
    }
    let started = processes(&echo);
    assert_eq!(started.len(), 3);
    drop(mapped);
    // The first runner is that of the model, which goes on.
    wait_for_end(&started[1..]).await;
    let again = map_all(small_calls(&echo, &batch.slice(0, 20)), &[batch.slice(0, 20)]).await.unwrap();
    assert_eq!(lengths(&again), [10, 10]);
    drop(echo.model);
    wait_for_end(&started).await;
}

async fn wait_for_end(processes: &[Pid]) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while processes.iter().any(|process| test_kill_process(*process).is_ok()) {
        assert!(Instant::now() < deadline, "a runner is left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
