//! Turns blocks of quantized elements into `f32` (spec/gguf.md §4). Each operation on floats is rounded to `f32` and in the order in which
//! the Python package `gguf` performs it, so that the results are equal to the last bit. Pure: bytes in, numbers out.

mod basic;
mod four_bits;
mod grid;
mod k;
mod ternary;

use super::GgmlType;

/// Dequantizes one block after the other.
type Dequantize = fn(&[u8], &mut [u8]);

impl GgmlType {
    /// Whether [`dequantize`](Self::dequantize) turns blocks of the type into numbers.
    #[must_use]
    pub fn is_dequantized(self) -> bool {
        self.function().is_some()
    }

    /// Writes the `f32` numbers of whole blocks to `numbers`, as little-endian bytes. Blocks or numbers beyond the end of the other are left out.
    /// Returns `false`, and writes nothing, for a type that is not dequantized.
    pub fn dequantize(self, blocks: &[u8], numbers: &mut [u8]) -> bool {
        match self.function() {
            Some(function) => {
                function(blocks, numbers);
                true
            }
            None => false,
        }
    }

    fn function(self) -> Option<Dequantize> {
        Some(match self {
            Self::Q4_0 => |blocks, numbers| each(blocks, numbers, basic::q4_0),
            Self::Q4_1 => |blocks, numbers| each(blocks, numbers, basic::q4_1),
            Self::Q5_0 => |blocks, numbers| each(blocks, numbers, basic::q5_0),
            Self::Q5_1 => |blocks, numbers| each(blocks, numbers, basic::q5_1),
            Self::Q8_0 => |blocks, numbers| each(blocks, numbers, basic::q8_0),
            Self::Q2K => |blocks, numbers| each(blocks, numbers, k::q2_k),
            Self::Q3K => |blocks, numbers| each(blocks, numbers, k::q3_k),
            Self::Q4K => |blocks, numbers| each(blocks, numbers, k::q4_k),
            Self::Q5K => |blocks, numbers| each(blocks, numbers, k::q5_k),
            Self::Q6K => |blocks, numbers| each(blocks, numbers, k::q6_k),
            Self::Iq4Nl => |blocks, numbers| each(blocks, numbers, four_bits::iq4_nl),
            Self::Iq4Xs => |blocks, numbers| each(blocks, numbers, four_bits::iq4_xs),
            Self::Mxfp4 => |blocks, numbers| each(blocks, numbers, four_bits::mxfp4),
            Self::Nvfp4 => |blocks, numbers| each(blocks, numbers, four_bits::nvfp4),
            Self::Tq1_0 => |blocks, numbers| each(blocks, numbers, ternary::tq1_0),
            Self::Tq2_0 => |blocks, numbers| each(blocks, numbers, ternary::tq2_0),
            Self::Iq2Xxs => |blocks, numbers| each(blocks, numbers, grid::iq2_xxs),
            Self::Iq2Xs => |blocks, numbers| each(blocks, numbers, grid::iq2_xs),
            Self::Iq2S => |blocks, numbers| each(blocks, numbers, grid::iq2_s),
            Self::Iq3Xxs => |blocks, numbers| each(blocks, numbers, grid::iq3_xxs),
            Self::Iq3S => |blocks, numbers| each(blocks, numbers, grid::iq3_s),
            Self::Iq1S => |blocks, numbers| each(blocks, numbers, grid::iq1_s),
            Self::Iq1M => |blocks, numbers| each(blocks, numbers, grid::iq1_m),
            _ => return None,
        })
    }
}

/// Calls `block` for each block of `BYTES` bytes and `N` numbers.
fn each<const BYTES: usize, const N: usize>(
    blocks: &[u8],
    numbers: &mut [u8],
    block: impl Fn(&[u8; BYTES], &mut [f32; N]),
) {
    let mut of_block = [0.0; N];
    for (bytes, numbers) in blocks.as_chunks().0.iter().zip(numbers.chunks_exact_mut(N * size_of::<f32>())) {
        block(bytes, &mut of_block);
        numbers.copy_from_slice(bytemuck::cast_slice(of_block.as_slice()));
    }
}

/// The `f16` in the two bytes from `start` on, as `f32`.
fn scale(block: &[u8], start: usize) -> f32 {
    half::f16::from_bits(word(block, start)).to_f32()
}

/// The two bytes from `start` on.
fn word(block: &[u8], start: usize) -> u16 {
    u16::from_le_bytes(bytes(block, start))
}

/// The `N` bytes from `start` on, all of which blocks have: their sizes are constants.
fn bytes<const N: usize>(block: &[u8], start: usize) -> [u8; N] {
    block.get(start..).and_then(|rest| rest.first_chunk().copied()).unwrap_or([0; N])
}
