//! PyTorch checkpoints, as `torch.save` writes them: `.pt`, `.pth`, `.bin` (spec/torch.md). Nothing of the pickle in them is executed: its
//! opcodes are followed by an interpreter that knows tensors, storages and plain data, and refuses everything else.
//!
//! - `error`: why a checkpoint is refused.
//! - `strides`: which elements of a storage a tensor has, and the elements in C order.
//! - `opcodes`: the opcodes of pickles, bytes in. Pure.
//! - `globals`: the classes and functions that a checkpoint may name.
//! - `values`: what the interpreter makes of them.
//! - `rebuild`: what calls of such functions make, and which tensors there are.
//! - `interpreter`: follows the opcodes of one pickle.
//! - `names`: the tensors of nested dictionaries and lists, and their names.
//! - `contents`: what a container has, whichever it is.
//! - `archive`, `stream`: the two containers, since PyTorch 1.6 and before.
//! - `reader`: reads the tensors.

mod archive;
mod contents;
mod error;
mod globals;
mod interpreter;
mod names;
mod opcodes;
#[cfg(feature = "weights")]
mod pieces;
mod reader;
mod rebuild;
mod stream;
mod strides;
mod values;

pub use contents::TensorInfo;
pub use error::TorchError;
pub use names::{LeftOut, Omitted};
pub use reader::Reader;
