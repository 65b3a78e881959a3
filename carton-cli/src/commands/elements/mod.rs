//! Prints the elements of a tensor for every `cat` command, whatever the tensor's source.

use std::io::{self, Write};

use carton_tensor::files::{ElementType, RawTensor, SharedBytes, Slice, SliceError};
use carton_tensor::npy::{Array, NpyError, write_array};
use carton_tensor::{NestedTensor, StringTensor, Tensor};
use carton_tensor_files::{Remedy, TensorFilesError, Value, is_in_numpy, shown_name};
use serde::Serialize;
use serde::ser::SerializeMap;

use crate::args::ElementsArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Role, ignore_broken_pipe, standard_output};
use crate::tensors::{JsonTensor, json_rows, summary};
use crate::text::{one_line, printable};

/// Returns the requested part of a tensor of numbers of this shape, of which `read` reads a slice: a slice, and of that the first elements. `None` if the
/// whole tensor is requested.
pub(super) fn part_of<E>(
    elements: &ElementsArgs,
    shape: &[usize],
    read: impl FnOnce(&Slice) -> Result<RawTensor, E>,
) -> Result<Option<RawTensor>, Failure>
where
    Failure: From<E>,
{
    let (slice, first) = (elements.slice.as_deref(), elements.first);
    let part = match (slice, first) {
        (Some(text), _) => read(&Slice::parse(text, shape).map_err(unusable)?)?,
        (None, Some(first)) => read(&Slice::first(first, shape))?,
        (None, None) => return Ok(None),
    };
    match first.filter(|_| slice.is_some()) {
        Some(first) => part.slice(&Slice::first(first, part.shape())).map(Some).map_err(unusable),
        None => Ok(Some(part)),
    }
}

/// Returns the requested part of what is no tensor of numbers: the first strings.
pub(super) fn part_of_others(value: Value, elements: &ElementsArgs) -> Result<Value, Failure> {
    match (value, elements.slice.as_deref(), elements.first) {
        (value, None, None) => Ok(value),
        (Value::Strings(strings), None, Some(first)) => Ok(Value::Strings(first_strings(&strings, first))),
        (_, slice, _) => {
            let reason = "only tensors of numbers are sliced".to_owned();
            Err(unusable(SliceError { slice: slice.unwrap_or_default().to_owned(), reason }))
        }
    }
}

/// A slice that cannot be used is a wrong argument.
fn unusable(error: SliceError) -> Failure {
    Failure::usage(error)
}

/// Prints a part of a tensor: as text, one element per line, as an .npy file, or as JSON.
///
/// `dtype` is the type as `ls` shows it, if known: a file may name a type that differs from the type in which its numbers are stored.
pub(super) fn print(
    name: &str,
    dtype: Option<&str>,
    value: Value,
    elements: &ElementsArgs,
    output: &Output,
) -> Result<Exit, Failure> {
    if elements.npy {
        return write_npy(name, value);
    }
    let (stored, tensor) = shown(value)?;
    let dtype = dtype.unwrap_or(&stored);
    if output.is_json() {
        output.json(&Answer { name, dtype, tensor: &tensor })?;
        return Ok(Exit::Ok);
    }
    if elements.first.is_some() {
        output.text(&lines(&tensor))?;
        return Ok(Exit::Ok);
    }
    let (kind, values) = summary(&tensor);
    let kind = match &tensor {
        // The type in the file, not the one to which the numbers were converted for printing.
        Tensor::Nested(_) => kind,
        other => format!("{} {:?}", one_line(dtype), other.shape().unwrap_or_default()),
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

/// Returns the name of the type, and the tensor converted to a printable type.
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
    let numbers = tensor.to_f32().ok_or_else(unprintable)?;
    let wide = RawTensor::new(ElementType::Float32, tensor.shape().to_vec(), SharedBytes::from(numbers));
    Ok(wide.and_then(|wide| wide.to_numeric()).map_err(Failure::new)?.into())
}

/// The output of `--json`: the tensor's name and its type in the file, then the tensor as `carton run` prints an output.
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

#[derive(Debug, thiserror::Error)]
#[error("numbers of {dtype} cannot be printed")]
struct Unprintable {
    dtype: ElementType,
}

/// Each element on a line of its own.
fn lines(tensor: &Tensor) -> String {
    // Numbers that JSON lacks are strings there, but need no quotation marks here.
    let is_text = matches!(tensor, Tensor::String(_));
    let line = |row: String| match row.strip_prefix('"').and_then(|row| row.strip_suffix('"')) {
        Some(number) if !is_text => format!("{number}\n"),
        _ => format!("{}\n", one_line(&row)),
    };
    json_rows(tensor).into_iter().map(line).collect()
}

/// Writes an array to standard output, for programs.
fn write_npy(name: &str, value: Value) -> Result<Exit, Failure> {
    let refused = |what: String, hint| {
        let remedy = Remedy::Text(hint);
        TensorFilesError::CannotHold { format: "an .npy file", name: shown_name(name), what, remedy }.into()
    };
    let array = match value {
        Value::Numbers(tensor) if !is_in_numpy(tensor.dtype()) => {
            let hint = "--json prints them as numbers that programs can read";
            return Err(refused(format!("numbers of {}", tensor.dtype()), hint));
        }
        Value::Numbers(tensor) => Array::Numbers(tensor),
        Value::Strings(tensor) => Array::Strings(tensor),
        Value::Nested(_) => {
            return Err(refused("a list of tensors".to_owned(), "the tensors in the list have names of their own"));
        }
    };
    ignore_broken_pipe(standard_output::check())?;
    let mut bytes = io::BufWriter::new(io::stdout().lock());
    let written = match write_array(&mut bytes, &array) {
        Err(NpyError::Io { source, .. }) => Err(source),
        other => {
            other.map_err(TensorFilesError::from)?;
            bytes.flush()
        }
    };
    ignore_broken_pipe(written).map(|()| Exit::Ok)
}
