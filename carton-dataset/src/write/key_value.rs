//! Key-value mode: each row becomes tensors named after it, and shards are closed when they are large enough
//! (spec/dataset.md §4.4).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use carton_tensor::context::Context;
use carton_tensor::files::ElementType;
use carton_tensor::safetensors::{Header, Layout, SafetensorsError};

use super::attempt::Attempt;
use super::columns::{Chosen, check_name};
use super::shard_file::{ShardFile, Written, metadata};
use crate::column::{Run, without_the_rest};
use crate::error::{ColumnProblem, DatasetError};
use crate::options::{Duplicates, KeyValue};
use crate::shard_metadata::ShardMode;

/// The rows of the next shard, which is being filled.
#[derive(Debug)]
pub(super) struct Filling {
    options: KeyValue,
    columns: Vec<String>,
    rows: Vec<Row>,
    /// The rows by name: those of the shard, or, if names must not repeat, those of all shards of the task.
    names: HashMap<Arc<str>, RowPosition>,
    /// The size of all tensors in bytes, including the overhead of their header entries.
    size: u64,
    /// An upper bound of the header's length in bytes.
    header_length: u64,
    /// The limit for `header_length`.
    max_header_length: u64,
}

/// The position of a row.
#[derive(Debug)]
struct RowPosition {
    /// Its position in the shard.
    position: usize,
    /// Its number among all rows that were given.
    number: u64,
}

/// A row with its tensors, in the order of the columns.
#[derive(Debug)]
struct Row {
    name: Arc<str>,
    /// Its number among all rows that were given.
    number: u64,
    tensors: Vec<Tensor>,
    /// An upper bound of their length in the header, in bytes.
    header_length: u64,
}

#[derive(Debug)]
struct Tensor {
    dtype: ElementType,
    shape: Vec<usize>,
    bytes: Buffer,
}

impl Filling {
    pub(super) fn new(options: &KeyValue, chosen: &[Chosen]) -> Self {
        Self {
            options: options.clone(),
            columns: chosen.iter().map(|chosen| chosen.column.name().to_owned()).collect(),
            rows: Vec::new(),
            names: HashMap::new(),
            size: 0,
            header_length: 0,
            max_header_length: Header::MAX_LENGTH - reserve(chosen),
        }
    }

    /// Adds the rows of a record batch, whose columns have been converted to `columns`, and writes the shards that they fill.
    pub(super) fn push(
        &mut self,
        names: &ArrayRef,
        columns: Vec<Vec<Run>>,
        first_row: u64,
        attempt: &Attempt,
        written: &mut Written,
        context: &Context,
    ) -> Result<(), DatasetError> {
        let mut columns: Vec<_> = columns.into_iter().map(|runs| tensors(runs, self.options.duplicates)).collect();
        for (row, number) in (0..names.len()).zip(first_row..) {
            let name = self.name(names, row, number)?;
            let tensors: Vec<Tensor> = columns.iter_mut().filter_map(Iterator::next).collect();
            if tensors.len() != self.columns.len() {
                return Err(DatasetError::ColumnLengths);
            }
            let header_length = self.header_length_of(&name, &tensors);
            if !self.rows.is_empty() && self.header_length + header_length > self.max_header_length {
                self.write_shard(attempt, written, context)?;
            }
            self.add(Row { name, number, tensors, header_length })?;
            if self.size >= self.options.target_shard_bytes {
                self.write_shard(attempt, written, context)?;
            }
        }
        Ok(())
    }

    fn name(&self, names: &ArrayRef, row: usize, number: u64) -> Result<Arc<str>, DatasetError> {
        let fail = |problem| {
            let column = self.options.name_column.escape_debug().to_string();
            DatasetError::Row { input: None, row: number, column, problem }
        };
        if names.is_null(row) {
            return Err(fail(ColumnProblem::Null));
        }
        let name = match names.data_type() {
            DataType::Utf8 => names.as_string::<i32>().value(row),
            DataType::LargeUtf8 => names.as_string::<i64>().value(row),
            DataType::Utf8View => names.as_string_view().value(row),
            other => return Err(fail(ColumnProblem::NotNames(other.clone()))),
        };
        check_name(name).map_err(fail)?;
        Ok(name.into())
    }

    fn add(&mut self, row: Row) -> Result<(), DatasetError> {
        match self.names.entry(row.name.clone()) {
            Entry::Vacant(place) => {
                place.insert(RowPosition { position: self.rows.len(), number: row.number });
                self.header_length += row.header_length;
                self.size += size(&row);
                self.rows.push(row);
            }
            Entry::Occupied(place) if self.options.duplicates == Duplicates::Fail => {
                return Err(DatasetError::DuplicateName {
                    input: None,
                    row: row.number,
                    column: self.options.name_column.escape_debug().to_string(),
                    name: row.name.escape_debug().to_string(),
                    first: place.get().number,
                    first_input: None,
                });
            }
            Entry::Occupied(place) => {
                let Some(first) = self.rows.get_mut(place.get().position) else { return Ok(()) };
                self.header_length = self.header_length + row.header_length - first.header_length;
                self.size = self.size + size(&row) - size(first);
                *first = row;
            }
        }
        Ok(())
    }

    /// Returns an upper bound of the header length of a row's tensors, in bytes: names are written with escapes, and numbers have at most
    /// twenty digits.
    fn header_length_of(&self, name: &str, tensors: &[Tensor]) -> u64 {
        const DIGITS: usize = 20;
        let entry = r#","":{"dtype":"F8_E4M3FNUZ","shape":[],"data_offsets":[,]}"#.len() + 2 * DIGITS;
        let text = |text: &str| text.len() + text.matches(['"', '\\']).count();
        let named = text(name) + text(&self.options.separator) + entry;
        let lengths = self.columns.iter().zip(tensors);
        lengths.map(|(column, tensor)| named + text(column) + tensor.shape.len() * (DIGITS + 1)).sum::<usize>() as u64
    }

    /// Writes the rows as a shard; writes nothing if there are no rows.
    pub(super) fn write_shard(
        &mut self,
        attempt: &Attempt,
        written: &mut Written,
        context: &Context,
    ) -> Result<(), DatasetError> {
        let rows = std::mem::take(&mut self.rows);
        if self.options.duplicates == Duplicates::LastWins {
            self.names.clear();
        }
        (self.size, self.header_length) = (0, 0);
        if rows.is_empty() {
            return Ok(());
        }
        let samples = rows.len() as u64;
        let metadata = metadata(ShardMode::KeyValue, samples, Some((&self.options, &self.columns)))?;
        let separator = &self.options.separator;
        let tensors: Vec<(String, Tensor)> = rows
            .into_iter()
            .flat_map(|row| {
                let name = row.name;
                let named = move |(column, tensor)| (format!("{name}{separator}{column}"), tensor);
                self.columns.iter().zip(row.tensors).map(named)
            })
            .collect();
        let number = written.next_number()?;
        let described = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.dtype, tensor.shape.as_slice()));
        let layout = Layout::new(described, &metadata)
            .map_err(|source| DatasetError::shard(attempt.part_name(number), SafetensorsError::Unwritable(source)))?;
        let order = layout.order().to_vec();
        let mut file = ShardFile::create(attempt, number, layout)?;
        for (name, tensor) in order.into_iter().filter_map(|position| tensors.get(position)) {
            file.write(name, &tensor.bytes, context)?;
        }
        file.finish(samples, written, context)
    }
}

/// Returns the header bytes that are reserved for braces, padding and metadata, in which column names are escaped twice.
fn reserve(chosen: &[Chosen]) -> u64 {
    let columns: usize = chosen.iter().map(|chosen| 4 * chosen.column.name().len() + 8).sum();
    ((64 << 10) + columns as u64).min(Header::MAX_LENGTH / 2)
}

/// Returns the size of a row in bytes, as it counts towards the target size of shards.
fn size(row: &Row) -> u64 {
    row.tensors.iter().map(|tensor| tensor.bytes.len() as u64 + KeyValue::OVERHEAD_PER_TENSOR).sum()
}

/// Returns the tensors of a column, row by row.
///
/// They are slices of the record batch's memory, which stays allocated as long as one of them exists. If later rows can replace earlier
/// ones, a few rows could keep any number of record batches alive, so the tensors are copied. Tensors that are a small part of their
/// memory are copied, too.
fn tensors(runs: Vec<Run>, duplicates: Duplicates) -> impl Iterator<Item = Tensor> {
    runs.into_iter().flat_map(move |run| {
        let run = Run { bytes: without_the_rest(&run.bytes), ..run };
        run.rows().map(move |bytes| {
            let bytes = if duplicates == Duplicates::LastWins { Buffer::from(bytes.as_slice()) } else { bytes };
            Tensor { dtype: run.dtype, shape: run.shape.clone(), bytes }
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow_array::{Int8Array, RecordBatch, StringArray};

    use super::*;
    use crate::options::{Mode, WriteOptions};
    use crate::write::columns::Columns;
    use crate::write::gathered_schema::Sharing;

    /// Many small tensors reach the limit of the header before their shard reaches its target size.
    #[test]
    fn a_shard_is_closed_before_its_header_is_too_long() {
        let folder = tempfile::tempdir().unwrap();
        let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..9).map(|row| format!("\"{row}"))));
        let x: ArrayRef = Arc::new(Int8Array::from(vec![0; 9]));
        let rows = RecordBatch::try_from_iter([("name", names.clone()), ("x", x.clone())]).unwrap();
        let options = WriteOptions::new(Mode::KeyValue(KeyValue::new("name")));
        let columns = Columns::choose(&rows.schema(), &options).unwrap();
        let Mode::KeyValue(key_value) = &options.mode else { return };
        let mut filling = Filling::new(key_value, &columns.chosen);
        filling.max_header_length = 420;
        let attempt = Attempt::create(folder.path(), 0, false).unwrap();
        let mut written = Written::new(Sharing::NoNames);
        let context = Context::default();
        let runs = vec![columns.chosen[0].column.runs(&x, 0).unwrap()];
        filling.push(&names, runs, 0, &attempt, &mut written, &context).unwrap();
        filling.write_shard(&attempt, &mut written, &context).unwrap();
        let samples: Vec<u64> = written.shards.iter().map(|shard| shard.samples_count).collect();
        assert_eq!(samples, [4, 4, 1]);
        for shard in &written.shards {
            let file = std::fs::read(attempt.folder().join(&shard.shard_path)).unwrap();
            let header = Header::end(&file, file.len() as u64).unwrap();
            assert!(header < 420 + reserve(&columns.chosen), "{header}");
        }
    }
}
