//! Compares what a carton declares with what a model has (spec/runner-protocol.md, "`pack`, `packed`"). Pure.
//!
//! A declaration contradicts a model if no call could satisfy both. It may be more general than the model, or more special: a symbol or
//! `"*"` on either side matches everything.

use std::collections::{HashMap, HashSet};

use carton_tensor::{DataType, Dimension, SymbolicShape};

use crate::model::DeclaredTensor;

/// How many names of a model one sentence lists.
const MAX_NAMES: usize = 16;

/// The elements that a model accepts for an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Elements {
    /// Any elements, or the model does not say.
    Any,
    /// Numbers of any type, but no strings.
    Numbers,
    /// This type, as Carton's tensors have it.
    Only(DataType),
}

impl Elements {
    fn admit(self, dtype: DataType) -> bool {
        match self {
            Self::Any => true,
            Self::Numbers => dtype.size().is_some(),
            // Tensors of the carrier become what the model has, value by value.
            Self::Only(only) => dtype == only || dtype == only.carrier(),
        }
    }
}

impl std::fmt::Display for Elements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("any elements"),
            Self::Numbers => f.write_str("numbers"),
            Self::Only(dtype) => dtype.fmt(f),
        }
    }
}

/// One input or output that a model has.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelValue {
    /// Its name inside the model.
    pub name: String,
    /// The elements that it may have.
    pub elements: Elements,
    /// The shapes that it may have; [`SymbolicShape::Any`] if they are not known.
    pub shape: SymbolicShape,
    /// Whether a call without it fails. Has no meaning for an output.
    pub is_required: bool,
}

/// Returns a sentence for each contradiction between the declared inputs and those of the model; none if nothing is declared.
///
/// A declared input that the model does not have is a contradiction, and so is a required input of the model that is not declared.
///
/// ```
/// use carton_runner_interface::DeclaredTensor;
/// use carton_runner_interface::signature::{Elements, ModelValue, input_mismatches};
/// use carton_tensor::{DataType, Dimension, SymbolicShape};
///
/// let shape = |size| SymbolicShape::Dimensions(vec![Dimension::Any, Dimension::Fixed(size)]);
/// let (name, dtype) = ("x".to_owned(), DataType::Float32);
/// let declared = DeclaredTensor { name: name.clone(), dtype, shape: shape(5), internal_name: None };
/// let model = ModelValue { name, elements: Elements::Only(dtype), shape: shape(4), is_required: true };
/// assert_eq!(
///     input_mismatches(Some(&[declared]), &[model]),
///     ["input `x`, dimension 1: declared 5, the model has 4"],
/// );
/// ```
#[must_use]
pub fn input_mismatches(declared: Option<&[DeclaredTensor]>, model: &[ModelValue]) -> Vec<String> {
    let Some(declared) = declared else { return Vec::new() };
    let mut mismatches = compare("input", declared, model);
    mismatches.extend(shape_mismatches("input", declared, model));
    let names: HashSet<&str> = declared.iter().map(DeclaredTensor::model_name).collect();
    let missing = model.iter().filter(|value| value.is_required && !names.contains(value.name.as_str()));
    mismatches.extend(missing.map(|value| format!("input `{}` of the model is not declared", value.name)));
    mismatches
}

/// Returns a sentence for each contradiction between the names and elements of the declared outputs and those of the model; none if nothing
/// is declared.
///
/// An output of the model that is not declared is no contradiction: a carton may leave it out. Shapes are compared by
/// [`output_shape_mismatches`].
#[must_use]
pub fn output_mismatches(declared: Option<&[DeclaredTensor]>, model: &[ModelValue]) -> Vec<String> {
    compare("output", declared.unwrap_or_default(), model)
}

/// Returns a sentence for each contradiction between the shapes of the declared outputs and those that the model states.
///
/// Only a run of the model can tell which side is wrong: exporters state shapes that their models do not have.
#[must_use]
pub fn output_shape_mismatches(declared: Option<&[DeclaredTensor]>, model: &[ModelValue]) -> Vec<String> {
    shape_mismatches("output", declared.unwrap_or_default(), model).collect()
}

fn compare(what: &str, declared: &[DeclaredTensor], model: &[ModelValue]) -> Vec<String> {
    let values: HashMap<&str, &ModelValue> = model.iter().map(|value| (value.name.as_str(), value)).collect();
    let mut seen: HashMap<&str, &str> = HashMap::new();
    let mut mismatches = Vec::new();
    for spec in declared {
        let name = described(spec);
        let Some(value) = values.get(spec.model_name()) else {
            mismatches.push(format!("{what} {name}: the model has no such {what}; it has {}", list(model)));
            continue;
        };
        if let Some(other) = seen.insert(spec.model_name(), &spec.name) {
            mismatches.push(format!("{what} {name}: `{other}` is declared for the same {what} of the model"));
        }
        if !value.elements.admit(spec.dtype) {
            mismatches.push(format!("{what} {name}: declared {}, the model has {}", spec.dtype, value.elements));
        }
    }
    mismatches
}

fn shape_mismatches(what: &str, declared: &[DeclaredTensor], model: &[ModelValue]) -> impl Iterator<Item = String> {
    let values: HashMap<&str, &ModelValue> = model.iter().map(|value| (value.name.as_str(), value)).collect();
    declared.iter().flat_map(move |spec| {
        let value = values.get(spec.model_name());
        value.map(|value| shape_contradictions(what, spec, &value.shape)).unwrap_or_default()
    })
}

fn shape_contradictions(what: &str, spec: &DeclaredTensor, shape: &SymbolicShape) -> Vec<String> {
    let (SymbolicShape::Dimensions(ours), SymbolicShape::Dimensions(theirs)) = (&spec.shape, shape) else {
        return Vec::new();
    };
    let name = described(spec);
    if ours.len() != theirs.len() {
        return vec![format!("{what} {name}: declared {}, the model has {shape}", spec.shape)];
    }
    let sizes = ours.iter().zip(theirs).enumerate().filter_map(|(position, dimensions)| match dimensions {
        (Dimension::Fixed(ours), Dimension::Fixed(theirs)) if ours != theirs => Some((position, ours, theirs)),
        _ => None,
    });
    sizes
        .map(|(position, ours, theirs)| {
            format!("{what} {name}, dimension {position}: declared {ours}, the model has {theirs}")
        })
        .collect()
}

/// A declared name in quotes, followed by the name inside the model if it differs.
fn described(spec: &DeclaredTensor) -> String {
    match &spec.internal_name {
        Some(inner) if *inner != spec.name => format!("`{}` (`{inner}` in the model)", spec.name),
        _ => format!("`{}`", spec.name),
    }
}

fn list(model: &[ModelValue]) -> String {
    let names: Vec<String> = model.iter().take(MAX_NAMES).map(|value| format!("`{}`", value.name)).collect();
    match model.len() {
        0 => "none".to_owned(),
        n_names if n_names > MAX_NAMES => format!("{} and {} more", names.join(", "), n_names - MAX_NAMES),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// `x: float32 ["batch", 4]`, or `x as x:0: …` with a name inside the model.
    fn spec(text: &str) -> DeclaredTensor {
        let (names, rest) = text.split_once(": ").unwrap();
        let (dtype, shape) = rest.split_once(' ').unwrap();
        let (name, internal_name) = match names.split_once(" as ") {
            Some((name, inner)) => (name, Some(inner.to_owned())),
            None => (names, None),
        };
        DeclaredTensor {
            name: name.to_owned(),
            dtype: dtype.parse().unwrap(),
            shape: serde_json::from_str(shape).unwrap(),
            internal_name,
        }
    }

    fn specs(texts: &[&str]) -> Vec<DeclaredTensor> {
        texts.iter().map(|text| spec(text)).collect()
    }

    /// As [`spec`]; `?` in front marks what is not required, and there are the dtypes `any` and `numbers`.
    fn value(text: &str) -> ModelValue {
        let (is_required, text) = text.strip_prefix('?').map_or((true, text), |text| (false, text));
        let known = spec(&text.replace(": any ", ": int8 ").replace(": numbers ", ": int8 "));
        let elements = match text {
            _ if text.contains(": any ") => Elements::Any,
            _ if text.contains(": numbers ") => Elements::Numbers,
            _ => Elements::Only(known.dtype),
        };
        ModelValue { name: known.name, elements, shape: known.shape, is_required }
    }

    fn check(declared: &[&str], model: &[&str], expected: &[&str]) {
        let model: Vec<ModelValue> = model.iter().map(|text| value(text)).collect();
        assert_eq!(input_mismatches(Some(&specs(declared)), &model), expected, "{declared:?}");
    }

    #[test]
    fn names() {
        check(&[r#"x: int8 "*""#], &[r#"x: int8 "*""#], &[]);
        check(
            &[r#"img: float32 "*""#],
            &[r#"image: float32 "*""#],
            &["input `img`: the model has no such input; it has `image`", "input `image` of the model is not declared"],
        );
        check(&[r#"img as image: float32 "*""#], &[r#"image: float32 "*""#], &[]);
        check(
            &[r#"image as img: float32 "*""#],
            &[r#"?image: float32 "*""#, r#"?b: int8 []"#],
            &["input `image` (`img` in the model): the model has no such input; it has `image`, `b`"],
        );
        check(&["x: int8 []"], &[], &["input `x`: the model has no such input; it has none"]);
        check(
            &["x: int8 []", "y as x: int8 []"],
            &["x: int8 []"],
            &["input `y` (`x` in the model): `x` is declared for the same input of the model"],
        );
        check(&[], &["x: int8 []", "?y: int8 []"], &["input `x` of the model is not declared"]);
    }

    #[test]
    fn element_types() {
        check(&["x: float64 []"], &["x: float32 []"], &["input `x`: declared float64, the model has float32"]);
        for (declared, model) in [("float64", "any"), ("string", "any"), ("float64", "numbers"), ("string", "string")] {
            check(&[&format!("x: {declared} []")], &[&format!("x: {model} []")], &[]);
        }
        check(&["x: string []"], &["x: numbers []"], &["input `x`: declared string, the model has numbers"]);
    }

    #[test]
    fn shapes() {
        let check = |declared: &str, model: &str, expected: &[&str]| {
            check(&[&format!("x: int8 {declared}")], &[&format!("x: int8 {model}")], expected);
        };
        check(r#"["batch", 5]"#, r#"["n", 4]"#, &["input `x`, dimension 1: declared 5, the model has 4"]);
        check(
            "[1, 2]",
            "[3, 4]",
            &[
                "input `x`, dimension 0: declared 1, the model has 3",
                "input `x`, dimension 1: declared 2, the model has 4",
            ],
        );
        check("[2]", r#"["n", 4]"#, &[r#"input `x`: declared [2], the model has ["n", 4]"#]);
        check("[]", "[1]", &["input `x`: declared [], the model has [1]"]);
        // A symbol for a fixed size is too general, a fixed size for a symbol is a special case: both describe calls that work.
        for (declared, model) in [
            (r#"["batch", 4]"#, r#"["n", 4]"#),
            (r#"["n", "*"]"#, "[3, 4]"),
            ("[3, 4]", r#"["n", "*"]"#),
            (r#""*""#, "[3, 4]"),
            (r#""shape""#, "[3, 4]"),
            ("[3, 4]", r#""*""#),
            ("[3, 4]", r#""shape""#),
        ] {
            check(declared, model, &[]);
        }
    }

    #[test]
    fn what_is_not_declared_is_not_compared() {
        let model = [value("x: int8 []")];
        assert_eq!(input_mismatches(None, &model), [""; 0]);
        assert_eq!(output_mismatches(None, &model), [""; 0]);
        assert_eq!(output_mismatches(Some(&[]), &model), [""; 0]);
        assert_eq!(
            output_mismatches(Some(&specs(&["y: int8 []"])), &model),
            ["output `y`: the model has no such output; it has `x`"]
        );
    }

    #[test]
    fn shapes_of_outputs_are_compared_apart() {
        let (declared, model) =
            (specs(&["y: int8 [2]", "z: int8 [3]"]), [value("y: int16 [1, 2]"), value("z: int8 [4]")]);
        assert_eq!(output_mismatches(Some(&declared), &model), ["output `y`: declared int8, the model has int16"]);
        assert_eq!(
            output_shape_mismatches(Some(&declared), &model),
            ["output `y`: declared [2], the model has [1, 2]", "output `z`, dimension 0: declared 3, the model has 4"]
        );
        assert_eq!(output_shape_mismatches(Some(&specs(&["w: int8 [2]"])), &model), [""; 0]);
        assert_eq!(output_shape_mismatches(None, &model), [""; 0]);
    }

    #[test]
    fn long_lists_of_names_are_cut() {
        let model: Vec<ModelValue> = (0..20).map(|index| value(&format!("?x{index}: int8 []"))).collect();
        let found = input_mismatches(Some(&specs(&["y: int8 []"])), &model);
        assert!(found[0].ends_with("`x14`, `x15` and 4 more"), "{found:?}");
    }
}
