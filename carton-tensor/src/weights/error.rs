//! The errors of loading, inspecting and merging weights.

use crate::any_file::TensorFileError;
use crate::context::Cancelled;
use crate::files::ElementType;

/// The reason that weights cannot be loaded, inspected or merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file cannot be opened or read.
    #[error(transparent)]
    File(#[from] TensorFileError),
    /// The file has no tensors.
    #[error("no tensors found in `{place}`")]
    NoTensors {
        /// The file.
        place: String,
    },
    /// The filter accepts no tensor of the file.
    #[error("none of the {n_tensors} tensors in `{place}` passes the filter")]
    NoneSelected {
        /// The file.
        place: String,
        /// The number of tensors in the file.
        n_tensors: usize,
    },
    /// The pattern for names is invalid.
    #[error("`{pattern}` is not a valid pattern for names")]
    Pattern {
        /// The pattern, escaped.
        pattern: String,
        /// The cause.
        #[source]
        source: glob::PatternError,
    },
    /// The file changed after it was inspected and before it was read.
    #[error("`{place}` was changed while tensor `{name}` was read")]
    Changed {
        /// The file.
        place: String,
        /// The tensor, escaped.
        name: String,
    },
    /// Two files that are to be merged have a tensor of the same name.
    #[error("tensor `{name}` is both in `{first}` and in `{second}`")]
    Duplicate {
        /// The name, escaped.
        name: String,
        /// One file that has the tensor.
        first: String,
        /// Another file that has the tensor.
        second: String,
    },
    /// Two files that are to be merged have different values for a key of their metadata.
    #[error("metadata `{key}` is `{first}` in one file and `{second}` in `{place}`")]
    Metadata {
        /// The key, escaped.
        key: String,
        /// The value in the earlier files.
        first: String,
        /// The value in this file.
        second: String,
        /// The file with the other value.
        place: String,
    },
    /// The output cannot be written.
    #[error("cannot write `{place}`")]
    Write {
        /// The file.
        place: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Complex numbers have neither an order nor an int8 form.
    #[error("{dtype} numbers have no order, so they have no statistics and cannot be quantized")]
    Complex {
        /// The element type.
        dtype: ElementType,
    },
    /// The tensor cannot be quantized in groups of rows.
    #[error("it cannot be quantized in groups of rows: {problem}")]
    Groups {
        /// What was expected and found.
        problem: String,
    },
    /// The caller cancelled the work.
    #[error("interrupted")]
    Interrupted,
    /// There is not enough memory.
    #[error("there is no memory for {n_bytes} bytes")]
    Memory {
        /// The bytes that were needed.
        n_bytes: u64,
    },
}

impl From<Cancelled> for WeightsError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}
