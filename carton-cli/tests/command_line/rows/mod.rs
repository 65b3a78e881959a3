//! `carton run --rows`: a model on the rows of tables.

mod faults;
mod peers;
mod refusals;
mod write;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use carton_dataset::Input;
use parquet::arrow::ArrowWriter;

use crate::sandbox::{Sandbox, digits};

/// Packs a carton that returns its inputs: `x`, pairs of float32.
fn pack_pairs(sandbox: &Sandbox, options: &str) {
    let tensor = |side| format!("[[{side}]]\nname = 'x'\ndtype = 'float32'\nshape = ['n', 2]\n");
    let options = format!("[runner]\nrunner_name = 'noop'\n[runner.opts]\n{options}");
    pack_noop(sandbox, &(tensor("input") + &tensor("output") + &options));
}

fn pack_noop(sandbox: &Sandbox, metadata: &str) {
    sandbox.write("model.bin", "weights");
    sandbox.write("metadata.toml", metadata);
    sandbox.carton("pack model.bin --runner noop --metadata metadata.toml -o echo.carton --no-check").expect_code(0);
}

fn pack_digits(sandbox: &Sandbox) {
    let (model, metadata) = (digits("model.onnx"), digits("carton.toml"));
    sandbox.run(["pack", &model, "--runner", "onnx", "--metadata", &metadata, "-o", "digits.carton"]).expect_code(0);
}

/// Rows with a number and a flat list of `size` numbers; their numbers begin with `first`.
fn rows(first: i64, n_rows: i64, size: usize, column: &str) -> RecordBatch {
    let mut lists = ListBuilder::new(Float32Builder::new());
    for row in first..first + n_rows {
        lists.append_value((0..size as i64).map(|i| Some(((row * 7 + i * 13) % 17) as f32 / 16.0)));
    }
    let columns: [(&str, ArrayRef); 2] =
        [("id", Arc::new(Int64Array::from_iter_values(first..first + n_rows))), (column, Arc::new(lists.finish()))];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Rows that the model of digits takes.
fn images(first: i64, n_rows: i64) -> RecordBatch {
    rows(first, n_rows, 64, "image")
}

fn pairs(first: i64, n_rows: i64) -> RecordBatch {
    rows(first, n_rows, 2, "x")
}

/// Writes a table in the format that the extension names.
fn write_table(sandbox: &Sandbox, name: &str, batches: &[RecordBatch]) {
    let schema = batches[0].schema();
    let file = File::create(sandbox.work().join(name)).unwrap();
    match Path::new(name).extension().and_then(|extension| extension.to_str()) {
        Some("parquet") => {
            let mut writer = ArrowWriter::try_new(file, schema, None).unwrap();
            for batch in batches {
                writer.write(batch).unwrap();
                writer.flush().unwrap();
            }
            writer.close().unwrap();
        }
        Some("arrow") => {
            let mut writer = FileWriter::try_new(file, &schema).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
        }
        _ => {
            let mut writer = StreamWriter::try_new(file, &schema).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
        }
    }
}

/// Reads a table of any format.
fn read_table(sandbox: &Sandbox, name: &str) -> RecordBatch {
    let input = Input::open(sandbox.work().join(name)).unwrap();
    let schema = input.schema();
    let batches: Vec<RecordBatch> = input.map(Result::unwrap).collect();
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

fn names(batch: &RecordBatch) -> Vec<String> {
    batch.schema().fields().iter().map(|field| field.name().clone()).collect()
}

fn ids(batch: &RecordBatch) -> Vec<i64> {
    let ids = batch.column_by_name("id").unwrap();
    ids.as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
}

/// The numbers in a column of lists of fixed size.
fn numbers(batch: &RecordBatch, column: &str) -> Vec<f32> {
    let lists = batch.column_by_name(column).unwrap();
    let lists = lists.as_any().downcast_ref::<FixedSizeListArray>().unwrap();
    lists.values().as_any().downcast_ref::<Float32Array>().unwrap().values().to_vec()
}
