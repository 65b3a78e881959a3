//! Histograms of the numbers of a tensor, drawn with characters.

use std::fmt::Write as _;

use carton_tensor::files::ElementType;
use carton_tensor::weights::Statistics;
use serde::Serialize;

use crate::text::six_digits;

/// The number of bins, or a few less.
const N_BINS: usize = 20;
/// The longest bar, in characters.
const WIDTH: usize = 50;
/// The number of elements that are converted at a time.
const AT_ONCE: usize = 1 << 16;

/// The number of values in each of several bins of equal width.
#[derive(Debug, Serialize)]
pub(super) struct Histogram {
    /// The lower edge of each bin, and the upper edge of the last one.
    edges: Vec<f64>,
    counts: Vec<u64>,
    #[serde(skip)]
    dtype: ElementType,
}

impl Histogram {
    /// Makes the bins for numbers with these statistics. Returns `None` if none of them is finite.
    pub(super) fn new(dtype: ElementType, statistics: &Statistics) -> Option<Self> {
        let edges = edges(statistics.min?, statistics.max?, !dtype.is_float());
        let n_bins = edges.len().checked_sub(1)?;
        Some(Self { edges, counts: vec![0; n_bins], dtype })
    }

    /// Counts the finite numbers among these elements, which end at a whole byte.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let Self { edges, counts, dtype } = self;
        let n_bins = counts.len();
        let (Some(&first), Some(&last)) = (edges.first(), edges.last()) else { return };
        let width = last / n_bins as f64 - first / n_bins as f64;
        let n_bytes = dtype.n_bytes(AT_ONCE).unwrap_or_default().max(1);
        let numbers = bytes.chunks(n_bytes).filter_map(|piece| dtype.to_f64(piece)).flatten();
        for number in numbers.filter(|number| number.is_finite()) {
            let mut bin = ((number / width - first / width) as usize).min(n_bins - 1);
            // Rounding may have put a number that equals an edge into the neighbouring bin.
            if bin > 0 && number < edges[bin] {
                bin -= 1;
            } else if bin + 1 < n_bins && number >= edges[bin + 1] {
                bin += 1;
            }
            counts[bin] += 1;
        }
    }

    /// Draws a line for each bin: its lower edge, a bar, and its count.
    pub(super) fn drawn(&self) -> String {
        let largest = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let labels = labels(&self.edges[..self.counts.len()]);
        let label_width = labels.iter().map(String::len).max().unwrap_or(0);
        let mut text = String::new();
        for (label, &count) in labels.iter().zip(&self.counts) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{label:>label_width$} │{} {count}", bar(count, largest));
        }
        text
    }
}

/// Returns the edges of the bins: multiples of 1, 2 or 5 times a power of ten, as a person would choose them. The first edge is at most
/// the smallest number. Bins of integers contain whole numbers of integers.
fn edges(min: f64, max: f64, of_integers: bool) -> Vec<f64> {
    if min >= max {
        // If all numbers are equal, there is one bin.
        return vec![min, max];
    }
    // Divides first, because the difference may overflow.
    let least = max / N_BINS as f64 - min / N_BINS as f64;
    let least = if of_integers { least.max(1.0) } else { least };
    let evenly = || (0..N_BINS).map(|bin| least.mul_add(bin as f64, min)).chain([max]).collect();
    let exponent = least.log10().floor();
    // Outside of this range, powers of ten and their multiples are inexact.
    if !(-300.0..300.0).contains(&exponent) {
        return evenly();
    }
    // Divides by the inverse of a power of ten below one, which rounds like the decimal number itself.
    let power = 10_f64.powf(exponent.abs());
    let at = |multiple: f64| if exponent < 0.0 { multiple / power } else { multiple * power };
    // Allows for rounding, so that a width that is nearly one of these is taken as it is.
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| at(*step) >= least * (1.0 - 1e-9)).unwrap_or(10.0);
    let first = (min / at(step)).floor();
    let last = if of_integers { (max / at(step)).floor() + 1.0 } else { (max / at(step)).ceil() };
    let n_bins = last - first;
    // If the numbers are much larger than their differences, rounding leaves no such multiples.
    if !(1.0..=2.0 * N_BINS as f64).contains(&n_bins) || first.abs().max(last.abs()) > 1e15 {
        return evenly();
    }
    (0..=n_bins as usize).map(|bin| at((first + bin as f64) * step)).collect()
}

/// Formats the numbers with few digits, or with as many as are needed to tell them apart.
fn labels(numbers: &[f64]) -> Vec<String> {
    let labels: Vec<String> = numbers.iter().map(|&number| six_digits(Some(number))).collect();
    if labels.is_sorted_by(|one, next| one != next) {
        return labels;
    }
    numbers.iter().map(|number| format!("{number:?}")).collect()
}

/// Draws a bar in eighths of a character. A count above 0 is always visible.
fn bar(count: u64, largest: u64) -> String {
    const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let length = (count as f64 / largest as f64 * (WIDTH * 8) as f64).round() as usize;
    let length = if count > 0 { length.max(1) } else { 0 };
    let mut bar = "█".repeat(length / 8);
    bar.extend((length % 8).checked_sub(1).and_then(|eighths| EIGHTHS.get(eighths)));
    bar
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use carton_tensor::files::RawTensor;
    use carton_tensor::weights;

    use super::*;

    fn of(tensor: &RawTensor) -> Option<Histogram> {
        let mut histogram = Histogram::new(tensor.dtype(), &weights::stats(tensor).unwrap())?;
        histogram.add(tensor.bytes());
        Some(histogram)
    }

    fn histogram(numbers: &[f32]) -> Option<Histogram> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let tensor = RawTensor::new(ElementType::Float32, vec![numbers.len()], bytes.into()).unwrap();
        of(&tensor)
    }

    #[test]
    fn counts_are_those_of_the_parts() {
        let numbers: Vec<f32> = (0..=40_u8).map(f32::from).collect();
        let found = histogram(&numbers).unwrap();
        // numpy.histogram(range(41), bins=20)
        assert_eq!(found.counts, [&[2_u64; 19][..], &[3]].concat());
        assert_eq!((found.edges[0], found.edges[1], found.edges[20]), (0.0, 2.0, 40.0));
        // numpy.histogram(numpy.arange(0, 1, 0.01), bins=numpy.arange(21) / 20), whose edges are not all exact
        let hundredths = (0..100_u8).flat_map(|n| (f64::from(n) / 100.0).to_le_bytes()).collect::<Vec<u8>>();
        let tensor = RawTensor::new(ElementType::Float64, vec![100], hundredths.into()).unwrap();
        assert_eq!(of(&tensor).unwrap().counts, [5; 20]);
        let found = histogram(&[f32::NAN, 1.0, f32::INFINITY, 1.0]).unwrap();
        assert_eq!((found.counts, found.edges), (vec![2], vec![1.0, 1.0]));
        assert!(histogram(&[f32::NAN]).is_none() && histogram(&[]).is_none());
        let found = histogram(&[f32::MIN, f32::MAX]).unwrap();
        assert_eq!((found.counts.first(), found.counts.last(), found.counts.iter().sum()), (Some(&1), Some(&1), 2_u64));
    }

    #[test]
    fn parts_begin_where_people_would_begin_them() {
        let check = |min, max, of_integers, expected: &[f64]| {
            let edges = edges(min, max, of_integers);
            assert_eq!([edges[0], edges[1], edges[edges.len() - 1]], expected, "{edges:?}");
            assert!(edges[0] <= min && edges[edges.len() - 1] >= max && edges.len() <= 22, "{edges:?}");
        };
        check(-2.98, 3.17, false, &[-3.0, -2.5, 3.5]);
        check(-0.0713, 0.0682, false, &[-0.08, -0.07, 0.07]);
        check(0.0, 1.0, false, &[0.0, 0.05, 1.0]);
        check(0.0, 255.0, true, &[0.0, 20.0, 260.0]);
        check(0.0, 3.0, true, &[0.0, 1.0, 4.0]);
        check(-127.0, 127.0, true, &[-140.0, -120.0, 140.0]);
        check(1e-10, 3e-10, false, &[1e-10, 1.1e-10, 3e-10]);
        // Ranges without such multiples.
        check(1.0, 1.0 + f64::EPSILON, false, &[1.0, 1.0, 1.0 + f64::EPSILON]);
        check(f64::MIN, f64::MAX, false, &[f64::MIN, f64::MIN * 0.9, f64::MAX]);
        check(0.0, 5e-324, false, &[0.0, 0.0, 5e-324]);
    }

    #[test]
    fn bars_are_as_long_as_their_counts() {
        assert_eq!(bar(0, 10), "");
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(10, 10), "█".repeat(50));
        assert_eq!(bar(5, 10), "█".repeat(25));
        assert_eq!(bar(1, 80), "▋");
        let drawn = histogram(&[0.0, 1.0]).unwrap().drawn();
        assert_eq!(drawn.lines().count(), 20);
        assert!(drawn.starts_with("   0 │█") && drawn.contains("\n0.05 │ 0\n"), "{drawn}");
    }

    #[test]
    fn labels_tell_parts_apart() {
        assert_eq!(labels(&[-0.05, 0.0, 1e-9, 1e9]), ["-0.05", "0", "1.0000e-9", "1.0000e9"]);
        assert_eq!(
            labels(&[999_999.999_999, 1e6, 1_000_000.000_001]),
            ["999999.999999", "1000000.0", "1000000.000001"]
        );
        assert_eq!(labels(&[1e300, 1.000_000_000_000_001e300]), ["1e300", "1.000000000000001e300"]);
        assert_eq!(labels(&[0.1]), ["0.1"]);
    }
}
