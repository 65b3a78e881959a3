//! The index `_tensor_index.parquet` (spec/dataset.md §6), which lists the shard of each tensor.
//!
//! [`write()`] writes a folder with one part file, which is what Spark reads under this name, or a single file. [`read`] reads a single
//! file, and a folder of part files as Spark writes it. Comparing an index with the shards is left to [`verify`](crate::verify).

mod reader;
mod writer;

use std::sync::Arc;

use carton_tensor::files::ElementType;
use carton_tensor::safetensors::{Header, dtype_name};

pub use self::reader::{TensorIndex, read};
pub(crate) use self::writer::put;
pub use self::writer::write;
pub use crate::error::IndexError;
pub use crate::options::IndexLayout;

/// The name of the index: a file or a folder in the dataset's folder.
pub const INDEX_NAME: &str = "_tensor_index.parquet";

/// The columns of the index, in their order.
const COLUMNS: [&str; 4] = ["tensor_key", "file_name", "shape", "dtype"];

/// A row of the index: a tensor, and the shard that it is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexRow {
    /// The tensor's name.
    pub tensor_key: Arc<str>,
    /// The path of the shard, relative to the dataset's folder.
    pub file_name: Arc<str>,
    /// The dimensions.
    pub shape: Arc<[u64]>,
    /// The element type, spelled as in safetensors files.
    pub dtype: Arc<str>,
}

/// Returns a row for each tensor of the shard at `file_name`.
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
    // Every element type in a safetensors file has a name.
    dtype_name(dtype).unwrap_or_default().into()
}
