//! The tensors in a carton (spec/carton-format.md, `tensor_data`): the data of self-tests and examples. Each tensor is read on
//! its own, on demand.
//!
//! ```text
//! tensor_data/index.toml     names, dtypes, shapes; which file holds what
//! tensor_data/tensor_0.bin   numbers: little-endian, C order, nothing else
//! tensor_data/tensor_1.toml  strings: data = ["a", "b"]
//! ```
//!
//! If the caller of packing asks for it, one file holds all numeric tensors (spec/carton-format-extensions.md, "Tensor files"):
//! `tensor_data/tensors.safetensors` or `tensor_data/tensors.zt`.
//!
//! This module knows files by path only. [`TensorFiles`] provides their bytes, and guarantees that they match MANIFEST.

mod directory;
mod error;
mod files;
mod format;
mod index;
mod read;
mod sizes;
mod tensor_file;
mod toml_file;
mod write;

#[cfg(test)]
mod tests;

pub use directory::Directories;
pub use error::TensorDataError;
pub use files::TensorFiles;
pub use format::{FileFormat, TensorFormat, is_tensor_file};
pub use index::{Entry, MAX_INDEX_LENGTH, TensorIndex};
pub use read::MAX_STRINGS_LENGTH;
pub use write::entries;

/// The folder of a carton that holds the tensors, with the slash that follows it in paths.
pub const FOLDER: &str = "tensor_data/";

/// The name of the index in that folder.
pub const INDEX: &str = "index.toml";
