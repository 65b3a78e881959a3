//! What is found. The names of fields in JSON are stable.

use serde::Serialize;

use super::elements::Found;
use crate::allclose::NotCloseElement;
use crate::any_file::Entry;
use crate::position::index_of;
use crate::{Tensor, element_count};

/// What is known of a tensor without its elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TensorForm {
    /// Its name.
    #[serde(skip)]
    pub name: String,
    /// The name of the type of its elements; `None` for an object whose elements are not known.
    pub dtype: Option<String>,
    /// Its dimensions; `None` for a list of tensors, and for an array that cannot be read.
    pub shape: Option<Vec<usize>>,
}

impl TensorForm {
    /// A tensor of this name, element type and shape.
    #[must_use]
    pub fn new(name: impl Into<String>, dtype: Option<String>, shape: Option<Vec<usize>>) -> Self {
        Self { name: name.into(), dtype, shape }
    }

    /// The form of a tensor in memory.
    #[must_use]
    pub fn of_tensor(name: impl Into<String>, tensor: &Tensor) -> Self {
        let dtype = match tensor {
            Tensor::Nested(_) => Some("nested".to_owned()),
            _ => tensor.dtype().map(|dtype| dtype.name().to_owned()),
        };
        Self::new(name, dtype, tensor.shape().map(<[usize]>::to_vec))
    }

    /// The form of a tensor of a file. A quantized group is a tensor of the float32 numbers that it represents.
    #[must_use]
    pub fn of_entry(entry: &Entry<'_>) -> Self {
        let is_unreadable = entry.unsupported().is_some();
        let dtype = super::types::dtype_name(entry);
        Self::new(entry.name(), dtype, (!is_unreadable).then(|| entry.shape().to_vec()))
    }

    /// The number of elements, if it is known.
    #[must_use]
    pub fn n_elements(&self) -> Option<usize> {
        self.shape.as_deref().and_then(element_count)
    }
}

/// The result of comparing the elements of two tensors of one shape.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Compared {
    /// All elements are equal, or as close as the tolerance demands.
    Same {
        /// Whether only the SHA-256 that both files state were compared.
        by_digest: bool,
    },
    /// Some differ.
    Elements(Box<ElementsDifference>),
    /// They differ in this, and their elements were not compared.
    Otherwise(String),
    /// They were not compared, for this reason.
    No(String),
}

impl Compared {
    pub(super) fn of(found: ElementsDifference) -> Self {
        if found.differing == 0 { Self::Same { by_digest: false } } else { Self::Elements(Box::new(found)) }
    }
}

/// How many elements differ, and which of them most.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ElementsDifference {
    /// The number of elements.
    pub elements: u64,
    /// The number of those that differ.
    pub differing: u64,
    /// The element with the largest absolute difference; of strings and bytes, the first that differs. NaN beside a number counts as the
    /// largest of all.
    pub largest: Option<DifferingElement>,
    /// The element with the largest difference relative to that of the first tensor, among those that are not zero there.
    pub largest_relative: Option<DifferingElement>,
    /// The cosine of the angle between the tensors as vectors of all their elements, the same to the last bit with any number of threads:
    /// a · b / (|a| |b|), in float64, and of complex numbers the real part of it. Elements that are not finite in one of the tensors are left out. `None` for strings, for lists of tensors,
    /// for tensors that are 0 everywhere, and where the sums are too large for float64.
    pub cosine: Option<f64>,
    /// The number of elements that the cosine leaves out, because they are NaN or infinite in one of the tensors; of complex numbers, the number of
    /// their parts.
    pub not_finite: u64,
}

/// An element that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DifferingElement {
    /// The position of the tensor, if it is one of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<usize>,
    /// The index of the element.
    pub index: Vec<usize>,
    /// The element of the first tensor, as a text that gives it exactly; strings and bytes may be shortened.
    pub a: String,
    /// The element of the second tensor.
    pub b: String,
    /// The absolute or relative difference. `None` for strings and bytes; not finite where one of the elements is not, which is `null` in
    /// JSON.
    pub difference: Option<f64>,
}

impl ElementsDifference {
    pub(super) fn new(found: Found, shape: &[usize]) -> Self {
        let Found { not_close: found, products } = found;
        let element = |element: NotCloseElement| DifferingElement {
            tensor: None,
            index: index_of(usize::try_from(element.position).unwrap_or(usize::MAX), shape),
            a: element.expected,
            b: element.actual,
            difference: Some(element.difference),
        };
        Self {
            elements: found.n_elements,
            differing: found.n_differing,
            largest: found.largest.map(element),
            largest_relative: found.largest_relative.map(element),
            cosine: products.cosine(),
            not_finite: products.n_left_out(),
        }
    }

    /// The same of a tensor that is this one of a list.
    pub(super) fn in_list(mut self, position: usize) -> Self {
        for element in self.largest.iter_mut().chain(&mut self.largest_relative) {
            element.tensor = Some(position);
        }
        self.cosine = None;
        self
    }

    pub(super) fn merge(&mut self, other: Self) {
        let severity = |element: &DifferingElement| match element.difference {
            Some(difference) if !difference.is_nan() => difference,
            _ => f64::INFINITY,
        };
        let worse = |known: &Option<DifferingElement>, next: &Option<DifferingElement>| match (known, next) {
            (Some(known), Some(next)) => severity(next) > severity(known),
            (known, next) => known.is_none() && next.is_some(),
        };
        self.elements += other.elements;
        self.differing += other.differing;
        self.not_finite += other.not_finite;
        if worse(&self.largest, &other.largest) {
            self.largest = other.largest;
        }
        if worse(&self.largest_relative, &other.largest_relative) {
            self.largest_relative = other.largest_relative;
        }
    }
}

/// What became of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TensorChange {
    /// Only the first list has it.
    Removed,
    /// Only the second list has it.
    Added,
    /// It has another shape, and perhaps another type.
    Shape,
    /// It has another type. Its elements were compared if a type holds all numbers of both.
    Dtype,
    /// Elements differ.
    Elements,
    /// Its elements could not be compared, and may be the same or not.
    NotCompared,
}

/// A tensor that differs, or that could not be compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TensorDifference {
    /// Its name.
    pub name: String,
    /// Its name in the second list, if two tensors of different names were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_b: Option<String>,
    /// What became of it.
    pub change: TensorChange,
    /// Its type and shape in the first list; `None` if that has none.
    pub a: Option<TensorForm>,
    /// Its type and shape in the second list.
    pub b: Option<TensorForm>,
    /// What differs between the elements, if they were compared. With another type, it may be that none does.
    pub elements: Option<ElementsDifference>,
    /// Why the elements were not compared, or what differs instead of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl TensorDifference {
    pub(super) fn only(form: &TensorForm, change: TensorChange) -> Self {
        let form = Some(form.clone());
        let is_removed = change == TensorChange::Removed;
        let (a, b) = if is_removed { (form, None) } else { (None, form) };
        let name = a.as_ref().or(b.as_ref()).map(|form| form.name.clone()).unwrap_or_default();
        Self { name, name_b: None, change, a, b, elements: None, reason: None }
    }
}

/// What differs between two lists of tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TensorsDifference {
    /// The number of tensors that are the same in both.
    pub same: usize,
    /// The number of those of which only the SHA-256 that both files state were compared.
    pub same_by_digest: usize,
    /// The others: first those of the first list in their order, then those that only the second has.
    pub tensors: Vec<TensorDifference>,
}

impl TensorsDifference {
    /// Whether no tensor differs, and all could be compared.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Whether some tensor differs for certain.
    #[must_use]
    pub fn has_differences(&self) -> bool {
        self.tensors.iter().any(|tensor| tensor.change != TensorChange::NotCompared)
    }

    pub(super) fn add<E>(
        &mut self,
        a: &TensorForm,
        b: &TensorForm,
        compare: &mut impl FnMut(&TensorForm, &TensorForm) -> Result<Compared, E>,
    ) -> Result<(), E> {
        let mut found = TensorDifference {
            name: a.name.clone(),
            name_b: (a.name != b.name).then(|| b.name.clone()),
            change: TensorChange::Shape,
            a: Some(a.clone()),
            b: Some(b.clone()),
            elements: None,
            reason: None,
        };
        if a.shape != b.shape {
            self.tensors.push(found);
            return Ok(());
        }
        let has_type_changed = a.dtype != b.dtype;
        found.change = if has_type_changed { TensorChange::Dtype } else { TensorChange::Elements };
        match compare(a, b)? {
            Compared::Same { by_digest } if !has_type_changed => {
                self.same += 1;
                self.same_by_digest += usize::from(by_digest);
                return Ok(());
            }
            Compared::Same { .. } => {
                let elements = a.n_elements().unwrap_or(0) as u64;
                found.elements = Some(ElementsDifference { elements, ..ElementsDifference::default() });
            }
            Compared::Elements(elements) => found.elements = Some(*elements),
            Compared::Otherwise(reason) => found.reason = Some(reason),
            Compared::No(reason) => {
                if !has_type_changed {
                    found.change = TensorChange::NotCompared;
                }
                found.reason = Some(reason);
            }
        }
        self.tensors.push(found);
        Ok(())
    }
}
