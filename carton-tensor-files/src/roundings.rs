//! Which tensors of sources are rounded to another type. Those that are quantized already are not, and neither are their scales.

use std::collections::BTreeMap;

use carton_tensor::files::ElementType;
use carton_tensor::weights;

use crate::already::{left_as_they_are, quantized_already};
use crate::error::TensorFilesError;
use crate::layout::TensorLayout;
use crate::plan::Job;
use crate::planned::PlannedKind;
use crate::rounded::{RoundedType, Rounding};
use crate::source::TensorSource;
use crate::text::{count, shown_name};

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
    pub(crate) fn apply(&self, job: &mut Job<'_>) -> Result<(), TensorFilesError> {
        let is_quantized = self.scheme(job.source, &job.listed.name).is_some() && !is_dequantized(job);
        let Some(rounding) = self.rounding else { return Ok(()) };
        match &mut job.planned.kind {
            PlannedKind::Numbers(dtype, shape) if !is_quantized => {
                if let Some(to) = rounding.to.blocks(*dtype, shape) {
                    job.planned.kind = PlannedKind::Blocks(to.ggml_type(), std::mem::take(shape));
                    job.rounding = Some(rounding);
                } else if rounding.applies_to(*dtype) {
                    *dtype = rounding.to.float_type().element_type();
                    job.rounding = Some(rounding);
                }
            }
            PlannedKind::Blocks(of, _) => {
                if let RoundedType::Blocks(to) = rounding.to
                    && to.ggml_type() != *of
                {
                    let name = shown_name(&job.listed.name);
                    return Err(TensorFilesError::OtherBlocks { name, of: *of, to: to.ggml_type() });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Says how many tensors of floats do not become blocks.
    pub(crate) fn not_in_blocks(&self, jobs: &[Job<'a>]) -> Option<String> {
        let RoundedType::Blocks(to) = self.rounding?.to else { return None };
        let is_quantized = |job: &Job<'a>| self.scheme(job.source, &job.listed.name).is_some() && !is_dequantized(job);
        let is_left = |job: &&Job<'a>| {
            matches!(job.planned.kind, PlannedKind::Numbers(ElementType::Float32, _)) && !is_quantized(job)
        };
        let n_left = jobs.iter().filter(is_left).count();
        let of = to.ggml_type();
        (n_left > 0).then(|| {
            let (left, row) = (count(n_left, "tensor"), of.block_elements());
            format!("{left} written as float32: blocks of {of} are made of matrices with rows of a multiple of {row} numbers")
        })
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
