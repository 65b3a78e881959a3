//! Joins the names of a carton's signature to the inputs and outputs of its model, and its dtypes to those of the model.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use carton_runner_interface::runner::{DeclaredTensor, RunnerError, Tensors};
use carton_tensor::{
    BytesTensor, DataType, NumericTensor, StringTensor, Tensor, TensorError, carried, element_count, restored,
};

use crate::element_type::ElementType;
use crate::model_file::{GraphValue, ModelFile, ValueKind};
use crate::onnx_runtime::{Given, Requested, Returned};
use crate::signature::{check_carried, key_of, problem};

/// The inputs and outputs of a loaded model with the names that callers use.
#[derive(Debug)]
pub(crate) struct Binding {
    inputs: Vec<BoundValue>,
    outputs: Vec<BoundValue>,
}

/// An input or output of the model, and what the carton calls it.
#[derive(Debug)]
struct BoundValue {
    value: GraphValue,
    names: Names,
    /// Whether the carton declares it as bytes.
    is_bytes: bool,
}

/// The names that callers use for an input or output.
#[derive(Debug)]
enum Names {
    /// The one of a tensor, a sequence or a table.
    One(String),
    /// Those of a map's keys that the carton declares, and the keys; without them all keys keep the model's names.
    OfKeys(BTreeMap<String, String>),
}

impl BoundValue {
    /// The key of a map that callers give this name.
    fn key<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        match &self.names {
            Names::One(_) => None,
            Names::OfKeys(keys) if keys.is_empty() => key_of(&self.value, name),
            Names::OfKeys(keys) => keys.get(name).map(String::as_str),
        }
    }

    /// The name for messages.
    fn described(&self) -> String {
        match &self.names {
            Names::One(name) => format!("`{name}`"),
            Names::OfKeys(keys) if keys.is_empty() => format!("`{}.KEY` for each key", self.value.name),
            Names::OfKeys(keys) => keys.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        }
    }

    fn is(&self, name: &str) -> bool {
        matches!(&self.names, Names::One(one) if one == name) || self.key(name).is_some()
    }
}

impl Binding {
    /// Binds the names of a carton (`inputs` and `outputs`, empty where it declares none) to those of the model.
    ///
    /// Inputs that the carton does not declare keep the model's names. If the carton declares no outputs, all outputs keep the
    /// model's names; if it declares some, only those are computed.
    ///
    /// # Errors
    /// The model does not have a declared name, or tensors cannot hold an input or a declared output.
    pub(crate) fn new(
        file: &ModelFile,
        inputs: &[DeclaredTensor],
        outputs: &[DeclaredTensor],
        warn: &mut dyn FnMut(String),
    ) -> Result<Self, RunnerError> {
        check_carried(file)?;
        check_names("input", inputs, &file.inputs)?;
        check_names("output", outputs, &file.outputs)?;
        let bound_inputs = file.inputs.iter().map(|value| bound(value, inputs).0).collect();
        let mut bound_outputs = Vec::new();
        for value in &file.outputs {
            let (bound, is_declared) = bound(value, outputs);
            match (is_declared, problem("output", value)) {
                (false, _) if !outputs.is_empty() => {}
                (false, Some(problem)) => warn(format!("output `{}` is left out: it {problem}", value.name)),
                (true, Some(problem)) => {
                    return Err(RunnerError::new(format!("output `{}` {problem}", value.name)));
                }
                (_, None) => bound_outputs.push(bound),
            }
        }
        Ok(Self { inputs: bound_inputs, outputs: bound_outputs })
    }

    /// Returns the inputs of a call in the model's order, after checking their names and dtypes. Optional inputs that are not there are left
    /// out.
    ///
    /// # Errors
    /// An input is unknown or missing, has neither the dtype that the model takes nor the one that carries it, or has an element that the
    /// model's dtype does not have.
    pub(crate) fn inputs<'a>(&'a self, tensors: &'a Tensors) -> Result<Vec<(&'a GraphValue, Given<'a>)>, RunnerError> {
        if let Some(unknown) = tensors.keys().find(|name| !self.inputs.iter().any(|input| input.is(name))) {
            return Err(RunnerError::new(format!("the model has no input `{unknown}`; {}", self.list_inputs())));
        }
        let mut bound = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let given = match (&input.names, &input.value.kind) {
                (Names::OfKeys(_), ValueKind::Map { key, element }) => Some(of_map(input, *key, *element, tensors)?),
                (Names::One(name), kind) => {
                    let tensor = tensors.get(name).map(|tensor| of_dtype(name, kind, tensor)).transpose()?;
                    if tensor.is_none() && !input.value.is_optional {
                        let message = format!("input `{name}` is missing; {}", self.list_inputs());
                        return Err(RunnerError::new(message));
                    }
                    tensor.map(Given::Tensor)
                }
                (Names::OfKeys(_), _) => None,
            };
            bound.extend(given.map(|given| (&input.value, given)));
        }
        Ok(bound)
    }

    /// The outputs to compute, as the model file declares them.
    pub(crate) fn outputs(&self) -> Vec<Requested<'_>> {
        self.outputs.iter().map(|output| Requested { value: &output.value, is_bytes: output.is_bytes }).collect()
    }

    /// Returns the outputs of a call under the names that callers use.
    ///
    /// # Errors
    /// A map has a key twice.
    pub(crate) fn name_outputs(&self, returned: Vec<Returned>) -> Result<Tensors, RunnerError> {
        let mut tensors = Tensors::new();
        for (output, returned) in self.outputs.iter().zip(returned) {
            match (&output.names, returned) {
                (Names::One(name), Returned::Tensor(tensor)) => {
                    tensors.insert(name.clone(), tensor);
                }
                (Names::OfKeys(declared), Returned::Map(entries)) => {
                    for (key, tensor) in entries {
                        let callers = declared.iter().find(|(_, known)| **known == key).map(|(name, _)| name.clone());
                        let name = match callers {
                            Some(name) => name,
                            None if declared.is_empty() => format!("{}.{key}", output.value.name),
                            None => continue,
                        };
                        if tensors.insert(name.clone(), tensor).is_some() {
                            return Err(RunnerError::new(format!("the model returns two outputs named `{name}`")));
                        }
                    }
                }
                (_, Returned::Nothing) => {}
                (_, _) => {
                    let name = &output.value.name;
                    return Err(RunnerError::new(format!(
                        "output `{name}` is of another kind than the model declares"
                    )));
                }
            }
        }
        Ok(tensors)
    }

    fn list_inputs(&self) -> String {
        let names: Vec<String> = self.inputs.iter().map(BoundValue::described).collect();
        match names.len() {
            0 => "it takes no inputs".to_owned(),
            _ => format!("it takes {}", names.join(", ")),
        }
    }
}

/// A value with its names in a carton, and whether the carton declares it.
fn bound(value: &GraphValue, specs: &[DeclaredTensor]) -> (BoundValue, bool) {
    let (names, is_declared) = if let ValueKind::Map { .. } = value.kind {
        let keys =
            specs.iter().filter_map(|spec| Some((spec.name.clone(), key_of(value, spec.model_name())?.to_owned())));
        let keys: BTreeMap<String, String> = keys.collect();
        let is_declared = !keys.is_empty();
        (Names::OfKeys(keys), is_declared)
    } else {
        let spec = specs.iter().find(|spec| spec.model_name() == value.name);
        (Names::One(spec.map_or(&value.name, |spec| &spec.name).clone()), spec.is_some())
    };
    let mut own = specs.iter().filter(|spec| spec.model_name() == value.name);
    let is_bytes = own.any(|spec| spec.dtype == DataType::Bytes);
    (BoundValue { value: value.clone(), names, is_bytes }, is_declared)
}

/// Checks that the model has each declared name, and that no two declarations stand for one.
fn check_names(what: &str, specs: &[DeclaredTensor], values: &[GraphValue]) -> Result<(), RunnerError> {
    let mut seen = BTreeMap::new();
    for spec in specs {
        let inner = spec.model_name();
        if !values.iter().any(|value| value.name == inner || key_of(value, inner).is_some()) {
            let known: Vec<String> = values.iter().map(|value| format!("`{}`", value.name)).collect();
            return Err(RunnerError::new(format!(
                "the carton declares an {what} `{inner}` that the model does not have; its {what}s are {}",
                known.join(", ")
            )));
        }
        if seen.insert(inner, ()).is_some() {
            return Err(RunnerError::new(format!("the carton declares the {what} `{inner}` of the model twice")));
        }
    }
    Ok(())
}

/// Returns an input in the dtype that the model takes. A tensor of the dtype that carries it becomes one without a loss.
fn of_dtype<'a>(name: &str, kind: &ValueKind, tensor: &'a Tensor) -> Result<Cow<'a, Tensor>, RunnerError> {
    let (element, is_list) = match kind {
        ValueKind::Tensor { element, .. } => (element, false),
        ValueKind::Sequence { element, .. } => (element, true),
        _ => return Ok(Cow::Borrowed(tensor)),
    };
    let Some(expected) = element.carton() else { return Ok(Cow::Borrowed(tensor)) };
    let of_kind = match tensor {
        Tensor::Nested(_) => is_list,
        _ => !is_list || tensor.shape().is_some_and(|shape| !shape.is_empty()),
    };
    match tensor.dtype() {
        Some(found) if of_kind && (found == expected || is_any_string(found, expected)) => {
            check_bools(name, tensor)?;
            as_list(tensor, is_list)
        }
        Some(found) if of_kind && found == expected.carrier() => {
            let exact = restored(tensor, expected);
            let exact = exact.map_err(|error| RunnerError::new(format!("input `{name}`: {error}")))?;
            Ok(Cow::Owned(as_list(&exact, is_list)?.into_owned()))
        }
        // A list without tensors has no dtype.
        None if of_kind => Ok(Cow::Borrowed(tensor)),
        found => {
            let list = if is_list { "a list of tensors of " } else { "" };
            let dtype = found.map_or("nothing", DataType::name);
            let found = match tensor {
                Tensor::Nested(_) if is_list => format!("one of {dtype}"),
                Tensor::Nested(_) => "a list of tensors".to_owned(),
                _ if is_list && found == Some(expected) => "a scalar".to_owned(),
                _ => dtype.to_owned(),
            };
            Err(RunnerError::new(format!("input `{name}`: expected {list}{expected}, found {found}")))
        }
    }
}

/// Whether these are the bytes of a string, which ONNX Runtime takes whatever they are.
fn is_any_string(found: DataType, expected: DataType) -> bool {
    found == DataType::Bytes && expected == DataType::String
}

/// Checks that booleans are 0 or 1. The runtime is compiled C++, in which a boolean of another byte is undefined behaviour.
fn check_bools(name: &str, tensor: &Tensor) -> Result<(), RunnerError> {
    if tensor.dtype() != Some(DataType::Bool) {
        return Ok(());
    }
    let checked = carried(tensor).and_then(|bytes| restored(&bytes, DataType::Bool));
    checked.map(drop).map_err(|error| RunnerError::new(format!("input `{name}`: {error}")))
}

/// The most tensors of a list that comes as one tensor. Without elements it could have any number of rows.
const MAX_LIST: usize = 1 << 20;

/// Returns a tensor for a sequence as the list of its rows, which has the same declared shape; any other tensor as it is.
fn as_list(tensor: &Tensor, is_list: bool) -> Result<Cow<'_, Tensor>, RunnerError> {
    let Some((&count, row)) = tensor.shape().filter(|_| is_list).and_then(<[usize]>::split_first) else {
        return Ok(Cow::Borrowed(tensor));
    };
    if count > MAX_LIST {
        return Err(RunnerError::new(format!("a list of {count} tensors, more than {MAX_LIST}")));
    }
    let n_elements = element_count(row).unwrap_or(0);
    let row_of = |position: usize| -> Result<Tensor, TensorError> {
        let elements = position * n_elements..(position + 1) * n_elements;
        Ok(match tensor {
            Tensor::Numeric(numbers) => {
                let (storage, offset) = numbers.storage();
                let first = offset + elements.start * numbers.dtype().size().unwrap_or(1);
                NumericTensor::with_offset(numbers.dtype(), row.to_vec(), Arc::clone(storage), first)?.into()
            }
            Tensor::String(texts) => {
                let texts = texts.elements().get(elements).unwrap_or_default();
                StringTensor::new(texts.to_vec(), row.to_vec())?.into()
            }
            Tensor::Bytes(texts) => {
                let texts = texts.elements().get(elements).unwrap_or_default();
                BytesTensor::new(texts.to_vec(), row.to_vec())?.into()
            }
            other => other.clone(),
        })
    };
    Ok(Cow::Owned(Tensor::nested((0..count).map(row_of).collect::<Result<_, _>>()?)?))
}

/// Collects the entries of a map: scalars under the names of its keys. Keys that are not given are not in the map.
fn of_map<'a>(
    input: &BoundValue,
    key: ElementType,
    element: ElementType,
    tensors: &'a Tensors,
) -> Result<Given<'a>, RunnerError> {
    let expected = element.carton().unwrap_or(DataType::Float32);
    let mut entries: Vec<(&str, &Tensor)> = Vec::new();
    for (name, tensor) in tensors {
        let Some(key) = input.key(name) else { continue };
        if tensor.dtype() != Some(expected) || tensor.shape() != Some(&[]) {
            return Err(RunnerError::new(format!(
                "input `{name}`: expected a scalar of {expected}, as an entry of a map"
            )));
        }
        entries.push((key, tensor));
    }
    let count = entries.len();
    let keys: Tensor = if key == ElementType::INT64 {
        let numbers = entries.iter().map(|(key, _)| {
            let wrong = || RunnerError::new(format!("input `{}.{key}`: expected an integer as key", input.value.name));
            key.parse::<i64>().map_err(|_| wrong())
        });
        NumericTensor::from_vec(numbers.collect::<Result<Vec<_>, _>>()?, vec![count])?.into()
    } else {
        StringTensor::new(entries.iter().map(|(key, _)| (*key).to_owned()).collect(), vec![count])?.into()
    };
    let values: Tensor = if expected == DataType::String {
        let texts = entries.iter().filter_map(|(_, tensor)| tensor.as_string()).flat_map(StringTensor::elements);
        StringTensor::new(texts.cloned().collect(), vec![count])?.into()
    } else {
        let numbers = entries.iter().filter_map(|(_, tensor)| tensor.as_numeric());
        let bytes: Vec<u8> = numbers.flat_map(NumericTensor::bytes).copied().collect();
        NumericTensor::copy_from_bytes(expected, vec![count], &bytes)?.into()
    };
    Ok(Given::Map { keys, values })
}
