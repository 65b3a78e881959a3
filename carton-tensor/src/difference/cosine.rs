//! The cosine of the angle between two tensors, as vectors of all their elements. Pure.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::DataType;
use crate::files::ElementType;

/// The sums of products that the cosine is made of, in float64. Elements that are not finite in one of the tensors are left out.
///
/// The sums of a piece are those of [`LANES`] interleaved parts of it, so they do not depend on vector instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Products {
    dot: f64,
    a: f64,
    b: f64,
    /// The number of elements that were left out; of complex numbers, the number of their parts.
    n_left_out: u64,
}

const LANES: usize = 8;
/// Elements that are converted at a time.
const BLOCK: usize = 2048;

impl Products {
    /// The products of the elements of two pieces of the same dtype and length. Those of complex numbers are the real parts of a · conj(b).
    pub(super) fn of(dtype: DataType, a: &[u8], b: &[u8]) -> Self {
        let mut sums = Lanes::default();
        match dtype {
            DataType::Float32 | DataType::Complex64 => {
                sums.add(a.as_chunks().0, b.as_chunks().0, |number| f64::from(f32::from_le_bytes(number)));
            }
            DataType::Float64 | DataType::Complex128 => sums.add(a.as_chunks().0, b.as_chunks().0, f64::from_le_bytes),
            DataType::BFloat16 => {
                let number = |number| f64::from(f32::from_bits(u32::from(u16::from_le_bytes(number)) << 16));
                sums.add(a.as_chunks().0, b.as_chunks().0, number);
            }
            DataType::Float16 => {
                let (mut wide_a, mut wide_b) = ([0.0; BLOCK], [0.0; BLOCK]);
                for (a, b) in a.chunks(2 * BLOCK).zip(b.chunks(2 * BLOCK)) {
                    sums.add(widened(a, &mut wide_a), widened(b, &mut wide_b), f64::from);
                }
            }
            _ => {
                let Some(dtype) = ElementType::from_data_type(dtype) else { return Self::default() };
                let n_bytes = dtype.bits() / 8 * BLOCK;
                let numbers = |bytes| dtype.to_f64(bytes).unwrap_or_default();
                for (a, b) in a.chunks(n_bytes).zip(b.chunks(n_bytes)) {
                    sums.add(&numbers(a), &numbers(b), |number| number);
                }
            }
        }
        sums.sum()
    }

    /// Adds those of the next piece.
    pub(super) fn add(&mut self, next: Self) {
        self.dot += next.dot;
        self.a += next.a;
        self.b += next.b;
        self.n_left_out += next.n_left_out;
    }

    pub(super) const fn n_left_out(&self) -> u64 {
        self.n_left_out
    }

    /// The cosine. `None` if a tensor has no number but 0, or if the sums are too large for float64.
    pub(super) fn cosine(&self) -> Option<f64> {
        let cosine = self.dot / (self.a.sqrt() * self.b.sqrt());
        cosine.is_finite().then(|| cosine.clamp(-1.0, 1.0))
    }
}

#[derive(Default)]
struct Lanes {
    dot: [f64; LANES],
    a: [f64; LANES],
    b: [f64; LANES],
    n_left_out: [u64; LANES],
}

impl Lanes {
    #[inline(always)]
    fn step(&mut self, lane: usize, a: f64, b: f64) {
        let is_in = a.is_finite() & b.is_finite();
        let (a, b) = if is_in { (a, b) } else { (0.0, 0.0) };
        self.dot[lane] += a * b;
        self.a[lane] += a * a;
        self.b[lane] += b * b;
        self.n_left_out[lane] += u64::from(!is_in);
    }

    fn add<T: Copy>(&mut self, a: &[T], b: &[T], number: impl Fn(T) -> f64) {
        let ((full_a, rest_a), (full_b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        for (a, b) in full_a.iter().zip(full_b) {
            for lane in 0..LANES {
                self.step(lane, number(a[lane]), number(b[lane]));
            }
        }
        for (lane, (a, b)) in rest_a.iter().zip(rest_b).enumerate() {
            self.step(lane, number(*a), number(*b));
        }
    }

    fn sum(self) -> Products {
        let sum = |lanes: [f64; LANES]| lanes.into_iter().sum();
        Products { dot: sum(self.dot), a: sum(self.a), b: sum(self.b), n_left_out: self.n_left_out.into_iter().sum() }
    }
}

/// Widens at most a block of `float16`, with the instructions that the CPU has for it.
fn widened<'w>(bytes: &[u8], wide: &'w mut [f32; BLOCK]) -> &'w [f32] {
    let halves: Vec<f16> = bytes.as_chunks().0.iter().map(|half| f16::from_le_bytes(*half)).collect();
    let wide = wide.get_mut(..halves.len()).unwrap_or_default();
    halves.convert_to_f32_slice(wide);
    wide
}
