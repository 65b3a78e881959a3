//! Completes a signature of which the metadata declares one side only: a carton has both or neither (spec/carton-format.md, `carton.toml`).
//! Pure.
//!
//! The model tells its other side where the runner can read it. Otherwise self-tests and examples tell the outputs. Where neither side is known,
//! the calls that are to be recorded tell the inputs.

use std::collections::{BTreeMap, HashMap, HashSet};

use carton_format::metadata::{Draft, DraftReference, Reference, TensorSpec};
use carton_runner_interface::DeclaredTensor;
use carton_tensor::{Dimension, SymbolicShape, Tensor};

/// Returns what the model has on the other side, in the symbols of the declared side.
///
/// `same` is what the model has on the declared side. A symbol of the model becomes what is declared in its place, because a symbol has one
/// value in a whole call. A symbol that is not declared anywhere stays, unless the declaration uses its name for something else.
pub(super) fn of_model(declared: &[TensorSpec], same: &[DeclaredTensor], other: &[DeclaredTensor]) -> Vec<TensorSpec> {
    let symbols = Symbols::of(declared, same);
    other
        .iter()
        .map(|tensor| {
            let mut spec = TensorSpec::new(tensor.name.clone(), tensor.dtype, symbols.shape(&tensor.shape));
            spec.internal_name = tensor.internal_name.clone();
            spec
        })
        .collect()
}

struct Symbols<'a> {
    /// What is declared in the place of each symbol of the model.
    meant: HashMap<&'a str, &'a Dimension>,
    declared: HashSet<&'a str>,
}

impl<'a> Symbols<'a> {
    fn of(declared: &'a [TensorSpec], model: &'a [DeclaredTensor]) -> Self {
        let by_name: HashMap<&str, &DeclaredTensor> =
            model.iter().map(|tensor| (tensor.model_name(), tensor)).collect();
        let mut symbols = Self { meant: HashMap::new(), declared: HashSet::new() };
        for spec in declared {
            let ours = match &spec.shape {
                SymbolicShape::Dimensions(ours) => ours.as_slice(),
                SymbolicShape::Symbol(name) => {
                    symbols.declared.insert(name);
                    continue;
                }
                SymbolicShape::Any => continue,
            };
            symbols.declared.extend(ours.iter().filter_map(symbol));
            let name = spec.internal_name.as_deref().unwrap_or(&spec.name);
            if let Some(SymbolicShape::Dimensions(theirs)) = by_name.get(name).map(|tensor| &tensor.shape) {
                symbols.match_dimensions(ours, theirs);
            }
        }
        symbols
    }

    fn match_dimensions(&mut self, ours: &'a [Dimension], theirs: &'a [Dimension]) {
        if ours.len() != theirs.len() {
            return;
        }
        for (declared, name) in ours.iter().zip(theirs).filter_map(|(ours, theirs)| Some((ours, symbol(theirs)?))) {
            // Several declarations may stand for one symbol: the one that says most applies.
            let meant = self.meant.entry(name).or_insert(declared);
            if says(declared) > says(meant) {
                *meant = declared;
            }
        }
    }

    fn shape(&self, shape: &SymbolicShape) -> SymbolicShape {
        match shape {
            SymbolicShape::Dimensions(dimensions) => {
                SymbolicShape::Dimensions(dimensions.iter().map(|dimension| self.dimension(dimension)).collect())
            }
            SymbolicShape::Symbol(name) if self.declared.contains(name.as_str()) => SymbolicShape::Any,
            other => other.clone(),
        }
    }

    fn dimension(&self, dimension: &Dimension) -> Dimension {
        let Some(name) = symbol(dimension) else { return dimension.clone() };
        match self.meant.get(name) {
            Some(&meant) => meant.clone(),
            None if self.declared.contains(name) => Dimension::Any,
            None => dimension.clone(),
        }
    }
}

fn symbol(dimension: &Dimension) -> Option<&str> {
    match dimension {
        Dimension::Symbol(name) => Some(name),
        Dimension::Any | Dimension::Fixed(_) => None,
    }
}

fn says(dimension: &Dimension) -> u8 {
    match dimension {
        Dimension::Any => 0,
        Dimension::Symbol(_) => 1,
        Dimension::Fixed(_) => 2,
    }
}

/// Returns the outputs that self-tests and examples show, sorted by name; `None` if they show no tensor.
pub(super) fn of_tests(draft: &Draft, tensors: &BTreeMap<String, Tensor>) -> Option<Vec<TensorSpec>> {
    let tests = draft.self_tests.iter().filter_map(|test| test.expected_out.as_ref());
    let shown = tests.chain(draft.examples.iter().map(|example| &example.sample_out)).flatten();
    let outputs = of_shown(shown.filter_map(|(name, reference)| match reference {
        DraftReference::Carton(Reference::TensorData(stored)) => Some((name.as_str(), tensors.get(stored)?)),
        _ => None,
    }));
    (!outputs.is_empty()).then_some(outputs)
}

/// Returns what fits all the inputs or outputs of some calls, sorted by name.
///
/// They tell the dtype and the number of dimensions. All sizes may vary, because a few calls do not tell which of them do.
pub(super) fn of_shown<'a>(shown: impl IntoIterator<Item = (&'a str, &'a Tensor)>) -> Vec<TensorSpec> {
    let mut specs: BTreeMap<&str, TensorSpec> = BTreeMap::new();
    for (name, tensor) in shown {
        let Some(dtype) = tensor.dtype() else { continue };
        let shape = match tensor.shape() {
            Some(shape) => SymbolicShape::Dimensions(vec![Dimension::Any; shape.len()]),
            None => SymbolicShape::Any,
        };
        let spec = specs.entry(name).or_insert_with(|| TensorSpec::new(name, dtype, shape.clone()));
        // Where one call shows booleans and another plain integers, what carries both is declared.
        if spec.dtype != dtype && spec.dtype.carrier() == dtype.carrier() {
            spec.dtype = dtype.carrier();
        }
        if spec.shape != shape {
            spec.shape = SymbolicShape::Any;
        }
    }
    specs.into_values().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use carton_format::metadata::{Example, SelfTest};
    use carton_tensor::DataType;

    use super::*;

    /// `"batch 3 *"`: dimensions; `"*"` and `"~s"` are whole shapes.
    fn shape(text: &str) -> SymbolicShape {
        match text.strip_prefix('~') {
            Some("*") => SymbolicShape::Any,
            Some(name) => SymbolicShape::Symbol(name.to_owned()),
            None => SymbolicShape::Dimensions(
                text.split_whitespace()
                    .map(|word| match word.parse() {
                        Ok(size) => Dimension::Fixed(size),
                        Err(_) if word == "*" => Dimension::Any,
                        Err(_) => Dimension::Symbol(word.to_owned()),
                    })
                    .collect(),
            ),
        }
    }

    fn in_model(name: &str, text: &str) -> DeclaredTensor {
        DeclaredTensor { name: name.to_owned(), dtype: DataType::Float32, shape: shape(text), internal_name: None }
    }

    #[test]
    fn the_other_side_has_the_declared_symbols() {
        let check = |declared: &[(&str, &str)], inputs: &[(&str, &str)], output: &str, expected: &str| {
            let declared: Vec<_> =
                declared.iter().map(|(name, text)| TensorSpec::new(*name, DataType::Float32, shape(text))).collect();
            let inputs: Vec<_> = inputs.iter().map(|(name, text)| in_model(name, text)).collect();
            let found = of_model(&declared, &inputs, &[in_model("y", output)]);
            assert_eq!(found, [TensorSpec::new("y", DataType::Float32, shape(expected))], "{output}");
        };
        check(&[("x", "batch 4")], &[("x", "N 4")], "N 10", "batch 10");
        check(&[("x", "32 4")], &[("x", "N 4")], "N N", "32 32");
        check(&[("x", "* 4")], &[("x", "N 4")], "N M", "* M");
        check(&[("x", "~*")], &[("x", "N 4")], "N 10", "N 10");
        // The declaration uses the names of the model for other dimensions.
        check(&[("x", "M N")], &[("x", "N M")], "N M", "M N");
        check(&[("x", "3 N")], &[("x", "3 M")], "N M", "* N");
        check(&[("x", "~s")], &[("x", "3 M")], "s", "*");
        check(&[("x", "~s")], &[("x", "~t")], "~s", "~*");
        check(&[("x", "~s")], &[("x", "~t")], "~t", "~t");
        // The same symbol in two inputs.
        check(&[("a", "* 2"), ("b", "n 7")], &[("a", "N 2"), ("b", "N K")], "N K", "n 7");
        check(&[("a", "5 2"), ("b", "n 7")], &[("a", "N 2"), ("b", "N K")], "N K", "5 7");
        // Nothing can be matched.
        check(&[("x", "n 4")], &[("x", "N 4 4")], "N 10", "N 10");
        check(&[("z", "n 4")], &[("x", "N 4")], "N 10", "N 10");
    }

    #[test]
    fn declared_names_are_matched_by_the_names_in_the_model() {
        let mut declared = TensorSpec::new("image", DataType::Float32, shape("batch 4"));
        declared.internal_name = Some("input:0".to_owned());
        let model = DeclaredTensor { internal_name: Some("output:0".to_owned()), ..in_model("output_0", "N") };
        let found = of_model(&[declared], &[in_model("input:0", "N 4")], &[model]);
        let mut expected = TensorSpec::new("output_0", DataType::Float32, shape("batch"));
        expected.internal_name = Some("output:0".to_owned());
        assert_eq!(found, [expected]);
    }

    #[test]
    fn tests_and_examples_show_names_dtypes_and_ranks() {
        let tensors: BTreeMap<String, Tensor> = [
            ("flat", Tensor::from_vec(vec![1.0_f32, 2.0], vec![2]).unwrap()),
            ("grid", Tensor::from_vec(vec![1.0_f32, 2.0], vec![1, 2]).unwrap()),
            ("texts", Tensor::from_strings(["a"], vec![1]).unwrap()),
            ("nested", Tensor::nested(vec![Tensor::scalar(1_i64)]).unwrap()),
        ]
        .map(|(name, tensor)| (name.to_owned(), tensor))
        .into();
        let references = |outputs: &[(&str, &str)]| {
            let reference = |stored: &str| Reference::TensorData(stored.to_owned()).into();
            outputs.iter().map(|(name, stored)| ((*name).to_owned(), reference(stored))).collect::<BTreeMap<_, _>>()
        };
        let check =
            |tests: &[&[(&str, &str)]], example: &[(&str, &str)], expected: Option<&[(&str, DataType, &str)]>| {
                let mut draft = Draft::default();
                draft.self_tests.push(SelfTest::new(BTreeMap::new()));
                for outputs in tests {
                    let mut test = SelfTest::new(BTreeMap::new());
                    test.expected_out = Some(references(outputs));
                    draft.self_tests.push(test);
                }
                draft.examples.push(Example::new(BTreeMap::new(), references(example)));
                let expected = expected.map(|specs| {
                    specs.iter().map(|(name, dtype, text)| TensorSpec::new(*name, *dtype, shape(text))).collect()
                });
                assert_eq!(of_tests(&draft, &tensors), expected);
            };
        let (float, text) = (DataType::Float32, DataType::String);
        check(&[], &[], None);
        check(&[&[("y", "missing")]], &[], None);
        check(&[&[("y", "flat"), ("label", "texts")]], &[], Some(&[("label", text, "*"), ("y", float, "*")]));
        check(&[&[("y", "grid")], &[("y", "flat")]], &[], Some(&[("y", float, "~*")]));
        check(
            &[&[("y", "grid")], &[("y", "grid")]],
            &[("z", "nested")],
            Some(&[("y", float, "* *"), ("z", DataType::Int64, "~*")]),
        );
    }
}
