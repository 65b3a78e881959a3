//! Conversion from and to `ndarray`, without a copy wherever the memory allows it.
//!
//! A tensor takes over the vector of an owned array in C order, and offers views of its elements in place. An array in another order is
//! copied once.

use ndarray::{Array, ArrayD, ArrayView, ArrayViewD, ArrayViewMutD, Dimension, IxDyn};

use crate::{
    DataType, Element, NumericTensor, StringTensor, Tensor, TensorError, VariableElement, VariableTensor, element_count,
};

/// Takes over the array's memory if its elements are in C order; otherwise copies them into C order.
///
/// ```
/// use carton_tensor::NumericTensor;
/// let tensor = NumericTensor::from(ndarray::array![[1.0_f32, 2.0], [3.0, 4.0]]);
/// assert_eq!(tensor.shape(), [2, 2]);
/// assert_eq!(tensor.view::<f32>()?[[1, 0]], 3.0);
/// # Ok::<(), carton_tensor::TensorError>(())
/// ```
impl<T: Element, D: Dimension> From<Array<T, D>> for NumericTensor {
    fn from(array: Array<T, D>) -> Self {
        let (shape, count) = (array.shape().to_vec(), array.len());
        if array.is_standard_layout() {
            let (elements, first) = array.into_raw_vec_and_offset();
            return Self::over_vec(elements, shape, first.unwrap_or(0), count);
        }
        Self::over_vec(array.iter().copied().collect(), shape, 0, count)
    }
}

/// Copies the elements into C order.
impl<T: Element, D: Dimension> From<ArrayView<'_, T, D>> for NumericTensor {
    fn from(array: ArrayView<'_, T, D>) -> Self {
        let elements = array.as_slice().map_or_else(|| array.iter().copied().collect(), <[T]>::to_vec);
        let count = elements.len();
        Self::over_vec(elements, array.shape().to_vec(), 0, count)
    }
}

/// Converts as for [`NumericTensor`].
///
/// ```
/// use carton_tensor::{DataType, Tensor};
/// assert_eq!(Tensor::from(ndarray::arr0(1_i64)).dtype(), Some(DataType::Int64));
/// assert_eq!(Tensor::from(ndarray::array!["a".to_owned()]).dtype(), Some(DataType::String));
/// ```
impl<T: Element, D: Dimension> From<Array<T, D>> for Tensor {
    fn from(array: Array<T, D>) -> Self {
        Self::Numeric(array.into())
    }
}

impl<T: Element, D: Dimension> From<ArrayView<'_, T, D>> for Tensor {
    fn from(array: ArrayView<'_, T, D>) -> Self {
        Self::Numeric(array.into())
    }
}

impl<D: Dimension> From<Array<String, D>> for StringTensor {
    fn from(array: Array<String, D>) -> Self {
        let (shape, count) = (array.shape().to_vec(), array.len());
        if !array.is_standard_layout() {
            return Self::from_parts(array.iter().cloned().collect(), shape);
        }
        let (mut elements, first) = array.into_raw_vec_and_offset();
        elements.drain(..first.unwrap_or(0));
        elements.truncate(count);
        Self::from_parts(elements, shape)
    }
}

impl<D: Dimension> From<Array<String, D>> for Tensor {
    fn from(array: Array<String, D>) -> Self {
        Self::String(array.into())
    }
}

impl NumericTensor {
    /// Views the elements in place, as an array.
    ///
    /// # Errors
    /// [`TensorError::WrongDataType`]; [`TensorError::Misaligned`], in which case [`to_ndarray`](Self::to_ndarray) makes a copy
    /// instead; [`TensorError::TooLarge`] for an empty tensor whose other dimensions are too large for an array.
    pub fn view<T: Element>(&self) -> Result<ArrayViewD<'_, T>, TensorError> {
        let elements = self.as_slice::<T>()?;
        ArrayViewD::from_shape(IxDyn(self.shape()), elements)
            .map_err(|_| no_array(T::DTYPE, self.shape().to_vec(), elements.len()))
    }

    /// Views the elements for writing, as an array. Returns `None` if another clone shares the storage or the memory is read-only.
    ///
    /// # Errors
    /// As [`view`](Self::view).
    pub fn view_mut<T: Element>(&mut self) -> Result<Option<ArrayViewMutD<'_, T>>, TensorError> {
        let error = no_array(self.dtype(), self.shape().to_vec(), self.bytes().len() / size_of::<T>());
        let shape = IxDyn(self.shape());
        let Some(elements) = self.as_mut_slice::<T>()? else {
            return Ok(None);
        };
        ArrayViewMutD::from_shape(shape, elements).map(Some).map_err(|_| error)
    }

    /// Copies the elements into an array, whatever their alignment.
    ///
    /// # Errors
    /// [`TensorError::WrongDataType`]; [`TensorError::TooLarge`] as for [`view`](Self::view).
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>, TensorError> {
        let elements = self.to_vec::<T>()?;
        let found = elements.len();
        ArrayD::from_shape_vec(IxDyn(self.shape()), elements)
            .map_err(|_| no_array(T::DTYPE, self.shape().to_vec(), found))
    }

    /// Converts the tensor into an array. Does not copy if this tensor is the only owner of a vector of its elements, as it is after
    /// being made from a vector or an array.
    ///
    /// # Errors
    /// As [`to_ndarray`](Self::to_ndarray).
    pub fn into_ndarray<T: Element>(self) -> Result<ArrayD<T>, TensorError> {
        let shape = self.shape().to_vec();
        let elements = self.into_vec::<T>()?;
        let found = elements.len();
        ArrayD::from_shape_vec(IxDyn(&shape), elements).map_err(|_| no_array(T::DTYPE, shape, found))
    }
}

/// Returns the error for `found` elements that do not form an array of this shape.
fn no_array(dtype: DataType, shape: Vec<usize>, found: usize) -> TensorError {
    match element_count(&shape) {
        // The storage has shrunk since the tensor was built.
        Some(expected) if expected != found => {
            TensorError::SizeMismatch { dtype, shape, expected, found, unit: "elements" }
        }
        _ => TensorError::TooLarge { dtype, shape },
    }
}

impl<T: VariableElement> VariableTensor<T> {
    /// Views the elements in place, as an array.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] for an empty tensor whose other dimensions are too large for an array.
    pub fn view(&self) -> Result<ArrayViewD<'_, T>, TensorError> {
        ArrayViewD::from_shape(IxDyn(self.shape()), self.elements())
            .map_err(|_| TensorError::TooLarge { dtype: T::DTYPE, shape: self.shape().to_vec() })
    }

    /// Copies the elements into an array.
    ///
    /// # Errors
    /// As [`view`](Self::view).
    pub fn to_ndarray(&self) -> Result<ArrayD<T>, TensorError> {
        Ok(self.view()?.to_owned())
    }
}

impl Tensor {
    /// Views the elements of a numeric tensor in place, as an array.
    ///
    /// # Errors
    /// As [`NumericTensor::view`]; [`TensorError::WrongDataType`] for strings and nested tensors.
    pub fn view<T: Element>(&self) -> Result<ArrayViewD<'_, T>, TensorError> {
        self.numeric_of::<T>()?.view()
    }

    /// Copies the elements of a numeric tensor into an array.
    ///
    /// # Errors
    /// As [`NumericTensor::to_ndarray`]; [`TensorError::WrongDataType`] for strings and nested tensors.
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>, TensorError> {
        self.numeric_of::<T>()?.to_ndarray()
    }

    /// Converts a numeric tensor into an array. Does not copy if this tensor is the only owner of a vector of its elements.
    ///
    /// ```
    /// use carton_tensor::Tensor;
    /// let array = ndarray::array![[1.0_f32, 2.0], [3.0, 4.0]].into_dyn();
    /// assert_eq!(Tensor::from(array.clone()).into_ndarray::<f32>()?, array);
    /// # Ok::<(), carton_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// As [`NumericTensor::to_ndarray`]; [`TensorError::WrongDataType`] for strings and nested tensors.
    pub fn into_ndarray<T: Element>(self) -> Result<ArrayD<T>, TensorError> {
        match self {
            Self::Numeric(tensor) => tensor.into_ndarray(),
            other => Err(other.is_no::<T>()),
        }
    }

    fn numeric_of<T: Element>(&self) -> Result<&NumericTensor, TensorError> {
        self.as_numeric().ok_or_else(|| self.is_no::<T>())
    }

    fn is_no<T: Element>(&self) -> TensorError {
        let found = match self {
            Self::Numeric(tensor) => tensor.dtype().to_string(),
            Self::String(_) => DataType::String.to_string(),
            Self::Bytes(_) => DataType::Bytes.to_string(),
            Self::Nested(_) => "nested".to_owned(),
        };
        TensorError::WrongDataType { expected: T::DTYPE.to_string(), found }
    }
}

/// Does not copy if the tensor is the only owner of a vector of its elements.
impl<T: Element> TryFrom<Tensor> for ArrayD<T> {
    type Error = TensorError;

    fn try_from(tensor: Tensor) -> Result<Self, Self::Error> {
        tensor.into_ndarray()
    }
}

/// Copies the elements.
impl<T: Element> TryFrom<&Tensor> for ArrayD<T> {
    type Error = TensorError;

    fn try_from(tensor: &Tensor) -> Result<Self, Self::Error> {
        tensor.to_ndarray()
    }
}

/// Copies the elements.
impl<T: Element> TryFrom<&NumericTensor> for ArrayD<T> {
    type Error = TensorError;

    fn try_from(tensor: &NumericTensor) -> Result<Self, Self::Error> {
        tensor.to_ndarray()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fmt::Debug;
    use std::sync::Arc;

    use ndarray::{Array1, Array2, Array3, Axis, arr0, array, s};

    use super::*;
    use crate::{AlignedBytes, Storage};

    /// Checks that a tensor made from the array has its elements and converts back to it.
    fn check<T: Element, D: Dimension + Debug>(array: Array<T, D>, in_place: bool) {
        let expected = array.clone().into_dyn();
        let address = array.as_ptr();
        let tensor = NumericTensor::from(array);
        assert_eq!(tensor.shape(), expected.shape());
        assert_eq!(tensor.view::<T>().unwrap(), expected);
        assert_eq!(tensor.to_ndarray::<T>().unwrap(), expected);
        assert_eq!(ArrayD::<T>::try_from(&Tensor::from(expected.view())).unwrap(), expected);
        if !expected.is_empty() {
            assert_eq!(std::ptr::eq(tensor.as_slice::<T>().unwrap().as_ptr(), address), in_place, "{expected:?}");
        }
        let elements = tensor.bytes().as_ptr();
        let whole = tensor.storage().0.bytes().len() == tensor.bytes().len();
        let back = tensor.into_ndarray::<T>().unwrap();
        assert_eq!(back, expected);
        if !expected.is_empty() {
            assert_eq!(std::ptr::eq(back.as_ptr().cast(), elements), whole);
        }
    }

    #[test]
    fn arrays_survive_and_are_not_copied_needlessly() {
        let cube = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (i * 100 + j * 10 + k) as f32);
        check(cube.clone(), true);
        check(arr0(7_i64), true);
        check(array![1_u8, 2, 3], true);
        check(Array1::<f64>::zeros(0), true);
        check(Array2::<i16>::zeros((3, 0)), true);
        check(Array3::<u64>::zeros((0, 5, 0)), true);
        // In C order, but only a part of the vector.
        check(cube.clone().slice_move(s![1.., .., ..]), true);
        // In another order.
        check(cube.clone().reversed_axes(), false);
        check(cube.clone().slice_move(s![.., ..;2, ..]), false);
        check(cube.clone().slice_move(s![.., ..;-1, ..]), false);
        check(cube.slice_move(s![.., 1..1, ..;-1]), false);
        let mut inverted = array![1_i32, 2, 3];
        inverted.invert_axis(Axis(0));
        check(inverted, false);
    }

    #[test]
    fn strings_survive() {
        let words = array![["a", "b", "c"], ["d", "e", "f"]].mapv(str::to_owned);
        for array in [words.clone(), words.clone().reversed_axes(), words.clone().slice_move(s![1.., ..2])] {
            let tensor = StringTensor::from(array.clone());
            assert_eq!(tensor.to_ndarray().unwrap(), array.into_dyn());
        }
        assert_eq!(StringTensor::from(words.slice_move(s![1.., ..])).elements(), ["d", "e", "f"]);
        assert_eq!(StringTensor::from(arr0("x".to_owned())).shape(), [0_usize; 0]);
    }

    #[test]
    fn shared_elements_are_copied_out() {
        let tensor = NumericTensor::from(array![1_i32, 2]);
        let clone = tensor.clone();
        let mut array = tensor.into_ndarray::<i32>().unwrap();
        array[0] = 9;
        assert_eq!(clone.as_slice::<i32>().unwrap(), [1, 2]);
        assert!(matches!(clone.into_ndarray::<f32>(), Err(TensorError::WrongDataType { .. })));
        // A vector of another type with the same bytes is not a vector of these elements, so it is copied.
        let words = Arc::new(vec![1_u32, 2]);
        let tensor = NumericTensor::new(DataType::Int32, vec![2], words).unwrap();
        assert_eq!(tensor.into_ndarray::<i32>().unwrap(), array![1, 2].into_dyn());
    }

    #[test]
    fn views_are_writable_while_the_storage_is_not_shared() {
        let mut tensor = NumericTensor::from(array![[1_i32, 2], [3, 4]]);
        tensor.view_mut::<i32>().unwrap().unwrap()[[1, 1]] = 9;
        assert_eq!(tensor.as_slice::<i32>().unwrap(), [1, 2, 3, 9]);
        let clone = tensor.clone();
        assert!(tensor.view_mut::<i32>().unwrap().is_none());
        drop(clone);
        assert!(tensor.view_mut::<i32>().unwrap().is_some());
    }

    #[test]
    fn impossible_views_are_errors() {
        let tensor = NumericTensor::from(array![1_i32, 2]);
        assert!(matches!(tensor.view::<u32>(), Err(TensorError::WrongDataType { .. })));
        assert!(matches!(
            Tensor::from_strings(["a"], vec![1]).unwrap().view::<u8>(),
            Err(TensorError::WrongDataType { .. })
        ));

        let odd = NumericTensor::with_offset(DataType::Int32, vec![2], Arc::new(AlignedBytes::zeroed(9)), 1).unwrap();
        assert!(matches!(odd.view::<i32>(), Err(TensorError::Misaligned { .. })));
        assert_eq!(odd.to_ndarray::<i32>().unwrap(), array![0, 0].into_dyn());

        let empty = NumericTensor::from_vec(Vec::<i32>::new(), vec![usize::MAX, 2, 0]).unwrap();
        assert!(matches!(empty.view::<i32>(), Err(TensorError::TooLarge { .. })));
        assert!(matches!(empty.to_ndarray::<i32>(), Err(TensorError::TooLarge { .. })));
    }

    /// Storage that returns fewer bytes on each call.
    struct Shrinking(std::sync::atomic::AtomicUsize, [u8; 64]);

    impl Storage for Shrinking {
        fn bytes(&self) -> &[u8] {
            let len = self.0.fetch_sub(8, std::sync::atomic::Ordering::Relaxed);
            &self.1[..len]
        }
    }

    #[test]
    fn storage_that_shrinks_gives_errors_and_no_elements() {
        let storage = || Arc::new(Shrinking(std::sync::atomic::AtomicUsize::new(64), [0; 64]));
        let tensor = NumericTensor::new(DataType::Uint8, vec![64], storage()).unwrap();
        assert!(tensor.bytes().is_empty());
        assert!(matches!(tensor.view::<u8>(), Err(TensorError::SizeMismatch { expected: 64, found: 0, .. })));
        assert!(matches!(tensor.to_ndarray::<u8>(), Err(TensorError::SizeMismatch { expected: 64, found: 0, .. })));
        let whole = Tensor::from_vec(vec![0_u8; 64], vec![64]).unwrap();
        let tensor = Tensor::from(NumericTensor::new(DataType::Uint8, vec![64], storage()).unwrap());
        assert!(!crate::allclose(&tensor, &whole, crate::Tolerance::default()).passed);
    }

    proptest::proptest! {
        /// Any shape, any order of axes, any steps, either direction.
        #[test]
        fn every_layout_survives(
            axes in proptest::collection::vec((0_usize..5, 1_isize..3, proptest::bool::ANY, proptest::num::u8::ANY), 0..5),
        ) {
            let shape: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
            let mut next = 0_i32;
            let mut array = ArrayD::from_shape_simple_fn(IxDyn(&shape), || {
                next += 1;
                next
            });
            for (axis, &(_, step, backwards, swap)) in axes.iter().enumerate() {
                let step = if backwards { -step } else { step };
                array.slice_axis_inplace(Axis(axis), ndarray::Slice::new(0, None, step));
                array.swap_axes(axis, usize::from(swap) % axes.len());
            }
            let in_place = array.is_standard_layout();
            check(array, in_place);
        }
    }
}
