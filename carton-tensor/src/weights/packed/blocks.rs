//! MXFP4 as GPT-OSS stores it (spec/packed.md §8): `NAME_blocks` of *[experts, outputs, groups, 16]* bytes, two numbers each, and `NAME_scales` of
//! *[experts, outputs, groups]* exponents. The result is *[experts, inputs, outputs]*, as the model multiplies.

use std::ops::ControlFlow;

use super::grid::power;
use super::numbers::{AT_ONCE, MAX_STRIP, Pieces, STRIP};
use super::part::Part;
use super::tensors::Tensors;
use super::{FP4, Layout, Logical, PackedError};
use crate::any_file::TensorFile;
use crate::files::ElementType;

/// How blocks become dense.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blocks {
    blocks: String,
    scales: String,
    experts: usize,
    outputs: usize,
    groups: usize,
}

/// The numbers of a block, and its bytes.
const NUMBERS: usize = 32;
const BYTES: usize = 16;

pub(super) fn describe(base: &str, tensors: &Tensors<'_>) -> Result<Logical, String> {
    let name = base.strip_suffix("_blocks").unwrap_or(base);
    let scales = format!("{name}_scales");
    let shape = tensors.shape(base)?;
    let &[experts, outputs, groups, BYTES] = shape else {
        return Err(format!("its blocks have the shape {shape:?}, expected [experts, outputs, groups, {BYTES}]"));
    };
    tensors.expect(&scales, &[ElementType::Uint8], &[experts, outputs, groups])?;
    let inputs = groups.checked_mul(NUMBERS).ok_or("its shape is too large")?;
    Ok(Logical {
        name: name.to_owned(),
        scheme: "MXFP4".to_owned(),
        dtype: ElementType::BFloat16,
        shape: vec![experts, inputs, outputs],
        layout: Layout::Blocks(Blocks { blocks: base.to_owned(), scales, experts, outputs, groups }),
    })
}

impl Blocks {
    pub(super) fn visit(&self, file: &TensorFile, pieces: &mut Pieces<'_>) -> Result<(), PackedError> {
        if self.outputs == 0 || self.groups == 0 {
            return Ok(());
        }
        let of_group = self.outputs.saturating_mul(BYTES + 1);
        if of_group > MAX_STRIP {
            let reason = format!("it has {} outputs, too many to transpose", self.outputs);
            return Err(PackedError::refused(&self.blocks, reason));
        }
        let (blocks, scales) = (Part::open(file, &self.blocks)?, Part::open(file, &self.scales)?);
        let width = (STRIP / of_group).max(1);
        let at_once = (AT_ONCE / self.outputs).max(1);
        let (mut bytes, mut exponents, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for expert in 0..self.experts {
            let rows = expert * self.outputs..(expert + 1) * self.outputs;
            for group in (0..self.groups).step_by(width) {
                let groups = group..(group + width).min(self.groups);
                let within = groups.start * BYTES..groups.end * BYTES;
                blocks.read_rows(self.groups * BYTES, rows.clone(), within, &mut bytes)?;
                scales.read_rows(self.groups, rows.clone(), groups.clone(), &mut exponents)?;
                let n_inputs = groups.len() * NUMBERS;
                for first in (0..n_inputs).step_by(at_once) {
                    let inputs = first..(first + at_once).min(n_inputs);
                    numbers.clear();
                    numbers.resize(inputs.len() * self.outputs, 0.0);
                    let outputs = bytes.chunks_exact(groups.len() * BYTES).zip(exponents.chunks_exact(groups.len()));
                    for (output, (bytes, exponents)) in outputs.enumerate() {
                        for (row, input) in numbers.chunks_exact_mut(self.outputs).zip(inputs.clone()) {
                            let index = bytes[input / 2] >> (input % 2 * 4) & 15;
                            row[output] = scaled(FP4[usize::from(index)], exponents[input / NUMBERS]);
                        }
                    }
                    if pieces.push(&numbers) == ControlFlow::Break(()) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

/// The number times 2 to the power of the exponent less 127, which is beyond the numbers of `f32` for 255.
fn scaled(number: f32, exponent: u8) -> f32 {
    if exponent == u8::MAX { number * 2.0 * power(exponent - 1) } else { number * power(exponent) }
}
