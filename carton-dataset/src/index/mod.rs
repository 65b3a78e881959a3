//! `_tensor_index.parquet` (spec/dataset.md §6): in which shard each tensor is.
//!
//! [`write()`] writes a folder with one part file, which is what Spark reads under this name, or one file. [`read`] reads one file, and a
//! folder of part files as Spark leaves it.

mod error;
mod reader;
mod writer;

use std::sync::Arc;

use carton_tensor::files::ElementType;
use carton_tensor::safetensors::{Header, dtype_name};

pub use self::error::IndexError;
pub use self::reader::{TensorIndex, read};
pub(crate) use self::writer::put;
pub use self::writer::write;

/// What the index is called.
pub const INDEX_NAME: &str = "_tensor_index.parquet";

/// The columns, in their order.
const COLUMNS: [&str; 4] = ["tensor_key", "file_name", "shape", "dtype"];

/// What is at the path of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexLayout {
    /// A folder with a Parquet file in it. Spark reads it, and so do the libraries that take folders, such as pyarrow. Spark reads no
    /// file whose name begins with `_`.
    #[default]
    Folder,
    /// A Parquet file: for programs that open nothing else, such as the Python class of the Spark connector.
    File,
}

/// A tensor, and the shard that it is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexRow {
    /// The tensor's name.
    pub tensor_key: Arc<str>,
    /// The path of the shard below the dataset's folder.
    pub file_name: Arc<str>,
    /// The dimensions.
    pub shape: Arc<[u64]>,
    /// The element type in the words of safetensors.
    pub dtype: Arc<str>,
}

/// A row for each tensor of the shard at `file_name`.
pub fn rows_of<'h>(file_name: &str, header: &'h Header) -> impl Iterator<Item = IndexRow> + use<'h> {
    let file_name: Arc<str> = file_name.into();
    header.iter().map(move |tensor| IndexRow {
        tensor_key: tensor.name.into(),
        file_name: Arc::clone(&file_name),
        shape: tensor.shape.iter().map(|&size| size as u64).collect(),
        dtype: dtype(tensor.dtype),
    })
}

fn dtype(dtype: ElementType) -> Arc<str> {
    // What is in a safetensors file has a name there.
    dtype_name(dtype).unwrap_or_default().into()
}
