//! The arguments of forward: texts, numbers, and tensors, which are not copied.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::Arc;

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{DataType, ElementKind, NumericTensor};

use super::shim::{self, dtype_number, text};

/// The value that is passed to forward for an argument or a key.
#[derive(Debug)]
pub enum Value<'a> {
    /// A `Tensor`.
    Tensor(SharedTensor),
    /// A `str`.
    String(&'a str),
    /// A `List[str]`.
    StringList(&'a [String]),
    /// A `List[Tensor]`.
    TensorList(Vec<SharedTensor>),
    /// An `int`.
    Int(i64),
    /// A `float`.
    Float(f64),
    /// A `bool`.
    Bool(bool),
    /// The argument's default, or `None`.
    Default,
}

/// A tensor whose memory libtorch may use for any length of time.
#[derive(Debug)]
pub struct SharedTensor {
    tensor: Arc<NumericTensor>,
    shape: Vec<i64>,
}

impl SharedTensor {
    /// Makes a tensor available to libtorch, as one of booleans if `element` says that it is. Copies it only if its elements are not aligned
    /// to their size.
    ///
    /// # Errors
    /// This libtorch lacks the dtype, a dimension is too large for it, or an element is not what `element` says.
    pub fn new(tensor: &NumericTensor, element: Option<ElementKind>) -> Result<Self, RunnerError> {
        let tensor = &match element.filter(|kind| kind.dtype() == tensor.dtype()) {
            Some(kind) => tensor.clone().with_element_kind(kind)?,
            None => tensor.clone(),
        };
        let dtype = tensor.dtype();
        if !is_supported(dtype) {
            return Err(RunnerError::new(format!(
                "libtorch {} has no tensors of {dtype}",
                crate::identity::LIBTORCH_VERSION
            )));
        }
        let shape = tensor.shape().iter().map(|&size| i64::try_from(size));
        let shape = shape.collect::<Result<_, _>>().map_err(|_| RunnerError::new("a dimension that is too large"))?;
        let aligned = tensor.bytes().as_ptr().addr().is_multiple_of(dtype.size().unwrap_or(1));
        let tensor = if aligned { tensor.clone() } else { tensor.copied()? };
        Ok(Self { tensor: Arc::new(tensor), shape })
    }

    fn value(&self) -> shim::Value {
        shim::Value {
            dtype: match self.tensor.element_kind() {
                Some(ElementKind::Bool) => shim::BOOLS,
                _ => dtype_number(self.tensor.dtype()),
            },
            data: self.tensor.bytes().as_ptr().cast(),
            shape: self.shape.as_ptr(),
            rank: self.shape.len(),
            owner: owner(&self.tensor),
            ..empty_value(shim::VALUE_TENSOR)
        }
    }
}

/// Whether this libtorch has tensors of a dtype.
pub fn is_supported(dtype: DataType) -> bool {
    shim::carton_supports(dtype_number(dtype))
}

/// The functions with which C++ shares the ownership of an object.
pub(super) fn owner<T: Send + Sync>(object: &Arc<T>) -> shim::Owner {
    unsafe extern "C" fn retain<T>(object: *const c_void) {
        // SAFETY: the pointer came from `Arc::as_ptr` of an `Arc<T>` that is alive: our caller keeps it alive for the call, and
        // afterwards the counts that `retain` has added keep it alive.
        unsafe { Arc::increment_strong_count(object.cast::<T>()) }
    }
    unsafe extern "C" fn release<T>(object: *const c_void) {
        // SAFETY: as above; each call takes back what one call of `retain` added.
        unsafe { Arc::decrement_strong_count(object.cast::<T>()) }
    }
    shim::Owner { object: Arc::as_ptr(object).cast(), retain: retain::<T>, release: release::<T> }
}

fn empty_value(kind: i32) -> shim::Value {
    unsafe extern "C" fn nothing(_: *const c_void) {}
    shim::Value {
        kind,
        dtype: -1,
        data: null(),
        shape: null(),
        rank: 0,
        owner: shim::Owner { object: null(), retain: nothing, release: nothing },
        texts: null(),
        n_texts: 0,
        elements: null(),
        n_elements: 0,
        integer: 0,
        real: 0.0,
    }
}

pub(super) fn texts_of(value: &Value<'_>) -> Vec<shim::Text> {
    match value {
        Value::String(element) => vec![text(element)],
        Value::StringList(elements) => elements.iter().map(|element| text(element)).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn elements_of(value: &Value<'_>) -> Vec<shim::Value> {
    match value {
        Value::TensorList(tensors) => tensors.iter().map(SharedTensor::value).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn share(value: &Value<'_>, texts: &[shim::Text], elements: &[shim::Value]) -> shim::Value {
    let of_kind = |kind| shim::Value {
        texts: texts.as_ptr(),
        n_texts: texts.len(),
        elements: elements.as_ptr(),
        n_elements: elements.len(),
        ..empty_value(kind)
    };
    match value {
        Value::Tensor(tensor) => tensor.value(),
        Value::String(_) => of_kind(shim::VALUE_STRING),
        Value::StringList(_) => of_kind(shim::VALUE_STRING_LIST),
        Value::TensorList(_) => of_kind(shim::VALUE_TENSOR_LIST),
        Value::Int(integer) => shim::Value { integer: *integer, ..empty_value(shim::VALUE_INT) },
        Value::Float(real) => shim::Value { real: *real, ..empty_value(shim::VALUE_FLOAT) },
        Value::Bool(flag) => shim::Value { integer: i64::from(*flag), ..empty_value(shim::VALUE_BOOL) },
        Value::Default => empty_value(shim::VALUE_DEFAULT),
    }
}
