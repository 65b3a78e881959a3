//! Inputs and outputs of a graph, and their types.

use carton_tensor::{Dimension, SymbolicShape};

use super::error::ModelFileError;
use crate::element_type::ElementType;
use crate::protobuf::{Field, Message};

/// An input or output of the graph.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GraphValue {
    pub(crate) name: String,
    pub(crate) kind: ValueKind,
}

/// The declared kind of an input or output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueKind {
    /// A tensor.
    Tensor { element: ElementType, shape: SymbolicShape },
    /// A sequence of maps from labels to float32, one for each row: the output of classifiers of `ai.onnx.ml`.
    Scores,
    /// A value that Carton's tensors cannot hold, described in words.
    Other(&'static str),
    /// The file does not state it.
    Undeclared,
}

/// Reads an input, an output or a value between operators.
pub(super) fn graph_value(message: Message<'_>) -> Result<GraphValue, ModelFileError> {
    let mut value = GraphValue { name: String::new(), kind: ValueKind::Undeclared };
    for field in message {
        let field = field?;
        match field.number() {
            1 => field.text()?.clone_into(&mut value.name),
            2 => value.kind = value_kind(field.message()?)?,
            _ => {}
        }
    }
    Ok(value)
}

/// Reads a type.
pub(super) fn value_kind(message: Message<'_>) -> Result<ValueKind, ModelFileError> {
    let mut kind = ValueKind::Undeclared;
    for field in message {
        let field = field?;
        kind = match field.number() {
            1 => tensor_type(field.message()?)?,
            4 => sequence_type(&field)?,
            5 => nested_type(&field, 2, "a map")?,
            7 => ValueKind::Other("an opaque value"),
            8 => ValueKind::Other("a sparse tensor"),
            9 => nested_type(&field, 1, "an optional value")?,
            _ => continue,
        };
    }
    Ok(kind)
}

/// Reads the type of a sequence; only a sequence of maps to float32 can become a tensor.
fn sequence_type(field: &Field<'_>) -> Result<ValueKind, ModelFileError> {
    let sequence = nested_type(field, 1, "a sequence")?;
    for element in field.message()? {
        let element = element?;
        if element.number() != 1 {
            continue;
        }
        for map in element.message()? {
            let map = map?;
            if map.number() == 5 && is_map_of_scores(map.message()?)? {
                return Ok(ValueKind::Scores);
            }
        }
    }
    Ok(sequence)
}

/// Whether a map is from int64 or string to float32.
fn is_map_of_scores(map: Message<'_>) -> Result<bool, ModelFileError> {
    let (mut key, mut is_float) = (ElementType(0), false);
    for field in map {
        let field = field?;
        match field.number() {
            1 => key = ElementType(field.integer()?),
            // Not with `value_kind`: types inside types have been walked once, and are not walked again at each level.
            2 => {
                for value in field.message()? {
                    let value = value?;
                    is_float = value.number() == 1
                        && matches!(
                            tensor_type(value.message()?)?,
                            ValueKind::Tensor { element: ElementType::FLOAT, .. }
                        );
                }
            }
            _ => {}
        }
    }
    Ok(is_float && matches!(key, ElementType::INT64 | ElementType::STRING))
}

/// Reads a type that contains another in the field `inner`, which is walked only to enforce the limits.
fn nested_type(field: &Field<'_>, inner: u64, words: &'static str) -> Result<ValueKind, ModelFileError> {
    for field in field.message()? {
        let field = field?;
        if field.number() == inner {
            value_kind(field.message()?)?;
        }
    }
    Ok(ValueKind::Other(words))
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
