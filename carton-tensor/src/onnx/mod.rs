//! Reads the tensors of ONNX models: their initializers, and the values of their constants (spec/onnx-tensors.md).
//!
//! With the feature `onnx-format` alone, this module has what any reader of ONNX models needs: the wire format, and the rule for files beside
//! a model.
//!
//! - `external_path`: where data may be that is in another file. Pure.
//! - `wire`: messages of protocol buffers, and their fields.
//! - `error`: why a model is refused.
//! - `metadata`: what a model says of itself, as texts. Pure.
//! - `source`: a file as the source of a message, of which a window is in memory.
//! - `onnx_type`: the element types, and how each is stored. Pure.
//! - `tensor`: what one message says of a tensor.
//! - `model`: the tensors of a model, and their names.
//! - `elements`: the elements of a tensor, from whichever field has them.
//! - `external`: opens the files beside a model that have data of it.
//! - `reader`: reads the tensors by name.

#[cfg(feature = "onnx")]
mod elements;
#[cfg(feature = "onnx")]
mod error;
#[cfg(feature = "onnx")]
mod external;
mod external_path;
#[cfg(feature = "onnx")]
mod metadata;
#[cfg(feature = "onnx")]
mod model;
#[cfg(feature = "onnx")]
mod onnx_type;
#[cfg(feature = "onnx")]
mod reader;
#[cfg(feature = "onnx")]
mod source;
#[cfg(feature = "onnx")]
mod tensor;
#[doc(hidden)]
pub mod wire;

#[cfg(feature = "onnx")]
pub use error::OnnxError;
pub use external_path::external_path;
#[cfg(feature = "onnx")]
pub use onnx_type::OnnxType;
#[cfg(feature = "onnx")]
pub use reader::Reader;
#[cfg(feature = "onnx")]
pub use tensor::TensorInfo;
