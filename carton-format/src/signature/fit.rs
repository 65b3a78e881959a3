//! Corrects declared outputs by outputs that the model returned. Pure.

use carton_tensor::{Dimension, SymbolicShape, Tensor, Tensors};

use super::{Bindings, TensorCheck, ViolationKind, described_tensor};
use crate::metadata::TensorSpec;
use crate::side::Side;

/// A declared shape that a returned output does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The output.
    pub output: String,
    /// The declared shape.
    pub declared: SymbolicShape,
    /// The shape that holds, and is declared now.
    pub corrected: SymbolicShape,
    /// The output that was returned, and the sizes that its declared symbols had.
    pub found: String,
}

/// Makes every shape of `specs` that the outputs of a call contradict as general as it must be: a wrong dimension becomes `"*"`, and so does a
/// shape with another number of dimensions. `bindings` has the symbols of the inputs. Returns what was changed.
///
/// Dtypes and names are not corrected.
pub fn fit_outputs(specs: &mut [TensorSpec], mut bindings: Bindings, outputs: &Tensors) -> Vec<Misfit> {
    let mut misfits = Vec::new();
    for spec in specs {
        let Some(tensor) = outputs.get(&spec.name) else { continue };
        let corrected = fitting_shape(spec, &bindings, tensor);
        if corrected != spec.shape {
            let found = format!("{}{}", described_tensor(tensor), bindings.described(&spec.shape));
            let declared = std::mem::replace(&mut spec.shape, corrected.clone());
            misfits.push(Misfit { output: spec.name.clone(), declared, corrected, found });
        }
        // Binds the symbols that this output is the first to have.
        has_shape(spec, &mut bindings, tensor);
    }
    misfits
}

/// The declared shape without what the tensor contradicts.
fn fitting_shape(spec: &TensorSpec, bindings: &Bindings, tensor: &Tensor) -> SymbolicShape {
    let bindings = bindings.of(&spec.shape);
    let fits = |shape: SymbolicShape| has_shape(&TensorSpec { shape, ..spec.clone() }, &mut bindings.clone(), tensor);
    if fits(spec.shape.clone()) {
        return spec.shape.clone();
    }
    let SymbolicShape::Dimensions(declared) = &spec.shape else { return SymbolicShape::Any };
    let mut kept = vec![Dimension::Any; declared.len()];
    if !fits(SymbolicShape::Dimensions(kept.clone())) {
        return SymbolicShape::Any;
    }
    // Dimensions are kept as long as those that are kept hold together: one symbol may be at several of them.
    for (position, dimension) in declared.iter().enumerate() {
        kept[position] = dimension.clone();
        if !fits(SymbolicShape::Dimensions(kept.clone())) {
            kept[position] = Dimension::Any;
        }
    }
    SymbolicShape::Dimensions(kept)
}

/// Whether the tensor has the declared shape. Binds its symbols.
fn has_shape(spec: &TensorSpec, bindings: &mut Bindings, tensor: &Tensor) -> bool {
    let mut violations = Vec::new();
    let mut check = TensorCheck { side: Side::Output, name: &spec.name, violations: &mut violations };
    check.check_tensor(spec, bindings, tensor);
    !violations.iter().any(|violation| violation.kind == ViolationKind::Shape)
}

impl Bindings {
    /// The bindings of the symbols of one shape. There may be many others, which are not worth copying.
    fn of(&self, shape: &SymbolicShape) -> Self {
        let mut only = Self::default();
        for symbol in symbols(shape) {
            let dimension = self.dimensions.get_key_value(symbol);
            only.dimensions.extend(dimension.map(|(symbol, bound)| (symbol.clone(), bound.clone())));
        }
        if let SymbolicShape::Symbol(symbol) = shape {
            let whole = self.shapes.get_key_value(symbol);
            only.shapes.extend(whole.map(|(symbol, bound)| (symbol.clone(), bound.clone())));
        }
        only
    }

    /// The values of the symbols of a shape: ` for n = 2, m = 3`; empty without any.
    fn described(&self, shape: &SymbolicShape) -> String {
        let only = self.of(shape);
        let dimensions = only.dimensions.iter().map(|(symbol, bound)| format!("{symbol} = {}", bound.value));
        let shapes = only.shapes.iter().map(|(symbol, bound)| format!("{symbol} = {}", bound.value));
        let values: Vec<String> = dimensions.chain(shapes).collect();
        if values.is_empty() { String::new() } else { format!(" for {}", values.join(", ")) }
    }
}

/// The symbols of the dimensions of a shape.
fn symbols(shape: &SymbolicShape) -> impl Iterator<Item = &str> {
    let dimensions = match shape {
        SymbolicShape::Dimensions(dimensions) => dimensions.as_slice(),
        SymbolicShape::Symbol(_) | SymbolicShape::Any => &[],
    };
    dimensions.iter().filter_map(|dimension| match dimension {
        Dimension::Symbol(symbol) => Some(symbol.as_str()),
        Dimension::Any | Dimension::Fixed(_) => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use carton_tensor::{DataType, NumericTensor};

    use super::*;
    use crate::metadata::Signature;
    use crate::signature::{check_inputs, check_outputs};

    fn float(shape: &[usize]) -> Tensor {
        NumericTensor::zeroed(DataType::Float32, shape.to_vec()).unwrap().into()
    }

    fn specs(declared: &[(&str, &str)]) -> Vec<TensorSpec> {
        let spec = |(name, shape): &(&str, &str)| {
            TensorSpec::new(*name, DataType::Float32, serde_json::from_str(&shape.replace('\'', "\"")).unwrap())
        };
        declared.iter().map(spec).collect()
    }

    /// Declares inputs and outputs, and checks what the outputs are after a call, and the texts of what was found.
    fn check(
        inputs: &[(&str, &str, Tensor)],
        outputs: &[(&str, &str, Tensor)],
        expected: &[&str],
        expected_found: &[&str],
    ) {
        let tensors = |sides: &[(&str, &str, Tensor)]| -> Tensors {
            sides.iter().map(|(name, _, tensor)| ((*name).to_owned(), tensor.clone())).collect()
        };
        let of = |sides: &[(&str, &str, Tensor)]| {
            specs(&sides.iter().map(|(name, shape, _)| (*name, *shape)).collect::<Vec<_>>())
        };
        let mut signature = Signature { inputs: Some(of(inputs)), outputs: Some(of(outputs)) };
        let (given, returned) = (tensors(inputs), tensors(outputs));
        let mut bindings = Bindings::default();
        check_inputs(&signature, &mut bindings, given.iter().map(|(name, tensor)| (name.as_str(), tensor))).unwrap();
        let misfits = fit_outputs(signature.outputs.as_mut().unwrap(), bindings.clone(), &returned);
        let shapes: Vec<String> = signature.outputs.iter().flatten().map(|spec| spec.shape.to_string()).collect();
        assert_eq!(shapes, expected);
        let found: Vec<&str> = misfits.iter().map(|misfit| misfit.found.as_str()).collect();
        assert_eq!(found, expected_found);
        // What is declared now holds.
        let returned = returned.iter().map(|(name, tensor)| (name.as_str(), tensor));
        check_outputs(&signature, &mut bindings, returned).unwrap();
    }

    #[test]
    fn what_holds_stays() {
        check(
            &[("x", "['batch', 3]", float(&[2, 3]))],
            &[("y", "['batch', '*']", float(&[2, 9])), ("z", "['m']", float(&[5])), ("w", "[]", float(&[]))],
            &["[\"batch\", \"*\"]", "[\"m\"]", "[]"],
            &[],
        );
    }

    #[test]
    fn wrong_sizes_become_anonymous() {
        check(
            &[("x", "['batch', 3]", float(&[2, 3]))],
            &[("y", "['batch', 3]", float(&[4, 3])), ("z", "[1, 'batch', 7]", float(&[1, 2, 8]))],
            &["[\"*\", 3]", "[1, \"batch\", \"*\"]"],
            &["a tensor of float32, shape [4, 3] for batch = 2", "a tensor of float32, shape [1, 2, 8] for batch = 2"],
        );
    }

    #[test]
    fn another_rank_becomes_any_shape() {
        check(
            &[("x", "['n']", float(&[2]))],
            &[("y", "[1, 'm']", float(&[2, 3, 2])), ("z", "[]", float(&[1])), ("w", "['n']", float(&[]))],
            &["\"*\"", "\"*\"", "\"*\""],
            &[
                "a tensor of float32, shape [2, 3, 2]",
                "a tensor of float32, shape [1]",
                "a tensor of float32, shape [] for n = 2",
            ],
        );
    }

    #[test]
    fn symbols_that_only_outputs_have() {
        // The first output says what `m` is, and both dimensions of one output must agree.
        check(
            &[],
            &[("y", "['m', 'm']", float(&[3, 4])), ("z", "['m']", float(&[3])), ("w", "['m']", float(&[4]))],
            &["[\"m\", \"*\"]", "[\"m\"]", "[\"*\"]"],
            &["a tensor of float32, shape [3, 4]", "a tensor of float32, shape [4] for m = 3"],
        );
    }

    #[test]
    fn symbols_for_whole_shapes() {
        check(
            &[("x", "'s'", float(&[2, 3]))],
            &[("y", "'s'", float(&[2, 3])), ("z", "'s'", float(&[6]))],
            &["\"s\"", "\"*\""],
            &["a tensor of float32, shape [6] for s = shape [2, 3]"],
        );
    }

    #[test]
    fn lists_of_tensors() {
        let list = Tensor::nested(vec![float(&[1, 4]), float(&[2, 4])]).unwrap();
        check(&[], &[("y", "[2, 'n', 4]", list.clone())], &["[2, \"*\", 4]"], &["a list of 2 tensors of float32"]);
        check(&[], &[("y", "[2, 4]", list)], &["\"*\""], &["a list of 2 tensors of float32"]);
    }
}
