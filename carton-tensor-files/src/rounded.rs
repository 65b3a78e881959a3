//! Floats that are rounded to another type on the way.

use std::cell::Cell;

use carton_tensor::files::ElementType;
use carton_tensor::gguf::QuantizedType;
use carton_tensor::weights::{Beyond, FloatType};

use crate::error::TensorFilesError;
use crate::numbers::{Numbers, VisitPiece};
use crate::text::{count, shown_name};

/// What floats become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundedType {
    /// Floats of another type.
    Float(FloatType),
    /// Blocks of ggml, in a GGUF file: matrices whose rows are whole blocks. Other floats become `float32`.
    Blocks(QuantizedType),
}

impl From<FloatType> for RoundedType {
    fn from(to: FloatType) -> Self {
        Self::Float(to)
    }
}

impl RoundedType {
    /// The type of floats that do not become blocks, and of the numbers that do before they are quantized.
    pub(crate) fn float_type(self) -> FloatType {
        match self {
            Self::Float(to) => to,
            Self::Blocks(_) => FloatType::Float32,
        }
    }

    /// The blocks that a tensor of this type and shape becomes, if it does.
    pub(crate) fn blocks(self, dtype: ElementType, shape: &[usize]) -> Option<QuantizedType> {
        match self {
            Self::Blocks(to) if dtype.is_float() && to.fits(shape) => Some(to),
            Self::Blocks(_) | Self::Float(_) => None,
        }
    }
}

/// How floats are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding {
    /// What floats become.
    pub to: RoundedType,
    /// Whether numbers beyond its largest finite one become that. Otherwise they are an error.
    pub saturate: bool,
}

impl Rounding {
    /// Whether floats of this type are rounded to others.
    pub(crate) fn applies_to(self, dtype: ElementType) -> bool {
        dtype.is_float() && dtype != self.to.float_type().element_type()
    }
}

/// A tensor of floats, rounded.
pub(crate) struct Rounded<'a> {
    name: String,
    of: Box<dyn Numbers + 'a>,
    to: FloatType,
    saturate: bool,
    n_saturated: Cell<u64>,
}

impl<'a> Rounded<'a> {
    /// Rounds the floats of `of`, which messages call `name`.
    pub(crate) fn new(name: &str, of: Box<dyn Numbers + 'a>, rounding: Rounding) -> Self {
        let (to, saturate) = (rounding.to.float_type(), rounding.saturate);
        Self { name: shown_name(name), of, to, saturate, n_saturated: Cell::new(0) }
    }
}

impl Numbers for Rounded<'_> {
    fn dtype(&self) -> ElementType {
        self.to.element_type()
    }

    fn shape(&self) -> &[usize] {
        self.of.shape()
    }

    fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        let beyond = if self.saturate { Beyond::Saturated } else { Beyond::Counted };
        let (from, mut rounded, mut n_beyond) = (self.of.dtype(), Vec::new(), 0);
        self.of.visit(&mut |piece| {
            let found = self.to.round(from, piece, beyond, &mut rounded);
            n_beyond += found.ok_or_else(|| TensorFilesError::UnknownKind { name: self.name.clone() })?;
            // Of a tensor that is refused, only the number is wanted.
            if n_beyond == 0 || self.saturate { visit(&rounded) } else { Ok(()) }
        })?;
        if n_beyond > 0 && !self.saturate {
            let (name, dtype) = (self.name.clone(), self.dtype().name());
            return Err(TensorFilesError::Beyond { name, n_numbers: n_beyond, dtype });
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
