//! The arguments of forward: texts, numbers, and tensors, which are not copied.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::Arc;

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{DataType, NumericTensor, StringTensor};

use super::shim::{self, dtype_number, text};

/// A value that is passed to forward, or a part of one.
#[derive(Debug)]
pub enum Value {
    /// A `Tensor`.
    Tensor(SharedTensor),
    /// A `str`: the only element.
    String(StringTensor),
    /// A `List[str]`.
    StringList(StringTensor),
    /// An `int`.
    Int(i64),
    /// A `float`.
    Float(f64),
    /// A `bool`.
    Bool(bool),
    /// A `complex`: its real and its imaginary part.
    Complex(f64, f64),
    /// A list of anything else.
    List(Vec<Value>),
    /// A tuple, or a named tuple in the order of its fields.
    Tuple(Vec<Value>),
    /// A dictionary. Keys that are numbers are written as texts.
    Dictionary(Vec<(String, Value)>),
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
    /// Makes a tensor available to libtorch. Copies it only if its elements are not aligned.
    ///
    /// # Errors
    /// This libtorch lacks the dtype, or a dimension is too large for it.
    pub fn new(tensor: &NumericTensor) -> Result<Self, RunnerError> {
        let dtype = tensor.dtype();
        if !is_supported(dtype) {
            return Err(RunnerError::new(format!(
                "libtorch {} has no tensors of {dtype}",
                crate::identity::LIBTORCH_VERSION
            )));
        }
        let shape = tensor.shape().iter().map(|&size| i64::try_from(size));
        let shape = shape.collect::<Result<_, _>>().map_err(|_| RunnerError::new("a dimension that is too large"))?;
        let aligned = tensor.bytes().as_ptr().addr().is_multiple_of(dtype.alignment().unwrap_or(1));
        let tensor = if aligned { tensor.clone() } else { tensor.copied()? };
        Ok(Self { tensor: Arc::new(tensor), shape })
    }

    fn value(&self) -> shim::Value {
        shim::Value {
            dtype: dtype_number(self.tensor.dtype()),
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
        imaginary: 0.0,
    }
}

/// Arguments as C++ gets them. Owns the lists that they point to; the values that they were made of own the rest.
#[derive(Default)]
pub(super) struct Shared {
    lists: Vec<Vec<shim::Value>>,
    texts: Vec<Vec<shim::Text>>,
}

impl Shared {
    pub(super) fn list(&mut self, values: &[Value]) -> Vec<shim::Value> {
        values.iter().map(|value| self.value(value)).collect()
    }

    /// A value of this kind with elements, which this keeps.
    fn with_elements(&mut self, kind: i32, elements: Vec<shim::Value>) -> shim::Value {
        let value = shim::Value { elements: elements.as_ptr(), n_elements: elements.len(), ..empty_value(kind) };
        self.lists.push(elements);
        value
    }

    fn with_texts<'a>(&mut self, value: shim::Value, texts: impl Iterator<Item = &'a String>) -> shim::Value {
        let texts: Vec<shim::Text> = texts.map(|element| text(element)).collect();
        let value = shim::Value { texts: texts.as_ptr(), n_texts: texts.len(), ..value };
        self.texts.push(texts);
        value
    }

    fn value(&mut self, value: &Value) -> shim::Value {
        match value {
            Value::Tensor(tensor) => tensor.value(),
            Value::String(text) => self.with_texts(empty_value(shim::VALUE_STRING), text.elements().iter()),
            Value::StringList(texts) => self.with_texts(empty_value(shim::VALUE_STRING_LIST), texts.elements().iter()),
            Value::Int(integer) => shim::Value { integer: *integer, ..empty_value(shim::VALUE_INT) },
            Value::Float(real) => shim::Value { real: *real, ..empty_value(shim::VALUE_FLOAT) },
            Value::Bool(flag) => shim::Value { integer: i64::from(*flag), ..empty_value(shim::VALUE_BOOL) },
            Value::Complex(real, imaginary) => {
                shim::Value { real: *real, imaginary: *imaginary, ..empty_value(shim::VALUE_COMPLEX) }
            }
            Value::List(elements) => {
                let elements = self.list(elements);
                self.with_elements(shim::VALUE_LIST, elements)
            }
            Value::Tuple(elements) => {
                let elements = self.list(elements);
                self.with_elements(shim::VALUE_TUPLE, elements)
            }
            Value::Dictionary(entries) => {
                let elements = entries.iter().map(|(_, value)| self.value(value)).collect();
                let value = self.with_elements(shim::VALUE_DICT, elements);
                self.with_texts(value, entries.iter().map(|(key, _)| key))
            }
            Value::Default => empty_value(shim::VALUE_DEFAULT),
        }
    }
}
