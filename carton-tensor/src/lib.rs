//! Tensors as Carton passes them between programs, cartons and runners.
//!
//! A [`Tensor`] is a dtype, a shape and data that is either numeric ([`NumericTensor`]: little-endian, contiguous,
//! C order, in any memory that implements [`Storage`]), strings ([`StringTensor`]), or a list of tensors
//! ([`NestedTensor`]). Cloning one never copies its data.
//!
//! This crate is the leaf of the workspace: it knows neither cartons nor runners. File formats are features, off by
//! default, so that a runner compiles without any of them.

#[cfg(target_endian = "big")]
compile_error!("tensors hold little-endian elements that are viewed in place, so a big-endian machine cannot use them");

mod allclose;
mod cast;
mod dtype;
mod element;
#[cfg(feature = "files")]
pub mod files;
mod ndarray_conversion;
#[cfg(feature = "npy")]
pub mod npy;
#[cfg(feature = "safetensors")]
pub mod safetensors;
mod shape;
mod storage;
mod tensor;
#[cfg(feature = "weights")]
pub mod weights;
#[cfg(feature = "ztensor")]
pub mod ztensor;

pub use allclose::{Comparison, Tolerance, allclose};
pub use cast::{CastError, CastProblem, cast};
pub use dtype::{DataType, UnknownDataType};
pub use element::Element;
pub use shape::{Dimension, SymbolicShape};
pub use storage::{AlignedBytes, Storage};
pub use tensor::{MAX_RANK, NestedTensor, NumericTensor, StringTensor, Tensor, TensorError, element_count};
