//! The errors of sparse objects (spec/ztensor.md §5.1 to §5.3).

use crate::files::ElementType;
use crate::ztensor::FilePart;

/// A rule that a sparse object breaks, or a request that it cannot meet. As in [`ZTensorError`](crate::ztensor::ZTensorError), each
/// rule has its own variant, whose text ends in the section of `spec/ztensor.md` that states it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// §5.2: a CSR matrix does not have two dimensions.
    #[error("{at} is sparse_csr with {found} dimensions, expected 2 [spec/ztensor.md §5.2]")]
    CsrRank {
        /// The object.
        at: Box<FilePart>,
        /// The number of dimensions.
        found: usize,
    },
    /// §5.2: the number of row pointers is not the number of rows plus one.
    #[error("{at} has {found} row pointers, expected {expected}, one more than rows [spec/ztensor.md §5.2]")]
    RowPointerCount {
        /// The component.
        at: Box<FilePart>,
        /// The number of rows plus one.
        expected: u64,
        /// The number of row pointers.
        found: u64,
    },
    /// §5.2: row pointers do not rise from 0 to the number of values.
    #[error("{at} has {found} as row pointer {position}, expected {expected} [spec/ztensor.md §5.2]")]
    RowPointer {
        /// The component.
        at: Box<FilePart>,
        /// The position of the row pointer.
        position: usize,
        /// The valid values.
        expected: String,
        /// The row pointer that was found.
        found: u64,
    },
    /// §5.1: indices do not have an integer type.
    #[error("{at} has indices of type {found}, expected integers [spec/ztensor.md §5.1]")]
    IndexType {
        /// The component.
        at: Box<FilePart>,
        /// The type of the indices.
        found: ElementType,
    },
    /// §5.1: an index is outside the shape.
    #[error("{at} has the index {found} at position {position}, expected 0 to {size} exclusive [spec/ztensor.md §5.1]")]
    IndexRange {
        /// The component.
        at: Box<FilePart>,
        /// The position of the index.
        position: usize,
        /// The index.
        found: i128,
        /// The size of the dimension.
        size: u64,
    },
    /// §5.1: the number of indices does not match the number of values.
    #[error("{at} has {found} indices, expected {expected} for its values [spec/ztensor.md §5.1]")]
    IndexCount {
        /// The component.
        at: Box<FilePart>,
        /// The number that the values need.
        expected: u64,
        /// The number of indices.
        found: u64,
    },
    /// §5.1: two values have the same position, and their type has no addition.
    #[error("{at} has two values at one place, which cannot be added up in {dtype} [spec/ztensor.md §5.1]")]
    DuplicateEntry {
        /// The object.
        at: Box<FilePart>,
        /// The type of the values.
        dtype: ElementType,
    },
    /// §5.1: the tensor would have more bytes when dense than the caller allows.
    #[error("{at} has {n_bytes} bytes when it is dense, at most {limit} are allowed [spec/ztensor.md §5.1]")]
    DenseSize {
        /// The object.
        at: Box<FilePart>,
        /// The bytes of the dense tensor.
        n_bytes: u64,
        /// The most bytes that are allowed.
        limit: u64,
    },
}

impl SparseError {
    /// Whether the file breaks a rule of the format. A tensor that is too large to be made dense does not.
    pub(in crate::ztensor) fn is_malformed(&self) -> bool {
        !matches!(self, Self::DenseSize { .. })
    }
}
