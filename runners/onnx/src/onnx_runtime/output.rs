//! Converts outputs in the runtime's own memory into tensors. Each element is written once.

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{DataType, NumericTensor, StringTensor, Tensor, element_count};
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use ort::sys::ONNXType;

use super::Allocate;
use super::element::element;
use super::value::Value;
use crate::element_type::ElementType;
use crate::model_file::GraphValue;

/// Converts an output of a run into a tensor of Carton.
pub(super) fn read(declared: &GraphValue, value: &Value<'_>, allocate: Allocate<'_>) -> Result<Tensor, RunnerError> {
    let read = match value.kind()? {
        ONNXType::ONNX_TYPE_TENSOR => tensor(value, allocate),
        ONNXType::ONNX_TYPE_SEQUENCE => scores(value, allocate),
        other => Err(RunnerError::new(format!("the model returns {other:?}, which is no tensor"))),
    };
    read.map_err(|mut error| {
        error.message = format!("output `{}`: {}", declared.name, error.message);
        error
    })
}

fn tensor(value: &Value<'_>, allocate: Allocate<'_>) -> Result<Tensor, RunnerError> {
    let (number, shape) = value.tensor()?;
    let Some((element, dtype)) = element(number).and_then(|element| Some((element, element.carton()?))) else {
        return Err(RunnerError::new(format!("the model returns {number:?}, which Carton's tensors do not have")));
    };
    let count = element_count(&shape).ok_or_else(|| RunnerError::new("the model returns more than memory can hold"))?;
    if dtype == DataType::String {
        return Ok(StringTensor::new(value.strings(count)?, shape)?.into());
    }
    let width = element.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(1);
    let n_bytes = count.checked_mul(width);
    let n_bytes = n_bytes.ok_or_else(|| RunnerError::new("the model returns more than memory can hold"))?;
    // SAFETY: an output that is not bound to a device is on the CPU; it has `count` elements of this width.
    let bytes = unsafe { value.bytes(n_bytes) }?;
    let mut tensor = allocate(dtype, &shape)?;
    let written = match element {
        ElementType::FLOAT16 => floats(&mut tensor, bytes, |halves, floats| {
            halves.reinterpret_cast::<f16>().convert_to_f32_slice(floats);
        })?,
        ElementType::BFLOAT16 => floats(&mut tensor, bytes, |halves, floats| {
            halves.reinterpret_cast::<bf16>().convert_to_f32_slice(floats);
        })?,
        ElementType::BOOL => {
            tensor.bytes_mut().map(|to| to.iter_mut().zip(bytes).for_each(|(to, from)| *to = u8::from(*from != 0)))
        }
        _ => tensor.bytes_mut().filter(|to| to.len() == bytes.len()).map(|to| to.copy_from_slice(bytes)),
    };
    written.ok_or_else(|| RunnerError::new("the memory for an output cannot be written"))?;
    Ok(tensor.into())
}

/// Converts elements of 16 bits to float32, which holds them exactly.
fn floats(
    tensor: &mut NumericTensor,
    bytes: &[u8],
    convert: impl FnOnce(&[u16], &mut [f32]),
) -> Result<Option<()>, RunnerError> {
    let halves: &[u16] =
        bytemuck::try_cast_slice(bytes).map_err(|error| RunnerError::new(format!("elements of 2 bytes: {error}")))?;
    let floats = tensor.as_mut_slice::<f32>()?.filter(|floats| floats.len() == halves.len());
    Ok(floats.map(|floats| convert(halves, floats)))
}

/// Converts a sequence of maps from labels to numbers, one for each row, into a table with a column for each label, in ascending
/// order of the labels. Classifiers of `ai.onnx.ml` return such a sequence (`ZipMap`), and without `ZipMap` such a table.
fn scores(sequence: &Value<'_>, allocate: Allocate<'_>) -> Result<Tensor, RunnerError> {
    let no_table = |found: &str| {
        RunnerError::new(format!(
            "the model returns a sequence of {found}; Carton's tensors hold one of maps to float32"
        ))
        .with_hint("convert the model with the option zipmap=False, or so that it returns tensors")
    };
    let n_rows = sequence.count()?;
    let mut labels: Option<Labels> = None;
    let mut table: Vec<f32> = Vec::new();
    for row in 0..n_rows {
        let map = sequence.part(row)?;
        if map.kind()? != ONNXType::ONNX_TYPE_MAP {
            return Err(no_table("something else"));
        }
        let (keys, values) = (map.part(0)?, map.part(1)?);
        let found = Labels::read(&keys).ok_or_else(|| no_table("maps from something else"))??;
        let NumericElements { elements } = NumericElements::read(&values).ok_or_else(|| no_table("other maps"))??;
        if labels.get_or_insert_with(|| found.clone()) != &found || elements.len() != found.len() {
            return Err(RunnerError::new(format!("row {row} of the sequence has other labels than the first")));
        }
        table.extend(elements);
    }
    let n_columns = labels.as_ref().map_or(0, Labels::len);
    let order = labels.map(|labels| labels.ascending()).unwrap_or_default();
    let mut tensor = allocate(DataType::Float32, &[n_rows, n_columns])?;
    let to = tensor.as_mut_slice::<f32>()?;
    let to = to.ok_or_else(|| RunnerError::new("the memory for an output cannot be written"))?;
    if n_columns > 0 {
        for (to, from) in to.chunks_exact_mut(n_columns).zip(table.chunks_exact(n_columns)) {
            to.iter_mut().zip(&order).for_each(|(to, &column)| *to = from.get(column).copied().unwrap_or_default());
        }
    }
    Ok(tensor.into())
}

/// The keys of a map.
#[derive(Clone, PartialEq)]
enum Labels {
    Numbers(Vec<i64>),
    Texts(Vec<String>),
}

impl Labels {
    /// Reads labels. Returns `None` if they are neither int64 nor strings.
    fn read(keys: &Value<'_>) -> Option<Result<Self, RunnerError>> {
        let (number, shape) = keys.tensor().ok()?;
        let count = element_count(&shape)?;
        match element(number)? {
            // SAFETY: the runtime has just copied the keys into memory of the CPU, `count` of them.
            ElementType::INT64 => Some(unsafe { keys.bytes(count * 8) }.map(|bytes| {
                Self::Numbers(bytes.as_chunks().0.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect())
            })),
            ElementType::STRING => Some(keys.strings(count).map(Self::Texts)),
            _ => None,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    /// The positions of the labels in ascending order of the labels.
    fn ascending(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        match self {
            Self::Numbers(numbers) => order.sort_by_key(|&position| numbers.get(position)),
            Self::Texts(texts) => order.sort_by_key(|&position| texts.get(position)),
        }
        order
    }
}

/// The values of a map.
struct NumericElements {
    elements: Vec<f32>,
}

impl NumericElements {
    /// Reads the values. Returns `None` if they are not float32.
    fn read(values: &Value<'_>) -> Option<Result<Self, RunnerError>> {
        let (number, shape) = values.tensor().ok()?;
        let count = element_count(&shape)?;
        if element(number)? != ElementType::FLOAT {
            return None;
        }
        // SAFETY: the runtime has just copied the values into memory of the CPU, `count` of them.
        let bytes = unsafe { values.bytes(count * 4) };
        Some(bytes.map(|bytes| Self {
            elements: bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect(),
        }))
    }
}
