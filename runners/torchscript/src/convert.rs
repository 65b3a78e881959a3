//! Converts tensors into values for forward, and outputs of the model into tensors.

use carton_runner_interface::runner::{Call, RunnerError};
use carton_tensor::{DataType, StringTensor, Tensor};

use crate::binding::Bound;
use crate::libtorch::{Kind, Output, OutputValue, SharedTensor, Value};

/// Converts an input into a value for forward.
///
/// # Errors
/// The argument or the dictionary takes another kind of tensor, or libtorch lacks the dtype.
pub(crate) fn value<'a>(input: &Bound<'a>) -> Result<Value<'a>, RunnerError> {
    let Some(tensor) = input.tensor else { return Ok(Value::Default) };
    let refuse = |expected: &str| {
        RunnerError::new(format!(
            "input `{}`: expected {expected} (forward takes {}), found {}",
            input.name,
            input.type_name,
            describe(tensor)
        ))
    };
    let hold = |tensor| SharedTensor::new(tensor, input.element).map_err(|error| about("input", input.name, error));
    Ok(match (input.kind, tensor) {
        (Kind::Tensor | Kind::Any, Tensor::Numeric(numbers)) => Value::Tensor(hold(numbers)?),
        (Kind::String | Kind::Any, Tensor::String(text)) if text.shape().is_empty() => {
            Value::String(text.elements().first().map_or("", String::as_str))
        }
        (Kind::StringList | Kind::Any, Tensor::String(texts)) if texts.shape().len() == 1 => {
            Value::StringList(texts.elements())
        }
        (Kind::TensorList | Kind::Any, Tensor::Nested(nested)) => {
            let elements = nested.elements().iter().map(|element| match element {
                Tensor::Numeric(numbers) => hold(numbers),
                _ => Err(refuse("a nested tensor of numbers")),
            });
            Value::TensorList(elements.collect::<Result<_, _>>()?)
        }
        (Kind::Int, tensor) => Value::Int(integer(tensor).ok_or_else(|| refuse("one integer"))?),
        (Kind::Float, tensor) => Value::Float(real(tensor).ok_or_else(|| refuse("one number"))?),
        (Kind::Bool, tensor) => match integer(tensor) {
            Some(flag @ (0 | 1)) => Value::Bool(flag == 1),
            _ => return Err(refuse("one integer that is 0 or 1")),
        },
        (Kind::Tensor, _) => return Err(refuse("numbers")),
        (Kind::String, _) => return Err(refuse("strings of rank 0")),
        (Kind::StringList, _) => return Err(refuse("strings of rank 1")),
        (Kind::TensorList, _) => return Err(refuse("a nested tensor of numbers")),
        (Kind::Any, _) => return Err(refuse("numbers, or strings of rank 0 or 1")),
        (Kind::Dictionary | Kind::Other, _) => return Err(refuse("no input")),
    })
}

/// Converts an output into a tensor. Its numbers are written once, into the memory in which they are sent.
///
/// # Errors
/// There is no room in the pool, a text is not UTF-8, or libtorch reports an error.
pub(crate) fn tensor(output: &Output<'_>, call: &Call, name: &str) -> Result<Tensor, RunnerError> {
    let convert = || -> Result<Tensor, RunnerError> {
        Ok(match output.value()? {
            OutputValue::Tensor { dtype, shape } => {
                let mut target = call.alloc(dtype, &shape)?;
                let bytes = target.bytes_mut().ok_or_else(|| RunnerError::new("memory that cannot be written"))?;
                output.copy_to(bytes)?;
                target.into()
            }
            OutputValue::String(text) => StringTensor::new(vec![utf8(text)?], vec![])?.into(),
            OutputValue::StringList(texts) => {
                let elements = texts.into_iter().map(utf8).collect::<Result<Vec<_>, _>>()?;
                let shape = vec![elements.len()];
                StringTensor::new(elements, shape)?.into()
            }
            OutputValue::TensorList(elements) => {
                let elements = elements.iter().map(|element| tensor(element, call, name));
                Tensor::nested(elements.collect::<Result<_, _>>()?)?
            }
        })
    };
    convert().map_err(|error| if error.message.starts_with("output `") { error } else { about("output", name, error) })
}

fn about(what: &str, name: &str, error: RunnerError) -> RunnerError {
    RunnerError { message: format!("{what} `{name}`: {}", error.message), ..error }
}

fn utf8(text: &[u8]) -> Result<String, RunnerError> {
    String::from_utf8(text.to_vec()).map_err(|_| RunnerError::new("the model returned text that is not UTF-8"))
}

/// Returns the element of an integer tensor of rank 0.
fn integer(tensor: &Tensor) -> Option<i64> {
    let tensor = tensor.as_numeric().filter(|tensor| tensor.shape().is_empty())?;
    match tensor.dtype() {
        DataType::Int8 => tensor.to_vec::<i8>().ok()?.first().map(|&value| value.into()),
        DataType::Int16 => tensor.to_vec::<i16>().ok()?.first().map(|&value| value.into()),
        DataType::Int32 => tensor.to_vec::<i32>().ok()?.first().map(|&value| value.into()),
        DataType::Int64 => tensor.to_vec::<i64>().ok()?.first().copied(),
        DataType::Uint8 => tensor.to_vec::<u8>().ok()?.first().map(|&value| value.into()),
        DataType::Uint16 => tensor.to_vec::<u16>().ok()?.first().map(|&value| value.into()),
        DataType::Uint32 => tensor.to_vec::<u32>().ok()?.first().map(|&value| value.into()),
        DataType::Uint64 => tensor.to_vec::<u64>().ok()?.first().and_then(|&value| value.try_into().ok()),
        _ => None,
    }
}

/// Returns the element of a numeric tensor of rank 0.
fn real(tensor: &Tensor) -> Option<f64> {
    let numbers = tensor.as_numeric().filter(|tensor| tensor.shape().is_empty())?;
    match numbers.dtype() {
        DataType::Float32 => numbers.to_vec::<f32>().ok()?.first().map(|&value| value.into()),
        DataType::Float64 => numbers.to_vec::<f64>().ok()?.first().copied(),
        _ => integer(tensor).map(|value| value as f64),
    }
}

/// Describes a tensor for messages.
fn describe(tensor: &Tensor) -> String {
    let dtype = tensor.dtype().map_or("nothing", DataType::name);
    match tensor.shape() {
        Some(shape) => format!("{dtype} of shape {shape:?}"),
        None => format!("a nested tensor of {dtype}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn inputs_by_what_forward_takes() {
        let check = |kind, tensor: &Tensor, expected: Result<&str, &str>| {
            let input = Bound { name: "x", inner: "x", kind, type_name: "T", tensor: Some(tensor), element: None };
            let found = value(&input).map_err(|error| error.message);
            let found = found.map(|value| match value {
                Value::Tensor(_) => "tensor".to_owned(),
                Value::TensorList(list) => format!("{} tensors", list.len()),
                other => format!("{other:?}"),
            });
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{kind:?} {tensor:?}");
        };
        let numbers = Tensor::from_vec(vec![1.0_f32, 2.0], vec![2]).unwrap();
        let word = Tensor::from_strings(["a"], vec![]).unwrap();
        let words = Tensor::from_strings(["a", "b"], vec![2]).unwrap();
        let table = Tensor::from_strings(["a", "b"], vec![2, 1]).unwrap();
        let nested = Tensor::nested(vec![numbers.clone(), Tensor::scalar(1.0_f32)]).unwrap();
        let nested_words = Tensor::nested(vec![word.clone()]).unwrap();
        for kind in [Kind::Tensor, Kind::Any] {
            check(kind, &numbers, Ok("tensor"));
        }
        check(Kind::Any, &word, Ok("String(\"a\")"));
        check(Kind::Any, &words, Ok("StringList([\"a\", \"b\"])"));
        check(Kind::Any, &nested, Ok("2 tensors"));
        check(
            Kind::Any,
            &table,
            Err(
                "input `x`: expected numbers, or strings of rank 0 or 1 (forward takes T), found string of shape [2, 1]",
            ),
        );
        check(
            Kind::Any,
            &nested_words,
            Err("input `x`: expected a nested tensor of numbers (forward takes T), found a nested tensor of string"),
        );
        check(Kind::Tensor, &words, Err("input `x`: expected numbers (forward takes T), found string of shape [2]"));
        check(
            Kind::Tensor,
            &nested,
            Err("input `x`: expected numbers (forward takes T), found a nested tensor of float32"),
        );
        check(
            Kind::String,
            &words,
            Err("input `x`: expected strings of rank 0 (forward takes T), found string of shape [2]"),
        );
        check(
            Kind::StringList,
            &word,
            Err("input `x`: expected strings of rank 1 (forward takes T), found string of shape []"),
        );
        check(Kind::Int, &Tensor::scalar(7_u8), Ok("Int(7)"));
        check(
            Kind::Int,
            &Tensor::scalar(7.0_f32),
            Err("input `x`: expected one integer (forward takes T), found float32 of shape []"),
        );
        check(Kind::Float, &Tensor::scalar(7_i64), Ok("Float(7.0)"));
        check(Kind::Float, &Tensor::scalar(0.5_f32), Ok("Float(0.5)"));
        check(Kind::Bool, &Tensor::scalar(1_u8), Ok("Bool(true)"));
        check(
            Kind::Bool,
            &Tensor::scalar(2_u8),
            Err("input `x`: expected one integer that is 0 or 1 (forward takes T), found uint8 of shape []"),
        );
    }
}
