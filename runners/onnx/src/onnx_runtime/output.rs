//! Copies outputs in the runtime's own memory into tensors. Each element is written once.

use std::sync::Arc;

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{AlignedBytes, BytesTensor, DataType, NumericTensor, StringTensor, Tensor, element_count};
use ort::sys::ONNXType;

use super::element::element;
use super::value::Value;
use super::{Allocate, Requested, Returned};
use crate::element_type::ElementType;
use crate::model_file::ValueKind;

/// Converts an output of a run into what a caller gets.
pub(super) fn read(
    requested: &Requested<'_>,
    value: &Value<'_>,
    allocate: Allocate<'_>,
) -> Result<Returned, RunnerError> {
    read_value(requested, value, allocate).map_err(|mut error| {
        error.message = format!("output `{}`: {}", requested.value.name, error.message);
        error
    })
}

fn read_value(requested: &Requested<'_>, value: &Value<'_>, allocate: Allocate<'_>) -> Result<Returned, RunnerError> {
    if !value.is_there()? {
        return Ok(Returned::Nothing);
    }
    let is_bytes = requested.is_bytes;
    match value.kind()? {
        ONNXType::ONNX_TYPE_TENSOR => tensor(value, is_bytes, allocate).map(Returned::Tensor),
        ONNXType::ONNX_TYPE_SEQUENCE if requested.value.kind == ValueKind::Scores => {
            scores(value, allocate).map(Returned::Tensor)
        }
        ONNXType::ONNX_TYPE_SEQUENCE => list(value, is_bytes, allocate).map(Returned::Tensor),
        ONNXType::ONNX_TYPE_MAP => map(value).map(Returned::Map),
        other => Err(RunnerError::new(format!("the model returns {other:?}, which is no tensor"))),
    }
}

fn tensor(value: &Value<'_>, is_bytes: bool, allocate: Allocate<'_>) -> Result<Tensor, RunnerError> {
    let (number, shape) = value.tensor()?;
    let Some((element, dtype)) = element(number).and_then(|element| Some((element, element.carton()?))) else {
        return Err(RunnerError::new(format!("the model returns {number:?}, which Carton's tensors do not have")));
    };
    let too_large = || RunnerError::new("the model returns more than memory can hold");
    let count = element_count(&shape).ok_or_else(too_large)?;
    if element == ElementType::STRING {
        let strings = value.strings(count)?;
        return if is_bytes { Ok(BytesTensor::new(strings, shape)?.into()) } else { texts(strings, shape) };
    }
    let n_bytes = count.checked_mul(dtype.size().unwrap_or(1)).ok_or_else(too_large)?;
    // SAFETY: an output that is not bound to a device is on the CPU; it has `count` elements of this width.
    let bytes = unsafe { value.bytes(n_bytes) }?;
    let mut tensor = allocate(dtype, &shape)?;
    let written = match dtype {
        // An operator of a library could return other bytes than 0 and 1.
        DataType::Bool => {
            tensor.bytes_mut().map(|to| to.iter_mut().zip(bytes).for_each(|(to, from)| *to = u8::from(*from != 0)))
        }
        _ => tensor.bytes_mut().filter(|to| to.len() == bytes.len()).map(|to| to.copy_from_slice(bytes)),
    };
    written.ok_or_else(|| RunnerError::new("the memory for an output cannot be written"))?;
    Ok(tensor.into())
}

/// Strings as text.
///
/// # Errors
/// One of them is not UTF-8.
fn texts(strings: Vec<Vec<u8>>, shape: Vec<usize>) -> Result<Tensor, RunnerError> {
    let text = |(index, bytes): (usize, Vec<u8>)| {
        String::from_utf8(bytes).map_err(|_| {
            RunnerError::new(format!("string {index} of the output is not valid UTF-8"))
                .with_hint("declare the output as bytes in the metadata, `dtype = \"bytes\"`, and pack the model again")
        })
    };
    let texts = strings.into_iter().enumerate().map(text).collect::<Result<Vec<_>, _>>()?;
    Ok(StringTensor::new(texts, shape)?.into())
}

/// The tensors of a sequence.
fn list(sequence: &Value<'_>, is_bytes: bool, allocate: Allocate<'_>) -> Result<Tensor, RunnerError> {
    let read = |position: usize| {
        tensor(&sequence.part(position)?, is_bytes, allocate).map_err(|mut error| {
            error.message = format!("tensor {position} of the list: {}", error.message);
            error
        })
    };
    let tensors = (0..sequence.count()?).map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(Tensor::nested(tensors)?)
}

/// The keys of a map as text, each with its value as a scalar.
fn map(map: &Value<'_>) -> Result<Vec<(String, Tensor)>, RunnerError> {
    let heap = |dtype: DataType, shape: &[usize]| -> Result<NumericTensor, RunnerError> {
        Ok(NumericTensor::zeroed(dtype, shape.to_vec())?)
    };
    let other = || RunnerError::new("the model returns a map of another kind than to numbers or strings");
    let keys = Labels::read(&map.part(0)?).ok_or_else(other)??.into_texts();
    let scalar = |position: usize, values: &Tensor| -> Result<Tensor, RunnerError> {
        match values {
            Tensor::Numeric(numbers) => {
                let width = numbers.dtype().size().unwrap_or(1);
                let bytes = numbers.bytes().chunks_exact(width).nth(position).ok_or_else(other)?;
                let bytes = Arc::new(AlignedBytes::copy_of(bytes));
                Ok(NumericTensor::new(numbers.dtype(), Vec::new(), bytes)?.into())
            }
            Tensor::String(texts) => {
                let text = texts.elements().get(position).ok_or_else(other)?;
                Ok(StringTensor::new(vec![text.clone()], Vec::new())?.into())
            }
            _ => Err(other()),
        }
    };
    let values = tensor(&map.part(1)?, false, &heap)?;
    let entries = keys.into_iter().enumerate().map(|(position, key)| Ok((key, scalar(position, &values)?)));
    entries.collect()
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
            ElementType::STRING => Some(keys.strings(count).and_then(|keys| {
                let keys = keys.into_iter().map(String::from_utf8).collect::<Result<_, _>>();
                keys.map(Self::Texts).map_err(|_| RunnerError::new("a label is not valid UTF-8"))
            })),
            _ => None,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    fn into_texts(self) -> Vec<String> {
        match self {
            Self::Numbers(numbers) => numbers.iter().map(ToString::to_string).collect(),
            Self::Texts(texts) => texts,
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
