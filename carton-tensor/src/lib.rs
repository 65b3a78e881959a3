//! Tensors as Carton passes them between programs, cartons and runners.
//!
//! A [`Tensor`] is a dtype, a shape and data. The data is numeric ([`NumericTensor`]: little-endian, contiguous, C order, in any memory
//! that implements [`Storage`]), strings ([`StringTensor`]), bytes ([`BytesTensor`]), or a list of tensors ([`NestedTensor`]). Cloning a tensor never copies its
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
//! | (the root) | | tensors, element types, symbolic shapes, [`allclose`], [`cast`] and its rule for numbers |
//! | [`content`] | | what a file is that is no tensor file |
//! | [`context`] | | cancelling work that takes long, and reporting its progress |
//! | `gguf` | `gguf` | GGUF files, with quantized tensors dequantized, and floats quantized to two types (spec/gguf.md) |
//! | `onnx` | `onnx` | the tensors of ONNX models (spec/onnx-tensors.md); with `onnx-format` alone, the wire format that they are in |
//! | `npy` | `npy` | NumPy's `.npy` and `.npz` files |
//! | `safetensors` | `safetensors` | safetensors files, and the index of sharded checkpoints (spec/safetensors.md) |
//! | `torch` | `torch` | PyTorch checkpoints, read without executing their pickles (spec/torch.md) |
//! | `ztensor` | `ztensor` | zTensor files, versions 1.1 and 1.2 (spec/ztensor.md) |
//! | `ztensor2` | `ztensor` | zTensor files, version 2 (spec/ztensor2.md) |
//! | `files` | `files` | what the formats share: element types of files, byte ranges with many owners, files that appear whole or not at all |
//! | `checkpoint` | `weights` | checkpoints of several files with an index (spec/safetensors.md §7) |
//! | `any_file` | `weights` | a tensor file of any format: its format detected, and the file opened |
//! | `difference` | `weights` | what differs between tensors, in memory and in files |
//! | `weights` | `weights` | all tensors of a file at once: loading, statistics, quantization, validation (spec/weights.md) |
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `dtype`, `small_float`, `number_types`, `element`, `shape`, `position`: what elements and shapes there are; positions of elements.
//! - `storage`: the trait behind a numeric tensor's bytes: a vector, a block of shared memory, a mapped file. Cloning a tensor clones
//!   an `Arc`.
//! - `tensor`, `allclose`: tensors, and their comparison by NumPy's rule.
//! - `cast`: the one rule by which a number that comes in becomes one of another type, for tensors, tensors of files, columns of tables
//!   and inputs of engines. Pure.
//! - `carry`: tensors in the dtypes of carton format v1, and back, without a loss.
//! - `bare_numbers`: JSON with the numbers that JSON lacks, made JSON. Pure.
//! - `ndarray_conversion`, `fill`: views as arrays of the crate `ndarray`; memory filled in place.
//! - `content`: recognizes by its bytes what a file is that is no tensor file, so that errors can name it. Pure.
//! - `context`: the token that cancels work, and the callback for its progress. It knows no work: the stages that progress names are a
//!   parameter. The token also decides whether a cancellation comes before the results are published, or too late.
//! - `parallel`: work on all cores.
//! - `files`: what the formats share. `ElementType` covers every element type of both formats, `SharedBytes` is a range of memory with
//!   many owners, `FileBytes` the source of a file's bytes, and `RawTensor` combines all three. A `PendingFile` gives every written file
//!   its final name.
//! - `npy`: `.npy` and `.npz`.
//! - `safetensors`: `header` is the format, bytes in and tensors out, with a parser for headers as writers usually write them and one
//!   for any JSON; `layout` is the same for a file to be written, `index` names the files of a sharded checkpoint.
//! - `ztensor`: `footer`, `parse` and `manifest` are the format. `reader` performs the requested checks before it returns anything;
//!   `writer` only ever appends. `sparse` and `quantized_group` convert objects of several components into arrays, and check every index
//!   first.
//! - `ztensor2`: the container of version 2. `footer`, `cbor`, `parse`, `manifest` and `layout` are the format; `seekable` decodes compressed parts,
//!   and `shards` opens the other files of a model; `writer` writes canonical form. It has the attributes and sparse tensors of `ztensor`.
//! - `torch`: `archive` and `stream` are the containers of PyTorch checkpoints, `interpreter` follows the opcodes of their pickles, with
//!   `globals` as the list of what they may name, and `rebuild` describes the tensors.
//! - `gguf`: `header` is the format, `blocks` turns quantized elements into numbers. `layout` is the header of a file that is written, and `quantize` makes
//!   blocks of numbers.
//! - `onnx`: `wire` is the format of protocol buffers, `model` names the tensors of a model, `elements` finds their numbers in whichever field
//!   has them.
//! - `checkpoint`: several files with an index as one, whichever kind they are, and which links to them are followed.
//! - `any_file`: detects the format of a tensor file, and opens it.
//! - `difference`: what differs between two tensors, and between two lists of them.
//! - `weights`: operations on all tensors of a file at once, on all cores. `kernels` are the inner loops, chosen by the CPU's features;
//!   `examine` looks for what is odd in numbers; `blend` and `low_rank` compute what merged models and adapters make of them, with `fused` products;
//!   `schemes` says which tensors are quantized already, and which scales belong to them, `packed` which dense ones they stand for; `description` says
//!   what a model should be, and
//!   `validate` checks it.

#[cfg(target_endian = "big")]
compile_error!("tensors hold little-endian elements that are viewed in place, so a big-endian machine cannot use them");

mod allclose;
#[cfg(feature = "weights")]
pub mod any_file;
mod bare_numbers;
mod carry;
mod cast;
#[cfg(feature = "weights")]
pub mod checkpoint;
pub mod content;
pub mod context;
#[cfg(feature = "weights")]
pub mod difference;
mod dtype;
mod element;
#[cfg(feature = "files")]
pub mod files;
#[cfg(any(feature = "npy", feature = "ztensor"))]
mod fill;
#[cfg(feature = "gguf")]
pub mod gguf;
mod ndarray_conversion;
#[cfg(feature = "npy")]
pub mod npy;
mod number_types;
#[cfg(feature = "onnx-format")]
pub mod onnx;
#[doc(hidden)]
pub mod parallel;
mod position;
#[cfg(feature = "safetensors")]
pub mod safetensors;
mod shape;
mod small_float;
mod storage;
mod tensor;
#[cfg(feature = "torch")]
pub mod torch;
#[cfg(feature = "weights")]
pub mod weights;
#[cfg(feature = "ztensor")]
pub mod ztensor;
#[cfg(feature = "ztensor")]
pub mod ztensor2;

pub use allclose::{Comparison, Tolerance, allclose};
pub use bare_numbers::{BARE_NUMBER, mark_bare_numbers};
pub use carry::{carried, restored};
pub use cast::{CastError, CastProblem, LostNumber, Number, NumberValue, cast, convert_numbers};
pub use dtype::{DataType, UnknownDataType};
pub use element::Element;
/// Floats of 16 bits, and complex numbers, from the crates that most programs take them from.
pub use half::{bf16, f16};
pub use num_complex::Complex;
pub use number_types::{BoolByte, Float8E4m3Fn, Float8E4m3Fnuz, Float8E5m2, Float8E5m2Fnuz};
pub use shape::{Dimension, SymbolicShape};
pub use storage::{AlignedBytes, Storage};
pub use tensor::{
    BytesTensor, MAX_RANK, NestedTensor, NumericTensor, StringTensor, Tensor, TensorError, Tensors, VariableElement,
    VariableTensor, element_count,
};
