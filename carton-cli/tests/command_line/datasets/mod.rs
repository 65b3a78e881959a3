//! `carton dataset`: writes and reads datasets.

mod merge;
mod peers;
mod refusals;
mod verify;
mod write;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field};

use crate::sandbox::{Outcome, Sandbox, names, outcome};

/// Rows of a number and a pair of numbers; the last list has `last` numbers.
fn rows(n_rows: i64, last: usize) -> RecordBatch {
    rows_of("item", n_rows, last)
}

/// The same, with this name for the elements of lists.
fn rows_of(element: &str, n_rows: i64, last: usize) -> RecordBatch {
    let element = Field::new(element, DataType::Float32, true);
    let mut pairs = ListBuilder::new(Float32Builder::new()).with_field(element);
    for row in 0..n_rows {
        let length = if row + 1 == n_rows { last } else { 2 };
        pairs.append_value((0..length).map(|i| Some(row as f32 + i as f32 / 4.0)));
    }
    let names: Vec<String> = (0..n_rows).map(|row| format!("row-{row}")).collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..n_rows))),
        ("name", Arc::new(StringArray::from(names))),
        ("pair", Arc::new(pairs.finish())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// An Arrow IPC stream, with its end-of-stream marker or without.
fn stream(batches: &[RecordBatch], is_ended: bool) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    if is_ended {
        writer.finish().unwrap();
    }
    std::mem::take(writer.get_mut())
}

/// Lists files and folders below the folder in which commands run, without the ids of attempts.
fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for name in names(folder) {
        let path = folder.join(&name);
        if path.is_dir() {
            found.extend(tree(&path).into_iter().map(|inner| format!("{}/{inner}", plain(&name))));
        } else {
            found.push(plain(&name));
        }
    }
    found
}

fn plain(name: &str) -> String {
    match name.strip_prefix("part-") {
        Some(rest) => format!("part-{}", &rest[..10]),
        None => name.split_once('-').map_or(name, |(task, _)| task).to_owned(),
    }
}

fn with_input(sandbox: &Sandbox, arguments: &str, input: &[u8]) -> Outcome {
    let path = sandbox.write("input", input);
    outcome(sandbox.command(arguments.split(' ')).stdin(fs::File::open(path).unwrap()))
}
