//! Writes the index (spec/dataset.md §6): one Parquet file, or a folder that contains one.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::{COLUMNS, IndexError, IndexLayout, IndexRow};
use crate::error::DatasetError;

/// The name of the file in a folder.
const PART_NAME: &str = "part-00000.parquet";
/// The number of rows that are encoded at once.
const ROWS_AT_ONCE: usize = 65_536;

/// Writes the index to `path`: under a temporary name, then renamed. Rows may come in any order. They are written sorted by key, so that
/// a reader that looks for one key can skip most pages. An index that already exists, a file or a folder, is replaced.
///
/// # Errors
/// [`DatasetError::Index`] with [`IndexError::Dimension`] if a dimension does not fit into the 32-bit numbers of the column,
/// or [`IndexError::Duplicate`]; [`DatasetError::Io`], also for a folder at `path` that contains files other than those of an index.
pub fn write(path: &Path, rows: impl IntoIterator<Item = IndexRow>, layout: IndexLayout) -> Result<(), DatasetError> {
    try_write(path, rows.into_iter().collect(), layout).map_err(|source| DatasetError::index("write", path, source))
}

fn try_write(path: &Path, mut rows: Vec<IndexRow>, layout: IndexLayout) -> Result<(), IndexError> {
    rows.sort_unstable();
    super::reader::check_unique(&rows)?;
    // The folder is removed unless it is renamed to its place.
    let staged = temporary().tempdir_in(parent_of(path))?;
    let file = staged.path().join(PART_NAME);
    write_file(&File::create_new(&file)?, &rows)?;
    match layout {
        IndexLayout::File => put(&file, path)?,
        IndexLayout::Folder => {
            put(staged.path(), path)?;
            // The folder has been renamed, so nothing is left to remove.
            let _ = staged.keep();
        }
    }
    Ok(())
}

/// Moves an index to its place. What was there is moved aside first and deleted afterwards, since a rename replaces no folder by a file,
/// nor a file by a folder. If the move fails, the old index is put back.
pub(crate) fn put(staged: &Path, path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return fs::rename(staged, path) };
    if !found.is_dir() && !staged.is_dir() {
        return fs::rename(staged, path);
    }
    if found.is_dir() {
        check_is_index(path)?;
    }
    // A temporary folder, deleted together with what is moved into it.
    let aside = temporary().tempdir_in(parent_of(path))?;
    let old = aside.path().join(PART_NAME);
    fs::rename(path, &old)?;
    fs::rename(staged, path).inspect_err(|_| {
        let _ = fs::rename(&old, path);
    })
}

/// Refuses a folder with files that do not belong to an index: neither Parquet files nor those that Spark leaves beside them.
fn check_is_index(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_of_index = name.ends_with(".parquet") || name.starts_with(['_', '.']);
        if !is_of_index || entry.file_type()?.is_dir() {
            let problem = format!("the folder is no index, it has `{}` in it", name.escape_debug());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
        }
    }
    Ok(())
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes folders with temporary names and the permissions of any new folder; the process's umask applies.
fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".").suffix(".partial");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o777));
    }
    builder
}

fn write_file(file: &File, rows: &[IndexRow]) -> Result<(), IndexError> {
    // Snappy is Spark's default, and every Parquet reader supports it.
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(file, Arc::new(schema()), Some(properties)).map_err(index_error)?;
    for rows in rows.chunks(ROWS_AT_ONCE) {
        writer.write(&batch(rows)?).map_err(index_error)?;
    }
    writer.close().map_err(index_error)?;
    Ok(())
}

/// Unwraps an IO error, so that a full disk is reported as an IO error and not as one of Parquet.
fn index_error(error: ParquetError) -> IndexError {
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
