//! The tensors that are judged, and what each is there for.

use std::sync::OnceLock;

use super::super::WeightsError;
use super::super::description::Description;
use super::super::pieces::Data;
use super::super::scales::SCALE_SUFFIX;
use super::scales::{Role, Scaled, Tensors, scales};
use crate::files::{ElementType, RawTensor};

/// A tensor that is validated.
pub(super) struct Subject<'a> {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    /// `None` if the numbers must be computed, as for a `quantized_group`.
    pub(super) dtype: Option<ElementType>,
    /// The size of the data in bytes, if it has not yet been compared with the shape.
    pub(super) n_bytes: Option<usize>,
    /// A description of the entry, if it is not a tensor of numbers.
    pub(super) not_numbers: Option<String>,
    /// Set for tensors that are read from a file.
    pub(super) decoding: Option<&'a Decoding>,
    pub(super) data: Data<'a>,
    /// The scales of its integers, if they are known.
    pub(super) scaled: Option<Scaled>,
    pub(super) role: Role,
}

impl<'a> Subject<'a> {
    pub(super) fn of(name: &str, tensor: &'a RawTensor) -> Self {
        Self {
            name: name.to_owned(),
            shape: tensor.shape().to_vec(),
            dtype: Some(tensor.dtype()),
            n_bytes: Some(tensor.bytes().len()),
            not_numbers: None,
            decoding: None,
            data: Data::Memory(tensor.bytes()),
            scaled: None,
            role: Role::Tensor,
        }
    }

    /// Whether the tensor is stored as integers with scales, or is quantized in groups.
    pub(super) fn is_quantized(&self) -> bool {
        self.scaled.is_some() || (self.dtype.is_none() && self.not_numbers.is_none())
    }

    /// Returns why the numbers cannot be read, if they cannot.
    pub(super) fn problem(&self) -> Option<&String> {
        self.decoding.and_then(|decoding| decoding.problem.get())
    }

    /// Returns by how much rounding can have changed a number, if this is only known for the whole tensor, as for a quantized group.
    /// Otherwise 0.
    pub(super) fn rounded_by(&self) -> f64 {
        let step = self.decoding.and_then(|decoding| decoding.largest_step.get());
        step.map_or(0.0, |step| step / 2.0)
    }

    pub(super) fn is_scales(&self) -> bool {
        matches!(self.role, Role::Scales { .. })
    }
}

/// The results of decoding a tensor, besides its numbers.
#[derive(Default)]
pub(super) struct Decoding {
    /// Why the numbers cannot be read.
    pub(super) problem: OnceLock<String>,
    /// The largest step of a quantized group, which is the largest distance of neighbouring numbers.
    pub(super) largest_step: OnceLock<f64>,
}

/// Sets the role of each subject, and the scales of int8 tensors.
pub(super) fn assign(
    subjects: &mut [Subject<'_>],
    description: &Description,
    tensors: &impl Tensors,
) -> Result<(), WeightsError> {
    for subject in subjects {
        if subject.dtype == Some(ElementType::Int8) {
            subject.scaled = scales(&subject.name, &subject.shape, tensors)?.and_then(Result::ok);
        }
        // The description may itself have a tensor with this name.
        let of = subject.name.strip_suffix(SCALE_SUFFIX).filter(|_| description.tensor(&subject.name).is_none());
        if let Some(of) = of
            && let Some((Some(ElementType::Int8), shape)) = tensors.find(of)
        {
            let problem = scales(of, shape, tensors)?.and_then(Result::err);
            subject.role = Role::Scales { of: of.to_owned(), problem };
        }
    }
    Ok(())
}
