//! Models that are run on the rows of tables (spec/rows.md), through the public API of `carton-rows` and real runner processes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod calls;
mod columns;
mod extension_types;
mod faults;
mod files;
mod outputs;
mod refusals;

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use carton_core::Carton;
use carton_rows::{MapRows, RowsError};
use carton_tests::place::TestPlace;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");

/// Metadata of a model that returns its inputs: each has a name, a dtype, and a shape as in `carton.toml`.
fn echo(tensors: &[(&str, &str, &str)]) -> String {
    let list = |side: &str| -> String {
        let one = |(name, dtype, shape): &(&str, &str, &str)| {
            format!("[[{side}]]\nname = \"{name}\"\ndtype = \"{dtype}\"\nshape = {shape}\n")
        };
        tensors.iter().map(one).collect()
    };
    list("input") + &list("output")
}

/// A loaded model that returns its inputs, and the place that it needs.
struct Echo {
    model: Carton,
    place: TestPlace,
}

impl Echo {
    async fn new(metadata: &str) -> Self {
        let place = TestPlace::new(RUNNER);
        let carton = place.pack_noop(metadata).await;
        let model = place.load(carton).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
        Self { model, place }
    }

    /// An echo of tensors that are declared.
    async fn of(tensors: &[(&str, &str, &str)]) -> Self {
        Self::new(&echo(tensors)).await
    }

    fn map(&self, batch: &RecordBatch) -> MapRows<'_> {
        MapRows::new(&self.model, &batch.schema())
    }
}

/// Maps all batches.
async fn map_all(map: MapRows<'_>, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>, RowsError> {
    let mut mapped = map.await?;
    let mut rows = batches.iter().cloned().map(Ok::<_, RowsError>);
    let mut results = Vec::new();
    while let Some(result) = mapped.next_of(&mut rows).await {
        results.push(result?);
    }
    assert!(rows.next().is_none(), "some rows were not read");
    Ok(results)
}

/// The numbers of rows of each call.
fn lengths(results: &[RecordBatch]) -> Vec<usize> {
    results.iter().map(RecordBatch::num_rows).collect()
}

/// All rows in one record batch.
fn joined(results: &[RecordBatch]) -> RecordBatch {
    let schema = results.first().map_or_else(|| SchemaRef::new(Schema::empty()), RecordBatch::schema);
    arrow_select::concat::concat_batches(&schema, results).unwrap()
}

/// A record batch of these columns.
fn table<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The values of a column.
fn column(batch: &RecordBatch, name: &str) -> ArrayRef {
    let Some(array) = batch.column_by_name(name) else { panic!("no column {name} in {:?}", batch.schema()) };
    Arc::clone(array)
}

fn names(batch: &RecordBatch) -> Vec<String> {
    batch.schema().fields().iter().map(|field| field.name().clone()).collect()
}

/// An error with its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// A file of the example model.
fn digits(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/digits").join(file)
}
