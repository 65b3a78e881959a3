//! Sparse tensors in coordinate format (spec/ztensor.md §5.3).

use std::io::Write;

use super::index;
use super::values::{MAX_DENSE, Values};
use crate::files::RawTensor;
use crate::ztensor::manifest::{Format, Object};
use crate::ztensor::place::FilePart;
use crate::ztensor::{Attributes, Reader, StoreAs, Writer, ZTensorError};

/// A sparse tensor of any rank, with validated coordinates. The coordinates are the index of every value in the first dimension, then
/// of every value in the second one, and so on.
#[derive(Clone, Debug)]
pub struct Coo {
    values: Values,
    coords: Vec<u64>,
}

impl Coo {
    /// Makes a tensor from `values` with one dimension, and `coords` of any integer type.
    ///
    /// # Errors
    /// The rules of section 5.1.
    pub fn new(shape: &[usize], values: RawTensor, coords: &RawTensor) -> Result<Self, ZTensorError> {
        Self::checked("", shape, values, coords)
    }

    pub(crate) fn checked(
        name: &str,
        shape: &[usize],
        values: RawTensor,
        coords: &RawTensor,
    ) -> Result<Self, ZTensorError> {
        let at = FilePart::component(name, "coords");
        let n_values = values.n_elements();
        index::check_count(coords.n_elements(), n_values.checked_mul(shape.len()), &at)?;
        // Without values there are no coordinates, and `max(1)` avoids dividing by their number.
        let dimension = |position: usize| shape.get(position / n_values.max(1)).copied().unwrap_or_default();
        let coords = index::read(coords, &at, dimension)?;
        Ok(Self { values: Values { at: FilePart::object(name), shape: shape.to_vec(), values }, coords })
    }

    /// Makes a sparse tensor from a dense one. Omits elements whose bytes are all zero.
    ///
    /// # Errors
    /// [`DuplicateEntry`](super::SparseError::DuplicateEntry) for elements smaller than a byte, which sparse formats cannot hold.
    pub fn from_dense(tensor: &RawTensor) -> Result<Self, ZTensorError> {
        let (values, positions) = Values::from_dense(tensor)?;
        let mut coords = Vec::with_capacity(positions.len().saturating_mul(tensor.shape().len()));
        let mut stride = tensor.n_elements();
        for &dimension in tensor.shape() {
            // If there is a value, no dimension is 0.
            stride /= dimension.max(1);
            coords.extend(positions.iter().map(|position| (position / stride.max(1) % dimension.max(1)) as u64));
        }
        Ok(Self { values, coords })
    }

    /// Makes a dense tensor. Values at the same position are added.
    ///
    /// # Errors
    /// [`DenseSize`](super::SparseError::DenseSize) for more than [`MAX_DENSE`] bytes, and those of
    /// [`to_dense_within`](Self::to_dense_within).
    pub fn to_dense(&self) -> Result<RawTensor, ZTensorError> {
        self.to_dense_within(MAX_DENSE)
    }

    /// Makes a dense tensor like [`to_dense`](Self::to_dense), of at most `limit` bytes.
    ///
    /// # Errors
    /// [`DenseSize`](super::SparseError::DenseSize), [`DuplicateEntry`](super::SparseError::DuplicateEntry),
    /// [`TooLarge`](ZTensorError::TooLarge), [`Memory`](ZTensorError::Memory).
    pub fn to_dense_within(&self, limit: u64) -> Result<RawTensor, ZTensorError> {
        let (n_values, shape) = (self.values.values.n_elements(), self.shape());
        let positions = (0..n_values).map(|value| {
            shape.iter().enumerate().fold(0_usize, |position, (dimension, &size)| {
                let index = self.coords.get(dimension * n_values + value).copied().unwrap_or_default();
                position.saturating_mul(size).saturating_add(index as usize)
            })
        });
        self.values.to_dense(positions, limit)
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.values.shape
    }

    /// The values, with one dimension.
    #[must_use]
    pub fn values(&self) -> &RawTensor {
        &self.values.values
    }

    /// The index of every value in the first dimension, then of every value in the second one, and so on.
    #[must_use]
    pub fn coords(&self) -> &[u64] {
        &self.coords
    }
}

impl Reader {
    /// Reads a `sparse_coo` object.
    ///
    /// # Errors
    /// [`NoSuchObject`](ZTensorError::NoSuchObject), [`WrongFormat`](ZTensorError::WrongFormat), the rules of section 5.1,
    /// and those of [`read_component`](Self::read_component).
    pub fn coo(&self, name: &str) -> Result<Coo, ZTensorError> {
        let object: Object<'_> = self.object(name)?;
        object.expect(Format::SparseCoo)?;
        let [values, coords] = ["values", "coords"].map(|role| self.elements(&object, role));
        Coo::checked(name, object.shape(), values?, &coords?)
    }
}

impl<W: Write> Writer<W> {
    /// Writes a `sparse_coo` object.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn coo(&mut self, name: &str, tensor: &Coo, store_as: StoreAs) -> Result<(), ZTensorError> {
        write(self, name, tensor, &Attributes::new(), store_as)
    }
}

pub(super) fn write<W: Write>(
    writer: &mut Writer<W>,
    name: &str,
    tensor: &Coo,
    attributes: &Attributes,
    store_as: StoreAs,
) -> Result<(), ZTensorError> {
    let coords = index::to_tensor(&tensor.coords, &FilePart::object(name))?;
    let parts = [("values", tensor.values(), store_as), ("coords", &coords, store_as)];
    writer.object(name, tensor.shape(), "sparse_coo", attributes, &parts)
}
