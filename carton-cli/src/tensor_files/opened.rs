//! What a source of tensors is once it is open.

use std::path::PathBuf;

use carton_core::Package;
use carton_tensor::files::TensorFile;

/// What was opened.
pub(super) enum Opened {
    File(Box<TensorFile>, PathBuf),
    Carton(Package),
}
