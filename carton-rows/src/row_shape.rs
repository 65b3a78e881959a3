//! The declared shape of one row of an input or output, and the shapes that fit it. Pure.

use carton_core::metadata::TensorSpec;
use carton_core::signature::Side;
use carton_core::{Dimension, SymbolicShape};

use crate::error::{RowsError, escaped};

/// The declared shape of one row: a size, or `None` for any, in each dimension. `None` as a whole if the number of dimensions is not
/// declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowShape(pub(crate) Option<Vec<Option<usize>>>);

impl RowShape {
    /// The shape of one element of the first dimension.
    ///
    /// # Errors
    /// The tensor is a scalar.
    pub(crate) fn of(side: Side, spec: &TensorSpec) -> Result<Self, RowsError> {
        match &spec.shape {
            SymbolicShape::Dimensions(dimensions) => match dimensions.split_first() {
                Some((_, row)) => Ok(Self(Some(row.iter().map(size).collect()))),
                None => Err(RowsError::Scalar { side, name: escaped(&spec.name) }),
            },
            _ => Ok(Self(None)),
        }
    }

    /// The sizes of all dimensions, if all are declared.
    pub(crate) fn fixed(&self) -> Option<Vec<usize>> {
        self.0.as_ref()?.iter().copied().collect()
    }

    /// The shape that a value of the shape `found` takes (spec/rows.md §3). `None` if it contradicts the declared shape.
    pub(crate) fn fitted(&self, found: &[usize]) -> Option<Vec<usize>> {
        let Some(declared) = &self.0 else { return Some(found.to_vec()) };
        if declared.len() == found.len() {
            let agrees = declared.iter().zip(found).all(|(declared, found)| declared.is_none_or(|size| size == *found));
            return agrees.then(|| found.to_vec());
        }
        let n_elements = found.iter().try_fold(1_usize, |product, size| product.checked_mul(*size))?;
        let n_fixed = declared.iter().flatten().try_fold(1_usize, |product, size| product.checked_mul(*size))?;
        match declared.iter().filter(|size| size.is_none()).count() {
            0 if n_elements == n_fixed => Some(declared.iter().flatten().copied().collect()),
            1 if found.len() == 1 && n_fixed > 0 && n_elements % n_fixed == 0 => {
                Some(declared.iter().map(|size| size.unwrap_or(n_elements / n_fixed)).collect())
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for RowShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(sizes) = &self.0 else { return f.write_str("any") };
        let sizes: Vec<String> =
            sizes.iter().map(|size| size.map_or_else(|| "*".to_owned(), |size| size.to_string())).collect();
        write!(f, "[{}]", sizes.join(", "))
    }
}

/// A size that is declared.
pub(crate) fn size(dimension: &Dimension) -> Option<usize> {
    match dimension {
        Dimension::Fixed(size) => usize::try_from(*size).ok(),
        _ => None,
    }
}
