//! Converts inputs into values for forward, and what forward returned into values of tensors.

use std::collections::BTreeMap;

use carton_runner_interface::runner::{Call, RunnerError};
use carton_runner_interface::structure;
use carton_tensor::{DataType, NestedTensor, NumericTensor, StringTensor, Tensor};

use crate::binding::{Bound, BoundInputs};
use crate::libtorch::{Output, OutputValue, SharedTensor, Value, ValueType};

/// Converts the inputs of a call into the arguments of forward.
///
/// # Errors
/// An argument or the dictionary takes something else, or libtorch lacks a dtype.
pub(crate) fn arguments(inputs: BoundInputs<'_>) -> Result<Vec<Value>, RunnerError> {
    match inputs {
        BoundInputs::Positional(bound) => bound.into_iter().map(argument).collect(),
        BoundInputs::Dictionary(bound, n_others) => {
            let entries = bound.into_iter().map(|input| Ok((input.inner.clone(), argument(input)?)));
            let dictionary = Value::Dictionary(entries.collect::<Result<_, RunnerError>>()?);
            Ok(std::iter::once(dictionary).chain((0..n_others).map(|_| Value::Default)).collect())
        }
    }
}

/// Converts an input into a value for forward.
///
/// # Errors
/// The argument or the dictionary takes something else, or libtorch lacks the dtype.
pub(crate) fn argument(input: Bound<'_>) -> Result<Value, RunnerError> {
    let Bound { name, value_type, type_name, value, .. } = input;
    match value {
        // A dictionary without entries has no tensors.
        None if matches!(value_type, ValueType::Dictionary(..)) => Ok(Value::Dictionary(Vec::new())),
        None => Ok(Value::Default),
        Some(value) => Conversion { type_name }.value(&name, value_type, Some(value)),
    }
}

/// The most lists that the rows of one tensor become.
const MAX_LISTS: usize = 1 << 24;

/// The conversion of one argument.
struct Conversion<'a> {
    /// The type of the argument, for messages.
    type_name: &'a str,
}

impl Conversion<'_> {
    /// Makes a value of a type.
    fn value(&self, name: &str, value_type: &ValueType, value: Option<structure::Value>) -> Result<Value, RunnerError> {
        let value = match (value_type, value) {
            (ValueType::Optional(_), None | Some(structure::Value::None)) => return Ok(Value::Default),
            (ValueType::Optional(inner), value) => return self.value(name, inner, value),
            (ValueType::Dictionary(..), None) => return Ok(Value::Dictionary(Vec::new())),
            (ValueType::Tuple(elements), None) => return self.tuple(name, elements, Vec::new()),
            (ValueType::Named(fields), None) => return self.named(name, fields, Vec::new()),
            (_, None) => {
                let takes = self.type_name;
                return Err(RunnerError::new(format!("input `{name}` is missing (forward takes {takes})")));
            }
            (_, Some(value)) => value,
        };
        Ok(match (value_type, value) {
            (ValueType::Tensor | ValueType::Any, structure::Value::Tensor(Tensor::Numeric(numbers))) => {
                Value::Tensor(hold(name, &numbers)?)
            }
            (ValueType::String | ValueType::Any, structure::Value::Tensor(Tensor::String(text)))
                if text.shape().is_empty() =>
            {
                Value::String(text)
            }
            (ValueType::Any, structure::Value::Tensor(Tensor::String(texts))) if texts.shape().len() == 1 => {
                Value::StringList(texts)
            }
            (ValueType::Any, structure::Value::List(elements)) => self.list(name, &ValueType::Tensor, elements)?,
            (ValueType::Int, structure::Value::Tensor(tensor)) => {
                Value::Int(integer(&tensor).ok_or_else(|| self.refuse_tensor(name, "one integer", &tensor))?)
            }
            (ValueType::Float, structure::Value::Tensor(tensor)) => {
                Value::Float(real(&tensor).ok_or_else(|| self.refuse_tensor(name, "one number", &tensor))?)
            }
            (ValueType::Complex, structure::Value::Tensor(tensor)) => {
                let number = complex(&tensor).ok_or_else(|| self.refuse_tensor(name, "one complex number", &tensor))?;
                Value::Complex(number.0, number.1)
            }
            (ValueType::Bool, structure::Value::Tensor(tensor)) => match integer(&tensor) {
                Some(flag @ (0 | 1)) => Value::Bool(flag == 1),
                _ => return Err(self.refuse_tensor(name, "one boolean, or one integer that is 0 or 1", &tensor)),
            },
            (ValueType::List(element), value) => self.list_of(name, element.present(), value)?,
            (ValueType::Tuple(elements), structure::Value::Tuple(values)) => {
                let fields = values.into_iter().enumerate();
                self.tuple(name, elements, fields.map(|(index, value)| (index.to_string(), value)).collect())?
            }
            (ValueType::Tuple(elements), structure::Value::Record(fields)) => self.tuple(name, elements, fields)?,
            (ValueType::Named(fields), structure::Value::Record(values)) => self.named(name, fields, values)?,
            (ValueType::Dictionary(key, element), structure::Value::Record(fields)) => {
                self.dictionary(name, key, element, fields)?
            }
            (ValueType::Dictionary(key, element), structure::Value::Tuple(values)) => {
                let fields = values.into_iter().enumerate();
                let fields = fields.map(|(index, value)| (index.to_string(), value)).collect();
                self.dictionary(name, key, element, fields)?
            }
            (value_type, value) => {
                return Err(match value_type {
                    ValueType::Tensor => self.refuse(name, "numbers", &value),
                    ValueType::String => self.refuse(name, "strings of rank 0", &value),
                    ValueType::Any => self.refuse(name, "numbers, strings of rank 0 or 1, or a nested tensor", &value),
                    ValueType::Int => self.refuse(name, "one integer", &value),
                    ValueType::Float | ValueType::Complex => self.refuse(name, "one number", &value),
                    ValueType::Bool => self.refuse(name, "one boolean", &value),
                    ValueType::Tuple(_) => self.refuse(name, &format!("its elements, `{name}.0` and so on"), &value),
                    ValueType::Named(_) => self.refuse(name, &format!("its fields, `{name}.FIELD`"), &value),
                    ValueType::Dictionary(..) => self.refuse(name, &format!("its entries, `{name}.KEY`"), &value),
                    _ => self.refuse(name, "no input", &value),
                });
            }
        })
    }

    fn list_of(&self, name: &str, element: &ValueType, value: structure::Value) -> Result<Value, RunnerError> {
        match (element, value) {
            (_, structure::Value::List(elements)) if elements.is_empty() => Ok(Value::List(Vec::new())),
            (ValueType::String, structure::Value::Tensor(Tensor::String(texts))) if texts.shape().len() == 1 => {
                Ok(Value::StringList(texts))
            }
            (ValueType::String, value) => Err(self.refuse(name, "strings of rank 1", &value)),
            (scalar, structure::Value::Tensor(tensor)) if scalar.is_scalar() => {
                let elements = scalars(&tensor, scalar);
                elements.ok_or_else(|| self.refuse_tensor(name, numbers_of_rank_1(scalar), &tensor)).map(Value::List)
            }
            (scalar, value) if scalar.is_scalar() => Err(self.refuse(name, numbers_of_rank_1(scalar), &value)),
            (element, structure::Value::List(elements)) => self.list(name, element, elements),
            // Regular lists of lists are one tensor.
            (element @ ValueType::List(_), structure::Value::Tensor(tensor)) => {
                self.rows(element, &tensor).ok_or_else(|| self.refuse_tensor(name, "a nested tensor", &tensor))
            }
            // A tensor stands for the list of its parts.
            (ValueType::Tensor | ValueType::Any, structure::Value::Tensor(tensor @ Tensor::Numeric(_))) => {
                let parts = NestedTensor::of_parts(&tensor)?;
                let parts = parts.ok_or_else(|| self.refuse_tensor(name, "a nested tensor of numbers", &tensor))?;
                self.list(name, element, parts.elements().iter().cloned().map(structure::Value::Tensor).collect())
            }
            (ValueType::Tensor | ValueType::Any, value) => Err(self.refuse(name, "a nested tensor of numbers", &value)),
            (ValueType::List(_), value) => Err(self.refuse(name, "a nested tensor", &value)),
            (_, value) => Err(self.refuse(name, "a list", &value)),
        }
    }

    /// The rows of a tensor as lists, if the elements of the list are lists of its rank and of its kind of elements.
    fn rows(&self, element: &ValueType, tensor: &Tensor) -> Option<Value> {
        let (mut scalar, mut rank) = (element, 1);
        while let ValueType::List(inner) = scalar {
            (scalar, rank) = (inner.present(), rank + 1);
        }
        let shape = tensor.shape().filter(|shape| shape.len() == rank)?;
        let (_, outer) = shape.split_last()?;
        // Lists without elements take memory all the same.
        if outer.iter().try_fold(1_usize, |product, &size| product.checked_mul(size)).is_none_or(|n| n > MAX_LISTS) {
            return None;
        }
        match tensor {
            Tensor::String(texts) if *scalar == ValueType::String => {
                let (&length, outer) = shape.split_last()?;
                let mut texts = texts.elements().iter().cloned();
                let mut row = || {
                    let texts = texts.by_ref().take(length).collect();
                    StringTensor::new(texts, vec![length]).ok().map(Value::StringList)
                };
                in_lists(outer, &mut row)
            }
            Tensor::Numeric(numbers) if scalar.is_scalar() => {
                let mut elements = scalars_of(numbers, scalar)?.into_iter();
                in_lists(shape, &mut || elements.next())
            }
            _ => None,
        }
    }

    fn list(&self, name: &str, element: &ValueType, elements: Vec<structure::Value>) -> Result<Value, RunnerError> {
        let below = match element {
            ValueType::Tensor | ValueType::Any => name.to_owned(),
            ValueType::List(inner) if inner.present().is_scalar() => name.to_owned(),
            _ => format!("{name}[]"),
        };
        if matches!(element, ValueType::Tensor | ValueType::Any)
            && let Some(other) = elements.iter().find(|element| !is_numbers(element))
        {
            let found = match other {
                structure::Value::Tensor(tensor) => {
                    format!("a nested tensor of {}", tensor.dtype().map_or("nothing", DataType::name))
                }
                other => describe(other),
            };
            return Err(self.refuse_found(name, "a nested tensor of numbers", &found));
        }
        let elements = elements.into_iter().map(|value| self.value(&below, element, Some(value)));
        elements.collect::<Result<_, _>>().map(Value::List)
    }

    fn tuple(
        &self,
        name: &str,
        elements: &[ValueType],
        fields: Vec<(String, structure::Value)>,
    ) -> Result<Value, RunnerError> {
        let names: Vec<String> = (0..elements.len()).map(|index| index.to_string()).collect();
        self.fields(name, names.iter().map(String::as_str).zip(elements), fields)
    }

    fn named(
        &self,
        name: &str,
        fields: &[(String, ValueType)],
        values: Vec<(String, structure::Value)>,
    ) -> Result<Value, RunnerError> {
        self.fields(name, fields.iter().map(|(field, part)| (field.as_str(), part)), values)
    }

    fn fields<'b>(
        &self,
        name: &str,
        parts: impl Iterator<Item = (&'b str, &'b ValueType)>,
        mut values: Vec<(String, structure::Value)>,
    ) -> Result<Value, RunnerError> {
        let elements = parts.map(|(field, part)| {
            let position = values.iter().position(|(key, _)| key == field);
            let value = position.map(|position| values.swap_remove(position).1);
            self.value(&format!("{name}.{field}"), part, value)
        });
        let elements = elements.collect::<Result<_, _>>()?;
        match values.first() {
            None => Ok(Value::Tuple(elements)),
            Some((key, _)) => {
                let takes = self.type_name;
                Err(RunnerError::new(format!("there is no `{name}.{key}` (forward takes {takes})")))
            }
        }
    }

    fn dictionary(
        &self,
        name: &str,
        key_type: &ValueType,
        element: &ValueType,
        fields: Vec<(String, structure::Value)>,
    ) -> Result<Value, RunnerError> {
        // Keys of tensors may contain dots, which look like parts of values.
        let fields = match element.present() {
            ValueType::Dictionary(..) | ValueType::Tuple(_) | ValueType::Named(_) => fields,
            _ => {
                let mut whole = Vec::with_capacity(fields.len());
                fields.into_iter().for_each(|(key, value)| join_keys(key, value, &mut whole));
                whole
            }
        };
        let mut keys = BTreeMap::new();
        let entries = fields.into_iter().map(|(key, value)| {
            let is_key = match key_type {
                ValueType::Int => key.parse::<i64>().is_ok(),
                ValueType::Float => key.parse::<f64>().is_ok(),
                ValueType::Bool => key == "True" || key == "False",
                _ => true,
            };
            let below = format!("{name}.{key}");
            if !is_key {
                let takes = self.type_name;
                return Err(RunnerError::new(format!("`{below}` is no key of the dictionary (forward takes {takes})")));
            }
            if let Some(other) = keys.insert(written_key(key_type, &key), key.clone()) {
                let takes = self.type_name;
                return Err(RunnerError::new(format!(
                    "`{name}.{other}` and `{below}` are one key of the dictionary (forward takes {takes})"
                )));
            }
            Ok((key, self.value(&below, element, Some(value))?))
        });
        entries.collect::<Result<_, _>>().map(Value::Dictionary)
    }

    fn refuse(&self, name: &str, expected: &str, found: &structure::Value) -> RunnerError {
        self.refuse_found(name, expected, &describe(found))
    }

    fn refuse_tensor(&self, name: &str, expected: &str, found: &Tensor) -> RunnerError {
        self.refuse_found(name, expected, &describe_tensor(found))
    }

    fn refuse_found(&self, name: &str, expected: &str, found: &str) -> RunnerError {
        let takes = self.type_name;
        RunnerError::new(format!("input `{name}`: expected {expected} (forward takes {takes}), found {found}"))
    }
}

/// A key as all texts of the same number write it.
fn written_key(key_type: &ValueType, key: &str) -> String {
    match key_type {
        ValueType::Int => key.parse::<i64>().map_or_else(|_| key.to_owned(), |number| number.to_string()),
        // The sum is 0 for -0 too.
        ValueType::Float => key.parse::<f64>().map_or_else(|_| key.to_owned(), |number| (number + 0.0).to_string()),
        _ => key.to_owned(),
    }
}

fn hold(name: &str, tensor: &NumericTensor) -> Result<SharedTensor, RunnerError> {
    SharedTensor::new(tensor).map_err(|error| about("input", name, error))
}

fn is_numbers(value: &structure::Value) -> bool {
    matches!(value, structure::Value::Tensor(Tensor::Numeric(_)))
}

/// Joins the parts of keys that contain dots.
fn join_keys(key: String, value: structure::Value, whole: &mut Vec<(String, structure::Value)>) {
    let fields: Vec<(String, structure::Value)> = match value {
        structure::Value::Record(fields) => fields,
        structure::Value::Tuple(values) => {
            values.into_iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        value => return whole.push((key, value)),
    };
    fields.into_iter().for_each(|(part, value)| join_keys(format!("{key}.{part}"), value, whole));
}

fn numbers_of_rank_1(scalar: &ValueType) -> &'static str {
    match scalar {
        ValueType::Int => "integers of rank 1",
        ValueType::Bool => "booleans of rank 1, or integers that are 0 or 1",
        _ => "numbers of rank 1",
    }
}

/// The elements of a tensor of rank 1 as values of a type.
fn scalars(tensor: &Tensor, scalar: &ValueType) -> Option<Vec<Value>> {
    scalars_of(tensor.as_numeric().filter(|numbers| numbers.shape().len() == 1)?, scalar)
}

/// The elements of a tensor in order, as values of a type.
fn scalars_of(numbers: &NumericTensor, scalar: &ValueType) -> Option<Vec<Value>> {
    match scalar {
        ValueType::Int => Some(integers(numbers)?.into_iter().map(Value::Int).collect()),
        ValueType::Float => Some(reals(numbers)?.into_iter().map(Value::Float).collect()),
        ValueType::Complex => {
            Some(complexes(numbers)?.into_iter().map(|(real, imaginary)| Value::Complex(real, imaginary)).collect())
        }
        ValueType::Bool => integers(numbers)?
            .into_iter()
            .map(|flag| match flag {
                0 | 1 => Some(Value::Bool(flag == 1)),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// The next elements in lists of this shape.
fn in_lists(shape: &[usize], next: &mut impl FnMut() -> Option<Value>) -> Option<Value> {
    match shape.split_first() {
        None => next(),
        Some((&length, inner)) => (0..length).map(|_| in_lists(inner, next)).collect::<Option<_>>().map(Value::List),
    }
}

/// The elements, if they are integers or booleans that `int64` has.
fn integers(numbers: &NumericTensor) -> Option<Vec<i64>> {
    if !numbers.dtype().is_integer() && numbers.dtype() != DataType::Bool {
        return None;
    }
    let wide = carton_tensor::cast(&numbers.clone().into(), DataType::Int64).ok()?;
    wide.as_numeric()?.to_vec::<i64>().ok()
}

/// The elements as `float64`, the nearest to each.
fn reals(numbers: &NumericTensor) -> Option<Vec<f64>> {
    match numbers.dtype() {
        DataType::Float64 => numbers.to_vec::<f64>().ok(),
        dtype if dtype.is_float() => {
            let wide = carton_tensor::cast(&numbers.clone().into(), DataType::Float64).ok()?;
            wide.as_numeric()?.to_vec::<f64>().ok()
        }
        _ => Some(integers(numbers)?.into_iter().map(|value| value as f64).collect()),
    }
}

/// The elements as pairs of `float64`.
fn complexes(numbers: &NumericTensor) -> Option<Vec<(f64, f64)>> {
    match numbers.dtype() {
        DataType::Complex64 => {
            let numbers = numbers.to_vec::<carton_tensor::Complex<f32>>().ok()?;
            Some(numbers.into_iter().map(|number| (number.re.into(), number.im.into())).collect())
        }
        DataType::Complex128 => {
            let numbers = numbers.to_vec::<carton_tensor::Complex<f64>>().ok()?;
            Some(numbers.into_iter().map(|number| (number.re, number.im)).collect())
        }
        _ => Some(reals(numbers)?.into_iter().map(|real| (real, 0.0)).collect()),
    }
}

fn single(tensor: &Tensor) -> Option<&NumericTensor> {
    tensor.as_numeric().filter(|numbers| numbers.shape().is_empty())
}

/// Returns the element of an integer tensor of rank 0.
fn integer(tensor: &Tensor) -> Option<i64> {
    integers(single(tensor)?)?.first().copied()
}

/// Returns the element of a numeric tensor of rank 0.
fn real(tensor: &Tensor) -> Option<f64> {
    reals(single(tensor)?)?.first().copied()
}

fn complex(tensor: &Tensor) -> Option<(f64, f64)> {
    complexes(single(tensor)?)?.first().copied()
}

/// Converts what forward returned, or a part of it with the name `name`, into a value of tensors. Numbers are written once, into the memory
/// in which they are sent. Names of parts that are None are added to `nones`.
///
/// # Errors
/// There is no room in the pool, a text is not UTF-8, no tensor can be a part, or libtorch reports an error.
pub(crate) fn value(
    output: &Output<'_>,
    call: &Call,
    name: &str,
    nones: &mut Vec<String>,
) -> Result<structure::Value, RunnerError> {
    let failed = |error: RunnerError| about("output", name, error);
    Ok(match output.value().map_err(failed)? {
        OutputValue::None => {
            nones.push(name.to_owned());
            structure::Value::None
        }
        OutputValue::Tensor { dtype, shape } => {
            let write = || -> Result<Tensor, RunnerError> {
                let mut target = call.alloc(dtype, &shape)?;
                let bytes = target.bytes_mut().ok_or_else(|| RunnerError::new("memory that cannot be written"))?;
                output.copy_to(bytes)?;
                Ok(target.into())
            };
            structure::Value::Tensor(write().map_err(failed)?)
        }
        OutputValue::String(text) => structure::Value::Tensor(texts(vec![text], vec![]).map_err(failed)?),
        OutputValue::StringList { texts: list, shape } => structure::Value::Tensor(texts(list, shape).map_err(failed)?),
        OutputValue::List(elements) => {
            // What is None in a list is no output of its own.
            let mut inside = Vec::new();
            let below = format!("{name}[]");
            let elements = elements.iter().map(|element| value(element, call, &below, &mut inside));
            structure::Value::List(elements.collect::<Result<_, _>>()?)
        }
        OutputValue::Tuple(elements) => {
            let elements = elements.iter().enumerate();
            let elements = elements.map(|(index, element)| value(element, call, &format!("{name}.{index}"), nones));
            structure::Value::Tuple(elements.collect::<Result<_, _>>()?)
        }
        OutputValue::Named(fields) | OutputValue::Dictionary(fields) => {
            let fields = fields.into_iter().map(|(key, element)| {
                let value = value(&element, call, &format!("{name}.{key}"), nones)?;
                Ok((key, value))
            });
            structure::Value::Record(fields.collect::<Result<_, RunnerError>>()?)
        }
        OutputValue::Other(what) => {
            return Err(RunnerError::new(format!(
                "output `{name}` is {what}; expected tensors, numbers, texts, None, and tuples, lists and dictionaries of them"
            )));
        }
    })
}

fn about(what: &str, name: &str, error: RunnerError) -> RunnerError {
    RunnerError { message: format!("{what} `{name}`: {}", error.message), ..error }
}

fn texts(texts: Vec<&[u8]>, shape: Vec<usize>) -> Result<Tensor, RunnerError> {
    let texts = texts.into_iter().map(|text| {
        String::from_utf8(text.to_vec()).map_err(|_| RunnerError::new("the model returned text that is not UTF-8"))
    });
    Ok(StringTensor::new(texts.collect::<Result<_, _>>()?, shape)?.into())
}

/// Describes a value for messages.
fn describe(value: &structure::Value) -> String {
    match value {
        structure::Value::None => "nothing".to_owned(),
        structure::Value::Tensor(tensor) => describe_tensor(tensor),
        structure::Value::Tuple(elements) => format!("a tuple of {} elements", elements.len()),
        structure::Value::Record(fields) => {
            let keys: Vec<String> = fields.iter().map(|(key, _)| format!("`{key}`")).collect();
            format!("parts with the names {}", keys.join(", "))
        }
        structure::Value::List(elements) => match elements.first() {
            Some(structure::Value::Tensor(tensor)) => {
                format!("a nested tensor of {}", tensor.dtype().map_or("nothing", DataType::name))
            }
            Some(_) => format!("a list of {} elements", elements.len()),
            None => "a nested tensor of nothing".to_owned(),
        },
    }
}

fn describe_tensor(tensor: &Tensor) -> String {
    let dtype = tensor.dtype().map_or("nothing", DataType::name);
    match tensor.shape() {
        Some(shape) => format!("{dtype} of shape {shape:?}"),
        None => format!("a nested tensor of {dtype}"),
    }
}

#[cfg(test)]
mod tests;
