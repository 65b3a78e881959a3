//! Reads GGUF files, the format of ggml and llama.cpp (spec/gguf.md).
//!
//! ```text
//! 0       4         8                                              data_start                      end
//! ├ GGUF ─┼ version ┼ counts ┼ keys and values ┼ tensors ┼ padding ┼─ data: tensors, each aligned ──┤
//! ```
//!
//! [`Header`] is the format itself: it describes the tensors of a file and where their data is. [`GgmlType`] is how elements are stored,
//! and turns blocks of quantized ones into `f32`. [`Reader`] reads tensors by name, and [`Split`] those of several files that are one model.

mod blocks;
mod cursor;
mod error;
mod ggml_type;
mod header;
mod reader;
mod split;
mod value;

pub use error::{GgufError, HeaderError};
pub use ggml_type::GgmlType;
pub use header::{Header, TensorInfo};
pub use reader::Reader;
pub use split::Split;
pub use value::{Array, Value, ValueType};
