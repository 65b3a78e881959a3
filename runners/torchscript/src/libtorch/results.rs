//! The values that a call of forward returned.

use std::ptr::NonNull;
use std::sync::MutexGuard;

use carton_runner_interface::runner::RunnerError;
use carton_tensor::DataType;

use super::shim::{self, bytes_of, dtype_from_number, slice_of};

/// What a call returned.
pub struct Results<'a> {
    results: NonNull<shim::Results>,
    /// Dropped last. Keeps the next call waiting if forward may change the module.
    _alone: Option<MutexGuard<'a, ()>>,
}

/// The value that forward returned, or a part of it.
#[derive(Clone, Copy)]
pub struct Output<'a>(&'a shim::Output);

/// What an output is.
pub enum OutputValue<'a> {
    /// `None`.
    None,
    /// Numbers, which [`Output::copy_to`] writes: a tensor, a number, or a list of numbers.
    Tensor {
        /// The dtype of the elements.
        dtype: DataType,
        /// The length of each dimension.
        shape: Vec<usize>,
    },
    /// A `str`, which need not be UTF-8.
    String(&'a [u8]),
    /// A `List[str]`, or lists of them with one shape.
    StringList {
        /// The texts in order.
        texts: Vec<&'a [u8]>,
        /// The length of each dimension.
        shape: Vec<usize>,
    },
    /// A list of anything else.
    List(Vec<Output<'a>>),
    /// A tuple.
    Tuple(Vec<Output<'a>>),
    /// A named tuple, by its fields.
    Named(Vec<(String, Output<'a>)>),
    /// A dictionary, by its keys.
    Dictionary(Vec<(String, Output<'a>)>),
    /// What no tensors can be, in words.
    Other(String),
}

impl<'a> Results<'a> {
    /// Takes ownership of the shim's results. The guard, if there is one, was held by the call.
    pub(super) fn new(results: NonNull<shim::Results>, alone: Option<MutexGuard<'a, ()>>) -> Self {
        Self { results, _alone: alone }
    }

    /// Returns what forward returned.
    #[must_use]
    pub fn output(&self) -> Output<'_> {
        // SAFETY: the results are alive, and everything that they point to lives as long.
        Output(unsafe { &*shim::carton_output_of(self.results.as_ptr()) })
    }
}

impl Drop for Results<'_> {
    fn drop(&mut self) {
        // SAFETY: we own the results, and they are not used after this.
        unsafe { shim::carton_result_free(self.results.as_ptr()) }
    }
}

impl<'a> Output<'a> {
    /// Returns what the output is.
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
        let elements = elements.iter().map(Output);
        let lengths = || {
            let shape = shape.iter().map(|&size| usize::try_from(size)).collect::<Result<Vec<_>, _>>();
            shape.map_err(|_| RunnerError::new("a negative dimension"))
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(match self.0.kind {
            shim::OUTPUT_STRING => OutputValue::String(texts.next().unwrap_or_default()),
            shim::OUTPUT_STRING_LIST => OutputValue::StringList { texts: texts.collect(), shape: lengths()? },
            shim::OUTPUT_LIST => OutputValue::List(elements.collect()),
            shim::OUTPUT_TUPLE => OutputValue::Tuple(elements.collect()),
            shim::OUTPUT_NAMED_TUPLE => OutputValue::Named(texts.map(text).zip(elements).collect()),
            shim::OUTPUT_DICT => OutputValue::Dictionary(texts.map(text).zip(elements).collect()),
            shim::OUTPUT_NONE => OutputValue::None,
            shim::OUTPUT_TENSOR => {
                let dtype = dtype_from_number(self.0.dtype).ok_or_else(|| RunnerError::new("an unknown dtype"))?;
                OutputValue::Tensor { dtype, shape: lengths()? }
            }
            _ => OutputValue::Other(text(texts.next().unwrap_or_default())),
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
