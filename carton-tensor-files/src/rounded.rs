//! Floats that are rounded to another type on the way.

use std::cell::Cell;

use carton_tensor::files::ElementType;
use carton_tensor::weights::{Beyond, FloatType};

use crate::error::TensorFilesError;
use crate::numbers::{Numbers, VisitPiece};
use crate::text::{count, shown_name};

/// How floats are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding {
    /// The type that floats of other types get.
    pub to: FloatType,
    /// Whether numbers beyond its largest finite one become that. Otherwise they are an error.
    pub saturate: bool,
}

impl Rounding {
    /// Whether a tensor of this type is rounded.
    pub(crate) fn applies_to(self, dtype: ElementType) -> bool {
        dtype.is_float() && dtype != self.to.element_type()
    }
}

/// A tensor of floats, rounded.
pub(crate) struct Rounded<'a> {
    name: String,
    of: Box<dyn Numbers + 'a>,
    rounding: Rounding,
    n_saturated: Cell<u64>,
}

impl<'a> Rounded<'a> {
    /// Rounds the floats of `of`, which messages call `name`.
    pub(crate) fn new(name: &str, of: Box<dyn Numbers + 'a>, rounding: Rounding) -> Self {
        Self { name: shown_name(name), of, rounding, n_saturated: Cell::new(0) }
    }
}

impl Numbers for Rounded<'_> {
    fn dtype(&self) -> ElementType {
        self.rounding.to.element_type()
    }

    fn shape(&self) -> &[usize] {
        self.of.shape()
    }

    fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        let beyond = if self.rounding.saturate { Beyond::Saturated } else { Beyond::Counted };
        let (from, mut rounded, mut n_beyond) = (self.of.dtype(), Vec::new(), 0);
        self.of.visit(&mut |piece| {
            let found = self.rounding.to.round(from, piece, beyond, &mut rounded);
            n_beyond += found.ok_or_else(|| TensorFilesError::UnknownKind { name: self.name.clone() })?;
            // Of a tensor that is refused, only the number is wanted.
            if n_beyond == 0 || self.rounding.saturate { visit(&rounded) } else { Ok(()) }
        })?;
        if n_beyond > 0 && !self.rounding.saturate {
            let name = self.name.clone();
            return Err(TensorFilesError::Beyond { name, n_numbers: n_beyond, dtype: self.dtype() });
        }
        self.n_saturated.set(n_beyond);
        Ok(())
    }

    fn warning(&self) -> Option<String> {
        let n_saturated = self.n_saturated.get();
        (n_saturated > 0).then(|| {
            let numbers = count(n_saturated, "number");
            format!("{numbers} of `{}` became the largest finite {} with the same sign", self.name, self.dtype())
        })
    }
}
