//! `carton tensor cat`: the elements of a tensor.

use std::io::{self, Write};

use carton_tensor::files::{ElementType, RawTensor, SharedBytes};
use carton_tensor::npy::{Array, write_array};
use carton_tensor::{NestedTensor, StringTensor, Tensor};
use serde::Serialize;
use serde::ser::SerializeMap;

use super::{Context, ls, slice};
use crate::args::TensorCatArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::{Output, Role, one_line, printable};
use crate::tensor_files::{TensorFileError, Value};
use crate::tensors::{JsonTensor, summary};

/// What `--json` prints: the tensor's name, then what `carton run` prints of an output, with the type that the file has.
struct Answer<'a> {
    name: &'a str,
    dtype: &'a str,
    tensor: &'a Tensor,
}

impl Serialize for Answer<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.name)?;
        map.serialize_entry("dtype", self.dtype)?;
        map.serialize_entry("tensor", &JsonTensor(self.tensor))?;
        map.end()
    }
}

pub(super) async fn run(arguments: TensorCatArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let mut source = super::open_source(arguments.source, context).await?.with_max_dense(arguments.dense.max_dense);
    if let Some(name) = &arguments.name {
        source.keep(name)?;
    }
    let name = match source.listed() {
        [only] => only.name.clone(),
        listed => return Err(TensorFileError::NotOne { place: source.place.clone(), found: listed.len() }.into()),
    };
    let (slice, first) = (arguments.slice, arguments.first);
    let read = name.clone();
    let value = interrupt::blocking(move |_| cut(source.read(&read)?, slice.as_deref(), first)).await?;
    output.progress().finish();
    print(&name, value, arguments.first.is_some(), arguments.npy, output)
}

/// The part of a tensor that was asked for: a slice, or the first so many elements of that.
pub(in crate::commands) fn cut(value: Value, slice: Option<&str>, first: Option<usize>) -> Result<Value, Failure> {
    let (Value::Numbers(tensor), true) = (&value, slice.is_some() || first.is_some()) else {
        return match (&value, slice, first) {
            (_, None, None) => Ok(value),
            (Value::Strings(strings), None, Some(first)) => Ok(Value::Strings(first_strings(strings, first))),
            _ => Err(TensorFileError::Slice {
                slice: slice.unwrap_or_default().to_owned(),
                reason: "only tensors of numbers are sliced".to_owned(),
            }
            .into()),
        };
    };
    let part = match slice {
        Some(slice) => slice::slice(tensor, slice)?,
        None => tensor.clone(),
    };
    let Some(first) = first else { return Ok(Value::Numbers(part)) };
    let part = slice::first(&part, first).ok_or_else(|| TensorFileError::Slice {
        slice: format!("--first {first}"),
        reason: format!("so many numbers of {} do not end between bytes", part.dtype()),
    });
    Ok(Value::Numbers(part?))
}

/// Prints a tensor: as people read it, an element a line, as an .npy file, or as JSON.
pub(in crate::commands) fn print(
    name: &str,
    value: Value,
    an_element_a_line: bool,
    npy: bool,
    output: &Output,
) -> Result<Exit, Failure> {
    if npy {
        return write_npy(value);
    }
    let (dtype, tensor) = shown(value)?;
    if output.is_json() {
        output.json(&Answer { name, dtype: &dtype, tensor: &tensor })?;
        return Ok(Exit::Ok);
    }
    if an_element_a_line {
        output.text(&lines(&tensor))?;
        return Ok(Exit::Ok);
    }
    let (kind, values) = summary(&tensor);
    let kind = match &tensor {
        // The type of the file, not that of what its numbers were made for printing.
        Tensor::Nested(_) => kind,
        other => format!("{dtype} {}", ls::shape(other.shape())),
    };
    let values = printable(&values);
    output.text(&format!("{}  {kind}\n{values}\n", output.paint(Role::Heading, &one_line(name))))?;
    Ok(Exit::Ok)
}

fn first_strings(strings: &StringTensor, first: usize) -> StringTensor {
    let elements: Vec<String> = strings.elements().iter().take(first).cloned().collect();
    let shape = vec![elements.len()];
    StringTensor::new(elements, shape).unwrap_or_else(|_| strings.clone())
}

/// The name of the type, and a tensor of types that can be printed.
fn shown(value: Value) -> Result<(String, Tensor), Failure> {
    match value {
        Value::Strings(strings) => Ok(("string".to_owned(), strings.into())),
        Value::Nested(nested) => Ok(("nested".to_owned(), NestedTensor::into(nested))),
        Value::Numbers(tensor) => Ok((tensor.dtype().name().to_owned(), printable_numbers(&tensor)?)),
    }
}

fn printable_numbers(tensor: &RawTensor) -> Result<Tensor, Failure> {
    if tensor.dtype().data_type().is_some() {
        return Ok(tensor.to_numeric().map_err(Failure::new)?.into());
    }
    let unprintable = || Failure::new(Unprintable { dtype: tensor.dtype() });
    let of = |dtype, shape: Vec<usize>, bytes: SharedBytes| -> Result<Tensor, Failure> {
        let tensor = RawTensor::new(dtype, shape, bytes).map_err(Failure::new)?;
        Ok(tensor.to_numeric().map_err(Failure::new)?.into())
    };
    let shape = tensor.shape().to_vec();
    match tensor.dtype() {
        ElementType::Bool => of(ElementType::Uint8, shape, tensor.bytes().clone()),
        // Real and imaginary part become the last dimension.
        ElementType::Complex64 => of(ElementType::Float32, [shape, vec![2]].concat(), tensor.bytes().clone()),
        ElementType::Complex128 => of(ElementType::Float64, [shape, vec![2]].concat(), tensor.bytes().clone()),
        _ => {
            let numbers = tensor.to_f32().ok_or_else(unprintable)?;
            of(ElementType::Float32, shape, SharedBytes::from(numbers))
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("numbers of {dtype} cannot be printed")]
struct Unprintable {
    dtype: ElementType,
}

/// Each element on a line of its own.
fn lines(tensor: &Tensor) -> String {
    let json = serde_json::to_value(JsonTensor(tensor)).unwrap_or_default();
    let elements = json.get("data").and_then(|data| data.as_array()).cloned().unwrap_or_default();
    let line = |element: &serde_json::Value| match element {
        serde_json::Value::String(text) if matches!(tensor, Tensor::Numeric(_)) => format!("{text}\n"),
        other => format!("{}\n", one_line(&other.to_string())),
    };
    elements.iter().map(line).collect()
}

/// Writes an array to standard output, for programs.
fn write_npy(value: Value) -> Result<Exit, Failure> {
    let array = match value {
        Value::Numbers(tensor) => Array::Numbers(tensor),
        Value::Strings(tensor) => Array::Strings(tensor),
        Value::Nested(_) => {
            return Err(TensorFileError::CannotHold {
                format: "an .npy file",
                name: "it".to_owned(),
                what: "a list of tensors".to_owned(),
                hint: "the tensors in the list have names of their own",
            }
            .into());
        }
    };
    let mut bytes = io::BufWriter::new(io::stdout().lock());
    write_array(&mut bytes, &array).map_err(TensorFileError::from)?;
    match bytes.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(TensorFileError::Io { action: "write", path: "standard output".into(), source: error }.into())
        }
        _ => Ok(Exit::Ok),
    }
}
