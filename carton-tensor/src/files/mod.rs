//! What the formats of tensor files share: element types, tensors as they are in a file, where its bytes come from, and how a new file gets
//! its name.
//!
//! Knows no format: `safetensors` and `ztensor` are modules of their own, and `any` opens whichever a file is.

#[cfg(feature = "weights")]
mod any;
mod element_type;
mod file_bytes;
mod pending;
mod raw_tensor;
mod shared_bytes;
mod widening;

#[cfg(feature = "weights")]
pub use any::{Entry, TensorFile, TensorFileError, TensorFileFormat};
pub use element_type::ElementType;
pub use file_bytes::FileBytes;
pub use pending::PendingFile;
pub use raw_tensor::{FileElement, RawTensor, RawTensorError};
pub use shared_bytes::SharedBytes;
