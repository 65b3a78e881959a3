//! Tensor files at any place: on this machine, at a URL, in a carton; and the tensors of a carton's self-tests and examples. They are listed,
//! read, verified, validated, compared, converted and quantized. The formats themselves are in `carton-tensor`.
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
//! - `text`, `error`: names and numbers in messages; why tensors cannot be read or written.
//! - `location`: what the text of a place names: a tensor file, a carton, one tensor of either. Pure but for the look at what exists.
//! - `layout`, `tensor_info`: how tensors are stored, and what is known of them without reading their elements.
//! - `packed`: the dense tensors that several tensors stand for.
//! - `source`, `metadata`, `open`: what tensors are read from; its metadata; how it is opened.
//! - `rename`: substitutions in names. Pure.
//! - `numbers`, `rounded`: tensors of numbers that are written, piece by piece, and rounded on the way.
//! - `write_options`, `ztensor_output`, `sink`, `metered`: how tensors are stored in a new file, which gets its name when it is complete.
//! - `plan`, `selection`, `written_metadata`, `already`: what all files made of others have in common: which tensors, in which form, with which
//!   metadata; which are quantized already.
//! - `groups`, `shards`, `convert`, `quantize`, `save`: the files that are written.
//! - `verify`, `validate`: checks of what is there.
//! - `diff`: what differs between the tensors of two sources.

mod already;
mod checkpoint;
mod convert;
mod diff;
mod error;
mod groups;
mod layout;
mod location;
mod metadata;
mod metered;
mod numbers;
mod open;
mod packed;
mod plan;
mod quantize;
mod rename;
mod rounded;
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

pub use convert::{ConvertOptions, GroupHandling, Written, convert};
pub use diff::{DiffOptions, diff};
pub use error::{Remedy, TensorFilesError};
pub use layout::TensorLayout;
pub use location::TensorLocation;
pub use metadata::{Metadata, attribute_to_json};
pub use open::{OpenTensors, open, open_path};
pub use packed::LogicalTensor;
pub use quantize::{Loss, QuantizeOptions, QuantizeReport, QuantizedInfo, quantize};
pub use rename::{Rename, RenameError};
pub use rounded::Rounding;
pub use save::save;
pub use selection::Selection;
pub use sink::is_in_numpy;
pub use source::{TensorSource, Value};
pub use tensor_info::TensorInfo;
pub use text::shown_name;
pub use validate::{description, validate};
pub use verify::{Verification, verify};
pub use write_options::{OnTemporary, OutputFormat, Temporary, WriteOptions, ZtensorVersion};
pub use written_metadata::MetadataOptions;
