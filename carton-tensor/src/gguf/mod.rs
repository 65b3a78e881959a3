//! Reads and writes GGUF files, the format of ggml and llama.cpp (spec/gguf.md).
//!
//! ```text
//! 0       4         8                                              data_start                      end
//! ├ GGUF ─┼ version ┼ counts ┼ keys and values ┼ tensors ┼ padding ┼─ data: tensors, each aligned ──┤
//! ```
//!
//! [`Header`] is the format itself: it describes the tensors of a file and where their data is. [`GgmlType`] is how elements are stored,
//! and turns blocks of quantized ones into `f32`. [`Reader`] reads tensors by name, and [`Split`] those of several files that are one model.
//! [`Writer`] writes a file that a [`Layout`] describes; [`QuantizedType`] makes blocks of numbers.

mod blocks;
mod cursor;
mod encoded;
mod error;
mod ggml_type;
mod header;
mod layout;
mod quantize;
mod reader;
mod split;
mod value;
mod writer;

pub use encoded::EncodedValue;
pub use error::{GgufError, HeaderError};
pub use ggml_type::GgmlType;
pub use header::{Header, TensorInfo};
pub use layout::{Layout, TensorProblem, WriteError, check_tensor};
pub use quantize::{NotRepresented, QuantizedType};
pub use reader::Reader;
pub use split::Split;
pub use value::{Array, Value, ValueType};
pub use writer::Writer;
