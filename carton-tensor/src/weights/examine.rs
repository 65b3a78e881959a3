//! Looks for what is odd in the numbers of a tensor, though its file is whole: numbers that are not finite, and tensors of one number. Computes
//! a digest by which equal tensors are found (spec/weights.md §7). Each byte is read once.

use sha2::{Digest as _, Sha256};

use super::error::WeightsError;
use super::kernels::{Level, Moments};
use super::pieces::PIECE_ELEMENTS;
use super::statistics::moments_of;
use crate::any_file::{ElementOrder, Entry};
use crate::context::Cancelled;
use crate::files::{ElementType, RawTensor};

/// What is known of a tensor whose numbers were read once.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Examined {
    /// The type of the numbers; `float32` for a quantized tensor, of which the numbers that it represents are read.
    pub dtype: ElementType,
    /// The number of elements.
    pub n_elements: u64,
    /// The number of bytes that were read.
    pub n_bytes: u64,
    /// The number of NaNs; of complex numbers, that of their parts.
    pub n_nan: u64,
    /// The number of infinities of either sign; of complex numbers, that of their parts.
    pub n_infinite: u64,
    /// Whether there is an element, and all are equal. A NaN equals nothing.
    pub is_constant: bool,
    /// The first element; `None` for a tensor without elements, and for complex numbers.
    pub first: Option<f64>,
    /// The SHA-256 of the elements in C order.
    pub sha256: [u8; 32],
}

/// Examines the numbers of a tensor of a file, in pieces. Calls `advance` with the number of bytes of each.
///
/// # Errors
/// The tensor cannot be read, or is none of numbers; those of `advance`.
pub fn examine_entry(
    entry: &Entry<'_>,
    advance: impl Fn(u64) -> Result<(), Cancelled>,
) -> Result<Examined, WeightsError> {
    // The numbers of a quantized tensor are `float32`.
    let mut examiner = Examiner::new(entry.dtype().unwrap_or(ElementType::Float32));
    entry.visit(ElementOrder::C, PIECE_ELEMENTS, |piece| {
        advance(piece.len() as u64)?;
        examiner.update(piece)
    })?;
    Ok(examiner.finish())
}

/// Examines a tensor in memory.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// let bytes: Vec<u8> = [2.5_f32; 3].into_iter().flat_map(f32::to_le_bytes).collect();
/// let tensor = RawTensor::new(ElementType::Float32, vec![3], bytes.into())?;
/// let found = carton_tensor::weights::examine(&tensor)?;
/// assert_eq!((found.is_constant, found.first, found.n_nan), (true, Some(2.5), 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// None for now.
pub fn examine(tensor: &RawTensor) -> Result<Examined, WeightsError> {
    let mut examiner = Examiner::new(tensor.dtype());
    for piece in tensor.bytes().chunks(tensor.dtype().piece_bytes(PIECE_ELEMENTS)) {
        examiner.update(piece)?;
    }
    Ok(examiner.finish())
}

struct Examiner {
    dtype: ElementType,
    level: Level,
    moments: Moments,
    n_bytes: u64,
    /// The bytes of the first element; of a type of less than a byte, the first byte.
    first: Vec<u8>,
    /// Whether all elements so far have the same bytes.
    is_same: bool,
    digest: Sha256,
}

impl Examiner {
    fn new(dtype: ElementType) -> Self {
        let (level, moments, digest) = (Level::best(), Moments::NONE, Sha256::new());
        Self { dtype, level, moments, n_bytes: 0, first: Vec::new(), is_same: true, digest }
    }

    fn update(&mut self, piece: &[u8]) -> Result<(), WeightsError> {
        // A complex number is not finite where one of its parts is not.
        let parts = match self.dtype {
            ElementType::Complex64 => ElementType::Float32,
            ElementType::Complex128 => ElementType::Float64,
            dtype => dtype,
        };
        self.moments = self.moments.merge(moments_of(self.level, parts, piece)?);
        self.digest.update(piece);
        self.n_bytes += piece.len() as u64;
        let size = self.dtype.bits().div_ceil(8);
        if self.first.is_empty() {
            self.first.extend(piece.get(..size).unwrap_or_default());
        }
        // Each element equals the one before it. The comparison of two overlapping slices is as fast as memory.
        let follows = |piece: &[u8]| piece.get(size..) == piece.get(..piece.len().saturating_sub(size));
        self.is_same = self.is_same && piece.starts_with(&self.first) && follows(piece);
        Ok(())
    }

    fn finish(self) -> Examined {
        let Self { dtype, moments, n_bytes, first, is_same, digest, .. } = self;
        let n_elements = n_bytes.saturating_mul(8) / dtype.bits() as u64;
        let first = dtype.to_f64(&first).and_then(|numbers| numbers.first().copied());
        // Zeros of both signs are equal, and elements of less than a byte have no bytes of their own. Integers may be larger than the
        // statistics can tell apart.
        let is_one_float = dtype.is_float() && moments.min == moments.max && moments.n_infinite == 0;
        let is_same = if dtype.bits() < 8 { is_one_float } else { is_same || is_one_float };
        Examined {
            dtype,
            n_elements,
            n_bytes,
            n_nan: moments.n_nan,
            n_infinite: moments.n_infinite,
            is_constant: n_elements > 0 && moments.n_nan == 0 && is_same,
            first,
            sha256: digest.finalize().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Complex, Element, NumericTensor};

    fn of<T: Element>(elements: &[T]) -> Examined {
        let tensor = NumericTensor::from_vec(elements.to_vec(), vec![elements.len()]).unwrap();
        examine(&RawTensor::from(&tensor)).unwrap()
    }

    #[test]
    fn numbers_that_are_not_finite_are_counted() {
        let found = of(&[1.0_f32, f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        assert_eq!((found.n_elements, found.n_nan, found.n_infinite, found.is_constant), (4, 1, 2, false));
        let found = of(&[Complex::new(f64::NAN, 0.0), Complex::new(1.0, f64::INFINITY)]);
        assert_eq!((found.n_elements, found.n_nan, found.n_infinite, found.first), (2, 1, 1, None));
    }

    #[test]
    fn tensors_of_one_number_are_found_across_pieces() {
        let long = 3 * PIECE_ELEMENTS + 5;
        assert!(of(&vec![7_u8; long]).is_constant && of(&vec![-0.5_f64; long]).is_constant);
        for position in [0, 1, PIECE_ELEMENTS, long - 1] {
            let mut numbers = vec![7_u16; long];
            numbers[position] = 8;
            assert!(!of(&numbers).is_constant, "{position}");
        }
        // Each piece has one number, and each another.
        let steps: Vec<u8> = (0..2 * PIECE_ELEMENTS).map(|position| (position / PIECE_ELEMENTS) as u8).collect();
        assert!(!of(&steps).is_constant);
        assert!(of(&[0.0_f32, -0.0]).is_constant && of(&[f32::INFINITY; 2]).is_constant);
        assert!(!of(&[f32::NAN; 2]).is_constant && !of(&[f32::INFINITY, 1.0]).is_constant);
        assert!(!of(&[f32::INFINITY, f32::NEG_INFINITY]).is_constant && !of::<f32>(&[]).is_constant);
        // Two integers that float64 does not tell apart.
        assert!(!of(&[1_i64 << 53, (1 << 53) + 1]).is_constant);
        let nibbles = |bytes: &[u8]| {
            let tensor = RawTensor::new(ElementType::Float4E2m1, vec![4], bytes.to_vec().into()).unwrap();
            examine(&tensor).unwrap().is_constant
        };
        assert_eq!((nibbles(&[0x22, 0x22]), nibbles(&[0x21, 0x21])), (true, false));
    }

    #[test]
    fn the_digest_is_that_of_the_elements() {
        // hashlib.sha256(numpy.arange(3, dtype="float32").tobytes())
        let expected = Sha256::digest([0.0_f32, 1.0, 2.0].iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>());
        assert_eq!(of(&[0.0_f32, 1.0, 2.0]).sha256, <[u8; 32]>::from(expected));
        assert_ne!(of(&[0.0_f32, 1.0, 2.0]).sha256, of(&[0.0_f32, 1.0, 3.0]).sha256);
    }
}
