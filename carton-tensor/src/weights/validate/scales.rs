//! Which tensors are the scales of others, and whether they can be (spec/weights.md §4.1).

use std::ops::Range;

use super::super::load::Weights;
use super::super::scales::{Channels, Granularity, NoScales, SCALE_SUFFIX, scales_of};
use super::super::{Description, WeightsError};
use super::Subject;
use crate::files::{ElementType, TensorFile};
use crate::ztensor;

/// What a tensor is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It is one of the model.
    Tensor,
    /// It should hold the scales of this tensor, which is of `int8`.
    Scales {
        /// The other one.
        of: String,
        /// Why it cannot.
        problem: Option<String>,
    },
}

/// What the integers of a tensor were multiplied with: finite numbers above 0.
#[derive(Clone, Debug)]
pub(super) struct Scaled {
    scales: Vec<f64>,
    /// `None` if there is one scale.
    channels: Option<Channels>,
}

impl Scaled {
    /// The scales of `n_elements` from `start` on, and which of these have each.
    pub(super) fn parts(&self, start: usize, n_elements: usize) -> impl Iterator<Item = (f64, Range<usize>)> {
        let whole = self.channels.is_none().then_some((0, 0..n_elements));
        let parts = self.channels.map(|channels| channels.parts(start, n_elements));
        let parts = whole.into_iter().chain(parts.into_iter().flatten());
        parts.filter_map(|(channel, place)| Some((*self.scales.get(channel)?, place)))
    }
}

/// All tensors of a file or in memory, whether they are looked at or not: a scale belongs to its tensor also if one of them is filtered out.
pub(super) trait Tensors {
    /// Dtype and shape of a tensor.
    fn find(&self, name: &str) -> Option<(Option<ElementType>, &[usize])>;

    /// Its numbers; `None` if they cannot be read because of what the file holds.
    fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>, WeightsError>;
}

/// Those of a file, read by a reader that may verify digests.
pub(super) struct OfFile<'a> {
    pub(super) file: &'a TensorFile,
    pub(super) verifying: Option<&'a ztensor::Reader>,
}

impl Tensors for OfFile<'_> {
    fn find(&self, name: &str) -> Option<(Option<ElementType>, &[usize])> {
        self.file.entry(name).ok().map(|entry| (entry.dtype(), entry.shape()))
    }

    fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>, WeightsError> {
        match self.file.entry(name).and_then(|entry| entry.read_by(self.verifying).dequantize()) {
            Err(error) if error.is_about_content() => Ok(None),
            tensor => Ok(tensor?.to_f64()),
        }
    }
}

impl Tensors for Weights {
    fn find(&self, name: &str) -> Option<(Option<ElementType>, &[usize])> {
        self.tensors.get(name).map(|tensor| (Some(tensor.dtype()), tensor.shape()))
    }

    fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>, WeightsError> {
        Ok(self.tensors.get(name).and_then(crate::files::RawTensor::to_f64))
    }
}

/// Says of each subject what it is there for, and of int8 tensors what their scales are.
pub(super) fn assign(
    subjects: &mut [Subject<'_>],
    description: &Description,
    tensors: &impl Tensors,
) -> Result<(), WeightsError> {
    for subject in subjects {
        if subject.dtype == Some(ElementType::Int8) {
            subject.scaled = scales(&subject.name, &subject.shape, tensors)?.and_then(Result::ok);
        }
        // A description may have a tensor of that name by itself.
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

/// The scales of the int8 tensor of this name and shape, or what is wrong with the tensor that should hold them; `None` if there is none.
fn scales(name: &str, shape: &[usize], tensors: &impl Tensors) -> Result<Option<Result<Scaled, String>>, WeightsError> {
    let scale = format!("{name}{SCALE_SUFFIX}");
    let Some((dtype, found)) = tensors.find(&scale) else { return Ok(None) };
    let Some(dtype) = dtype else { return Ok(Some(Err("it is no dense tensor of numbers".to_owned()))) };
    let granularity = match scales_of(shape, dtype, found) {
        Ok(granularity) => granularity,
        Err(NoScales::Dtype(dtype)) => return Ok(Some(Err(format!("it has dtype {dtype}, expected floats")))),
        Err(NoScales::Shape) => {
            let channels = Channels::of(shape, Granularity::Channel);
            let rows = channels.map_or(String::new(), |channels| format!(" or {:?}", [channels.count]));
            return Ok(Some(Err(format!("it has shape {found:?}, expected one number{rows}"))));
        }
    };
    // What its bytes break is a finding about them.
    let Some(scales) = tensors.numbers(&scale)? else { return Ok(Some(Err("it cannot be read".to_owned()))) };
    if let Some(bad) = scales.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
        return Ok(Some(Err(format!("it has {bad}, expected finite numbers above 0"))));
    }
    Ok(Some(Ok(Scaled { scales, channels: Channels::of(shape, granularity) })))
}
