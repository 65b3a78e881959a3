//! Determines which tensors are the scales of others, and whether they are valid scales (spec/weights.md §4.1).

use std::ops::Range;

use super::super::WeightsError;
use super::super::load::Weights;
use super::super::scales::{Channels, Granularity, NoScales, SCALE_SUFFIX, scales_of};
use crate::any_file::{TensorFile, VerifyingReader};
use crate::files::ElementType;

/// The purpose of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A tensor of the model.
    Tensor,
    /// The tensor should hold the scales of an `int8` tensor.
    Scales {
        /// The name of the `int8` tensor.
        of: String,
        /// Why the tensor cannot hold the scales.
        problem: Option<String>,
    },
}

/// The factors by which the integers of a tensor were multiplied: finite numbers above 0.
#[derive(Clone, Debug)]
pub(super) struct Scaled {
    scales: Vec<f64>,
    /// `None` if there is one scale for the whole tensor.
    channels: Option<Channels>,
}

impl Scaled {
    /// Returns the scales of `n_elements` from `start` on, and the positions of the elements to which each applies, relative to
    /// `start`.
    pub(super) fn parts(&self, start: usize, n_elements: usize) -> impl Iterator<Item = (f64, Range<usize>)> {
        let whole = self.channels.is_none().then_some((0, 0..n_elements));
        let parts = self.channels.map(|channels| channels.parts(start, n_elements));
        let parts = whole.into_iter().chain(parts.into_iter().flatten());
        parts.filter_map(|(channel, place)| Some((*self.scales.get(channel)?, place)))
    }
}

/// All tensors of a file or in memory, whether they are validated or not. A scale belongs to its tensor even if one of them is filtered
/// out.
pub(super) trait Tensors {
    /// Returns dtype and shape of a tensor.
    fn find(&self, name: &str) -> Option<(Option<ElementType>, &[usize])>;

    /// Returns the numbers of a tensor; `None` if the content of the file prevents reading them.
    fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>, WeightsError>;
}

/// The tensors of a file, with a reader that may verify digests.
pub(super) struct OfFile<'a> {
    pub(super) file: &'a TensorFile,
    pub(super) verifying: Option<&'a VerifyingReader>,
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

/// Returns the scales of the int8 tensor of this name and shape, or what is wrong with the tensor that should hold them; `None` if
/// there is no such tensor.
pub(super) fn scales(
    name: &str,
    shape: &[usize],
    tensors: &impl Tensors,
) -> Result<Option<Result<Scaled, String>>, WeightsError> {
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
    // Bytes that cannot be read are a finding about the scales.
    let Some(scales) = tensors.numbers(&scale)? else { return Ok(Some(Err("it cannot be read".to_owned()))) };
    if let Some(bad) = scales.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
        return Ok(Some(Err(format!("it has {bad}, expected finite numbers above 0"))));
    }
    Ok(Some(Ok(Scaled { scales, channels: Channels::of(shape, granularity) })))
}
