//! What the formats of tensor files share: element types, tensors as a file holds them, access to the bytes of a file, and publishing a
//! new file under its name.
//!
//! No module but `any`, which opens a file of any format, knows a format. `safetensors` and `ztensor` implement theirs.

#[cfg(feature = "weights")]
mod any;
mod casting;
mod element_type;
mod file_bytes;
mod pending;
mod raw_tensor;
mod shared_bytes;
#[cfg(feature = "ztensor")]
mod visit;
mod widening;

#[cfg(feature = "weights")]
pub use any::{ElementOrder, Entry, TensorFile, TensorFileError, TensorFileFormat};
pub use element_type::ElementType;
pub use file_bytes::FileBytes;
pub use pending::PendingFile;
pub use raw_tensor::{FileElement, RawTensor, RawTensorError};
pub use shared_bytes::SharedBytes;
#[cfg(feature = "ztensor")]
pub(crate) use visit::Visit;
