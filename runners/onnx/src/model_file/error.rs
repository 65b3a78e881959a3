//! Why a file is refused.

use carton_tensor::onnx::wire::WireError;

/// The reason why a file is not a model that this runner can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ModelFileError {
    #[error("not a well-formed ONNX file: {0}")]
    Malformed(#[from] WireError),
    #[error("not an ONNX model: the file has no {0}")]
    Missing(&'static str),
    #[error("not a valid ONNX model: {0}")]
    Invalid(String),
}
