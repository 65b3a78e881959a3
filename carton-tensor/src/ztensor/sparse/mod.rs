//! Sparse tensors: reads them with every index checked, makes them dense, makes them from dense ones, and writes them (spec/ztensor.md
//! §5.1 to §5.3).

mod addition;
mod coo;
mod csr;
mod error;
mod index;
mod values;

pub use coo::Coo;
pub use csr::Csr;
pub use error::SparseError;
pub use values::{MAX_DENSE, count_stored, density};

use std::io::Write;

use super::place::FilePart;
use super::{Attributes, StoreAs, Writer, ZTensorError};
use crate::files::RawTensor;

impl<W: Write> Writer<W> {
    /// Writes a dense tensor in a sparse format: a matrix as `sparse_csr`, any other tensor as `sparse_coo`. Making it dense again
    /// gives the same bytes (spec/ztensor.md §5.1).
    ///
    /// # Errors
    /// As [`object`](Self::object); [`DuplicateEntry`](SparseError::DuplicateEntry) for elements smaller than a byte;
    /// [`Memory`](ZTensorError::Memory), because this needs memory for the tensor and twice its sparse form.
    pub fn add_sparse(
        &mut self,
        name: &str,
        tensor: &RawTensor,
        attributes: &Attributes,
        store_as: StoreAs,
    ) -> Result<(), ZTensorError> {
        if tensor.shape().len() == 2 {
            csr::write(self, name, &Csr::from_dense(tensor)?, attributes, store_as)
        } else {
            coo::write(self, name, &Coo::from_dense(tensor)?, attributes, store_as)
        }
    }
}

/// Reads indices of any integer type. Each must be below `size`.
pub(super) fn indices(tensor: &RawTensor, at: &FilePart, size: usize) -> Result<Vec<u64>, ZTensorError> {
    index::read(tensor, at, |_| size)
}
