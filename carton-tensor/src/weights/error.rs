//! Why weights cannot be loaded, looked at or merged.

use crate::files::{ElementType, TensorFileError};

/// Why weights cannot be loaded, looked at or merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file cannot be opened or read.
    #[error(transparent)]
    File(#[from] TensorFileError),
    /// A file has no tensors.
    #[error("no tensors found in `{place}`")]
    NoTensors {
        /// The file.
        place: String,
    },
    /// No tensor of a file passes the filter.
    #[error("none of the {n_tensors} tensors in `{place}` passes the filter")]
    NoneSelected {
        /// The file.
        place: String,
        /// How many it has.
        n_tensors: usize,
    },
    /// A pattern for names is none.
    #[error("`{pattern}` is no pattern for names")]
    Pattern {
        /// The pattern, escaped.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: glob::PatternError,
    },
    /// A file changed between being looked at and being read.
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
        /// A file that has it.
        first: String,
        /// Another one.
        second: String,
    },
    /// Two files that are to be merged say different things of themselves.
    #[error("metadata `{key}` is `{first}` in one file and `{second}` in `{place}`")]
    Metadata {
        /// The key, escaped.
        key: String,
        /// The value in the files before.
        first: String,
        /// The value in this file.
        second: String,
        /// This file.
        place: String,
    },
    /// What should be written cannot be.
    #[error("cannot write `{place}`")]
    Write {
        /// The file.
        place: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Complex numbers have no smallest and largest, and no int8 form.
    #[error("{dtype} numbers have no order, so they have no statistics and cannot be quantized")]
    Complex {
        /// The element type.
        dtype: ElementType,
    },
    /// A tensor cannot be quantized in groups of rows.
    #[error("it cannot be quantized in groups of rows: {problem}")]
    Groups {
        /// What was expected and found.
        problem: String,
    },
    /// There is not enough memory.
    #[error("there is no memory for {n_bytes} bytes")]
    Memory {
        /// What was asked for.
        n_bytes: u64,
    },
}
