//! Safe Rust over the parts of libtorch that this runner uses. All unsafe code about libtorch is in this folder.
//!
//! libtorch's C++ interface is reached through the C functions of `shim/`, which `shim.rs` declares. A [`Module`] is loaded from
//! the memory that its file is mapped to; it knows the schema of its forward and what forward may write to. A [`Value`] is an
//! argument of a [`ValueType`]; its tensors may be in the host's shared memory. [`Results`] have the value that forward returned.
//! [`process`] has the settings of the whole process.

mod module;
pub mod process;
mod results;
mod shim;
mod value;
mod value_type;

pub use module::{Argument, Device, Effects, Module};
pub use results::{Output, OutputValue, Results};
pub use value::{SharedTensor, Value, is_supported};
pub use value_type::ValueType;
