//! Makes values of the runtime of inputs: over the memory that a tensor has, without copying it.

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{AlignedBytes, NumericTensor, Tensor};
use ort::sys::{ONNXType, OrtValue};

use super::Given;
use super::element::number;
use super::empty_sequence;
use super::value::Value;
use crate::element_type::ElementType;
use crate::model_file::{GraphValue, ValueKind};

/// An input, with what its value uses.
pub(super) struct Input<'a> {
    // Dropped before the memory that it uses.
    value: Value<'a>,
    /// The tensors of a list, or the keys and values of a map.
    _parts: Vec<Input<'a>>,
    /// A copy of the elements that has the alignment of their type.
    _aligned: Option<AlignedBytes>,
}

impl<'a> Input<'a> {
    /// # Errors
    /// ONNX Runtime has no such value.
    pub(super) fn new(declared: &GraphValue, given: &'a Given<'_>) -> Result<Self, RunnerError> {
        let made = match given {
            Given::Tensor(tensor) => match (tensor.as_ref(), &declared.kind) {
                (Tensor::Nested(list), ValueKind::Sequence { element, .. }) => Self::of_list(list.elements(), *element),
                (tensor, _) => Self::of_tensor(tensor),
            },
            Given::Map { keys, values } => Self::of_map(keys, values),
        };
        made.map_err(|mut error| {
            error.message = format!("input `{}`: {}", declared.name, error.message);
            error
        })
    }

    fn of_tensor(tensor: &'a Tensor) -> Result<Self, RunnerError> {
        match tensor {
            Tensor::Numeric(numbers) => Self::of_numbers(numbers),
            Tensor::String(strings) => Value::of_strings(strings.elements(), strings.shape()).map(Self::of_value),
            Tensor::Bytes(strings) => Value::of_strings(strings.elements(), strings.shape()).map(Self::of_value),
            _ => Err(RunnerError::new("expected one tensor, found a list")),
        }
    }

    fn of_value(value: Value<'a>) -> Self {
        Self { value, _parts: Vec::new(), _aligned: None }
    }

    fn of_numbers(tensor: &'a NumericTensor) -> Result<Self, RunnerError> {
        let (dtype, bytes) = (tensor.dtype(), tensor.bytes());
        let number =
            number(ElementType::of(dtype)).ok_or_else(|| RunnerError::new(format!("ONNX Runtime has no {dtype}")))?;
        // Tensors from frames and the pool are aligned, but a caller in this process may pass a slice from anywhere.
        if bytes.as_ptr().addr().is_multiple_of(dtype.alignment().unwrap_or(1)) {
            return Value::reading(bytes, tensor.shape(), number).map(Self::of_value);
        }
        let aligned = AlignedBytes::copy_of(bytes);
        let memory: *const [u8] = aligned.as_slice();
        // SAFETY: the memory is on the heap, does not move with its owner, is not written to from here on, and is dropped
        // after the value.
        let value = Value::reading(unsafe { &*memory }, tensor.shape(), number)?;
        Ok(Self { value, _parts: Vec::new(), _aligned: Some(aligned) })
    }

    fn of_list(tensors: &'a [Tensor], element: ElementType) -> Result<Self, RunnerError> {
        if tensors.is_empty() {
            return empty_sequence::make(element).map(Self::of_value);
        }
        Self::of_parts(tensors.iter(), ONNXType::ONNX_TYPE_SEQUENCE)
    }

    fn of_map(keys: &'a Tensor, values: &'a Tensor) -> Result<Self, RunnerError> {
        Self::of_parts([keys, values].into_iter(), ONNXType::ONNX_TYPE_MAP)
    }

    fn of_parts(tensors: impl Iterator<Item = &'a Tensor>, kind: ONNXType) -> Result<Self, RunnerError> {
        let parts = tensors.map(Self::of_tensor).collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const OrtValue> = parts.iter().map(Self::as_ptr).collect();
        let value = Value::of_parts(&pointers, kind)?;
        Ok(Self { value, _parts: parts, _aligned: None })
    }

    pub(super) fn as_ptr(&self) -> *const OrtValue {
        self.value.as_ptr()
    }
}
