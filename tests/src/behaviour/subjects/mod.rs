//! The runners that the suite is called for.

pub mod noop;
pub mod onnx;
mod onnx_file;
