//! A tensor as a file holds it: any element type, with shared bytes.

use bytemuck::{AnyBitPattern, NoUninit};
use half::{bf16, f16};
use ndarray::{ArrayD, ArrayViewD, IxDyn};
use num_complex::Complex;

use super::{ElementType, SharedBytes};
use crate::{NumericTensor, element_count};

/// The reason that bytes do not form a tensor, or that a tensor cannot be converted as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RawTensorError {
    /// The tensor does not fit in memory, or its last element does not end at a byte boundary.
    #[error("shape {shape:?} of {dtype} elements is not a whole number of bytes, or does not fit in memory")]
    NoSize {
        /// The element type.
        dtype: ElementType,
        /// The dimensions.
        shape: Vec<usize>,
    },
    /// The number of bytes does not match dtype and shape.
    #[error("shape {shape:?} of {dtype} needs {expected} bytes, found {found}")]
    SizeMismatch {
        /// The element type.
        dtype: ElementType,
        /// The dimensions.
        shape: Vec<usize>,
        /// The bytes that dtype and shape need.
        expected: usize,
        /// The bytes that were given.
        found: usize,
    },
    /// The element type of the tensor is not the requested one.
    #[error("expected a tensor of {expected}, found one of {found}")]
    WrongElementType {
        /// The requested element type.
        expected: ElementType,
        /// The element type of the tensor.
        found: ElementType,
    },
    /// The data does not start at a multiple of the element's alignment, so it cannot be viewed in place.
    #[error("{dtype} data at address {address:#x} is not aligned to {alignment} bytes")]
    Misaligned {
        /// The element type.
        dtype: ElementType,
        /// The address of the data.
        address: usize,
        /// The required alignment in bytes.
        alignment: usize,
    },
    /// The shape has more dimensions, or larger ones, than an array can have.
    #[error("an array cannot have the shape {shape:?}")]
    NoArray {
        /// The dimensions.
        shape: Vec<usize>,
    },
    /// Only weights have this element type.
    #[error("a carton has no tensors of {0}")]
    NotInCartons(ElementType),
}

/// A dtype, a shape, and the elements in C order, little-endian, without gaps.
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
    /// Makes a tensor of all of `bytes`.
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
        // `new` checked that the product does not overflow.
        element_count(&self.shape).unwrap_or_default()
    }

    /// The elements as little-endian bytes.
    #[must_use]
    pub fn bytes(&self) -> &SharedBytes {
        &self.bytes
    }

    /// Views the elements in place, as an array of the tensor's shape. `T` is the Rust type of the elements: [`half::f16`],
    /// [`num_complex::Complex<f32>`](Complex), or the number itself; `u8` also stands for bool and FP8.
    ///
    /// # Errors
    /// [`RawTensorError::WrongElementType`]; [`RawTensorError::Misaligned`], in which case [`to_array`](Self::to_array) makes a copy
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

    /// Copies the elements into an array of the tensor's shape, whatever their alignment. `T` is as for [`view`](Self::view).
    ///
    /// # Errors
    /// [`RawTensorError::WrongElementType`], [`RawTensorError::NoArray`].
    pub fn to_array<T: FileElement>(&self) -> Result<ArrayD<T>, RawTensorError> {
        self.check::<T>()?;
        let elements = bytemuck::allocation::pod_collect_to_vec(&self.bytes);
        ArrayD::from_shape_vec(IxDyn(&self.shape), elements).map_err(|_| self.no_array())
    }

    /// Converts the elements to `f64`; see [`ElementType::to_f64`].
    #[must_use]
    pub fn to_f64(&self) -> Option<Vec<f64>> {
        self.dtype.to_f64(&self.bytes)
    }

    /// Converts the elements to `f32`; see [`ElementType::to_f32`].
    #[must_use]
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        self.dtype.to_f32(&self.bytes)
    }

    /// Returns the same tensor as cartons have it, sharing its memory.
    ///
    /// # Errors
    /// [`RawTensorError::NotInCartons`] for a float that only weights have; [`RawTensorError::NoArray`] for more
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
    /// Shares the memory of the tensor.
    fn from(tensor: &NumericTensor) -> Self {
        let (storage, offset) = tensor.storage();
        let bytes = SharedBytes::new(storage.clone());
        Self {
            // A numeric tensor never has strings, so that the default is not used.
            dtype: ElementType::from_data_type(tensor.dtype()).unwrap_or(ElementType::Uint8),
            shape: tensor.shape().to_vec(),
            bytes: bytes
                .slice(offset..offset + tensor.bytes().len())
                .unwrap_or_else(|| SharedBytes::from(Vec::<u8>::new())),
        }
    }
}

impl PartialEq for RawTensor {
    /// Compares dtype, shape and bytes.
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && *self.bytes == *other.bytes
    }
}

impl Eq for RawTensor {}

/// Returns the size of a tensor in bytes; `None` if the last element does not end at a byte boundary, or if the size does not fit in
/// memory.
pub(crate) fn n_bytes(dtype: ElementType, shape: &[usize]) -> Option<usize> {
    let n_bytes = dtype.n_bytes(element_count(shape)?)?;
    isize::try_from(n_bytes).is_ok().then_some(n_bytes)
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type for the elements of tensors in files. Every bit pattern is a valid value.
pub trait FileElement: AnyBitPattern + NoUninit + sealed::Sealed {
    /// The element types that this Rust type represents. The first one is its namesake.
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
