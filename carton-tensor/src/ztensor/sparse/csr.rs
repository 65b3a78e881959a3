//! Matrices in compressed sparse row format (spec/ztensor.md §5.2).

use std::io::Write;

use super::error::SparseError;
use super::index;
use super::values::{MAX_DENSE, Values};
use crate::files::RawTensor;
use crate::ztensor::manifest::{Format, Object};
use crate::ztensor::place::FilePart;
use crate::ztensor::{Attributes, Reader, StoreAs, Writer, ZTensorError};

/// A matrix in compressed sparse row format, with validated indices. Row `r` has the values from `indptr[r]` up to `indptr[r + 1]`,
/// each in the column that `indices` states.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// use carton_tensor::ztensor::Csr;
/// let dense = RawTensor::new(ElementType::Uint8, vec![2, 3], vec![0_u8, 7, 0, 8, 0, 9].into())?;
/// let sparse = Csr::from_dense(&dense)?;
/// assert_eq!((sparse.indptr(), sparse.indices()), (&[0, 1, 3][..], &[1, 0, 2][..]));
/// assert_eq!(sparse.to_dense()?, dense);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Csr {
    values: Values,
    columns: usize,
    indices: Vec<u64>,
    indptr: Vec<u64>,
}

impl Csr {
    /// Makes a matrix from `values` with one dimension, and `indices` and `indptr` of any integer type.
    ///
    /// # Errors
    /// The rules of sections 5.1 and 5.2.
    pub fn new(
        shape: &[usize],
        values: RawTensor,
        indices: &RawTensor,
        indptr: &RawTensor,
    ) -> Result<Self, ZTensorError> {
        Self::checked("", shape, values, indices, indptr)
    }

    pub(crate) fn checked(
        name: &str,
        shape: &[usize],
        values: RawTensor,
        indices: &RawTensor,
        indptr: &RawTensor,
    ) -> Result<Self, ZTensorError> {
        let &[rows, columns] = shape else {
            return Err(SparseError::CsrRank { at: FilePart::object(name), found: shape.len() }.into());
        };
        let at = FilePart::component(name, "indptr");
        let found = indptr.n_elements();
        if rows.checked_add(1) != Some(found) {
            let expected = (rows as u64).saturating_add(1);
            return Err(SparseError::RowPointerCount { at, expected, found: found as u64 }.into());
        }
        let indptr = index::read(indptr, &at, |_| usize::MAX)?;
        check_row_pointers(&indptr, values.n_elements() as u64, &at)?;
        let at = FilePart::component(name, "indices");
        index::check_count(indices.n_elements(), Some(values.n_elements()), &at)?;
        let indices = index::read(indices, &at, |_| columns)?;
        Ok(Self {
            values: Values { at: FilePart::object(name), shape: shape.to_vec(), values },
            columns,
            indices,
            indptr,
        })
    }

    /// Makes a sparse matrix from a dense one. Omits elements whose bytes are all zero.
    ///
    /// # Errors
    /// [`CsrRank`](SparseError::CsrRank); [`DuplicateEntry`](SparseError::DuplicateEntry) for elements smaller than a byte, which
    /// sparse formats cannot hold.
    pub fn from_dense(tensor: &RawTensor) -> Result<Self, ZTensorError> {
        let &[rows, columns] = tensor.shape() else {
            return Err(SparseError::CsrRank { at: FilePart::object(""), found: tensor.shape().len() }.into());
        };
        let (values, positions) = Values::from_dense(tensor)?;
        // A matrix without columns may have any number of rows, so this allocation may fail.
        let indptr = rows.checked_add(1).map(bytemuck::allocation::try_zeroed_vec);
        let mut indptr: Vec<u64> =
            indptr.and_then(Result::ok).ok_or_else(|| ZTensorError::TooLarge { at: FilePart::object("") })?;
        let mut indices = Vec::with_capacity(positions.len());
        for position in positions {
            if let Some(count) = indptr.get_mut(position / columns + 1) {
                *count += 1;
            }
            indices.push((position % columns) as u64);
        }
        let mut sum = 0;
        for pointer in &mut indptr {
            sum += *pointer;
            *pointer = sum;
        }
        Ok(Self { values, columns, indices, indptr })
    }

    /// Makes a dense matrix. Values at the same position are added.
    ///
    /// # Errors
    /// [`DenseSize`](SparseError::DenseSize) for more than [`MAX_DENSE`] bytes, and those of
    /// [`to_dense_within`](Self::to_dense_within).
    pub fn to_dense(&self) -> Result<RawTensor, ZTensorError> {
        self.to_dense_within(MAX_DENSE)
    }

    /// Makes a dense matrix like [`to_dense`](Self::to_dense), of at most `limit` bytes.
    ///
    /// # Errors
    /// [`DenseSize`](SparseError::DenseSize), [`DuplicateEntry`](SparseError::DuplicateEntry),
    /// [`TooLarge`](ZTensorError::TooLarge), [`Memory`](ZTensorError::Memory).
    pub fn to_dense_within(&self, limit: u64) -> Result<RawTensor, ZTensorError> {
        let rows = self.indptr.windows(2).enumerate();
        let row_of_each = rows.flat_map(|(row, ends)| std::iter::repeat_n(row, (ends[1] - ends[0]) as usize));
        // Positions are below rows times columns. If the dense tensor has no room for that many elements, it is not made.
        let positions = row_of_each
            .zip(&self.indices)
            .map(|(row, &column)| row.saturating_mul(self.columns).saturating_add(column as usize));
        self.values.to_dense(positions, limit)
    }

    /// The numbers of rows and columns.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.values.shape
    }

    /// The values, with one dimension.
    #[must_use]
    pub fn values(&self) -> &RawTensor {
        &self.values.values
    }

    /// The column of each value.
    #[must_use]
    pub fn indices(&self) -> &[u64] {
        &self.indices
    }

    /// Where the values of each row begin, and where those of the last row end.
    #[must_use]
    pub fn indptr(&self) -> &[u64] {
        &self.indptr
    }
}

/// Checks that row pointers begin with 0, never decrease, and end with the number of values.
fn check_row_pointers(indptr: &[u64], n_values: u64, at: &FilePart) -> Result<(), ZTensorError> {
    let wrong = |position: usize, expected: String, found| -> ZTensorError {
        SparseError::RowPointer { at: Box::new(at.clone()), position, expected, found }.into()
    };
    match (indptr.first(), indptr.last()) {
        (Some(&first), _) if first != 0 => return Err(wrong(0, "0".to_owned(), first)),
        (_, Some(&last)) if last != n_values => {
            return Err(wrong(indptr.len() - 1, format!("{n_values}, the number of values"), last));
        }
        _ => {}
    }
    match indptr.windows(2).position(|pair| pair[1] < pair[0]) {
        None => Ok(()),
        Some(before) => {
            let (before_it, found) = (indptr.get(before).copied(), indptr.get(before + 1).copied());
            let expected = format!("{} or more, as the one before", before_it.unwrap_or_default());
            Err(wrong(before + 1, expected, found.unwrap_or_default()))
        }
    }
}

impl Reader {
    /// Reads a `sparse_csr` object.
    ///
    /// # Errors
    /// [`NoSuchObject`](ZTensorError::NoSuchObject), [`WrongFormat`](ZTensorError::WrongFormat), the rules of sections 5.1
    /// and 5.2, and those of [`read_component`](Self::read_component).
    pub fn csr(&self, name: &str) -> Result<Csr, ZTensorError> {
        let object: Object<'_> = self.object(name)?;
        object.expect(Format::SparseCsr)?;
        let [values, indices, indptr] = ["values", "indices", "indptr"].map(|role| self.elements(&object, role));
        Csr::checked(name, object.shape(), values?, &indices?, &indptr?)
    }
}

impl<W: Write> Writer<W> {
    /// Writes a `sparse_csr` object.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn csr(&mut self, name: &str, matrix: &Csr, store_as: StoreAs) -> Result<(), ZTensorError> {
        write(self, name, matrix, &Attributes::new(), store_as)
    }
}

pub(super) fn write<W: Write>(
    writer: &mut Writer<W>,
    name: &str,
    matrix: &Csr,
    attributes: &Attributes,
    store_as: StoreAs,
) -> Result<(), ZTensorError> {
    let at = FilePart::object(name);
    let (indices, indptr) = (index::to_tensor(&matrix.indices, &at)?, index::to_tensor(&matrix.indptr, &at)?);
    let parts = [("values", matrix.values(), store_as), ("indices", &indices, store_as), ("indptr", &indptr, store_as)];
    writer.object(name, matrix.shape(), "sparse_csr", attributes, &parts)
}
