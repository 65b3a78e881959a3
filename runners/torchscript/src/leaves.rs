//! The names of the tensors that make a value of a type (spec/structured-values.md). Pure.

use carton_runner_interface::signature::Elements;
use carton_runner_interface::structure::{MAX_LEAVES, MAX_LEVELS};
use carton_tensor::{DataType, Dimension, SymbolicShape};

use crate::libtorch::ValueType;

/// What stands for a key of a dictionary, which is not known.
const KEY: char = '\0';
/// How messages show it.
const SHOWN_KEY: &str = "KEY";

/// A tensor that is part of the value of an input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaf {
    /// The name, with [`KEY`] for each key of a dictionary.
    pattern: String,
    /// The elements that it may have.
    pub(crate) elements: Elements,
    /// The shapes that it may have.
    pub(crate) shape: SymbolicShape,
    /// Whether the value cannot be without it.
    pub(crate) is_required: bool,
    is_nested: bool,
}

impl Leaf {
    /// The name for messages.
    pub(crate) fn shown(&self) -> String {
        self.pattern.replace(KEY, SHOWN_KEY)
    }

    /// The name, if no part of it is a key that is not known.
    pub(crate) fn name(&self) -> Option<&str> {
        Some(self.pattern.as_str()).filter(|pattern| !pattern.contains(KEY))
    }

    /// Whether this may be the name of a tensor.
    pub(crate) fn is(&self, name: &str) -> bool {
        matches(&self.pattern, name)
    }
}

/// Whether a name has a pattern. A key at the end may contain dots, because dictionaries of tensors have any keys.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once(KEY) else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    let end = match after {
        "" => rest.find(['[', ']']).unwrap_or(rest.len()),
        _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
    };
    end > 0 && rest.split_at_checked(end).is_some_and(|(_, rest)| matches(after, rest))
}

/// Returns the leaves of a value of this type with the name `name`; `None` if there is a part that no input can be passed for, or more levels or
/// leaves than values have.
pub(crate) fn leaves(name: &str, value_type: &ValueType) -> Option<Vec<Leaf>> {
    let mut leaves = Vec::new();
    add(name, value_type, true, 0, &mut leaves)?;
    Some(leaves)
}

fn add(name: &str, value_type: &ValueType, is_required: bool, level: usize, leaves: &mut Vec<Leaf>) -> Option<()> {
    // Each level of lists in lists has the leaves of the level below, and their lengths.
    if level > MAX_LEVELS {
        return None;
    }
    let below = level + 1;
    let ranked = |rank| SymbolicShape::Dimensions(vec![Dimension::Any; rank]);
    let mut push = |elements, shape, is_nested| {
        leaves.push(Leaf { pattern: name.to_owned(), elements, shape, is_required, is_nested });
        (leaves.len() <= MAX_LEAVES).then_some(())
    };
    match value_type {
        ValueType::Tensor => push(Elements::Numbers, SymbolicShape::Any, false),
        ValueType::Any => push(Elements::Any, SymbolicShape::Any, false),
        ValueType::Other => None,
        scalar if scalar.is_scalar() => push(elements_of(scalar), ranked(0), false),
        ValueType::Optional(inner) => {
            let n_leaves = leaves.len();
            if add(name, inner, false, below, leaves).is_none() {
                leaves.truncate(n_leaves);
            }
            Some(())
        }
        ValueType::List(element) => match element.present() {
            scalar if scalar.is_scalar() => push(elements_of(scalar), ranked(1), false),
            ValueType::List(inner) if inner.present().is_scalar() => {
                push(elements_of(inner.present()), SymbolicShape::Any, true)
            }
            ValueType::Tensor => push(Elements::Numbers, SymbolicShape::Any, true),
            ValueType::Any => push(Elements::Any, SymbolicShape::Any, true),
            element => {
                let mut inner = Vec::new();
                add(&format!("{name}[]"), element, is_required, below, &mut inner)?;
                for leaf in inner {
                    if leaves.len() >= MAX_LEAVES {
                        return None;
                    }
                    if leaf.is_nested {
                        let lengths = format!("{}.#", leaf.pattern);
                        leaves.push(Leaf { pattern: format!("{}[]", leaf.pattern), ..leaf.clone() });
                        let elements = Elements::Only(DataType::Int64);
                        leaves.push(Leaf { pattern: lengths, elements, shape: ranked(1), is_nested: false, ..leaf });
                    } else {
                        leaves.push(Leaf { shape: SymbolicShape::Any, is_nested: true, ..leaf });
                    }
                }
                Some(())
            }
        },
        ValueType::Dictionary(_, value) => add(&format!("{name}.{KEY}"), value, false, below, leaves),
        ValueType::Tuple(elements) => elements
            .iter()
            .enumerate()
            .try_for_each(|(index, element)| add(&format!("{name}.{index}"), element, is_required, below, leaves)),
        ValueType::Named(fields) => fields
            .iter()
            .try_for_each(|(field, part)| add(&format!("{name}.{field}"), part, is_required, below, leaves)),
        _ => None,
    }
}

fn elements_of(scalar: &ValueType) -> Elements {
    if *scalar == ValueType::String { Elements::Only(DataType::String) } else { Elements::Numbers }
}

/// Whether the value of a type is one tensor, so that its only leaf has its name.
pub(crate) fn is_one_leaf(value_type: &ValueType) -> bool {
    match value_type.present() {
        ValueType::List(element) => match element.present() {
            ValueType::List(inner) => inner.present().is_scalar(),
            element => element.is_scalar() || matches!(element, ValueType::Tensor | ValueType::Any),
        },
        other => other.is_scalar() || matches!(other, ValueType::Tensor | ValueType::Any),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn list(element: ValueType) -> ValueType {
        ValueType::List(Box::new(element))
    }

    fn dictionary(value: ValueType) -> ValueType {
        ValueType::Dictionary(Box::new(ValueType::String), Box::new(value))
    }

    #[test]
    fn names_of_types() {
        let check = |value_type: ValueType, expected: &[&str]| {
            let found: Vec<String> = leaves("x", &value_type)
                .unwrap()
                .iter()
                .map(|leaf| format!("{}{}", leaf.shown(), if leaf.is_required { "" } else { "?" }))
                .collect();
            assert_eq!(found, expected, "{value_type:?}");
            assert_eq!(is_one_leaf(&value_type), expected == ["x"] || expected == ["x?"], "{value_type:?}");
        };
        let pair = || ValueType::Tuple(vec![ValueType::Tensor, ValueType::Int]);
        check(ValueType::Tensor, &["x"]);
        check(list(list(ValueType::String)), &["x"]);
        check(pair(), &["x.0", "x.1"]);
        check(ValueType::Optional(Box::new(pair())), &["x.0?", "x.1?"]);
        check(dictionary(pair()), &["x.KEY.0?", "x.KEY.1?"]);
        check(list(pair()), &["x[].0", "x[].1"]);
        check(list(list(ValueType::Tensor)), &["x[][]", "x[].#"]);
        check(
            list(ValueType::Named(vec![("masks".to_owned(), list(ValueType::Tensor))])),
            &["x[].masks[]", "x[].masks.#"],
        );
        check(ValueType::Optional(Box::new(ValueType::Other)), &[]);
        assert_eq!(leaves("x", &dictionary(ValueType::Other)), None);
        // Without limits, as many leaves as Fibonacci's numbers.
        let deep = |n_levels| (0..n_levels).fold(ValueType::Tensor, |element, _| list(element));
        assert_eq!(leaves("x", &deep(20)).map(|leaves| leaves.len()), Some(10946));
        assert_eq!(leaves("x", &deep(40)), None);
        assert_eq!(leaves("x", &deep(MAX_LEVELS + 2)), None);
        let wide = (0..16).fold(pair(), |element, _| ValueType::Tuple(vec![list(element.clone()), list(element)]));
        assert_eq!(leaves("x", &wide), None);
    }

    #[test]
    fn keys_are_any_text() {
        let is = |value_type: ValueType, name: &str| leaves("x", &value_type).unwrap().iter().any(|leaf| leaf.is(name));
        for (name, expected) in [("x.a", true), ("x.a.b", true), ("x.", false), ("x", false), ("x.a[]", false)] {
            assert_eq!(is(dictionary(ValueType::Tensor), name), expected, "{name}");
        }
        let pairs = || dictionary(ValueType::Tuple(vec![ValueType::Tensor]));
        for (name, expected) in [("x.a.0", true), ("x.a.1", false), ("x.a.b.0", false)] {
            assert_eq!(is(pairs(), name), expected, "{name}");
        }
    }
}
