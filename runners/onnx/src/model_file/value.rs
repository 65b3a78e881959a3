//! Inputs and outputs of a graph, and their types.

use carton_tensor::{Dimension, SymbolicShape};

use super::error::ModelFileError;
use crate::element_type::ElementType;
use carton_tensor::onnx::wire::{Field, Message};

/// An input or output of the graph.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GraphValue {
    pub(crate) name: String,
    pub(crate) kind: ValueKind,
    /// Whether the model declares it as optional: an input that a call may leave out, an output that a call may not return.
    pub(crate) is_optional: bool,
}

/// The declared kind of an input or output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueKind {
    /// A tensor.
    Tensor { element: ElementType, shape: SymbolicShape },
    /// A sequence of tensors, each of this type.
    Sequence { element: ElementType, shape: SymbolicShape },
    /// A sequence of maps from labels to float32, one for each row: the output of classifiers of `ai.onnx.ml`.
    Scores,
    /// A map from int64 or strings to scalars.
    Map { key: ElementType, element: ElementType },
    /// A value that Carton's tensors cannot hold, described in words.
    Other(&'static str),
    /// The file does not state it.
    Undeclared,
}

/// A type, and whether it is that of an optional value.
struct ValueType {
    kind: ValueKind,
    is_optional: bool,
}

/// Reads an input, an output or a value between operators.
pub(super) fn graph_value(message: Message<'_>) -> Result<GraphValue, ModelFileError> {
    let mut value = GraphValue { name: String::new(), kind: ValueKind::Undeclared, is_optional: false };
    for field in message {
        let field = field?;
        match field.number() {
            1 => field.text()?.clone_into(&mut value.name),
            2 => ValueType { kind: value.kind, is_optional: value.is_optional } = value_type(field.message()?)?,
            _ => {}
        }
    }
    Ok(value)
}

/// Reads a type that is the attribute of an operator, to enforce the limits.
pub(super) fn check_type(message: Message<'_>) -> Result<(), ModelFileError> {
    value_type(message).map(drop)
}

/// Reads a type. Each type inside another is read once.
fn value_type(message: Message<'_>) -> Result<ValueType, ModelFileError> {
    let mut found = ValueType { kind: ValueKind::Undeclared, is_optional: false };
    for field in message {
        let field = field?;
        let kind = match field.number() {
            1 => tensor_type(field.message()?)?,
            4 => sequence_of(inner_type(&field, 1)?),
            5 => map_type(field.message()?)?,
            7 => ValueKind::Other("an opaque value"),
            8 => ValueKind::Other("a sparse tensor"),
            9 => {
                found = optional_of(inner_type(&field, 1)?);
                continue;
            }
            _ => continue,
        };
        found = ValueType { kind, is_optional: false };
    }
    Ok(found)
}

/// Reads the type that another contains in the field `number`.
fn inner_type(field: &Field<'_>, number: u64) -> Result<ValueType, ModelFileError> {
    let mut inner = ValueType { kind: ValueKind::Undeclared, is_optional: false };
    for field in field.message()? {
        let field = field?;
        if field.number() == number {
            inner = value_type(field.message()?)?;
        }
    }
    Ok(inner)
}

/// The kind of a sequence of values of this type.
fn sequence_of(inner: ValueType) -> ValueKind {
    match inner {
        ValueType { is_optional: true, .. } => ValueKind::Other("a sequence of optional values"),
        ValueType { kind: ValueKind::Tensor { element, shape }, .. } => ValueKind::Sequence { element, shape },
        ValueType { kind: ValueKind::Map { element: ElementType::FLOAT, .. }, .. } => ValueKind::Scores,
        ValueType { kind: ValueKind::Map { .. }, .. } => {
            ValueKind::Other("a sequence of maps to something else than float32")
        }
        ValueType { kind: ValueKind::Sequence { .. } | ValueKind::Scores, .. } => {
            ValueKind::Other("a sequence of sequences")
        }
        ValueType { kind: ValueKind::Other(_) | ValueKind::Undeclared, .. } => {
            ValueKind::Other("a sequence of something else than tensors")
        }
    }
}

/// The type of an optional value of this type.
fn optional_of(inner: ValueType) -> ValueType {
    let kind = match inner {
        ValueType { kind: kind @ (ValueKind::Tensor { .. } | ValueKind::Sequence { .. }), is_optional: false } => kind,
        _ => ValueKind::Other("an optional value that is neither a tensor nor a sequence"),
    };
    ValueType { kind, is_optional: true }
}

/// Reads the type of a map.
fn map_type(map: Message<'_>) -> Result<ValueKind, ModelFileError> {
    let (mut key, mut values) = (ElementType(0), ValueKind::Undeclared);
    for field in map {
        let field = field?;
        match field.number() {
            1 => key = ElementType(field.integer()?),
            2 => values = value_type(field.message()?)?.kind,
            _ => {}
        }
    }
    // The maps that ONNX Runtime has.
    const ELEMENTS: [ElementType; 4] =
        [ElementType::STRING, ElementType::INT64, ElementType::FLOAT, ElementType::DOUBLE];
    Ok(match values {
        ValueKind::Tensor { element, .. }
            if matches!(key, ElementType::INT64 | ElementType::STRING) && ELEMENTS.contains(&element) =>
        {
            ValueKind::Map { key, element }
        }
        _ => ValueKind::Other("a map that ONNX Runtime does not have"),
    })
}

fn tensor_type(message: Message<'_>) -> Result<ValueKind, ModelFileError> {
    let mut element = ElementType(0);
    let mut shape = SymbolicShape::Any;
    for field in message {
        let field = field?;
        match field.number() {
            1 => element = ElementType(field.integer()?),
            2 => {
                let mut dimensions = Vec::new();
                for field in field.message()? {
                    let field = field?;
                    if field.number() == 1 {
                        dimensions.push(dimension(field.message()?)?);
                    }
                }
                shape = SymbolicShape::Dimensions(dimensions);
            }
            _ => {}
        }
    }
    Ok(ValueKind::Tensor { element, shape })
}

fn dimension(message: Message<'_>) -> Result<Dimension, ModelFileError> {
    let mut dimension = Dimension::Any;
    for field in message {
        let field = field?;
        match field.number() {
            // Some exporters write -1 for a size they do not know.
            1 => dimension = u64::try_from(field.integer()?).map_or(Dimension::Any, Dimension::Fixed),
            2 => {
                let name = field.text()?;
                dimension = if is_placeholder(name) { Dimension::Any } else { Dimension::Symbol(name.to_owned()) };
            }
            _ => {}
        }
    }
    Ok(dimension)
}

/// Whether the name of a dimension is what an exporter writes for every size that it does not know, so that the same name at two places does not
/// mean the same size: `?` of Paddle, `None` of Keras, `unk__N` of TensorFlow's, `-1`, and names without a letter or a digit.
fn is_placeholder(name: &str) -> bool {
    let is_numbered = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    matches!(name, "None" | "-1")
        || name.strip_prefix("unk__").is_some_and(is_numbered)
        || !name.chars().any(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_unknown_sizes() {
        for name in ["", "*", "?", " ", "??", "_", "None", "-1", "unk__0", "unk__617"] {
            assert!(is_placeholder(name), "{name:?}");
        }
        for name in ["batch", "N", "none_of_them", "unk__", "unk__n", "unk", "batch?", "s0", "-10", "\u{6279}"] {
            assert!(!is_placeholder(name), "{name:?}");
        }
    }
}
