//! Reads record batches from Parquet files, one row group after another (spec/dataset.md §4.1).

use std::fs::File;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use carton_tensor::files::FileBytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Type;
use parquet::file::metadata::ParquetMetaData;

use super::ipc_message::invalid;
use super::parquet_headers::PageFile;
use super::parquet_pages::RowGroup;
use super::rows::Rows;
use super::{InputError, parquet_footer};

/// The last bytes of a file, after the length of its metadata.
const MAGIC: &[u8; 4] = b"PAR1";
/// The longest accepted metadata in bytes.
const MAX_METADATA: u64 = 256 << 20;
/// The target size of a batch in bytes.
const BATCH_BYTES: u64 = 32 << 20;
/// The largest accepted row in bytes.
const MAX_ROW_BYTES: u64 = 4 << 30;

/// The rows of a Parquet file.
pub(super) struct ParquetRows {
    file: Arc<PageFile>,
    metadata: ArrowReaderMetadata,
    schema: SchemaRef,
    /// The columns that are read, all if `None`.
    columns: Option<Vec<usize>>,
    /// The position of the row group that is read next.
    next: usize,
    reader: Option<ParquetRecordBatchReader>,
    n_rows: u64,
    read: u64,
}

impl ParquetRows {
    pub(super) fn open(file: File, file_length: u64) -> Result<Box<dyn Rows>, InputError> {
        check_footer(&file, file_length)?;
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
        let (n_rows, schema) = (check_rows(metadata.metadata())?, metadata.schema().clone());
        let file = Arc::new(PageFile(file));
        Ok(Box::new(Self { file, metadata, schema, columns: None, next: 0, reader: None, n_rows, read: 0 }))
    }

    /// Begins a row group, in batches of as many rows as the target size allows.
    fn start(&self, position: usize, max_rows: usize) -> Result<ParquetRecordBatchReader, InputError> {
        let columns = self.metadata.parquet_schema();
        let mask = match &self.columns {
            Some(roots) => ProjectionMask::roots(columns, roots.iter().copied()),
            None => ProjectionMask::all(),
        };
        let (file, metadata) = (Arc::clone(&self.file), Arc::clone(self.metadata.metadata()));
        let row_group = RowGroup { file, metadata, position };
        let row_bytes = row_bytes(&row_group, &mask)?;
        let n_rows = usize::try_from(BATCH_BYTES / row_bytes.max(1)).unwrap_or(usize::MAX).clamp(1, max_rows);
        let levels = parquet_to_arrow_field_levels(columns, mask, Some(self.metadata.schema().fields()))?;
        Ok(ParquetRecordBatchReader::try_new_with_row_groups(&levels, &row_group, n_rows, None)?)
    }
}

impl Rows for ParquetRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn n_rows(&self) -> Option<u64> {
        Some(self.n_rows)
    }

    fn project(&mut self, columns: Vec<usize>) -> Result<(), InputError> {
        self.schema = self.schema.project(&columns)?.into();
        self.columns = Some(columns);
        Ok(())
    }

    fn next_batch(&mut self, max_rows: usize) -> Result<Option<RecordBatch>, InputError> {
        loop {
            if let Some(batch) = self.reader.as_mut().and_then(Iterator::next).transpose()? {
                self.read = self.read.saturating_add(batch.num_rows() as u64);
                if self.read > self.n_rows {
                    break;
                }
                return Ok(Some(batch));
            }
            if self.next >= self.metadata.metadata().num_row_groups() {
                break;
            }
            self.reader = Some(self.start(self.next, max_rows)?);
            self.next += 1;
        }
        // Missing rows are an error, not the end of the file.
        match self.read == self.n_rows {
            true => Ok(None),
            false => Err(InputError::RowCount { expected: self.n_rows, found: self.read }),
        }
    }
}

/// Checks that the metadata lies in the file, and that its schema is a tree of bounded depth.
fn check_footer(file: &File, file_length: u64) -> Result<(), InputError> {
    let file = FileBytes::from_file(file.try_clone()?)?;
    let stop = || invalid("the file does not end with `PAR1`: its writer was stopped before it was done");
    let end = file_length.checked_sub(8).ok_or_else(stop)?;
    let trailer = file.read(end..file_length)?;
    let (length, magic) = trailer.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
    if magic != MAGIC {
        return Err(stop());
    }
    let (length, most) = (u64::from(u32::from_le_bytes(*length)), MAX_METADATA.min(end));
    if length > most {
        return Err(invalid(format!("metadata of {length} bytes, expected at most {most}")));
    }
    parquet_footer::check(&file.read(end - length..end)?)
}

/// Returns the number of rows, which must be the sum over all row groups.
fn check_rows(metadata: &ParquetMetaData) -> Result<u64, InputError> {
    let count = |n_rows: i64| u64::try_from(n_rows).map_err(|_| invalid(format!("{n_rows} rows")));
    let expected = count(metadata.file_metadata().num_rows())?;
    let mut found = 0_u64;
    for row_group in metadata.row_groups() {
        found = found.saturating_add(count(row_group.num_rows())?);
    }
    if found != expected {
        return Err(InputError::RowCount { expected, found });
    }
    Ok(expected)
}

/// Estimates the mean size of a decoded row of a row group, in bytes. The size of the pages says little: a value that is repeated a
/// million times takes a few bytes.
fn row_bytes(row_group: &RowGroup, mask: &ProjectionMask) -> Result<u64, InputError> {
    let Some(described) = row_group.described() else { return Ok(0) };
    let mut n_bytes = 0_u64;
    for (leaf, column) in described.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf)) {
        let width = match column.column_type() {
            Type::BOOLEAN => 1,
            Type::INT32 | Type::FLOAT => 4,
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.column_descr().type_length()).unwrap_or_default(),
            // An offset, and the longest value of the dictionary, which a row can refer to by a few bits.
            Type::BYTE_ARRAY => 8 + row_group.longest_in_dictionary(leaf)?,
        };
        let n_values = u64::try_from(column.num_values()).unwrap_or_default();
        let in_pages = u64::try_from(column.uncompressed_size()).unwrap_or_default();
        n_bytes = n_bytes.saturating_add(n_values.saturating_mul(width)).saturating_add(in_pages);
    }
    let n_rows = u64::try_from(described.num_rows()).unwrap_or_default();
    let row_bytes = n_bytes.div_ceil(n_rows.max(1));
    if row_bytes > MAX_ROW_BYTES {
        return Err(invalid(format!("rows of {row_bytes} bytes, expected at most {MAX_ROW_BYTES}")));
    }
    Ok(row_bytes)
}
