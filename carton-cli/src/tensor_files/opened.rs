//! An open source of tensors.

use std::path::PathBuf;

use carton_core::Package;
use carton_tensor::any_file::TensorFile;

/// A file, with its path, or a carton.
pub(super) enum Opened {
    File(Box<TensorFile>, PathBuf),
    Carton(Package),
}
