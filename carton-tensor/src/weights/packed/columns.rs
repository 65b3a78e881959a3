//! Matrices of GPTQ and AWQ, whose packed columns are the rows of the result. A strip of columns is in memory at a time.

use std::ops::{ControlFlow, Range};

use super::PackedError;
use super::numbers::{AT_ONCE, MAX_STRIP, Pieces, STRIP};
use super::part::Part;
use crate::any_file::TensorFile;
use crate::files::ElementType;

/// How packed numbers of *[inputs, outputs]* become a dense matrix of *[outputs, inputs]*.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Columns {
    pub(super) qweight: String,
    pub(super) qzeros: String,
    pub(super) scales: String,
    /// The tensor that has the group of each input, if they are in no order.
    pub(super) g_idx: Option<String>,
    pub(super) packing: Packing,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) groups: usize,
    /// The inputs of a group, if they are in order.
    pub(super) group_size: usize,
}

/// How numbers are packed into words of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Numbers of 2, 3, 4 or 8 bits: of several inputs and one output in a word, and zero points of several outputs, of which 1 was subtracted
    /// before they were stored, or not.
    Gptq { bits: u32, is_less_one: bool },
    /// Numbers of 4 bits, of 8 outputs and one input in a word, in the order of [`AWQ_ORDER`]; so are zero points.
    Awq,
}

/// Where in a word the number of each output is, counted from the lowest bits.
const AWQ_ORDER: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
/// The outputs of the narrowest strip, of which the zero points of any width fill whole words.
const NARROWEST: usize = 32;

/// What is in memory of a strip of outputs.
struct Strip {
    words: Vec<u32>,
    /// For each group, one of each output.
    scales: Vec<f32>,
    zeros: Vec<f32>,
    n_outputs: usize,
}

impl Columns {
    pub(super) fn visit(&self, file: &TensorFile, pieces: &mut Pieces<'_>) -> Result<(), PackedError> {
        if self.inputs == 0 || self.outputs == 0 {
            return Ok(());
        }
        let of_output = self.inputs.saturating_mul(5).saturating_add(self.groups.saturating_mul(12));
        if of_output.saturating_mul(NARROWEST) > MAX_STRIP {
            return Err(PackedError::refused(
                &self.qweight,
                format!("it has {} inputs, too many to transpose", self.inputs),
            ));
        }
        let width = (STRIP / of_output / NARROWEST).max(1) * NARROWEST;
        let groups = self.groups(file)?;
        let parts = [&self.qweight, &self.qzeros, &self.scales].map(|name| Part::open(file, name));
        let [qweight, qzeros, scales] = parts;
        let (qweight, qzeros, scales) = (qweight?, qzeros?, scales?);
        let at_once = (AT_ONCE / self.inputs).max(1).next_multiple_of(8);
        let mut numbers = Vec::new();
        for start in (0..self.outputs).step_by(width) {
            let outputs = start..start.saturating_add(width).min(self.outputs);
            let strip = self.strip(&qweight, &qzeros, &scales, outputs)?;
            for first in (0..strip.n_outputs).step_by(at_once) {
                let rows = first..(first + at_once).min(strip.n_outputs);
                numbers.clear();
                numbers.resize(rows.len() * self.inputs, 0.0);
                match self.packing {
                    Packing::Gptq { bits: 2, .. } => self.decode::<2>(&strip, &groups, rows, &mut numbers),
                    Packing::Gptq { bits: 3, .. } => self.decode::<3>(&strip, &groups, rows, &mut numbers),
                    Packing::Gptq { bits: 4, .. } => self.decode::<4>(&strip, &groups, rows, &mut numbers),
                    Packing::Gptq { .. } => self.decode::<8>(&strip, &groups, rows, &mut numbers),
                    Packing::Awq => self.decode_awq(&strip, &groups, rows, &mut numbers),
                }
                if pieces.push(&numbers) == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The group of each input.
    fn groups(&self, file: &TensorFile) -> Result<Vec<usize>, PackedError> {
        let Some(name) = &self.g_idx else {
            let last = self.groups.saturating_sub(1);
            return Ok((0..self.inputs).map(|input| (input / self.group_size.max(1)).min(last)).collect());
        };
        let bytes = Part::open(file, name)?.read_all(self.inputs * size_of::<i32>())?;
        let group = |(input, bytes): (usize, &[u8; 4])| {
            let group = i32::from_le_bytes(*bytes);
            let is_one = usize::try_from(group).ok().filter(|group| *group < self.groups);
            is_one.ok_or_else(|| {
                let reason = format!("element [{input}] is {group}, expected one of {} groups", self.groups);
                PackedError::refused(name, reason)
            })
        };
        bytes.as_chunks().0.iter().enumerate().map(group).collect()
    }

    fn strip(
        &self,
        qweight: &Part<'_>,
        qzeros: &Part<'_>,
        scales: &Part<'_>,
        outputs: Range<usize>,
    ) -> Result<Strip, PackedError> {
        let n_outputs = outputs.len();
        let mut bytes = Vec::new();
        // A strip begins at a multiple of 32 outputs, where a word begins.
        let packed = |bits: u32| {
            let bits = bits as usize;
            let bytes = |outputs: usize| (outputs * bits).div_ceil(32) * size_of::<u32>();
            (bytes(self.outputs), outputs.start / 32 * bits * size_of::<u32>()..bytes(outputs.end))
        };
        let (rows, row_bytes, within) = match self.packing {
            Packing::Gptq { bits, .. } => {
                let size = size_of::<u32>();
                (self.inputs * bits as usize / 32, self.outputs * size, outputs.start * size..outputs.end * size)
            }
            Packing::Awq => {
                let (row_bytes, within) = packed(4);
                (self.inputs, row_bytes, within)
            }
        };
        qweight.read_rows(row_bytes, 0..rows, within, &mut bytes)?;
        let words = words_of(&bytes);
        let (row_bytes, within) = packed(match self.packing {
            Packing::Gptq { bits, .. } => bits,
            Packing::Awq => 4,
        });
        let width = within.len();
        qzeros.read_rows(row_bytes, 0..self.groups, within, &mut bytes)?;
        let mut zeros = Vec::with_capacity(self.groups * n_outputs);
        for row in bytes.chunks_exact(width.max(1)) {
            self.zeros(row, n_outputs, &mut zeros);
        }
        let size = scales.dtype().bits() / 8;
        scales.read_rows(self.outputs * size, 0..self.groups, outputs.start * size..outputs.end * size, &mut bytes)?;
        let none = || PackedError::refused(&self.scales, "it has no real numbers");
        let scales = scales.dtype().to_f32(&bytes).ok_or_else(none)?;
        // What follows indexes them.
        if scales.len() != self.groups * n_outputs || zeros.len() != scales.len() {
            return Err(PackedError::refused(&self.scales, "its size does not fit its zero points"));
        }
        Ok(Strip { words, scales, zeros, n_outputs })
    }

    /// Decodes the zero points of a group.
    fn zeros(&self, row: &[u8], n_outputs: usize, zeros: &mut Vec<f32>) {
        let words = words_of(row);
        match self.packing {
            Packing::Gptq { bits, is_less_one } => {
                let word = |index: usize| words.get(index).map_or(0, |word| u64::from(*word));
                zeros.extend((0..n_outputs).map(|output| {
                    let bit = output * bits as usize;
                    let both = word(bit / 32) | word(bit / 32 + 1) << 32;
                    (((both >> (bit % 32)) + u64::from(is_less_one)) & ((1 << bits) - 1)) as f32
                }));
            }
            Packing::Awq => {
                let of_word = |word: &u32| {
                    let word = *word;
                    AWQ_ORDER.into_iter().map(move |index| (word >> (index * 4) & 15) as f32)
                };
                zeros.extend(words.iter().flat_map(of_word).take(n_outputs));
            }
        }
    }

    /// Decodes some outputs of a strip of GPTQ.
    fn decode<const BITS: usize>(&self, strip: &Strip, groups: &[usize], rows: Range<usize>, numbers: &mut [f32]) {
        // Words in a unit that starts and ends between numbers, and the numbers in it.
        let (n_words, n_values) = if BITS == 3 { (3, 32) } else { (1, 32 / BITS) };
        let mask = (1_u128 << BITS) - 1;
        let words = strip.words.chunks_exact(n_words * strip.n_outputs);
        for (unit, (words, groups)) in words.zip(groups.chunks_exact(n_values)).enumerate() {
            let first = groups[0] * strip.n_outputs;
            let is_one_group = groups.iter().all(|group| *group == groups[0]);
            for (output, row) in rows.clone().zip(numbers.chunks_exact_mut(self.inputs)) {
                let row = &mut row[unit * n_values..][..n_values];
                if BITS == 3 {
                    let word = |index: usize| u128::from(words[index * strip.n_outputs + output]) << (32 * index);
                    let all = word(0) | word(1) | word(2);
                    for (index, number) in row.iter_mut().enumerate() {
                        *number = (all >> (index * BITS) & mask) as u8 as f32;
                    }
                } else {
                    let word = words[output];
                    for (index, number) in row.iter_mut().enumerate() {
                        *number = (word >> (index * BITS) & mask as u32) as u8 as f32;
                    }
                }
                if is_one_group {
                    let (zero, scale) = (strip.zeros[first + output], strip.scales[first + output]);
                    row.iter_mut().for_each(|number| *number = (*number - zero) * scale);
                } else {
                    for (number, group) in row.iter_mut().zip(groups) {
                        let index = group * strip.n_outputs + output;
                        *number = (*number - strip.zeros[index]) * strip.scales[index];
                    }
                }
            }
        }
    }

    /// Decodes some outputs of a strip of AWQ, from a multiple of 8 on.
    fn decode_awq(&self, strip: &Strip, groups: &[usize], rows: Range<usize>, numbers: &mut [f32]) {
        let width = strip.n_outputs.div_ceil(8);
        let eights = numbers.chunks_mut(8 * self.inputs);
        for (column, eight) in (rows.start / 8..width).zip(eights) {
            for ((input, words), group) in strip.words.chunks_exact(width).enumerate().zip(groups) {
                let word = words[column];
                for (index, row) in eight.chunks_exact_mut(self.inputs).enumerate() {
                    let at = group * strip.n_outputs + column * 8 + index;
                    let number = (word >> (AWQ_ORDER[index] * 4) & 15) as f32;
                    row[input] = (number - strip.zeros[at]) * strip.scales[at];
                }
            }
        }
    }

    /// Why the shapes of scales, zero points and groups do not fit, if they do not.
    pub(super) fn misfit(&self, scales: &[usize], qzeros: &[usize], g_idx: Option<&[usize]>) -> Option<String> {
        let bits = match self.packing {
            Packing::Gptq { bits, .. } => bits as usize,
            Packing::Awq => 4,
        };
        let Some(n_bits) = self.outputs.checked_mul(bits) else {
            return Some(format!("{} outputs are too many", self.outputs));
        };
        let zeros = [self.groups, n_bits.div_ceil(32)];
        if scales != [self.groups, self.outputs] || self.groups == 0 {
            return Some(format!("its scales have the shape {scales:?}, expected [groups, {}]", self.outputs));
        }
        if qzeros != zeros {
            return Some(format!("its zero points have the shape {qzeros:?}, expected {zeros:?}"));
        }
        match g_idx {
            Some(found) if found != [self.inputs] => {
                Some(format!("its groups (`g_idx`) have the shape {found:?}, expected [{}]", self.inputs))
            }
            None if self.group_size == 0 || self.inputs.div_ceil(self.group_size) != self.groups => {
                Some(format!("{} inputs are not {} groups of {}", self.inputs, self.groups, self.group_size))
            }
            _ => None,
        }
    }
}

/// Whether scales of the type are multiplied with.
pub(super) const fn is_scale(dtype: ElementType) -> bool {
    matches!(dtype, ElementType::Float16 | ElementType::BFloat16 | ElementType::Float32)
}

fn words_of(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}
