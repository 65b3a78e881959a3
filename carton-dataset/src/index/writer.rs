//! Writes the index, as one file.

use std::fs::Permissions;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::{COLUMNS, IndexError, IndexRow};
use crate::error::DatasetError;

/// The rows that are encoded at once.
const ROWS_AT_ONCE: usize = 65_536;

/// Writes the index to `path`: under a temporary name, then renamed. Rows may come in any order and are written in that of their
/// keys, so that who looks for one key can skip most pages.
///
/// # Errors
/// [`DatasetError::Index`]: [`IndexError::Dimension`] where a dimension is larger than the column's numbers, which are 32 bits
/// wide, [`IndexError::Duplicate`], [`IndexError::Io`].
pub fn write(path: &Path, rows: impl IntoIterator<Item = IndexRow>) -> Result<(), DatasetError> {
    try_write(path, rows.into_iter().collect())
        .map_err(|source| DatasetError::Index { place: path.display().to_string(), source })
}

fn try_write(path: &Path, mut rows: Vec<IndexRow>) -> Result<(), IndexError> {
    rows.sort_unstable();
    super::reader::check_unique(&rows)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".").suffix(".partial");
    #[cfg(unix)]
    {
        // As every other new file: what the process masks is left out.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(Permissions::from_mode(0o666));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = builder.tempfile_in(folder)?;
    // What Spark writes unless told otherwise, and what every reader of Parquet knows.
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(file.as_file(), Arc::new(schema()), Some(properties)).map_err(told)?;
    for rows in rows.chunks(ROWS_AT_ONCE) {
        writer.write(&batch(rows)?).map_err(told)?;
    }
    writer.close().map_err(told)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A full disk is told as what it is.
fn told(error: ParquetError) -> IndexError {
    match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(error) => IndexError::Io(*error),
            Err(cause) => IndexError::Parquet(ParquetError::External(cause)),
        },
        error => IndexError::Parquet(error),
    }
}

/// The columns as Spark has them: `tensor_key STRING, file_name STRING, shape ARRAY<INT>, dtype STRING`.
fn schema() -> Schema {
    let [tensor_key, file_name, shape, dtype] = COLUMNS;
    let string = |name| Field::new(name, DataType::Utf8, false);
    let shape = Field::new(shape, DataType::List(Arc::new(element())), false);
    Schema::new(vec![string(tensor_key), string(file_name), shape, string(dtype)])
}

fn element() -> Field {
    Field::new("element", DataType::Int32, false)
}

fn batch(rows: &[IndexRow]) -> Result<RecordBatch, IndexError> {
    let (mut keys, mut files, mut dtypes) = (StringBuilder::new(), StringBuilder::new(), StringBuilder::new());
    let mut shapes = ListBuilder::new(Int32Builder::new()).with_field(element());
    for row in rows {
        keys.append_value(&row.tensor_key);
        files.append_value(&row.file_name);
        dtypes.append_value(&row.dtype);
        for &size in row.shape.iter() {
            let too_large = |_| IndexError::Dimension { tensor: row.tensor_key.to_string(), size: size.into() };
            shapes.values().append_value(i32::try_from(size).map_err(too_large)?);
        }
        shapes.append(true);
    }
    let columns: Vec<ArrayRef> =
        vec![Arc::new(keys.finish()), Arc::new(files.finish()), Arc::new(shapes.finish()), Arc::new(dtypes.finish())];
    RecordBatch::try_new(Arc::new(schema()), columns).map_err(|error| IndexError::Parquet(error.into()))
}
