//! Writes record batches as Parquet, an Arrow IPC file, or an Arrow IPC stream.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::error::{RowsError, escaped};
use crate::input::{decoded, decoded_type};

/// A row group is closed when it has this many bytes, which are kept in memory until then.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A format of files of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowFormat {
    /// Parquet, compressed by Snappy.
    Parquet,
    /// An Arrow IPC file, also known as Feather V2, not compressed.
    ArrowFile,
    /// An Arrow IPC stream, which can also be written to a pipe.
    ArrowStream,
}

impl RowFormat {
    /// The format that the extension of a path names: `.parquet` or `.pq`; `.arrow`, `.feather` or `.ipc`; `.arrows` for a stream.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "parquet" | "pq" => Some(Self::Parquet),
            "arrow" | "feather" | "ipc" => Some(Self::ArrowFile),
            "arrows" => Some(Self::ArrowStream),
            _ => None,
        }
    }
}

/// Writes record batches of one schema. An Arrow IPC file can have only one dictionary for each column, but record batches may each have
/// their own: dictionary columns are therefore written there as plain values.
pub struct RowWriter<W: Write + Send> {
    writer: FormatWriter<W>,
}

enum FormatWriter<W: Write + Send> {
    Parquet(Box<ArrowWriter<W>>),
    /// A writer, and the schema without dictionaries.
    ArrowFile(Box<FileWriter<W>>, SchemaRef),
    ArrowStream(Box<StreamWriter<W>>),
}

impl<W: Write + Send> RowWriter<W> {
    /// Begins a file or stream.
    ///
    /// # Errors
    /// The output cannot be written, or the format does not have a type of the schema.
    pub fn new(output: W, schema: &SchemaRef, format: RowFormat) -> Result<Self, RowsError> {
        let writer = match format {
            RowFormat::Parquet => {
                check_types(schema)?;
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer =
                    ArrowWriter::try_new(output, schema.clone(), Some(properties)).map_err(RowsError::write)?;
                FormatWriter::Parquet(Box::new(writer))
            }
            RowFormat::ArrowFile => {
                let schema = without_dictionaries(schema);
                let writer = FileWriter::try_new(output, &schema).map_err(RowsError::write)?;
                FormatWriter::ArrowFile(Box::new(writer), schema)
            }
            RowFormat::ArrowStream => {
                FormatWriter::ArrowStream(Box::new(StreamWriter::try_new(output, schema).map_err(RowsError::write)?))
            }
        };
        Ok(Self { writer })
    }

    /// Writes rows.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), RowsError> {
        match &mut self.writer {
            FormatWriter::Parquet(writer) => {
                writer.write(rows).map_err(RowsError::write)?;
                if writer.in_progress_size() >= ROW_GROUP_BYTES {
                    writer.flush().map_err(RowsError::write)?;
                }
                Ok(())
            }
            FormatWriter::ArrowFile(writer, schema) => {
                let columns: Result<_, _> = rows.columns().iter().map(decoded).collect();
                let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
                let rows = columns
                    .and_then(|columns| RecordBatch::try_new_with_options(schema.clone(), columns, &options))
                    .map_err(RowsError::write)?;
                writer.write(&rows).map_err(RowsError::write)
            }
            FormatWriter::ArrowStream(writer) => writer.write(rows).map_err(RowsError::write),
        }
    }

    /// Writes the end of the file or stream, and returns the output.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(self) -> Result<W, RowsError> {
        match self.writer {
            FormatWriter::Parquet(writer) => writer.into_inner().map_err(RowsError::write),
            FormatWriter::ArrowFile(writer, _) => writer.into_inner().map_err(RowsError::write),
            FormatWriter::ArrowStream(writer) => writer.into_inner().map_err(RowsError::write),
        }
    }
}

/// Checks that Parquet has a type for each column: its writer panics at unions.
fn check_types(schema: &Schema) -> Result<(), RowsError> {
    match schema.fields().iter().find(|field| has_union(field.data_type())) {
        Some(field) => {
            Err(RowsError::Unwritable { column: escaped(field.name()), found: field.data_type().to_string() })
        }
        None => Ok(()),
    }
}

fn has_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) => true,
        DataType::Dictionary(_, values) => has_union(values),
        DataType::RunEndEncoded(_, values) => has_union(values.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_union(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_union(item.data_type()),
        _ => false,
    }
}

fn without_dictionaries(schema: &Schema) -> SchemaRef {
    let field = |field: &FieldRef| field.as_ref().clone().with_data_type(decoded_type(field.data_type()).clone());
    let fields: Vec<Field> = schema.fields().iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

impl<W: Write + Send> fmt::Debug for RowWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowWriter").finish_non_exhaustive()
    }
}
