//! What differs between tensors: between two, and between two lists of them by their names. Elements are compared by the rule of
//! [`allclose`](crate::allclose), exactly unless the caller gives a [`Tolerance`]; NaN equals NaN, as in self-tests, and -0.0 equals 0.0.
//!
//! `cosine` measures the angle between two tensors; `elements` compares bytes of elements; `entries` reads those of two tensors of files, in pieces; `report` is what is found; `types` names
//! the types of elements.

mod cosine;
mod elements;
mod entries;
mod report;
mod types;

#[cfg(test)]
mod tests;

use crate::context::Cancelled;
use crate::{Tensor, Tolerance, VariableElement, VariableTensor};

pub use entries::compare_entries;
pub use report::{
    Compared, DifferingElement, ElementsDifference, TensorChange, TensorDifference, TensorForm, TensorsDifference,
};

use crate::allclose::Shortened;
use crate::files::ElementType;
use crate::position::index_of;

/// How tensors are compared.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DifferenceOptions {
    /// Which numbers count as equal. Its `rtol` is relative to the element of the first tensor.
    pub tolerance: Tolerance,
    /// Whether to read tensors also where both files state the same SHA-256 of their bytes.
    pub read_all: bool,
    /// The number of threads; `None` for all cores.
    pub n_threads: Option<usize>,
}

impl Default for DifferenceOptions {
    /// Every difference counts, and NaN equals NaN.
    fn default() -> Self {
        Self { tolerance: Tolerance::new(0.0, 0.0).equal_nan(true), read_all: false, n_threads: None }
    }
}

impl DifferenceOptions {
    /// Takes numbers as equal that are as close as this. NaN equals NaN in any case.
    #[must_use]
    pub fn tolerance(self, tolerance: Tolerance) -> Self {
        Self { tolerance: tolerance.equal_nan(true), ..self }
    }

    /// Reads tensors also where both files state the same SHA-256 of their bytes.
    #[must_use]
    pub fn read_all(self, read_all: bool) -> Self {
        Self { read_all, ..self }
    }
}

/// Called with the number of bytes that were compared, from any thread; an error ends the comparison.
pub type Advance<'a> = dyn Fn(u64) -> Result<(), Cancelled> + Sync + 'a;

/// Compares two lists of tensors by their names. `compare` is called for each tensor that both have in the same shape, with its form in each.
///
/// # Errors
/// Those of `compare`.
pub fn compare_lists<E>(
    a: &[TensorForm],
    b: &[TensorForm],
    mut compare: impl FnMut(&TensorForm, &TensorForm) -> Result<Compared, E>,
) -> Result<TensorsDifference, E> {
    let by_name = |forms: &[TensorForm]| {
        forms
            .iter()
            .enumerate()
            .map(|(position, form)| (form.name.clone(), position))
            .collect::<std::collections::HashMap<_, _>>()
    };
    let (in_a, in_b) = (by_name(a), by_name(b));
    let mut all = TensorsDifference::default();
    for form in a {
        match in_b.get(&form.name).and_then(|position| b.get(*position)) {
            Some(other) => all.add(form, other, &mut compare)?,
            None => all.tensors.push(TensorDifference::only(form, TensorChange::Removed)),
        }
    }
    let added = b.iter().filter(|form| !in_a.contains_key(&form.name));
    all.tensors.extend(added.map(|form| TensorDifference::only(form, TensorChange::Added)));
    Ok(all)
}

/// Compares the only tensor of each of two lists, whatever their names are.
///
/// # Errors
/// Those of `compare`.
pub fn compare_pair<E>(
    a: &TensorForm,
    b: &TensorForm,
    mut compare: impl FnMut(&TensorForm, &TensorForm) -> Result<Compared, E>,
) -> Result<TensorsDifference, E> {
    let mut all = TensorsDifference::default();
    all.add(a, b, &mut compare)?;
    Ok(all)
}

/// Compares two tensors in memory.
///
/// ```
/// use carton_tensor::Tensor;
/// use carton_tensor::difference::{Compared, DifferenceOptions, compare_tensors};
/// let a = Tensor::from_vec(vec![1.0_f32, 2.0, f32::NAN], vec![3])?;
/// let b = Tensor::from_vec(vec![1.0_f32, 2.5, f32::NAN], vec![3])?;
/// let Compared::Elements(found) = compare_tensors(&a, &b, &DifferenceOptions::default()) else { return Err("not compared".into()) };
/// let largest = found.largest.ok_or("equal")?;
/// assert_eq!((found.differing, largest.index, largest.difference), (1, vec![1], Some(0.5)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn compare_tensors(a: &Tensor, b: &Tensor, options: &DifferenceOptions) -> Compared {
    match (a, b) {
        (Tensor::Numeric(a), Tensor::Numeric(b)) if a.shape() == b.shape() => {
            if a == b {
                return Compared::Same { by_digest: false };
            }
            let types = ElementType::from_data_type(a.dtype()).zip(ElementType::from_data_type(b.dtype()));
            let Some((from_a, from_b)) = types else { return Compared::No("they are no numbers".to_owned()) };
            match elements::compare_bytes((from_a, a.bytes()), (from_b, b.bytes()), options.tolerance) {
                Some(found) => Compared::of(ElementsDifference::new(found, a.shape())),
                None => Compared::No(not_exact(a.dtype().name(), b.dtype().name())),
            }
        }
        (Tensor::String(a), Tensor::String(b)) => compare_variable(a, b),
        (Tensor::Bytes(a), Tensor::Bytes(b)) => compare_variable(a, b),
        (Tensor::Nested(a), Tensor::Nested(b)) => {
            let (a, b) = (a.elements(), b.elements());
            if a.len() != b.len() {
                return Compared::Otherwise(format!("a list of {} tensors became one of {}", a.len(), b.len()));
            }
            let mut all = ElementsDifference::default();
            for (position, (a, b)) in a.iter().zip(b).enumerate() {
                match compare_tensors(a, b, options) {
                    Compared::Same { .. } => {
                        let n_elements = a.shape().and_then(crate::element_count).unwrap_or(0);
                        all.elements += n_elements as u64;
                    }
                    Compared::Elements(found) => all.merge(found.in_list(position)),
                    Compared::Otherwise(reason) => {
                        return Compared::Otherwise(format!("tensor {position} of the list: {reason}"));
                    }
                    Compared::No(reason) => return Compared::No(format!("tensor {position} of the list: {reason}")),
                }
            }
            Compared::of(all)
        }
        _ => Compared::Otherwise(format!("{} became {}", described(a), described(b))),
    }
}

fn compare_variable<T: VariableElement>(a: &VariableTensor<T>, b: &VariableTensor<T>) -> Compared {
    if a.shape() != b.shape() {
        return Compared::Otherwise(format!("the shape {:?} became {:?}", a.shape(), b.shape()));
    }
    let mut differing = a.elements().iter().zip(b.elements()).enumerate().filter(|(_, (a, b))| a != b);
    let Some((position, (first_a, first_b))) = differing.next() else { return Compared::Same { by_digest: false } };
    let first = DifferingElement {
        tensor: None,
        index: index_of(position, a.shape()),
        a: Shortened(first_a.as_ref()).to_string(),
        b: Shortened(first_b.as_ref()).to_string(),
        difference: None,
    };
    Compared::Elements(Box::new(ElementsDifference {
        elements: a.elements().len() as u64,
        differing: 1 + differing.count() as u64,
        largest: Some(first),
        largest_relative: None,
        cosine: None,
        not_finite: 0,
    }))
}

fn described(tensor: &Tensor) -> String {
    match (tensor, tensor.dtype()) {
        (Tensor::Nested(nested), _) => format!("a list of {} tensors", nested.elements().len()),
        (_, Some(dtype)) => format!("{dtype} {:?}", tensor.shape().unwrap_or_default()),
        (_, None) => "an empty list".to_owned(),
    }
}

/// Why elements of two types are not compared.
fn not_exact(a: &str, b: &str) -> String {
    format!("no type holds all numbers of {a} and of {b}, so their elements are not compared")
}
