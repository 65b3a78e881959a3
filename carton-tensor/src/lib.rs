//! Tensors as Carton passes them between programs, cartons and runners.
//!
//! A [`Tensor`] is a dtype, a shape and data. The data is numeric ([`NumericTensor`]: little-endian, contiguous, C order, in any memory
//! that implements [`Storage`]), strings ([`StringTensor`]), or a list of tensors ([`NestedTensor`]). Cloning a tensor never copies its
//! data.
//!
//! ```
//! use carton_tensor::{DataType, Tensor};
//! let tensor = Tensor::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], vec![2, 3])?;
//! assert_eq!((tensor.dtype(), tensor.shape()), (Some(DataType::Float32), Some(&[2, 3][..])));
//! # Ok::<(), carton_tensor::TensorError>(())
//! ```
//!
//! This crate is the leaf of the workspace: it knows neither cartons nor runners. File formats are features, off by
//! default, so that a runner compiles without any of them.
//!
//! | module | feature | what it has |
//! |---|---|---|
//! | (the root) | | tensors, element types, symbolic shapes, [`allclose`], [`cast`] and its rule for numbers; with `half` also for floats of 16 bits |
//! | [`content`] | | what a file is that is no tensor file |
//! | [`context`] | | cancelling work that takes long, and reporting its progress |
//! | `npy` | `npy` | NumPy's `.npy` and `.npz` files |
//! | `safetensors` | `safetensors` | safetensors files and sharded checkpoints (spec/safetensors.md) |
//! | `ztensor` | `ztensor` | zTensor files, versions 1.1 and 1.2 (spec/ztensor.md) |
//! | `files` | `files` | what the formats share: element types of files, byte ranges with many owners, files that appear whole or not at all |
//! | `weights` | `weights` | all tensors of a file at once: loading, statistics, quantization, validation (spec/weights.md) |

#[cfg(target_endian = "big")]
compile_error!("tensors hold little-endian elements that are viewed in place, so a big-endian machine cannot use them");

mod allclose;
mod cast;
pub mod content;
pub mod context;
mod dtype;
mod element;
mod element_kind;
#[cfg(feature = "files")]
pub mod files;
#[cfg(any(feature = "npy", feature = "ztensor"))]
mod fill;
mod ndarray_conversion;
#[cfg(feature = "npy")]
pub mod npy;
#[doc(hidden)]
pub mod parallel;
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
pub use cast::{BoolByte, CastError, CastProblem, LostNumber, Number, NumberValue, cast, convert_numbers};
pub use dtype::{DataType, UnknownDataType};
pub use element::Element;
pub use element_kind::{ElementKind, UnknownElementKind};
pub use shape::{Dimension, SymbolicShape};
pub use storage::{AlignedBytes, Storage};
pub use tensor::{MAX_RANK, NestedTensor, NumericTensor, StringTensor, Tensor, TensorError, element_count};
