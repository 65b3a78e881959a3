//! Numbers whose packed rows are those of the result: decoded, less a zero point, times a scale. A tile of them is in memory at a time.

use std::ops::ControlFlow;

use super::PackedError;
use super::grid::{Grid, OpenGrid, Tile};
use super::numbers::{AT_ONCE, Pieces};
use super::part::Part;
use crate::any_file::TensorFile;

/// How packed numbers become dense.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tiles {
    /// The tensor that has the packed numbers.
    pub(super) base: String,
    pub(super) code: Code,
    /// All rows, of one matrix or of several below each other.
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// The bytes of a packed row.
    pub(super) row_bytes: usize,
    pub(super) scale: Grid,
    pub(super) zero: Option<Grid>,
    /// What the product of number and scale is multiplied by.
    pub(super) factor: Option<f32>,
}

/// How a number is packed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Code {
    /// A byte is the index of a number.
    Table(&'static [f32; 256]),
    /// Integers of 8 bits with a sign.
    Int8,
    /// Half a byte is the index of a number, the lower half of a byte the first one.
    LowFirst(&'static [f32; 16]),
    /// Half a byte is the index of a number, the upper half of a byte the first one.
    HighFirst(&'static [f32; 16]),
    /// Integers without a sign of this many bits, from the lowest bit upwards. Half of their range is subtracted.
    Bits(u32),
}

impl Code {
    const fn bits(self) -> usize {
        match self {
            Self::Table(_) | Self::Int8 => 8,
            Self::LowFirst(_) | Self::HighFirst(_) => 4,
            Self::Bits(bits) => bits as usize,
        }
    }

    /// Decodes as many numbers as are wanted, which begin at a byte.
    fn decode(self, bytes: &[u8], numbers: &mut [f32]) {
        match self {
            Self::Table(values) => {
                for (number, byte) in numbers.iter_mut().zip(bytes) {
                    *number = values[usize::from(*byte)];
                }
            }
            Self::Int8 => {
                for (number, byte) in numbers.iter_mut().zip(bytes) {
                    *number = f32::from(byte.cast_signed());
                }
            }
            Self::LowFirst(values) => halves(bytes, numbers, |byte| [byte & 15, byte >> 4], values),
            Self::HighFirst(values) => halves(bytes, numbers, |byte| [byte >> 4, byte & 15], values),
            Self::Bits(4) => halves(bytes, numbers, |byte| [byte & 15, byte >> 4], &LESS_8),
            Self::Bits(bits) => {
                let (mask, half) = ((1_u32 << bits) - 1, f32::from(1_u16 << (bits - 1)));
                for (index, number) in numbers.iter_mut().enumerate() {
                    let bit = index * bits as usize;
                    let byte = |index: usize| bytes.get(index).map_or(0, |byte| u32::from(*byte));
                    let both = byte(bit / 8) | byte(bit / 8 + 1) << 8;
                    *number = (both >> (bit % 8) & mask) as f32 - half;
                }
            }
        }
    }
}

/// The integers of 4 bits without a sign, less half of their range.
const LESS_8: [f32; 16] = [-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];

/// Decodes two numbers of each byte; of the last one, as many as are wanted.
fn halves(bytes: &[u8], numbers: &mut [f32], split: impl Fn(u8) -> [u8; 2], values: &[f32; 16]) {
    let (pairs, last) = numbers.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = split(*byte).map(|half| values[usize::from(half & 15)]);
    }
    if let (Some(number), Some(byte)) = (last.first_mut(), bytes.get(pairs.len())) {
        *number = values[usize::from(split(*byte)[0] & 15)];
    }
}

impl Tiles {
    /// Passes the numbers on, row by row.
    pub(super) fn visit(&self, file: &TensorFile, pieces: &mut Pieces<'_>) -> Result<(), PackedError> {
        if self.rows == 0 || self.columns == 0 {
            return Ok(());
        }
        let base = Part::open(file, &self.base)?;
        let mut scale = self.scale.open(file)?;
        let mut zero = self.zero.as_ref().map(|zero| zero.open(file)).transpose()?;
        let (tile_rows, tile_columns) = ((AT_ONCE / self.columns).max(1), self.columns.min(AT_ONCE));
        let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
        for first_row in (0..self.rows).step_by(tile_rows) {
            for first_column in (0..self.columns).step_by(tile_columns) {
                let tile = Tile {
                    rows: first_row..first_row.saturating_add(tile_rows).min(self.rows),
                    columns: first_column..first_column.saturating_add(tile_columns).min(self.columns),
                };
                self.tile(&base, &tile, &mut bytes, &mut numbers)?;
                scale.load(&tile)?;
                if let Some(zero) = &mut zero {
                    zero.load(&tile)?;
                }
                self.apply(&tile, &scale, zero.as_ref(), &mut numbers);
                if pieces.push(&numbers) == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Decodes the numbers of a tile.
    fn tile(
        &self,
        base: &Part<'_>,
        tile: &Tile,
        bytes: &mut Vec<u8>,
        numbers: &mut Vec<f32>,
    ) -> Result<(), PackedError> {
        // A tile begins at the first column, or at a multiple of many of them, where a byte begins.
        let is_whole = tile.columns.len() == self.columns;
        let bits = self.code.bits();
        let within = match is_whole {
            true => 0..self.row_bytes,
            false => tile.columns.start / 8 * bits..(tile.columns.end * bits).div_ceil(8),
        };
        let (width, n_columns) = (within.len(), tile.columns.len());
        base.read_rows(self.row_bytes, tile.rows.clone(), within, bytes)?;
        numbers.clear();
        numbers.resize(tile.rows.len() * n_columns, 0.0);
        for (bytes, numbers) in bytes.chunks_exact(width.max(1)).zip(numbers.chunks_exact_mut(n_columns)) {
            self.code.decode(bytes, numbers);
        }
        Ok(())
    }

    fn apply(&self, tile: &Tile, scale: &OpenGrid<'_>, zero: Option<&OpenGrid<'_>>, numbers: &mut [f32]) {
        for (row, numbers) in tile.rows.clone().zip(numbers.chunks_exact_mut(tile.columns.len())) {
            if let Some((grid, values)) = self.zero.as_ref().zip(zero) {
                each_run(numbers, tile, grid.block[1], values.row(row), |number, zero| *number -= zero);
            }
            let (block, scales) = (self.scale.block[1], scale.row(row));
            match self.factor {
                None => each_run(numbers, tile, block, scales, |number, scale| *number *= scale),
                Some(factor) => {
                    each_run(numbers, tile, block, scales, |number, scale| *number = *number * scale * factor);
                }
            }
        }
    }
}

/// Calls `with` for each number of a row of the tile, with the value of its block of columns.
fn each_run(numbers: &mut [f32], tile: &Tile, block: usize, values: &[f32], with: impl Fn(&mut f32, f32)) {
    let first = block - tile.columns.start % block;
    let (first, rest) = numbers.split_at_mut(first.min(numbers.len()));
    for (run, value) in std::iter::once(first).chain(rest.chunks_mut(block)).zip(values) {
        for number in run {
            with(number, *value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_width_are_decoded() {
        let check = |code: Code, bytes: &[u8], expected: &[f32]| {
            let mut numbers = vec![0.0; expected.len()];
            code.decode(bytes, &mut numbers);
            assert_eq!(numbers, expected);
        };
        check(Code::Bits(4), &[0x21, 0xf0], &[-7.0, -6.0, -8.0, 7.0]);
        check(Code::Bits(4), &[0x21, 0xf0], &[-7.0, -6.0, -8.0]);
        check(Code::Bits(8), &[0, 128, 255], &[-128.0, 0.0, 127.0]);
        // 1, 2, 3, …, of 3 bits each from the lowest bit upwards.
        check(Code::Bits(3), &[0b1101_0001, 0b0101_1000], &[-3.0, -2.0, -1.0, 0.0, 1.0]);
        check(Code::Int8, &[0xff, 1], &[-1.0, 1.0]);
    }

    #[test]
    fn runs_begin_inside_of_a_block() {
        let mut numbers = [1.0; 7];
        let tile = Tile { rows: 0..1, columns: 2..9 };
        each_run(&mut numbers, &tile, 3, &[10.0, 20.0, 30.0], |number, value| *number = value);
        assert_eq!(numbers, [10.0, 20.0, 20.0, 20.0, 30.0, 30.0, 30.0]);
    }
}
