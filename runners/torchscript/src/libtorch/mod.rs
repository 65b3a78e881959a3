//! libtorch, as far as this runner uses it, behind safe Rust. Everything unsafe about libtorch is in this folder.
//!
//! What libtorch has in C++ alone is reached through the C functions of `shim/`, which `shim.rs` declares: a [`Module`] is loaded from
//! the memory that its file is mapped to and tells the schema of its forward and what forward may write to; a [`Value`] is an argument,
//! which may lie in the host's shared memory; [`Results`] are what forward returned; [`process`] has what the process has once.

mod module;
pub mod process;
mod results;
mod shim;
mod value;

pub use module::{Argument, Device, Effects, Kind, Module};
pub use results::{Output, OutputValue, Results, Structure};
pub use value::{SharedTensor, Value, is_supported};
