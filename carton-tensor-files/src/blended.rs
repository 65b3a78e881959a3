//! Tensors of numbers that are computed from those of several models.

use carton_tensor::any_file::{Entry, of_another_length, visit_in_step};
use carton_tensor::context::Context;
use carton_tensor::files::ElementType;
use carton_tensor::weights::{Angle, Blend, Compute, FloatType, MergeMethod};

use crate::error::TensorFilesError;
use crate::layout::TensorLayout;
use crate::merge_error::MergeError;
use crate::numbers::{AT_ONCE, Numbers, VisitPiece};
use crate::planned::PlannedKind;
use crate::rounded::{Rounded, Rounding};
use crate::source::TensorSource;
use crate::tensor_info::TensorInfo;
use crate::text::shown_name;

/// A tensor that is blended of one of each model, which have the same dtype and shape. Its numbers are those in which it is computed.
pub(crate) struct Blended<'a> {
    name: String,
    entries: Vec<Entry<'a>>,
    from: ElementType,
    method: &'a MergeMethod,
    context: &'a Context,
}

impl<'a> Blended<'a> {
    /// Blends the numbers of these tensors, which are of type `from`.
    pub(crate) fn new(
        entries: Vec<Entry<'a>>,
        from: ElementType,
        method: &'a MergeMethod,
        context: &'a Context,
    ) -> Self {
        let name = entries.first().map_or("", Entry::name).to_owned();
        Self { name, entries, from, method, context }
    }

    /// The type in which tensors of type `from` are blended; `None` if they are not.
    pub(crate) const fn computed_in(from: ElementType) -> Option<ElementType> {
        match from {
            ElementType::Float16 | ElementType::BFloat16 | ElementType::Float32 => Some(ElementType::Float32),
            ElementType::Float64 => Some(ElementType::Float64),
            _ => None,
        }
    }

    fn visit_as<F: Compute>(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        let failed = |source| MergeError::Tensor { name: shown_name(&self.name), source };
        let angle = if self.method.needs_angle() { Some(self.angle()?) } else { None };
        let blend = Blend::<F>::new(self.method, angle.as_ref()).map_err(failed)?;
        let mut blended = Vec::new();
        visit_in_step(&self.entries, AT_ONCE, |pieces| {
            blend.apply(self.from, pieces, &mut blended).ok_or_else(|| self.of_other_lengths())?;
            visit(F::as_bytes(&blended))
        })
    }

    fn angle(&self) -> Result<Angle, TensorFilesError> {
        let mut angle = Angle::default();
        visit_in_step(&self.entries, AT_ONCE, |pieces| {
            self.context.check()?;
            match *pieces {
                [a, b] if a.len() == b.len() => {
                    angle.add((self.from, a), (self.from, b)).ok_or_else(|| self.of_other_lengths())
                }
                _ => Err(self.of_other_lengths()),
            }
        })?;
        Ok(angle)
    }

    fn of_other_lengths(&self) -> TensorFilesError {
        match self.entries.last() {
            Some(entry) => of_another_length(entry).into(),
            None => TensorFilesError::Changed("there is no model".to_owned()),
        }
    }
}

impl Numbers for Blended<'_> {
    fn dtype(&self) -> ElementType {
        Self::computed_in(self.from).unwrap_or(self.from)
    }

    fn shape(&self) -> &[usize] {
        self.entries.first().map_or(&[], Entry::shape)
    }

    fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        match self.dtype() {
            ElementType::Float64 => self.visit_as::<f64>(visit),
            _ => self.visit_as::<f32>(visit),
        }
    }
}

/// A tensor that all models have alike, and that is written as it is.
pub(crate) struct Agreed<'a> {
    entries: Vec<Entry<'a>>,
    dtype: ElementType,
}

impl<'a> Agreed<'a> {
    pub(crate) fn new(entries: Vec<Entry<'a>>, dtype: ElementType) -> Self {
        Self { entries, dtype }
    }
}

impl Numbers for Agreed<'_> {
    fn dtype(&self) -> ElementType {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.entries.first().map_or(&[], Entry::shape)
    }

    fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        visit_in_step(&self.entries, AT_ONCE, |pieces| {
            let Some((first, others)) = pieces.split_first() else { return Ok(()) };
            if others.iter().any(|other| other != first) {
                let name = shown_name(self.entries.first().map_or("", Entry::name));
                return Err(MergeError::NotAlike { name, dtype: self.dtype }.into());
            }
            visit(first)
        })
    }
}

/// The type of the numbers of a tensor that can be merged.
pub(crate) fn blendable(model: &TensorSource, listed: &TensorInfo) -> Result<ElementType, MergeError> {
    let refused =
        |what: String| MergeError::NotMerged { place: model.place().to_owned(), name: shown_name(&listed.name), what };
    if let Some(reason) = &listed.unusable {
        return Err(refused(format!("cannot be read: {reason}")));
    }
    match (&listed.format, listed.element_type) {
        (TensorLayout::Dense | TensorLayout::SparseCsr | TensorLayout::SparseCoo, Some(dtype))
            if listed.dtype.as_deref() == Some(dtype.name()) =>
        {
            Ok(dtype)
        }
        (format, _) => {
            let dtype = listed.dtype.as_deref().unwrap_or_else(|| format.name());
            Err(refused(format!("is of {}, which is not merged", shown_name(dtype))))
        }
    }
}

/// Rounds numbers to the type that is planned, if they have another.
pub(crate) fn rounded<'a>(name: &str, numbers: Box<dyn Numbers + 'a>, kind: &PlannedKind) -> Box<dyn Numbers + 'a> {
    let PlannedKind::Numbers(dtype, _) = kind else { return numbers };
    let to = match dtype {
        ElementType::BFloat16 => FloatType::BFloat16,
        ElementType::Float16 => FloatType::Float16,
        ElementType::Float32 => FloatType::Float32,
        ElementType::Float8E4m3Fn => FloatType::Float8E4m3Fn,
        _ => return numbers,
    };
    let rounding = Rounding { to: to.into(), saturate: false };
    if rounding.applies_to(numbers.dtype()) { Box::new(Rounded::new(name, numbers, rounding)) } else { numbers }
}
