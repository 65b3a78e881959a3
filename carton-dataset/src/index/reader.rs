//! Reads the index of any writer (spec/dataset.md §6): a single file, or a folder of part files. The bytes are untrusted.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use carton_tensor::MAX_RANK;
use carton_tensor::safetensors::Header;

use super::{COLUMNS, IndexError, IndexRow};
use crate::error::DatasetError;
use crate::input::{self, Input};
use crate::shard_path;

/// The number of rows that are accepted from a file of any size.
const ROWS_OF_ANY_FILE: u64 = 1 << 20;
/// The further rows that are accepted for each byte of the files. Repeated names take a few bits, so a hostile file can have many rows in
/// few bytes.
const ROWS_PER_BYTE: u64 = 2;
/// The bytes of strings that are accepted for each accepted row. A long name can be repeated as cheaply as a short one, but each
/// repetition takes time.
const STRING_BYTES_PER_ROW: u64 = 512;

/// The shards that each tensor is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorIndex {
    /// Sorted by key, then by file.
    rows: Vec<IndexRow>,
}

impl TensorIndex {
    /// Makes an index of rows that are known to be unique.
    pub(crate) fn from_rows(mut rows: Vec<IndexRow>) -> Self {
        rows.sort_unstable();
        Self { rows }
    }

    /// All rows, sorted by key and then by file.
    #[must_use]
    pub fn rows(&self) -> &[IndexRow] {
        &self.rows
    }

    /// Returns all rows by value.
    pub(crate) fn into_rows(self) -> Vec<IndexRow> {
        self.rows
    }

    /// Returns the rows with this key: one in key-value mode, unless names may repeat; one for each shard in batch mode.
    #[must_use]
    pub fn find(&self, tensor_key: &str) -> &[IndexRow] {
        let start = self.rows.partition_point(|row| *row.tensor_key < *tensor_key);
        let n_rows = self.rows.iter().skip(start).take_while(|row| *row.tensor_key == *tensor_key).count();
        self.rows.get(start..start + n_rows).unwrap_or_default()
    }
}

/// Reads the index at `path`: a file, or a folder of part files as Spark writes it. In a folder, files whose names begin with `_` or `.`
/// (such as `_SUCCESS`) are ignored.
///
/// # Errors
/// [`DatasetError::Input`], [`DatasetError::Index`], [`DatasetError::Io`].
pub fn read(path: &Path) -> Result<TensorIndex, DatasetError> {
    let wrong = |place: &Path, source| DatasetError::index("read", place, source);
    let files = files(path).map_err(|source| wrong(path, source))?;
    let n_bytes = files.iter().fold(0_u64, |sum, (_, n_bytes)| sum.saturating_add(*n_bytes));
    let most = n_bytes.saturating_mul(ROWS_PER_BYTE).saturating_add(ROWS_OF_ANY_FILE);
    let mut rows = Rows { string_bytes_left: most.saturating_mul(STRING_BYTES_PER_ROW), ..Rows::default() };
    for (file, _) in &files {
        let input = Input::open_parquet(file)?;
        // The footer says the number of rows, so that none is decoded in vain.
        if (rows.rows.len() as u64).saturating_add(input.n_rows().unwrap_or_default()) > most {
            return Err(wrong(path, IndexError::TooManyRows { most, n_bytes }));
        }
        for column in COLUMNS {
            if input.schema().field_with_name(column).is_err() {
                return Err(wrong(file, IndexError::NoColumn { column }));
            }
        }
        let mut first_row = 0;
        for batch in input.project(&COLUMNS)? {
            let batch = batch?;
            let appended = input::guarded(|| Ok(rows.append(&batch, first_row)));
            let appended =
                appended.map_err(|source| DatasetError::Input { place: file.display().to_string(), source })?;
            appended.map_err(|source| wrong(file, source))?;
            first_row += batch.num_rows() as u64;
        }
    }
    let mut rows = rows.rows;
    rows.sort_unstable();
    check_unique(&rows).map_err(|source| wrong(path, source))?;
    Ok(TensorIndex { rows })
}

/// Checks that no tensor of a file occurs twice among sorted rows.
pub(super) fn check_unique(rows: &[IndexRow]) -> Result<(), IndexError> {
    let twice =
        rows.iter().zip(rows.iter().skip(1)).find(|(a, b)| a.tensor_key == b.tensor_key && a.file_name == b.file_name);
    match twice {
        None => Ok(()),
        Some((row, _)) => {
            let (tensor, file) = (row.tensor_key.to_string(), row.file_name.to_string());
            Err(IndexError::Duplicate { tensor, file })
        }
    }
}

/// Returns the files of an index with their sizes in bytes, in the order of their names.
fn files(path: &Path) -> Result<Vec<(PathBuf, u64)>, IndexError> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_dir() {
        if !metadata.is_file() {
            return Err(IndexError::NoFiles);
        }
        return Ok(vec![(path.to_owned(), metadata.len())]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // Skips files that programs keep for themselves: `_SUCCESS`, `._SUCCESS.crc`, `.part-0.parquet.crc`.
        if entry.file_name().as_encoded_bytes().first().is_none_or(|first| matches!(first, b'_' | b'.')) {
            continue;
        }
        let metadata = fs::metadata(entry.path())?;
        if metadata.is_file() {
            files.push((entry.path(), metadata.len()));
        }
    }
    files.sort_unstable();
    if files.is_empty() { Err(IndexError::NoFiles) } else { Ok(files) }
}

/// The rows read so far. Each distinct string and shape is kept in memory once, as Parquet stores repeated values once, too.
#[derive(Default)]
struct Rows {
    rows: Vec<IndexRow>,
    /// The bytes of strings that are still accepted, each repetition counted.
    string_bytes_left: u64,
    strings: HashSet<Arc<str>>,
    /// The distinct shapes.
    shapes: HashSet<Arc<[u64]>>,
}

impl Rows {
    fn append(&mut self, batch: &RecordBatch, first_row: u64) -> Result<(), IndexError> {
        let [key, file, shape, dtype] = COLUMNS;
        let (keys, files, dtypes) = (strings(batch, key)?, strings(batch, file)?, strings(batch, dtype)?);
        let shapes = shapes(batch, shape)?;
        for position in 0..batch.num_rows() {
            let row = first_row + position as u64;
            let null = |column| IndexError::Null { row, column };
            let tensor_key = self.intern(keys(position).ok_or_else(|| null(key))?, row)?;
            let file_name = self.intern(files(position).ok_or_else(|| null(file))?, row)?;
            let dtype = self.intern(dtypes(position).ok_or_else(|| null(dtype))?, row)?;
            if !shard_path::is_below(&file_name) {
                let (tensor, file) = (tensor_key.to_string(), file_name.to_string());
                return Err(IndexError::Path { tensor, file });
            }
            let sizes = shapes(position).ok_or_else(|| null(shape))?;
            if sizes.len() > MAX_RANK {
                let (tensor, found) = (tensor_key.to_string(), sizes.len());
                return Err(IndexError::TooManyDimensions { tensor, found });
            }
            let size = |size: i64| {
                let wrong = |_| IndexError::Dimension { tensor: tensor_key.to_string(), size: size.into() };
                u64::try_from(size).map_err(wrong)
            };
            let shape = integers(&sizes).map(|found| size(found.ok_or_else(|| null(shape))?));
            let shape = shape.collect::<Result<Arc<[u64]>, _>>()?;
            let shape = match self.shapes.get(&shape) {
                Some(known) => Arc::clone(known),
                None => {
                    self.shapes.insert(Arc::clone(&shape));
                    shape
                }
            };
            self.rows.push(IndexRow { tensor_key: Arc::clone(&tensor_key), file_name, shape, dtype });
        }
        Ok(())
    }

    fn intern(&mut self, string: &str, row: u64) -> Result<Arc<str>, IndexError> {
        let found = string.len() as u64;
        // No header has room for a longer name.
        if found > Header::MAX_LENGTH {
            return Err(IndexError::LongString { row, found });
        }
        self.string_bytes_left = self.string_bytes_left.checked_sub(found).ok_or(IndexError::LongStrings { row })?;
        if let Some(known) = self.strings.get(string) {
            return Ok(Arc::clone(known));
        }
        let string: Arc<str> = string.into();
        self.strings.insert(Arc::clone(&string));
        Ok(string)
    }
}

fn column<'b>(batch: &'b RecordBatch, column: &'static str) -> Result<&'b ArrayRef, IndexError> {
    batch.column_by_name(column).ok_or(IndexError::NoColumn { column })
}

/// Returns the value at a position; `None` if it is null.
type At<'b, T> = Box<dyn Fn(usize) -> Option<T> + 'b>;

/// Returns the strings of a column.
fn strings<'b>(batch: &'b RecordBatch, name: &'static str) -> Result<At<'b, &'b str>, IndexError> {
    let array = column(batch, name)?;
    let at = move |position| array.is_valid(position).then_some(position);
    let wrong = || IndexError::ColumnType { column: name, expected: "string", found: array.data_type().clone() };
    Ok(match array.data_type() {
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            Box::new(move |position| at(position).map(|position| array.value(position)))
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            Box::new(move |position| at(position).map(|position| array.value(position)))
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            Box::new(move |position| at(position).map(|position| array.value(position)))
        }
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary_opt().ok_or_else(wrong)?;
            let values = dictionary.values().as_string_opt::<i32>().ok_or_else(wrong)?;
            // Without values there are no keys, and `normalized_keys` requires some.
            if values.is_empty() {
                return Ok(Box::new(|_| None));
            }
            let keys = dictionary.normalized_keys();
            Box::new(move |position| {
                let key = *keys.get(at(position)?)?;
                (key < values.len() && values.is_valid(key)).then(|| values.value(key))
            })
        }
        _ => return Err(wrong()),
    })
}

/// Returns the lists of numbers of a column. They are not copied, because a list may have any length.
fn shapes<'b>(batch: &'b RecordBatch, name: &'static str) -> Result<At<'b, ArrayRef>, IndexError> {
    let array = column(batch, name)?;
    let found = || array.data_type().clone();
    let wrong = || IndexError::ColumnType { column: name, expected: "list of int32 or int64", found: found() };
    let is_integer = |element: &DataType| matches!(element, DataType::Int32 | DataType::Int64);
    let list: Box<dyn Fn(usize) -> ArrayRef + 'b> = match array.data_type() {
        DataType::List(element) if is_integer(element.data_type()) => {
            let lists = array.as_list::<i32>();
            Box::new(move |position| lists.value(position))
        }
        DataType::LargeList(element) if is_integer(element.data_type()) => {
            let lists = array.as_list::<i64>();
            Box::new(move |position| lists.value(position))
        }
        _ => return Err(wrong()),
    };
    Ok(Box::new(move |position| array.is_valid(position).then(|| list(position))))
}

/// Returns the numbers of a list of int32 or int64.
fn integers(list: &ArrayRef) -> impl Iterator<Item = Option<i64>> {
    let short = list.as_primitive_opt::<Int32Type>().into_iter().flatten();
    let long = list.as_primitive_opt::<Int64Type>().into_iter().flatten();
    short.map(|size| size.map(i64::from)).chain(long)
}
