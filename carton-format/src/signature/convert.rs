//! Gives the tensors of a call the declared dtypes.

use std::collections::BTreeSet;

use carton_tensor::{BytesTensor, CastError, DataType, StringTensor, Tensor, Tensors};

use super::{SignatureError, TensorCheck};
use crate::metadata::TensorSpec;
use crate::side::Side;

/// An input that cannot be cast to its declared dtype.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("cannot cast input `{input}` to {dtype}")]
pub struct CastInputError {
    /// The input.
    pub input: String,
    /// The dtype that is declared.
    pub dtype: DataType,
    /// The element that does not fit.
    pub source: Box<CastError>,
}

/// Who gave tensors in the place of the declared ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Giver {
    /// A user. Strings of his are the UTF-8 of declared bytes.
    User,
    /// A runner. Strings of its are the base64 that carries declared bytes. What it returns in a dtype that the declared one carries becomes the
    /// declared one: cartons of writers that know version 1 alone declare carriers.
    Runner,
}

/// Gives tensors the declared dtypes, where they have their [carriers](DataType::carrier): booleans of 0 and 1, half floats of longer ones, bytes of
/// strings. Each value is kept, or is an error.
///
/// Runs whatever the signature mode is: a runner is told what the signature declares, and gets it.
///
/// # Errors
/// Elements that are no values of the declared dtype. All other tensors are changed.
pub fn as_declared(
    side: Side,
    giver: Giver,
    specs: Option<&[TensorSpec]>,
    tensors: &mut Tensors,
) -> Result<(), SignatureError> {
    let specs = specs.unwrap_or_default();
    let mut violations = Vec::new();
    for (name, tensor) in tensors {
        let mut named = specs.iter().filter(|spec| spec.name == *name);
        let Some(spec) = named.next().filter(|_| named.next().is_none()) else { continue };
        match converted(giver, tensor, spec.dtype) {
            Ok(None) => {}
            Ok(Some(converted)) => *tensor = converted,
            Err(error) => TensorCheck { side, name, violations: &mut violations }.report_element(spec.dtype, error),
        }
    }
    if violations.is_empty() { Ok(()) } else { Err(SignatureError { violations }) }
}

/// The tensor with elements of the declared dtype; `None` if it has them, or none that stand for them.
fn converted(giver: Giver, tensor: &Tensor, declared: DataType) -> Result<Option<Tensor>, CastError> {
    let Some(found) = tensor.dtype().filter(|found| *found != declared) else { return Ok(None) };
    if found == declared.carrier() {
        return match giver {
            Giver::User if declared == DataType::Bytes => utf8(tensor).map(Some),
            Giver::User => carton_tensor::restored(tensor, declared).map(Some),
            // Copied first, because the runner could write to the elements after their check.
            Giver::Runner => carton_tensor::restored(&tensor.copied()?, declared).map(Some),
        };
    }
    match giver {
        Giver::Runner if (found, declared) == (DataType::Bytes, DataType::String) => texts(tensor).map(Some),
        Giver::Runner if found.carrier() == declared => carton_tensor::carried(tensor).map(Some),
        _ => Ok(None),
    }
}

/// The texts that bytes are, in UTF-8.
fn texts(tensor: &Tensor) -> Result<Tensor, CastError> {
    match tensor {
        Tensor::Bytes(bytes) => {
            let texts = bytes.elements().iter().enumerate().map(|(position, element)| {
                String::from_utf8(element.clone())
                    .map_err(|error| CastError::NotText { position, reason: error.utf8_error().to_string() })
            });
            Ok(StringTensor::new(texts.collect::<Result<_, _>>()?, bytes.shape().to_vec())?.into())
        }
        Tensor::Nested(nested) => Ok(Tensor::nested(nested.elements().iter().map(texts).collect::<Result<_, _>>()?)?),
        other => Ok(other.clone()),
    }
}

/// The bytes of strings.
fn utf8(tensor: &Tensor) -> Result<Tensor, CastError> {
    match tensor {
        Tensor::String(texts) => {
            let elements = texts.elements().iter().map(|text| text.clone().into_bytes()).collect();
            Ok(BytesTensor::new(elements, texts.shape().to_vec())?.into())
        }
        Tensor::Nested(nested) => Ok(Tensor::nested(nested.elements().iter().map(utf8).collect::<Result<_, _>>()?)?),
        other => Ok(other.clone()),
    }
}

/// Casts tensors to the dtypes of the declared inputs, where no value changes but floats that are rounded to shorter ones
/// ([`carton_tensor::cast`]).
/// Tensors that are not declared stay unchanged. Of several declarations with one name, the first applies.
///
/// # Errors
/// The first tensor with an element that the declared dtype cannot hold.
pub fn cast_inputs<'specs>(
    declared: impl IntoIterator<Item = &'specs TensorSpec>,
    mut tensors: Tensors,
) -> Result<Tensors, CastInputError> {
    let mut names = BTreeSet::new();
    for spec in declared.into_iter().filter(|spec| names.insert(spec.name.as_str())) {
        if let Some(tensor) = tensors.get_mut(&spec.name) {
            *tensor = carton_tensor::cast(tensor, spec.dtype).map_err(|source| CastInputError {
                input: spec.name.clone(),
                dtype: spec.dtype,
                source: Box::new(source),
            })?;
        }
    }
    Ok(tensors)
}
