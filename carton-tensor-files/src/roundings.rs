//! Which tensors of sources are rounded to another type. Those that are quantized already are not, and neither are their scales.

use std::collections::BTreeMap;

use carton_tensor::weights;

use crate::already::{left_as_they_are, quantized_already};
use crate::layout::TensorLayout;
use crate::plan::Job;
use crate::rounded::Rounding;
use crate::sink::PlannedKind;
use crate::source::TensorSource;

/// Which tensors are rounded: floats, but not those of tensors that are quantized already.
pub(crate) struct Roundings<'a> {
    rounding: Option<Rounding>,
    /// Those that are quantized already, by their source.
    already: Vec<(&'a TensorSource, BTreeMap<&'a str, &'static str>)>,
}

impl<'a> Roundings<'a> {
    pub(crate) fn find(sources: &[&'a TensorSource], rounding: Option<Rounding>) -> Self {
        let mut already = Vec::new();
        for source in sources.iter().filter(|_| rounding.is_some()) {
            let mut of_source = quantized_already(source);
            // Floats of 8 bits without scales are plain floats.
            of_source.retain(|_, scheme| *scheme != weights::WITHOUT_SCALES);
            already.push((*source, of_source));
        }
        Self { rounding, already }
    }

    /// Rounds the numbers of a tensor, if they are to be rounded.
    pub(crate) fn apply(&self, job: &mut Job<'_>) {
        let is_quantized = self.scheme(job.source, &job.listed.name).is_some() && !is_dequantized(job);
        let (Some(rounding), PlannedKind::Numbers(dtype, _)) = (self.rounding, &mut job.planned.kind) else { return };
        if rounding.applies_to(*dtype) && !is_quantized {
            *dtype = rounding.to.element_type();
            job.rounding = Some(rounding);
        }
    }

    fn scheme(&self, source: &TensorSource, name: &str) -> Option<&'static str> {
        let mut of_source = self.already.iter().filter(|(other, _)| std::ptr::eq(*other, source));
        of_source.find_map(|(_, already)| already.get(name).copied())
    }

    /// Says which tensors are not rounded because they are quantized already.
    pub(crate) fn left_as_they_are(&self, jobs: &[Job<'a>]) -> Vec<String> {
        let left = jobs.iter().filter(|job| job.rounding.is_none() && !is_dequantized(job));
        let left: BTreeMap<&str, &'static str> = left
            .filter_map(|job| Some((job.listed.name.as_str(), self.scheme(job.source, &job.listed.name)?)))
            .collect();
        left_as_they_are(&left)
    }
}

/// Whether the numbers of a job are those that quantized ones stand for.
fn is_dequantized(job: &Job<'_>) -> bool {
    let is_in_blocks = matches!(job.listed.format, TensorLayout::QuantizedGroup | TensorLayout::Ggml);
    job.dequantize && (is_in_blocks || job.source.packed_as(&job.listed.name).is_some())
}
