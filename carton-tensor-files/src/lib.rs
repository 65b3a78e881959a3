//! Tensor files at any place: on this machine, at a URL, in a carton; and the tensors of a carton's self-tests and examples. They are listed,
//! read, verified, validated, compared, converted, merged and quantized. The formats themselves are in `carton-tensor`.
//!
//! ```no_run
//! use std::path::Path;
//! use carton_tensor_files::{ConvertOptions, convert, open};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let source = open("hf://team/model/model.safetensors").await?;
//! for tensor in source.tensors() {
//!     println!("{} {:?} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! let written = convert(&[&source], Path::new("model.zt"), &ConvertOptions::default())?;
//! println!("{} tensors, {} bytes", written.tensors, written.size);
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `checkpoint`: which file of a folder is the checkpoint. Pure.
//! - `text`, `merge_error`, `error`: names and numbers in messages; why tensors cannot be read, written or merged.
//! - `location`: what the text of a place names: a tensor file, a carton, one tensor of either. Pure but for the look at what exists.
//! - `layout`, `tensor_info`: how tensors are stored, and what is known of them without reading their elements.
//! - `packed`: the dense tensors that several tensors stand for.
//! - `source`, `metadata`, `open`: what tensors are read from; its metadata; how it is opened.
//! - `rename`: substitutions in names. Pure.
//! - `numbers`, `rounded`: tensors of numbers that are written, piece by piece, and rounded on the way.
//! - `write_options`: how tensors are stored in a new file.
//! - `written_metadata`: which metadata it has.
//! - `planned`: tensors that are to be written, and which of them a format can hold. Pure.
//! - `blocks`: tensors in blocks of ggml that are written.
//! - `ztensor_output`, `sink`, `metered`: the file, which gets its name when it is complete.
//! - `plan`, `selection`, `already`, `roundings`: what all files made of others have in common: which tensors, in which form; which are quantized already.
//! - `groups`, `shards`, `convert`, `quantize`, `save`: the files that are written.
//! - `blended`, `merge`: tensors that are computed from those of several models; models that become one.
//! - `adapter_config`, `adapter`, `adapted`, `merge_adapters`: what a low-rank adapter changes; a model with adapters merged into it.
//! - `deep`, `verify`, `validate`: checks of what is there, and of its numbers.
//! - `diff`: what differs between the tensors of two sources.

mod adapted;
mod adapter;
mod adapter_config;
mod already;
mod blended;
mod blocks;
mod checkpoint;
mod convert;
mod deep;
mod diff;
mod error;
mod groups;
mod layout;
mod location;
mod merge;
mod merge_adapters;
mod merge_error;
mod metadata;
mod metered;
mod numbers;
mod open;
mod packed;
mod plan;
mod planned;
mod quantize;
mod rename;
mod rounded;
mod roundings;
mod save;
mod selection;
mod shards;
mod sink;
mod source;
mod tensor_info;
mod text;
mod validate;
mod verify;
mod write_options;
mod written_metadata;
mod ztensor_output;

pub use convert::{ConvertOptions, GroupHandling, MAX_SHARDS, Written, convert};
pub use deep::{Constant, Copies, DeepFindings, NotFinite};
pub use diff::{DiffOptions, diff};
pub use error::{Remedy, TensorFilesError};
pub use layout::TensorLayout;
pub use location::TensorLocation;
pub use merge::{MergeOptions, MethodKind, merge};
pub use merge_adapters::{AdapterOptions, merge_adapters, with_scales};
pub use merge_error::MergeError;
pub use metadata::{Metadata, attribute_to_json};
pub use open::{OpenTensors, open, open_path};
pub use packed::LogicalTensor;
pub use planned::is_in_numpy;
pub use quantize::{Loss, QuantizeOptions, QuantizeReport, QuantizedInfo, quantize};
pub use rename::{Rename, RenameError};
pub use rounded::{RoundedType, Rounding};
pub use save::save;
pub use selection::Selection;
pub use source::{TensorSource, Value};
pub use tensor_info::TensorInfo;
pub use text::shown_name;
pub use validate::{description, validate};
pub use verify::{Verification, VerifyOptions, verify};
pub use write_options::{OnTemporary, OutputFormat, Temporary, WriteOptions, ZtensorVersion};
pub use written_metadata::MetadataOptions;
