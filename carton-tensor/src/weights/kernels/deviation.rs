//! Measures the deviation of quantized integers from the original numbers (spec/weights.md §2.4).

use super::block::{BLOCK, CHUNK, Source, VisitChunks, blocks, for_each_chunk};
use super::float::Float;
use super::level::at_every_level;

/// The number of partial sums. It determines the order of additions, and with it the last bits of the result.
const LANES: usize = 16;

/// The deviation of integers from numbers, in steps: one step is `1 / scale`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Deviation {
    /// The sum of squared differences.
    pub(crate) squared_error: f64,
    /// The sum of squares of the numbers.
    pub(crate) squares: f64,
    /// The largest absolute difference.
    pub(crate) max_absolute: f64,
}

impl Deviation {
    pub(crate) fn merge(self, other: Self) -> Self {
        Self {
            squared_error: self.squared_error + other.squared_error,
            squares: self.squares + other.squares,
            max_absolute: self.max_absolute.max(other.max_absolute),
        }
    }
}

/// The quantized integers and the factor by which the numbers were multiplied.
#[derive(Clone, Copy)]
pub(crate) struct Integers<'a> {
    /// As many as there are numbers.
    pub(crate) integers: &'a [i8],
    pub(crate) scale: f64,
}

at_every_level! {
    /// Returns the deviation of the integers from the elements of `bytes`. Elements that are not finite count as 0, which they were
    /// quantized to.
    fn deviation<S: Source>(instructions, bytes: &[u8], of: Integers<'_>) -> Deviation {
        let mut total = Deviation::default();
        for (block, integers) in blocks::<S>(bytes).zip(of.integers.chunks(BLOCK)) {
            let (errors, squares, largest) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
            let mut sums = Sums { scale: of.scale, integers, errors, squares, largest };
            for_each_chunk::<S>(instructions, block, &mut sums);
            total = total.merge(Deviation {
                squared_error: sums.errors.iter().sum(),
                squares: sums.squares.iter().sum(),
                max_absolute: sums.largest.iter().copied().fold(0.0, f64::max),
            });
        }
        total
    }
}

/// The state of [`deviation`] within a block.
struct Sums<'a> {
    scale: f64,
    integers: &'a [i8],
    errors: [f64; LANES],
    squares: [f64; LANES],
    largest: [f64; LANES],
}

impl Sums<'_> {
    #[inline(always)]
    fn add<F: Float>(&mut self, lane: usize, value: F, integer: i8) {
        let number = if value.magnitude() < F::INFINITE { value.to_f64() * self.scale } else { 0.0 };
        let difference = number - f64::from(integer);
        self.errors[lane] += difference * difference;
        self.squares[lane] += number * number;
        let magnitude = difference.abs();
        self.largest[lane] = if magnitude > self.largest[lane] { magnitude } else { self.largest[lane] };
    }
}

impl<F: Float> VisitChunks<F> for Sums<'_> {
    #[inline(always)]
    fn visit_some(&mut self, start: usize, values: &[F]) {
        let Some(integers) = self.integers.get(start..start + values.len()) else { return };
        let (numbers, numbers_left) = values.as_chunks::<LANES>();
        let (integers, integers_left) = integers.as_chunks::<LANES>();
        debug_assert!(numbers.len() <= CHUNK / LANES);
        for (numbers, integers) in numbers.iter().zip(integers) {
            for lane in 0..LANES {
                self.add(lane, numbers[lane], integers[lane]);
            }
        }
        for (lane, (&number, &integer)) in numbers_left.iter().zip(integers_left).enumerate() {
            self.add(lane, number, integer);
        }
    }
}
