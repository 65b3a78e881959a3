//! The scales or zero points of the blocks of a matrix, read for one tile of it at a time.

use std::ops::Range;

use half::{bf16, f16};

use super::PackedError;
use super::part::Part;
use crate::any_file::TensorFile;
use crate::files::ElementType;

/// Scales or zero points, one for each block of rows and columns of one or several matrices.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Grid {
    /// The tensor that has them.
    pub(super) part: String,
    pub(super) values: Values,
    /// The rows of a matrix, and those of the grid for it.
    pub(super) matrix_rows: usize,
    pub(super) grid_rows: usize,
    /// The columns of the grid.
    pub(super) columns: usize,
    /// The rows and columns of the matrix that have one value, at least 1 each.
    pub(super) block: [usize; 2],
}

/// How the values are computed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Values {
    /// As they are stored.
    Stored,
    /// As they are stored, rounded to this type.
    Rounded(ElementType),
    /// A byte is the exponent of a power of two, with a bias of 127.
    Exponents,
    /// Multiplied by the only number of this tensor.
    Times(String),
    /// Divided by the only number of this tensor, and then rounded to the type, if there is one.
    DividedBy(String, Option<ElementType>),
    /// Indices into a table. The numbers of the table are multiplied by those of blocks, and then an offset is added.
    Nested { table: String, absmax: String, block: usize, n_blocks: usize, offset: f32 },
    /// Integers without a sign of this many bits, packed along the rows into words of 32 bits. Half of their range is subtracted.
    PackedRows(u32),
}

/// A part of a matrix: whole rows, or a part of one row.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
}

/// A grid that is read.
pub(super) struct OpenGrid<'a> {
    grid: &'a Grid,
    part: Part<'a>,
    global: f32,
    table: Vec<f32>,
    absmax: Option<Part<'a>>,
    buffer: Vec<u8>,
    /// The values for the present tile, with the first row and column of the grid that they are for.
    values: Vec<f32>,
    first_row: usize,
    columns: Range<usize>,
}

impl Grid {
    /// One value for each block of a matrix of `rows` and `columns`, or of several below each other.
    pub(super) fn new(part: &str, rows: usize, grid: [usize; 2], block: [usize; 2]) -> Self {
        let [grid_rows, columns] = grid;
        Self { part: part.to_owned(), values: Values::Stored, matrix_rows: rows, grid_rows, columns, block }
    }

    pub(super) fn open<'a>(&'a self, file: &'a TensorFile) -> Result<OpenGrid<'a>, PackedError> {
        let part = Part::open(file, &self.part)?;
        let floats = |name: &str, n_elements: usize| -> Result<Vec<f32>, PackedError> {
            let part = Part::open(file, name)?;
            let bytes = part.read_all(n_elements.saturating_mul(part.dtype().bits() / 8))?;
            part.dtype().to_f32(&bytes).ok_or_else(|| PackedError::refused(name, "it has no real numbers"))
        };
        let (mut global, mut table, mut absmax) = (1.0, Vec::new(), None);
        match &self.values {
            Values::Times(name) | Values::DividedBy(name, _) => {
                global = floats(name, 1)?.first().copied().unwrap_or(1.0)
            }
            Values::Nested { table: name, absmax: of_blocks, .. } => {
                table = floats(name, 256)?;
                absmax = Some(Part::open(file, of_blocks)?);
            }
            Values::Stored | Values::Rounded(_) | Values::Exponents | Values::PackedRows(_) => {}
        }
        let (buffer, values) = (Vec::new(), Vec::new());
        Ok(OpenGrid { grid: self, part, global, table, absmax, buffer, values, first_row: 0, columns: 0..0 })
    }

    fn row_of(&self, row: usize) -> usize {
        let (matrix, row) = (row / self.matrix_rows.max(1), row % self.matrix_rows.max(1));
        matrix.saturating_mul(self.grid_rows).saturating_add(row / self.block[0])
    }
}

impl OpenGrid<'_> {
    /// Reads the values for a tile that is not empty.
    pub(super) fn load(&mut self, tile: &Tile) -> Result<(), PackedError> {
        let grid = self.grid;
        let rows = grid.row_of(tile.rows.start)..grid.row_of(tile.rows.end.saturating_sub(1)).saturating_add(1);
        let columns = tile.columns.start / grid.block[1]..tile.columns.end.div_ceil(grid.block[1]);
        self.first_row = rows.start;
        self.columns = columns.clone();
        if let Values::PackedRows(bits) = grid.values {
            return self.load_packed_rows(bits, rows, columns);
        }
        let size = self.part.dtype().bits() / 8;
        let within = columns.start.saturating_mul(size)..columns.end.saturating_mul(size);
        self.part.read_rows(grid.columns.saturating_mul(size), rows.clone(), within, &mut self.buffer)?;
        let stored = || {
            let none = || PackedError::refused(&grid.part, "it has no real numbers");
            self.part.dtype().to_f32(&self.buffer).ok_or_else(none)
        };
        self.values = match &grid.values {
            Values::Stored => stored()?,
            Values::Rounded(dtype) => stored()?.into_iter().map(|value| round(*dtype, value)).collect(),
            Values::Times(_) => stored()?.into_iter().map(|value| value * self.global).collect(),
            Values::DividedBy(_, dtype) => {
                let divided = stored()?.into_iter().map(|value| value / self.global);
                divided.map(|value| dtype.map_or(value, |dtype| round(dtype, value))).collect()
            }
            Values::Exponents => self.buffer.iter().map(|exponent| power(*exponent)).collect(),
            Values::Nested { block, n_blocks, offset, .. } => self.nested(*block, *n_blocks, *offset)?,
            Values::PackedRows(_) => Vec::new(),
        };
        Ok(())
    }

    /// The values of the indices in the buffer, which are those of the columns of one row.
    fn nested(&self, block: usize, n_blocks: usize, offset: f32) -> Result<Vec<f32>, PackedError> {
        let Some(absmax) = &self.absmax else { return Ok(Vec::new()) };
        let blocks = self.columns.start / block..self.columns.end.div_ceil(block).min(n_blocks);
        let mut bytes = Vec::new();
        absmax.read_rows(n_blocks * size_of::<f32>(), 0..1, blocks.start * 4..blocks.end * 4, &mut bytes)?;
        let absmax = ElementType::Float32.to_f32(&bytes).unwrap_or_default();
        let value = |(column, index): (usize, &u8)| {
            let absmax = absmax.get(column / block - blocks.start).copied().unwrap_or(f32::NAN);
            self.table.get(usize::from(*index)).copied().unwrap_or(f32::NAN) * absmax + offset
        };
        Ok(self.columns.clone().zip(&self.buffer).map(value).collect())
    }

    fn load_packed_rows(&mut self, bits: u32, rows: Range<usize>, columns: Range<usize>) -> Result<(), PackedError> {
        let n_bits = bits as usize;
        let words = rows.start / 32 * n_bits..rows.end.div_ceil(32) * n_bits;
        // The last words of a column may be left out, where no number has bits in them.
        let stored = self.grid.matrix_rows.saturating_mul(n_bits).div_ceil(32);
        let (first, words) = (words.start, words.start..words.end.min(stored));
        let within = columns.start * size_of::<u32>()..columns.end * size_of::<u32>();
        self.part.read_rows(self.grid.columns * size_of::<u32>(), words, within, &mut self.buffer)?;
        let words = self.buffer.as_chunks::<4>().0;
        let word = |row: usize, column: usize| {
            words.get(row * columns.len() + column).map_or(0, |word| u64::from(u32::from_le_bytes(*word)))
        };
        let half = f32::from(1_u16 << (bits - 1));
        self.values.clear();
        for row in rows {
            let bit = row * n_bits - first * 32;
            for column in 0..columns.len() {
                let both = word(bit / 32, column) | word(bit / 32 + 1, column) << 32;
                self.values.push(((both >> (bit % 32)) & ((1 << bits) - 1)) as f32 - half);
            }
        }
        Ok(())
    }

    /// The values of the columns of the tile in one of its rows, the first of which are for the column at which the tile begins.
    pub(super) fn row(&self, row: usize) -> &[f32] {
        let width = self.columns.len();
        let start = self.grid.row_of(row).saturating_sub(self.first_row).saturating_mul(width);
        self.values.get(start..start.saturating_add(width)).unwrap_or_default()
    }
}

/// Rounds to the nearest number of a type of 16 bits, ties to even; of another type, not at all.
fn round(dtype: ElementType, value: f32) -> f32 {
    match dtype {
        ElementType::Float16 => f16::from_f32(value).to_f32(),
        ElementType::BFloat16 => bf16::from_f32(value).to_f32(),
        _ => value,
    }
}

/// 2 to the power of the exponent less 127, which is infinite for 255.
pub(super) const fn power(exponent: u8) -> f32 {
    match exponent {
        // A subnormal number.
        0 => f32::from_bits(1 << 22),
        exponent => f32::from_bits((exponent as u32) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two() {
        for exponent in 0..=255_u8 {
            assert_eq!(
                f64::from(power(exponent)),
                if exponent == 255 { f64::INFINITY } else { 2_f64.powi(i32::from(exponent) - 127) }
            );
        }
    }
}
