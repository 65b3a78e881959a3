//! `NumericTensor`: elements of a fixed size, in memory that may be shared.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::error::{TensorError, check_rank};
use super::shape::element_count;
use crate::{AlignedBytes, DataType, Element, Storage};

/// Numbers: a dtype, a shape, and little-endian elements in C order without gaps.
#[derive(Clone)]
pub struct NumericTensor {
    dtype: DataType,
    shape: Vec<usize>,
    storage: Arc<dyn Storage>,
    offset: usize,
    n_bytes: usize,
}

impl NumericTensor {
    /// Makes a tensor of all bytes of `storage`.
    ///
    /// # Errors
    /// [`TensorError::WrongDataType`] for [`DataType::String`] and [`DataType::Bytes`]; [`TensorError::TooLarge`]; [`TensorError::TooManyDimensions`];
    /// [`TensorError::SizeMismatch`] if the size of the storage does not match dtype and shape.
    pub fn new(dtype: DataType, shape: Vec<usize>, storage: Arc<dyn Storage>) -> Result<Self, TensorError> {
        let found = storage.bytes().len();
        let expected = Self::n_bytes_of(dtype, &shape)?;
        if found != expected {
            return Err(TensorError::SizeMismatch { dtype, shape, expected, found, unit: "bytes" });
        }
        Ok(Self { dtype, shape, storage, offset: 0, n_bytes: expected })
    }

    /// Makes a tensor of the bytes of `storage` from `offset` on, as many as dtype and shape need.
    ///
    /// # Errors
    /// As [`new`](Self::new), with [`TensorError::SizeMismatch`] if the storage ends too early.
    pub fn with_offset(
        dtype: DataType,
        shape: Vec<usize>,
        storage: Arc<dyn Storage>,
        offset: usize,
    ) -> Result<Self, TensorError> {
        let expected = Self::n_bytes_of(dtype, &shape)?;
        let found = storage.bytes().len().saturating_sub(offset);
        if found < expected || offset > storage.bytes().len() {
            return Err(TensorError::SizeMismatch { dtype, shape, expected, found, unit: "bytes" });
        }
        Ok(Self { dtype, shape, storage, offset, n_bytes: expected })
    }

    /// Makes a tensor of a vector, without copying it.
    ///
    /// ```
    /// use carton_tensor::{DataType, NumericTensor};
    /// let tensor = NumericTensor::from_vec(vec![1.0_f32, 2.0], vec![2])?;
    /// assert_eq!(tensor.dtype(), DataType::Float32);
    /// assert_eq!(tensor.as_slice::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), carton_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::TooLarge`], [`TensorError::TooManyDimensions`], [`TensorError::SizeMismatch`].
    pub fn from_vec<T: Element>(elements: Vec<T>, shape: Vec<usize>) -> Result<Self, TensorError> {
        let expected =
            element_count(&shape).ok_or_else(|| TensorError::TooLarge { dtype: T::DTYPE, shape: shape.clone() })?;
        if elements.len() != expected {
            let found = elements.len();
            return Err(TensorError::SizeMismatch { dtype: T::DTYPE, shape, expected, found, unit: "elements" });
        }
        Self::new(T::DTYPE, shape, Arc::new(elements))
    }

    /// Makes a tensor of zeros.
    ///
    /// # Errors
    /// [`TensorError::WrongDataType`] for [`DataType::String`] and [`DataType::Bytes`]; [`TensorError::TooLarge`], also if there is not enough memory;
    /// [`TensorError::TooManyDimensions`].
    pub fn zeroed(dtype: DataType, shape: Vec<usize>) -> Result<Self, TensorError> {
        match AlignedBytes::try_zeroed(Self::n_bytes_of(dtype, &shape)?) {
            Some(bytes) => Self::new(dtype, shape, Arc::new(bytes)),
            None => Err(TensorError::TooLarge { dtype, shape }),
        }
    }

    /// Returns the size of the elements of a tensor in bytes.
    ///
    /// ```
    /// use carton_tensor::{DataType, NumericTensor};
    /// assert_eq!(NumericTensor::n_bytes_of(DataType::Float32, &[2, 3]), Ok(24));
    /// assert!(NumericTensor::n_bytes_of(DataType::Uint8, &[usize::MAX, 2]).is_err());
    /// ```
    ///
    /// # Errors
    /// [`TensorError::WrongDataType`] for [`DataType::String`] and [`DataType::Bytes`]; [`TensorError::TooLarge`] if no machine could hold them;
    /// [`TensorError::TooManyDimensions`].
    pub fn n_bytes_of(dtype: DataType, shape: &[usize]) -> Result<usize, TensorError> {
        check_rank(shape)?;
        let size = dtype
            .size()
            .ok_or_else(|| TensorError::WrongDataType { expected: "numbers".to_owned(), found: dtype.to_string() })?;
        element_count(shape)
            .and_then(|count| count.checked_mul(size))
            .filter(|&n_bytes| isize::try_from(n_bytes).is_ok())
            .ok_or_else(|| TensorError::TooLarge { dtype, shape: shape.to_vec() })
    }

    /// Makes a tensor of rank 0.
    #[must_use]
    pub fn scalar<T: Element>(value: T) -> Self {
        Self::over_vec(vec![value], Vec::new(), 0, 1)
    }

    /// Makes a tensor of `count` elements of a vector from the element `first` on. The caller guarantees that dtype, shape and count
    /// agree. If they do not, the tensor has no bytes; nothing unsafe depends on it.
    pub(crate) fn over_vec<T: Element>(elements: Vec<T>, shape: Vec<usize>, first: usize, count: usize) -> Self {
        let (offset, n_bytes) = (first * size_of::<T>(), count * size_of::<T>());
        Self { dtype: T::DTYPE, shape, storage: Arc::new(elements), offset, n_bytes }
    }

    /// Makes a tensor of a copy of `bytes`, aligned to 64 bytes.
    ///
    /// # Errors
    /// As [`new`](Self::new); sizes are checked before anything is allocated.
    pub fn copy_from_bytes(dtype: DataType, shape: Vec<usize>, bytes: &[u8]) -> Result<Self, TensorError> {
        let expected = Self::n_bytes_of(dtype, &shape)?;
        if bytes.len() != expected {
            let found = bytes.len();
            return Err(TensorError::SizeMismatch { dtype, shape, expected, found, unit: "bytes" });
        }
        Self::new(dtype, shape, Arc::new(AlignedBytes::copy_of(bytes)))
    }

    /// The same tensor in memory of its own, which nobody else can write to.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if there is not enough memory.
    pub fn copied(&self) -> Result<Self, TensorError> {
        let mut copy = Self::zeroed(self.dtype, self.shape.clone())?;
        if let Some(target) = copy.bytes_mut() {
            let n_bytes = target.len().min(self.bytes().len());
            target[..n_bytes].copy_from_slice(&self.bytes()[..n_bytes]);
        }
        Ok(copy)
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// The same bytes as a tensor of another dtype and shape.
    ///
    /// # Errors
    /// As [`new`](Self::new): the bytes are as many as dtype and shape need.
    pub fn reinterpreted(self, dtype: DataType, shape: Vec<usize>) -> Result<Self, TensorError> {
        let expected = Self::n_bytes_of(dtype, &shape)?;
        if expected != self.n_bytes {
            return Err(TensorError::SizeMismatch { dtype, shape, expected, found: self.n_bytes, unit: "bytes" });
        }
        Ok(Self { dtype, shape, ..self })
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements as little-endian bytes in C order.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // The range was checked when the tensor was built. If the storage has shrunk since, this returns an empty slice instead of
        // panicking.
        self.storage.bytes().get(self.offset..self.offset + self.n_bytes).unwrap_or_default()
    }

    /// The bytes for writing; `None` if another clone shares the storage or the memory is read-only.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let range = self.offset..self.offset + self.n_bytes;
        Arc::get_mut(&mut self.storage)?.bytes_mut()?.get_mut(range)
    }

    /// Converts the tensor into a vector. Does not copy if this tensor is the only owner of a vector that has nothing but its elements.
    ///
    /// # Errors
    /// [`TensorError::WrongDataType`].
    pub fn into_vec<T: Element>(self) -> Result<Vec<T>, TensorError> {
        self.check_dtype::<T>()?;
        let whole = self.offset == 0 && self.storage.bytes().len() == self.n_bytes;
        if !whole {
            return self.to_vec();
        }
        let storage: Arc<dyn Any + Send + Sync> = self.storage.clone();
        match storage.downcast::<Vec<T>>() {
            Err(_) => self.to_vec(),
            Ok(elements) => {
                drop(self);
                Ok(Arc::unwrap_or_clone(elements))
            }
        }
    }

    /// The storage of the tensor, and the offset of the tensor in it.
    #[must_use]
    pub fn storage(&self) -> (&Arc<dyn Storage>, usize) {
        (&self.storage, self.offset)
    }

    /// The elements in place.
    ///
    /// # Errors
    /// [`TensorError::WrongDataType`]; [`TensorError::Misaligned`], in which case [`to_vec`](Self::to_vec) makes a copy instead.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        self.check_dtype::<T>()?;
        let bytes = self.bytes();
        bytemuck::try_cast_slice(bytes).map_err(|_| self.misaligned::<T>(bytes))
    }

    /// The elements for writing; `None` if another clone shares the storage or the memory is read-only.
    ///
    /// # Errors
    /// [`TensorError::WrongDataType`], [`TensorError::Misaligned`].
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<Option<&mut [T]>, TensorError> {
        self.check_dtype::<T>()?;
        let misaligned = self.misaligned::<T>(self.bytes());
        match self.bytes_mut() {
            None => Ok(None),
            Some(bytes) => bytemuck::try_cast_slice_mut(bytes).map(Some).map_err(|_| misaligned),
        }
    }

    /// Copies the elements, whatever their alignment.
    ///
    /// # Errors
    /// [`TensorError::WrongDataType`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, TensorError> {
        self.check_dtype::<T>()?;
        Ok(bytemuck::allocation::pod_collect_to_vec(self.bytes()))
    }

    fn check_dtype<T: Element>(&self) -> Result<(), TensorError> {
        if self.dtype == T::DTYPE {
            return Ok(());
        }
        Err(TensorError::WrongDataType { expected: T::DTYPE.to_string(), found: self.dtype.to_string() })
    }

    fn misaligned<T: Element>(&self, bytes: &[u8]) -> TensorError {
        TensorError::Misaligned { dtype: self.dtype, address: bytes.as_ptr().addr(), alignment: align_of::<T>() }
    }
}

impl PartialEq for NumericTensor {
    /// Compares dtype, shape and bytes.
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.bytes() == other.bytes()
    }
}

impl Eq for NumericTensor {}

impl fmt::Debug for NumericTensor {
    /// Prints dtype, shape and the first elements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NumericTensor")
            .field("dtype", &self.dtype)
            .field("shape", &self.shape)
            .field("elements", &FirstElements(self))
            .finish()
    }
}

/// Prints the first elements of a tensor, so that a failed assertion shows something and a large tensor still fits a line.
struct FirstElements<'a>(&'a NumericTensor);

impl FirstElements<'_> {
    const SHOWN: usize = 8;

    fn list<T: Element>(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elements = self.0.bytes().chunks_exact(size_of::<T>());
        let more = elements.len() > Self::SHOWN;
        let mut list = f.debug_list();
        list.entries(elements.take(Self::SHOWN).map(bytemuck::pod_read_unaligned::<T>));
        if more { list.finish_non_exhaustive() } else { list.finish() }
    }
}

impl fmt::Debug for FirstElements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::with_element!(self.0.dtype, T => self.list::<T>(f), else f.write_str("[]"))
    }
}
