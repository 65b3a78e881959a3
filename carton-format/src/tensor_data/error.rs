//! Errors of the tensors of a carton.

use carton_tensor::{CastError, DataType, TensorError};

/// Why a tensor of a carton cannot be read, or cannot be put into one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorDataError {
    /// A TOML file is not UTF-8.
    #[error("`tensor_data/{file}` is not UTF-8: invalid byte at offset {offset}")]
    NotUtf8 {
        /// The file, relative to `tensor_data`.
        file: String,
        /// Where the first invalid byte is.
        offset: usize,
    },
    /// A TOML file cannot be parsed, or does not have the expected fields.
    #[error("`tensor_data/{file}` is malformed")]
    Malformed {
        /// The file, relative to `tensor_data`.
        file: String,
        /// The line and what is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There are files in `tensor_data`, but no `index.toml` that describes them.
    #[error("`tensor_data/index.toml` is missing, though there are other files such as `{file}`")]
    NoIndex {
        /// One of the other files.
        file: String,
    },
    /// The index contradicts itself or the format.
    #[error("`tensor_data/index.toml`: `{field}`: expected {expected}, found {found}")]
    Invalid {
        /// The field, as in `tensor[3].file`.
        field: String,
        /// What the format requires.
        expected: String,
        /// A description of what was found.
        found: String,
    },
    /// There is no tensor of that name.
    #[error("tensor `{name}` is not in `tensor_data/index.toml`")]
    NoSuchTensor {
        /// The requested name.
        name: String,
    },
    /// The file of a tensor is not in the carton.
    #[error("the file of tensor `{name}`, `tensor_data/{file}`, is not in the carton")]
    NoSuchFile {
        /// The tensor.
        name: String,
        /// The file, relative to `tensor_data`.
        file: String,
    },
    /// A file has an element that is no value of the tensor's dtype.
    #[error("tensor `{name}`: its file does not have values of {dtype}")]
    Element {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: DataType,
        /// The element.
        source: Box<CastError>,
    },
    /// A file does not have the size or number of elements that dtype and shape require.
    #[error("tensor `{name}`: its dtype and shape need {expected} {unit}, `tensor_data/{file}` has {found}")]
    SizeMismatch {
        /// The tensor.
        name: String,
        /// The file, relative to `tensor_data`.
        file: String,
        /// What dtype and shape require.
        expected: u64,
        /// What the file has.
        found: u64,
        /// `bytes` or `strings`.
        unit: &'static str,
    },
    /// A file is smaller than one of the tensors that it should hold.
    #[error(
        "tensor `{name}`: its dtype and shape need {expected} bytes, `tensor_data/{file}`, which is to hold it with others, has \
         {found}"
    )]
    FileTooSmall {
        /// The tensor.
        name: String,
        /// The file, relative to `tensor_data`.
        file: String,
        /// What dtype and shape require.
        expected: u64,
        /// What the file has.
        found: u64,
    },
    /// A file of many tensors cannot be read, or cannot be made from the tensors to be written.
    #[error("`tensor_data/{file}` cannot be {action} as a {format} file")]
    File {
        /// The file, relative to `tensor_data`.
        file: String,
        /// `read` or `written`.
        action: &'static str,
        /// The format of the file.
        format: &'static str,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file of many tensors does not hold a tensor that the index lists.
    #[error("tensor `{name}` is called `{name_in_file}` in `tensor_data/{file}`, which has no such tensor")]
    NotInFile {
        /// The tensor.
        name: String,
        /// The name that it should have in the file.
        name_in_file: String,
        /// The file, relative to `tensor_data`.
        file: String,
    },
    /// A file of many tensors and the index disagree about one.
    #[error("tensor `{name}`: `tensor_data/index.toml` says {expected}, `tensor_data/{file}` has {found}")]
    Disagreement {
        /// The tensor.
        name: String,
        /// The file, relative to `tensor_data`.
        file: String,
        /// What the index says.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// Something is larger than this library accepts, or than memory can hold.
    #[error("{what} is too large: at most {limit} bytes, found {found}")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The limit.
        limit: u64,
        /// The actual size.
        found: u64,
    },
    /// There is not enough memory for a tensor.
    #[error("not enough memory for tensor `{name}` of {n_bytes} bytes")]
    OutOfMemory {
        /// The tensor.
        name: String,
        /// The size of its data.
        n_bytes: usize,
    },
    /// The data does not form a valid tensor.
    #[error("tensor `{name}` is malformed")]
    Tensor {
        /// The tensor.
        name: String,
        /// Why not.
        #[source]
        source: TensorError,
    },
}

impl TensorDataError {
    pub(super) fn file(
        file: &str,
        action: &'static str,
        format: super::FileFormat,
        source: Box<dyn std::error::Error + Send + Sync>,
    ) -> Self {
        Self::File { file: file.to_owned(), action, format: format.name(), source }
    }

    pub(super) fn invalid(
        field: impl Into<String>,
        expected: impl Into<String>,
        found: impl std::fmt::Display,
    ) -> Self {
        Self::Invalid { field: field.into(), expected: expected.into(), found: found.to_string() }
    }
}
