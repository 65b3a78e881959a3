//! Converts inputs into values of the runtime: in place where they have the element type that the model declares.

use std::marker::PhantomData;

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{AlignedBytes, DataType, Number, NumericTensor, Tensor, convert_numbers};
use half::{bf16, f16};
use ort::sys::OrtValue;

use super::element::number;
use super::value::Value;
use crate::element_type::ElementType;
use crate::model_file::{GraphValue, ValueKind};

/// An input, with the converted copy of its elements if it needs one.
pub(super) struct Input<'a> {
    // Dropped before the memory that it uses.
    value: Value<'a>,
    _converted: Option<AlignedBytes>,
    tensor: PhantomData<&'a Tensor>,
}

impl<'a> Input<'a> {
    /// # Errors
    /// ONNX has no such kind of tensor, or the tensor cannot be converted.
    pub(super) fn new(declared: &GraphValue, tensor: &'a Tensor) -> Result<Self, RunnerError> {
        let in_place = |value| Self { value, _converted: None, tensor: PhantomData };
        let made = match tensor {
            Tensor::String(strings) => Value::of_strings(strings.elements(), strings.shape()).map(in_place),
            Tensor::Numeric(tensor) => Self::of_numbers(declared, tensor),
            _ => Err(RunnerError::new("ONNX has no nested tensors")),
        };
        made.map_err(|mut error| {
            error.message = format!("input `{}`: {}", declared.name, error.message);
            error
        })
    }

    fn of_numbers(declared: &GraphValue, tensor: &'a NumericTensor) -> Result<Self, RunnerError> {
        let element = match &declared.kind {
            ValueKind::Tensor { element, .. } => *element,
            _ => ElementType::of(tensor.dtype()),
        };
        let number = number(element).ok_or_else(|| RunnerError::new(format!("ONNX Runtime has no {element}")))?;
        let bytes = tensor.bytes();
        let converted = match element {
            ElementType::FLOAT16 => Some(half_floats::<f16>(tensor)?),
            ElementType::BFLOAT16 => Some(half_floats::<bf16>(tensor)?),
            // The runtime is compiled C++, in which a boolean of another byte than 0 or 1 is undefined behaviour.
            ElementType::BOOL if bytes.iter().any(|&byte| byte > 1) => {
                let mut flags = zeroed(bytes.len())?;
                flags.as_mut_slice().iter_mut().zip(bytes).for_each(|(to, from)| *to = u8::from(*from != 0));
                Some(flags)
            }
            // Tensors from frames and the pool are aligned, but a caller in this process may pass a slice from anywhere.
            _ if !bytes.as_ptr().addr().is_multiple_of(alignment(tensor.dtype())) => Some(AlignedBytes::copy_of(bytes)),
            _ => None,
        };
        let Some(converted) = converted else {
            let value = Value::reading(bytes, tensor.shape(), number)?;
            return Ok(Self { value, _converted: None, tensor: PhantomData });
        };
        let memory: *const [u8] = converted.as_slice();
        // SAFETY: the memory is on the heap, does not move with its owner, is not written to from here on, and is dropped
        // after the value.
        let value = Value::reading(unsafe { &*memory }, tensor.shape(), number)?;
        Ok(Self { value, _converted: Some(converted), tensor: PhantomData })
    }

    pub(super) fn as_ptr(&self) -> *const OrtValue {
        self.value.as_ptr()
    }
}

/// Rounds elements of float32 to half as many bits: to the nearest value, ties to even (IEEE 754-2019, 4.3.1), as
/// `numpy.astype` and ONNX's `Cast` do.
///
/// # Errors
/// A finite element would become infinite.
fn half_floats<H: Number>(tensor: &NumericTensor) -> Result<AlignedBytes, RunnerError> {
    let copied;
    let elements = match tensor.as_slice::<f32>() {
        Ok(elements) => elements,
        Err(_) => {
            copied = tensor.to_vec::<f32>()?;
            &copied
        }
    };
    let mut bytes = zeroed(elements.len() * 2)?;
    let halves: &mut [H] = bytemuck::try_cast_slice_mut(bytes.as_mut_slice())
        .map_err(|error| RunnerError::new(format!("memory for {}: {error}", H::NAME)))?;
    convert_numbers(elements, halves).map_err(|lost| RunnerError::new(lost.in_tensor(tensor.shape()).to_string()))?;
    Ok(bytes)
}

fn zeroed(n_bytes: usize) -> Result<AlignedBytes, RunnerError> {
    AlignedBytes::try_zeroed(n_bytes).ok_or_else(|| RunnerError::new(format!("no memory for {n_bytes} bytes")))
}

fn alignment(dtype: DataType) -> usize {
    dtype.size().unwrap_or(1)
}
