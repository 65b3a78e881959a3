//! Tensors of numbers that a low-rank adapter changes.

use carton_tensor::files::ElementType;
use carton_tensor::weights::{Beyond, Compute, FloatType};

use crate::adapter::{Adapter, Applied};
use crate::blended::Blended;
use crate::error::TensorFilesError;
use crate::numbers::{Numbers, VisitPiece};
use crate::text::shown_name;

/// A tensor that an adapter changes. Its numbers are those in which it is computed.
pub(crate) struct Adapted<'a> {
    name: String,
    of: Box<dyn Numbers + 'a>,
    adapter: &'a Adapter,
}

impl<'a> Adapted<'a> {
    /// Changes the tensor `name` of a model.
    pub(crate) fn new(name: &str, of: Box<dyn Numbers + 'a>, adapter: &'a Adapter) -> Self {
        Self { name: name.to_owned(), of, adapter }
    }

    fn visit_as<F: Compute>(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        let Some(change) = self.adapter.applied::<F>(&self.name)? else { return self.of.visit(visit) };
        let changed = || TensorFilesError::Changed(format!("tensor `{}` has other elements", shown_name(&self.name)));
        let (from, mut start) = (self.of.dtype(), 0);
        self.of.visit(&mut |piece| {
            let mut numbers = F::decode(from, piece).ok_or_else(changed)?;
            let of_piece = |whole: &[F]| whole.get(start..start + numbers.len()).map(<[F]>::to_vec);
            match &change {
                Applied::Product(product) => product.add_to(&mut numbers, start),
                Applied::RoundedProduct(product) => {
                    let mut added = vec![F::ZERO; numbers.len()];
                    product.add_to(&mut added, start);
                    let added = rounded(added, from).ok_or_else(changed)?;
                    numbers.iter_mut().zip(added).for_each(|(number, added)| *number = *number + added);
                }
                Applied::Replaced(whole) => numbers = of_piece(whole).ok_or_else(changed)?,
                Applied::Added(whole, factor) => {
                    let added = of_piece(whole).ok_or_else(changed)?;
                    numbers.iter_mut().zip(added).for_each(|(number, added)| *number = *number + added * *factor);
                }
            }
            start += numbers.len();
            visit(F::as_bytes(&numbers))
        })
    }
}

/// Rounds numbers to a type and back. Numbers beyond it stay infinite.
fn rounded<F: Compute>(numbers: Vec<F>, dtype: ElementType) -> Option<Vec<F>> {
    let to = match dtype {
        ElementType::Float16 => FloatType::Float16,
        ElementType::BFloat16 => FloatType::BFloat16,
        _ => return Some(numbers),
    };
    let mut bytes = Vec::new();
    to.round(F::DTYPE, F::as_bytes(&numbers), Beyond::Counted, &mut bytes)?;
    F::decode(dtype, &bytes)
}

impl Numbers for Adapted<'_> {
    fn dtype(&self) -> ElementType {
        Blended::computed_in(self.of.dtype()).unwrap_or(ElementType::Float32)
    }

    fn shape(&self) -> &[usize] {
        self.of.shape()
    }

    fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        match self.dtype() {
            ElementType::Float64 => self.visit_as::<f64>(visit),
            _ => self.visit_as::<f32>(visit),
        }
    }
}
