//! The values that a call of forward returned.

use std::ptr::{NonNull, null};
use std::sync::MutexGuard;

use carton_runner_interface::runner::RunnerError;
use carton_tensor::DataType;

use super::shim::{self, bytes_of, dtype_from_number, slice_of};

/// The structure of the outputs of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// Forward returned one value.
    One,
    /// A tuple.
    Sequence,
    /// A named tuple.
    NamedTuple,
    /// A dictionary of strings.
    Map,
}

/// The values that a call returned.
pub struct Results<'a> {
    results: NonNull<shim::Results>,
    /// Dropped last. Keeps the next call waiting if forward may change the module.
    _alone: Option<MutexGuard<'a, ()>>,
}

/// One output of a call.
pub struct Output<'a>(&'a shim::Output);

/// The value of an output.
pub enum OutputValue<'a> {
    /// Numbers, which [`Output::copy_to`] writes as this dtype. Booleans become `uint8`, float16 and bfloat16 `float32`.
    Tensor {
        /// The dtype of the written elements.
        dtype: DataType,
        /// The length of each dimension.
        shape: Vec<usize>,
    },
    /// A `str`, which need not be UTF-8.
    String(&'a [u8]),
    /// A `List[str]`.
    StringList(Vec<&'a [u8]>),
    /// A `List[Tensor]`.
    TensorList(Vec<Output<'a>>),
}

impl<'a> Results<'a> {
    /// Takes ownership of the shim's results. The guard, if there is one, was held by the call.
    pub(super) fn new(results: NonNull<shim::Results>, alone: Option<MutexGuard<'a, ()>>) -> Self {
        Self { results, _alone: alone }
    }

    /// Returns the structure of the outputs, and the outputs in order.
    pub fn outputs(&self) -> (Structure, Vec<Output<'_>>) {
        let (mut outputs, mut n_outputs) = (null(), 0);
        // SAFETY: the results are alive, and everything that they point to lives as long.
        let (structure, outputs) = unsafe {
            let structure = shim::carton_outputs(self.results.as_ptr(), &raw mut outputs, &raw mut n_outputs);
            (structure, slice_of(outputs, n_outputs))
        };
        let structure = match structure {
            0 => Structure::One,
            1 => Structure::Sequence,
            2 => Structure::NamedTuple,
            _ => Structure::Map,
        };
        (structure, outputs.iter().map(Output).collect())
    }
}

impl Drop for Results<'_> {
    fn drop(&mut self) {
        // SAFETY: we own the results, and they are not used after this.
        unsafe { shim::carton_result_free(self.results.as_ptr()) }
    }
}

impl<'a> Output<'a> {
    /// The output's key or field; empty if it has none.
    pub fn name(&self) -> String {
        // SAFETY: the results, which are borrowed for `'a`, hold the text.
        String::from_utf8_lossy(unsafe { bytes_of(self.0.name) }).into_owned()
    }

    /// Returns the value of the output.
    ///
    /// # Errors
    /// Tensors cannot have its dtype or shape.
    pub fn value(&self) -> Result<OutputValue<'a>, RunnerError> {
        // SAFETY: the results, which are borrowed for `'a`, hold everything that their outputs point to.
        let (texts, elements, shape) = unsafe {
            (
                slice_of(self.0.texts, self.0.n_texts),
                slice_of(self.0.elements, self.0.n_elements),
                slice_of(self.0.shape, self.0.rank),
            )
        };
        // SAFETY: as above.
        let mut texts = texts.iter().map(|&text| unsafe { bytes_of(text) });
        Ok(match self.0.kind {
            shim::OUTPUT_STRING => OutputValue::String(texts.next().unwrap_or_default()),
            shim::OUTPUT_STRING_LIST => OutputValue::StringList(texts.collect()),
            shim::OUTPUT_TENSOR_LIST => OutputValue::TensorList(elements.iter().map(Output).collect()),
            _ => {
                let dtype = dtype_from_number(self.0.dtype).ok_or_else(|| RunnerError::new("an unknown dtype"))?;
                let shape = shape.iter().map(|&size| usize::try_from(size)).collect::<Result<_, _>>();
                OutputValue::Tensor { dtype, shape: shape.map_err(|_| RunnerError::new("a negative dimension"))? }
            }
        })
    }

    /// Writes the elements of a tensor to `target`, which must have exactly their size.
    ///
    /// # Errors
    /// The output is not a tensor, `target` has another size, or libtorch reports an error.
    pub fn copy_to(&self, target: &mut [u8]) -> Result<(), RunnerError> {
        if self.0.tensor.is_null() {
            return Err(RunnerError::new("this output is no tensor"));
        }
        // SAFETY: the output holds a tensor, and the shim compares the size of the target with what it will write.
        unsafe { shim::carton_copy_output(self.0, target.as_mut_ptr().cast(), target.len()) }.check()
    }
}
