//! What the formats of tensor files share: element types, tensors as a file holds them, access to the bytes of a file, and publishing a
//! new file under its name.
//!
//! No module here knows a format. `safetensors`, `ztensor` and `npy` implement theirs; `any_file` opens a file of any format.

#[cfg(any(feature = "gguf", feature = "onnx", feature = "ztensor"))]
mod beside;
mod casting;
mod element_type;
mod file_bytes;
#[cfg(feature = "torch")]
mod file_reader;
mod folder;
mod pending;
#[cfg(any(feature = "gguf", feature = "safetensors", feature = "torch"))]
mod quoted;
mod raw_tensor;
mod shared_bytes;
mod slice;
#[cfg(any(feature = "onnx", feature = "ztensor"))]
mod visit;
mod widening;

#[cfg(any(feature = "gguf", feature = "onnx", feature = "ztensor"))]
pub use beside::Beside;
pub use element_type::ElementType;
pub use file_bytes::{FileBytes, ReadAt};
#[cfg(feature = "torch")]
pub(crate) use file_reader::FileReader;
#[cfg(feature = "onnx")]
pub(crate) use folder::Folder;
pub use folder::{FollowLinks, UnusableFile, open_beside, path_in};
pub use pending::PendingFile;
#[cfg(any(feature = "gguf", feature = "safetensors", feature = "torch"))]
pub(crate) use quoted::quoted;
pub use raw_tensor::{FileElement, RawTensor, RawTensorError};
pub use shared_bytes::SharedBytes;
#[cfg(feature = "weights")]
pub(crate) use slice::byte_range;
pub use slice::{Slice, SliceError};
#[cfg(any(feature = "onnx", feature = "ztensor"))]
pub(crate) use visit::Visit;
#[cfg(any(feature = "onnx", feature = "ztensor"))]
pub(crate) use visit::visit_range;
