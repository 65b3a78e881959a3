//! Quantizes numbers to blocks, byte for byte as `gguf.quants.quantize` of the Python package `gguf` does (spec/gguf.md §6.3). Pure.

use half::f16;

use super::GgmlType;

/// The elements of a block of each of the types.
const ELEMENTS: usize = 32;

/// A type of blocks that numbers can be quantized to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuantizedType {
    /// 8 bits for a number, and a scale for 32 of them.
    Q8_0,
    /// 4 bits for a number, and a scale for 32 of them.
    Q4_0,
}

/// How many numbers a type of blocks cannot represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotRepresented {
    /// NaN: a block would become NaN as a whole.
    pub n_nan: u64,
    /// Infinities, and numbers whose scale is beyond the largest number of `float16`.
    pub n_beyond: u64,
}

impl QuantizedType {
    /// The type in files.
    #[must_use]
    pub const fn ggml_type(self) -> GgmlType {
        match self {
            Self::Q8_0 => GgmlType::Q8_0,
            Self::Q4_0 => GgmlType::Q4_0,
        }
    }

    /// Whether a tensor of this shape is quantized: one of two dimensions or more, whose rows are whole blocks.
    #[must_use]
    pub fn fits(self, shape: &[usize]) -> bool {
        shape.len() >= 2 && shape.last().is_some_and(|row| row.is_multiple_of(ELEMENTS))
    }

    /// Quantizes little-endian `float32` numbers. The blocks replace what is in `out`; numbers after the last whole block are not used. If there are numbers that
    /// the type cannot represent, the blocks are not to be used, unless there is no NaN and `saturate` is set: numbers that are beyond the largest one
    /// then become that, with their sign.
    ///
    /// ```
    /// use carton_tensor::gguf::{NotRepresented, QuantizedType};
    /// let numbers: Vec<u8> = [127.0_f32; 32].iter().flat_map(|number| number.to_le_bytes()).collect();
    /// let mut blocks = Vec::new();
    /// assert_eq!(QuantizedType::Q8_0.quantize(&numbers, false, &mut blocks), NotRepresented::default());
    /// assert_eq!(blocks, [[0x00, 0x3c].as_slice(), &[127; 32]].concat());
    /// ```
    pub fn quantize(self, numbers: &[u8], saturate: bool, out: &mut Vec<u8>) -> NotRepresented {
        out.clear();
        let mut found = NotRepresented::default();
        let largest = self.largest();
        for bytes in numbers.chunks_exact(ELEMENTS * size_of::<f32>()) {
            let mut block = [0.0_f32; ELEMENTS];
            for (number, bytes) in block.iter_mut().zip(bytes.as_chunks().0) {
                *number = f32::from_le_bytes(*bytes);
                found.n_nan += u64::from(number.is_nan());
                if self.is_beyond(*number) {
                    found.n_beyond += 1;
                    *number = if saturate { largest.copysign(*number) } else { *number };
                }
            }
            match self {
                Self::Q8_0 => q8_0(&block, out),
                Self::Q4_0 => q4_0(&block, out),
            }
        }
        found
    }

    /// The number by which the largest magnitude of a block is divided for its scale.
    const fn steps(self) -> f32 {
        match self {
            Self::Q8_0 => 127.0,
            Self::Q4_0 => 8.0,
        }
    }

    /// The largest number whose scale is finite.
    fn largest(self) -> f32 {
        f32::from(f16::MAX) * self.steps()
    }

    fn is_beyond(self, number: f32) -> bool {
        number.abs() > self.largest() && f16::from_f32(number.abs() / self.steps()).is_infinite()
    }
}

/// 1 / `scale`, or 0 where all numbers are 0.
fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The scale has the largest magnitude as 127 steps. Halves are rounded away from 0.
fn q8_0(block: &[f32; ELEMENTS], out: &mut Vec<u8>) {
    let largest = block.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    let scale = largest / 127.0;
    let inverse = inverse(scale);
    out.extend(f16::from_f32(scale).to_le_bytes());
    // The inverse of a very small scale is infinite. NumPy makes 0 of what is not finite, and the scale is then 0 in float16.
    out.extend(block.iter().map(|number| match (number * inverse).round() {
        rounded if rounded.is_finite() => rounded as i8 as u8,
        _ => 0,
    }));
}

/// The scale has the number of the largest magnitude, the first of several, as -8 steps. A byte has a number of the first half of the block in its lower bits,
/// and one of the second half in its upper ones.
fn q4_0(block: &[f32; ELEMENTS], out: &mut Vec<u8>) {
    let first = block.first().copied().unwrap_or_default();
    let largest =
        block.iter().fold(first, |largest, number| if number.abs() > largest.abs() { *number } else { largest });
    let scale = largest / -8.0;
    let inverse = inverse(scale);
    out.extend(f16::from_f32(scale).to_le_bytes());
    // As in `q8_0`, what is not finite becomes 0.
    let step = |number: &f32| match (number * inverse) + 8.5 {
        step if step.is_finite() => (step as u8).min(15),
        _ => 0,
    };
    let (low, high) = block.split_at(ELEMENTS / 2);
    out.extend(low.iter().zip(high).map(|(low, high)| step(low) | (step(high) << 4)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantized(of: QuantizedType, numbers: &[f32], saturate: bool) -> (Vec<u8>, NotRepresented) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut out = Vec::new();
        let found = of.quantize(&bytes, saturate, &mut out);
        (out, found)
    }

    /// What cannot be represented is counted, and becomes the largest number where that is wanted: 65504 times the steps.
    #[test]
    fn numbers_beyond_the_largest_one() {
        for (of, largest) in [(QuantizedType::Q8_0, 8_319_008.0), (QuantizedType::Q4_0, 524_032.0)] {
            let mut numbers = [0.0_f32; 32];
            numbers[3] = -largest;
            let (expected, found) = quantized(of, &numbers, false);
            assert_eq!(found, NotRepresented::default());
            let mut read = vec![0; 32 * 4];
            of.ggml_type().dequantize(&expected, &mut read);
            assert_eq!(read[3 * 4..4 * 4], (-largest).to_le_bytes(), "{of:?}");
            for beyond in [-largest * 1.01, f32::MIN, f32::NEG_INFINITY] {
                numbers[3] = beyond;
                let (blocks, found) = quantized(of, &numbers, true);
                assert_eq!((blocks, found), (expected.clone(), NotRepresented { n_nan: 0, n_beyond: 1 }), "{beyond}");
            }
            numbers[3] = f32::NAN;
            assert_eq!(quantized(of, &numbers, false).1, NotRepresented { n_nan: 1, n_beyond: 0 });
        }
    }

    #[test]
    fn whole_rows_of_matrices_fit() {
        let fits = |shape: &[usize]| QuantizedType::Q8_0.fits(shape);
        assert!(fits(&[3, 64]) && fits(&[2, 3, 32]));
        assert!(!fits(&[]) && !fits(&[32]) && !fits(&[32, 3]) && !fits(&[2, 33]));
    }
}
