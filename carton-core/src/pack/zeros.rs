//! Makes inputs of zeros that fit a signature, to see what a model returns that has no self-test. Pure.

use std::collections::{BTreeMap, BTreeSet};

use carton_format::metadata::TensorSpec;
use carton_tensor::{BytesTensor, DataType, Dimension, NumericTensor, StringTensor, SymbolicShape, Tensor};

use crate::Tensors;

/// The sizes that unknown dimensions get. Models refuse sizes for many reasons, so that there are several attempts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// The sizes of first dimensions are primes, or all of them are 1: some models run only one sample at a time.
    is_single: bool,
    /// What the sizes of other dimensions are multiples of. Windows and strides of convolutions need large ones.
    unit: usize,
    /// The number of dimensions where even that is unknown.
    rank: usize,
}

/// The attempts in the order in which they are made. Small sizes come first, because they are the quickest.
pub(super) const ATTEMPTS: [Attempt; 3] = [
    Attempt { is_single: false, unit: 1, rank: 1 },
    Attempt { is_single: false, unit: 32, rank: 2 },
    Attempt { is_single: true, unit: 32, rank: 0 },
];

/// The largest total size of the inputs, in bytes: what a signature claims is allocated, and passed to the runner.
const MAX_BYTES: usize = 64 << 20;
/// What an empty string takes of that.
const STRING_BYTES: usize = 24;

/// Returns zeros, and empty texts, for each declared input that is not optional. `None` if they would be too large, or if there are too many
/// unknown sizes.
///
/// Each symbol has a size of its own, that is no size of a signature, so that a wrong size cannot be right by chance. Dimensions without a
/// symbol have the same size as those at the same position in other inputs, which usually have to agree.
pub(super) fn inputs(inputs: &[TensorSpec], outputs: &[TensorSpec], attempt: Attempt) -> Option<Tensors> {
    let mut sizes = Sizes::of(inputs, outputs, attempt);
    let mut n_bytes = 0_usize;
    let mut tensors = Tensors::new();
    for spec in inputs.iter().filter(|spec| !spec.is_optional()) {
        let shape: Vec<usize> = match &spec.shape {
            SymbolicShape::Any | SymbolicShape::Symbol(_) => (0..attempt.rank)
                .map(|position| sizes.of_unknown(Unknown::Position(position)))
                .collect::<Option<_>>()?,
            SymbolicShape::Dimensions(dimensions) => {
                let sized = dimensions.iter().enumerate().map(|(position, dimension)| match dimension {
                    Dimension::Fixed(size) => usize::try_from(*size).ok(),
                    Dimension::Symbol(symbol) => sizes.of_unknown(Unknown::Symbol(symbol)),
                    Dimension::Any => sizes.of_unknown(Unknown::Position(position)),
                });
                sized.collect::<Option<_>>()?
            }
        };
        let n_elements = shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size))?;
        n_bytes = n_bytes.checked_add(n_elements.checked_mul(spec.dtype.size().unwrap_or(STRING_BYTES))?)?;
        if n_bytes > MAX_BYTES {
            return None;
        }
        tensors.insert(spec.name.clone(), zeros(spec.dtype, n_elements, shape)?);
    }
    Some(tensors)
}

fn zeros(dtype: DataType, n_elements: usize, shape: Vec<usize>) -> Option<Tensor> {
    match dtype {
        DataType::String => StringTensor::new(vec![String::new(); n_elements], shape).ok().map(Tensor::String),
        DataType::Bytes => BytesTensor::new(vec![Vec::new(); n_elements], shape).ok().map(Tensor::Bytes),
        dtype => NumericTensor::zeroed(dtype, shape).ok().map(Tensor::Numeric),
    }
}

/// A size that is not declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unknown<'a> {
    Symbol(&'a str),
    /// A dimension without a symbol, at this position.
    Position(usize),
}

/// Chooses sizes for unknown dimensions.
struct Sizes<'a> {
    attempt: Attempt,
    /// The symbols that are a first dimension somewhere.
    first: BTreeSet<&'a str>,
    taken: BTreeSet<usize>,
    chosen: BTreeMap<Unknown<'a>, usize>,
}

/// More unknown sizes would make inputs that are too large anyway.
const PRIMES: [usize; 25] =
    [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97];

impl<'a> Sizes<'a> {
    fn of(inputs: &'a [TensorSpec], outputs: &'a [TensorSpec], attempt: Attempt) -> Self {
        let mut sizes = Self { attempt, first: BTreeSet::new(), taken: BTreeSet::new(), chosen: BTreeMap::new() };
        for spec in inputs.iter().chain(outputs) {
            let SymbolicShape::Dimensions(dimensions) = &spec.shape else { continue };
            for (position, dimension) in dimensions.iter().enumerate() {
                match dimension {
                    Dimension::Fixed(size) => sizes.taken.extend(usize::try_from(*size)),
                    Dimension::Symbol(symbol) if position == 0 => {
                        sizes.first.insert(symbol);
                    }
                    Dimension::Symbol(_) | Dimension::Any => {}
                }
            }
        }
        sizes
    }

    fn of_unknown(&mut self, unknown: Unknown<'a>) -> Option<usize> {
        if let Some(size) = self.chosen.get(&unknown) {
            return Some(*size);
        }
        let is_first = match unknown {
            Unknown::Symbol(symbol) => self.first.contains(symbol),
            Unknown::Position(position) => position == 0,
        };
        let size = match (is_first, self.attempt.is_single) {
            (true, true) => 1,
            (true, false) => self.free(1)?,
            (false, _) => self.free(self.attempt.unit)?,
        };
        self.chosen.insert(unknown, size);
        Some(size)
    }

    /// Takes the smallest multiple of the unit by a prime that nothing else has.
    fn free(&mut self, unit: usize) -> Option<usize> {
        let size = PRIMES.iter().map(|prime| prime * unit).find(|size| !self.taken.contains(size))?;
        self.taken.insert(size);
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn spec(name: &str, dtype: DataType, shape: &str) -> TensorSpec {
        TensorSpec::new(name, dtype, serde_json::from_str(&shape.replace('\'', "\"")).unwrap())
    }

    /// Checks the shapes of all attempts.
    fn check(declared: &[&str], outputs: &[&str], expected: [Option<&[&[usize]]>; 3]) {
        let of = |shapes: &[&str]| -> Vec<TensorSpec> {
            let specs = shapes.iter().enumerate();
            specs.map(|(index, shape)| spec(&format!("x{index}"), DataType::Int64, shape)).collect()
        };
        for (attempt, expected) in ATTEMPTS.into_iter().zip(expected) {
            let tensors = inputs(&of(declared), &of(outputs), attempt);
            let shapes =
                tensors.map(|tensors| tensors.values().map(|x| x.shape().unwrap().to_vec()).collect::<Vec<_>>());
            let expected = expected.map(|shapes| shapes.iter().map(|shape| shape.to_vec()).collect::<Vec<_>>());
            assert_eq!(shapes, expected, "{declared:?} {attempt:?}");
        }
    }

    #[test]
    fn unknown_sizes_differ() {
        check(&["[]", "[4, 1]"], &[], [Some(&[&[], &[4, 1]]); 3]);
        check(
            &["['n', 3, '*', '*']"],
            &[],
            [Some(&[&[2, 3, 5, 7]]), Some(&[&[2, 3, 64, 96]]), Some(&[&[1, 3, 64, 96]])],
        );
        // The same position, and the same symbol.
        check(
            &["['*', '*']", "['*', 's']", "['s']"],
            &[],
            [Some(&[&[2, 3], &[2, 5], &[5]]), Some(&[&[2, 64], &[2, 3], &[3]]), Some(&[&[1, 64], &[1, 1], &[1]])],
        );
        // A size that is declared somewhere would be right by chance.
        check(&["['n', 'm']"], &["[2]", "[5, 64]"], [Some(&[&[3, 7]]), Some(&[&[3, 96]]), Some(&[&[1, 96]])]);
    }

    #[test]
    fn unknown_shapes() {
        check(&["'*'", "'s'"], &[], [Some(&[&[2], &[2]]), Some(&[&[2, 64], &[2, 64]]), Some(&[&[], &[]])]);
    }

    #[test]
    fn what_is_too_large_is_not_allocated() {
        check(&["[1099511627776]"], &[], [None; 3]);
        check(&["[18446744073709551615, 18446744073709551615]"], &[], [None; 3]);
        check(&["[8388608]"], &[], [Some(&[&[8_388_608]]); 3]);
        check(&["[8388609]"], &[], [None; 3]);
        check(&["[8388608]", "[1]"], &[], [None; 3]);
        let many: Vec<String> = (0..30).map(|n| format!("'n{n}'")).collect();
        check(&[&format!("[{}]", many.join(", "))], &[], [None; 3]);
    }

    #[test]
    fn zeros_of_every_dtype_but_not_of_optional_inputs() {
        let mut specs: Vec<_> = DataType::ALL.iter().map(|dtype| spec(dtype.name(), *dtype, "['n', 2]")).collect();
        let tensors = inputs(&specs, &[], ATTEMPTS[0]).unwrap();
        for (name, tensor) in &tensors {
            assert_eq!((tensor.dtype().unwrap().name(), tensor.shape()), (name.as_str(), Some(&[3, 2][..])));
            match tensor {
                Tensor::Numeric(numbers) => assert!(numbers.bytes().iter().all(|byte| *byte == 0)),
                Tensor::String(strings) => assert!(strings.elements().iter().all(String::is_empty)),
                Tensor::Bytes(bytes) => assert!(bytes.elements().iter().all(Vec::is_empty)),
                _ => panic!("{name}"),
            }
        }
        assert_eq!(tensors.len(), DataType::ALL.len());
        specs.iter_mut().for_each(|spec| spec.optional = Some(true));
        assert_eq!(inputs(&specs, &[], ATTEMPTS[0]).unwrap().len(), 0);
    }
}
