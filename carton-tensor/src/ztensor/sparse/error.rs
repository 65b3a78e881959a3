//! What can be wrong with a sparse object (spec/ztensor.md §5.1 to §5.3).

use crate::files::ElementType;
use crate::ztensor::Place;

/// A rule that a sparse object breaks, or a request that it cannot meet. As in [`ZTensorError`](crate::ztensor::ZTensorError), each rule has a
/// variant, whose text ends in the section of `spec/ztensor.md` that states it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// §5.2: a CSR matrix with another number of dimensions than two.
    #[error("{at} is sparse_csr with {found} dimensions, expected 2 [spec/ztensor.md §5.2]")]
    CsrRank {
        /// The object.
        at: Box<Place>,
        /// How many it has.
        found: usize,
    },
    /// §5.2: the row pointers are not one more than the rows.
    #[error("{at} has {found} row pointers, expected {expected}, one more than rows [spec/ztensor.md §5.2]")]
    RowPointerCount {
        /// The component.
        at: Box<Place>,
        /// One more than the rows.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// §5.2: row pointers that do not go from 0 up to the number of values.
    #[error("{at} has {found} as row pointer {position}, expected {expected} [spec/ztensor.md §5.2]")]
    RowPointer {
        /// The component.
        at: Box<Place>,
        /// Which one.
        position: usize,
        /// What it may be.
        expected: String,
        /// What it is.
        found: u64,
    },
    /// §5.1: indices of a type that cannot be one.
    #[error("{at} has indices of type {found}, expected integers [spec/ztensor.md §5.1]")]
    IndexType {
        /// The component.
        at: Box<Place>,
        /// Their type.
        found: ElementType,
    },
    /// §5.1: an index outside of the shape.
    #[error("{at} has the index {found} at position {position}, expected 0 to {size} exclusive [spec/ztensor.md §5.1]")]
    IndexRange {
        /// The component.
        at: Box<Place>,
        /// Which one.
        position: usize,
        /// The index.
        found: i128,
        /// The size of its dimension.
        size: u64,
    },
    /// §5.1: another number of indices than values ask for.
    #[error("{at} has {found} indices, expected {expected} for its values [spec/ztensor.md §5.1]")]
    IndexCount {
        /// The component.
        at: Box<Place>,
        /// How many the values ask for.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// §5.1: the same place twice, in a type that cannot be added up.
    #[error("{at} has two values at one place, which cannot be added up in {dtype} [spec/ztensor.md §5.1]")]
    DuplicateEntry {
        /// The object.
        at: Box<Place>,
        /// Their type.
        dtype: ElementType,
    },
    /// §5.1: a sparse tensor that would be larger when it is dense than the caller allows.
    #[error("{at} has {n_bytes} bytes when it is dense, at most {limit} are allowed [spec/ztensor.md §5.1]")]
    DenseSize {
        /// The object.
        at: Box<Place>,
        /// The size of the dense tensor.
        n_bytes: u64,
        /// The most that is made.
        limit: u64,
    },
}

impl SparseError {
    /// Whether the file breaks a rule of the format. A tensor that is too large to be made dense breaks none.
    pub(in crate::ztensor) fn is_malformed(&self) -> bool {
        !matches!(self, Self::DenseSize { .. })
    }
}
