//! A tensor as it is in a file: any element type, bytes that are shared.

use bytemuck::{AnyBitPattern, NoUninit};
use half::{bf16, f16};
use ndarray::{ArrayD, ArrayViewD, IxDyn};
use num_complex::Complex;

use super::{ElementType, SharedBytes};
use crate::{NumericTensor, element_count};

/// Why bytes are no such tensor, or a tensor cannot be seen as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RawTensorError {
    /// More elements than fit in memory, or elements that do not end between bytes.
    #[error("shape {shape:?} of {dtype} elements is no whole number of bytes that fits in memory")]
    NoSize {
        /// The element type.
        dtype: ElementType,
        /// The dimensions.
        shape: Vec<usize>,
    },
    /// There are not as many bytes as dtype and shape ask for.
    #[error("shape {shape:?} of {dtype} needs {expected} bytes, found {found}")]
    SizeMismatch {
        /// The element type.
        dtype: ElementType,
        /// The dimensions.
        shape: Vec<usize>,
        /// What dtype and shape ask for.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// The tensor has another element type than the one asked for.
    #[error("expected a tensor of {expected}, found one of {found}")]
    WrongElementType {
        /// The element type asked for.
        expected: ElementType,
        /// The tensor's.
        found: ElementType,
    },
    /// The data does not start at a multiple of the element's alignment, so it cannot be viewed in place.
    #[error("{dtype} data at address {address:#x} is not aligned to {alignment} bytes")]
    Misaligned {
        /// The element type.
        dtype: ElementType,
        /// Where the data starts.
        address: usize,
        /// What the address must be a multiple of.
        alignment: usize,
    },
    /// More dimensions, or larger ones, than an array can have.
    #[error("shape {shape:?} is none that an array can have")]
    NoArray {
        /// The dimensions.
        shape: Vec<usize>,
    },
    /// No type of a carton's tensors.
    #[error("a carton has no tensors of {0}")]
    NotInCartons(ElementType),
}

/// A dtype, a shape, and elements in C order, little-endian, one after another.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// let tensor = RawTensor::new(ElementType::BFloat16, vec![2], vec![0x80_u8, 0x3f, 0, 0].into())?;
/// assert_eq!(tensor.to_f32(), Some(vec![1.0, 0.0]));
/// # Ok::<(), carton_tensor::files::RawTensorError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RawTensor {
    dtype: ElementType,
    shape: Vec<usize>,
    bytes: SharedBytes,
}

impl RawTensor {
    /// A tensor over all of `bytes`.
    ///
    /// # Errors
    /// [`RawTensorError::NoSize`], [`RawTensorError::SizeMismatch`].
    pub fn new(dtype: ElementType, shape: Vec<usize>, bytes: SharedBytes) -> Result<Self, RawTensorError> {
        let Some(expected) = n_bytes(dtype, &shape) else { return Err(RawTensorError::NoSize { dtype, shape }) };
        if bytes.len() != expected {
            let found = bytes.len();
            return Err(RawTensorError::SizeMismatch { dtype, shape, expected, found });
        }
        Ok(Self { dtype, shape, bytes })
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> ElementType {
        self.dtype
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The product of the dimensions.
    #[must_use]
    pub fn n_elements(&self) -> usize {
        // Checked when the tensor was made.
        element_count(&self.shape).unwrap_or_default()
    }

    /// The elements as little-endian bytes.
    #[must_use]
    pub fn bytes(&self) -> &SharedBytes {
        &self.bytes
    }

    /// The elements in place, as an array of the tensor's shape. `T` is the Rust type of the elements:
    /// [`half::f16`], [`num_complex::Complex<f32>`](Complex), or the number itself; `u8` for bool and FP8 too.
    ///
    /// # Errors
    /// [`RawTensorError::WrongElementType`]; [`RawTensorError::Misaligned`], where [`to_array`](Self::to_array) copies
    /// instead; [`RawTensorError::NoArray`].
    pub fn view<T: FileElement>(&self) -> Result<ArrayViewD<'_, T>, RawTensorError> {
        self.check::<T>()?;
        let elements = bytemuck::try_cast_slice(&self.bytes).map_err(|_| RawTensorError::Misaligned {
            dtype: self.dtype,
            address: self.bytes.as_ptr().addr(),
            alignment: align_of::<T>(),
        })?;
        ArrayViewD::from_shape(IxDyn(&self.shape), elements).map_err(|_| self.no_array())
    }

    /// A copy of the elements as an array of the tensor's shape, whatever their alignment. `T` as for [`view`](Self::view).
    ///
    /// # Errors
    /// [`RawTensorError::WrongElementType`], [`RawTensorError::NoArray`].
    pub fn to_array<T: FileElement>(&self) -> Result<ArrayD<T>, RawTensorError> {
        self.check::<T>()?;
        let elements = bytemuck::allocation::pod_collect_to_vec(&self.bytes);
        ArrayD::from_shape_vec(IxDyn(&self.shape), elements).map_err(|_| self.no_array())
    }

    /// The elements as `f64`; see [`ElementType::to_f64`].
    #[must_use]
    pub fn to_f64(&self) -> Option<Vec<f64>> {
        self.dtype.to_f64(&self.bytes)
    }

    /// The elements as `f32`; see [`ElementType::to_f32`].
    #[must_use]
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        self.dtype.to_f32(&self.bytes)
    }

    /// The same tensor as cartons have it, over the same memory.
    ///
    /// # Errors
    /// [`RawTensorError::NotInCartons`] for an element type that format v1 does not have; [`RawTensorError::NoArray`] for more
    /// dimensions than [`MAX_RANK`](crate::MAX_RANK).
    pub fn to_numeric(&self) -> Result<NumericTensor, RawTensorError> {
        let dtype = self.dtype.data_type().ok_or(RawTensorError::NotInCartons(self.dtype))?;
        let (storage, offset) = self.bytes.storage();
        NumericTensor::with_offset(dtype, self.shape.clone(), storage.clone(), offset).map_err(|_| self.no_array())
    }

    fn check<T: FileElement>(&self) -> Result<(), RawTensorError> {
        if T::DTYPES.contains(&self.dtype) {
            return Ok(());
        }
        Err(RawTensorError::WrongElementType { expected: T::DTYPES[0], found: self.dtype })
    }

    fn no_array(&self) -> RawTensorError {
        RawTensorError::NoArray { shape: self.shape.clone() }
    }
}

impl From<&NumericTensor> for RawTensor {
    /// Over the same memory.
    fn from(tensor: &NumericTensor) -> Self {
        let (storage, offset) = tensor.storage();
        let bytes = SharedBytes::new(storage.clone());
        Self {
            // Tensors of strings are not numeric.
            dtype: ElementType::from_data_type(tensor.dtype()).unwrap_or(ElementType::Uint8),
            shape: tensor.shape().to_vec(),
            bytes: bytes
                .slice(offset..offset + tensor.bytes().len())
                .unwrap_or_else(|| SharedBytes::from(Vec::<u8>::new())),
        }
    }
}

impl PartialEq for RawTensor {
    /// Same dtype, shape and bytes.
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && *self.bytes == *other.bytes
    }
}

impl Eq for RawTensor {}

/// The bytes of a tensor; `None` when they are no whole number, or more than fits in memory.
pub(crate) fn n_bytes(dtype: ElementType, shape: &[usize]) -> Option<usize> {
    let n_bytes = dtype.n_bytes(element_count(shape)?)?;
    isize::try_from(n_bytes).is_ok().then_some(n_bytes)
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type for the elements of tensors in files. Every bit pattern is a valid value.
pub trait FileElement: AnyBitPattern + NoUninit + sealed::Sealed {
    /// The element types that it stands for, the one named like it first.
    const DTYPES: &'static [ElementType];
}

macro_rules! elements {
    ($($rust:ty => $($dtype:ident)*),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl FileElement for $rust {
            const DTYPES: &'static [ElementType] = &[$(ElementType::$dtype),*];
        }
    )*};
}

elements! {
    u8 => Uint8 Bool Float8E4m3Fn Float8E5m2 Float8E4m3Fnuz Float8E5m2Fnuz Float8E8m0Fnu,
    i8 => Int8, u16 => Uint16, i16 => Int16, u32 => Uint32, i32 => Int32, u64 => Uint64, i64 => Int64,
    f16 => Float16, bf16 => BFloat16, f32 => Float32, f64 => Float64,
    Complex<f32> => Complex64, Complex<f64> => Complex128,
}
