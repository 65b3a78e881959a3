//! How the numbers of a tensor are distributed, drawn with characters.

use std::fmt::Write as _;

use carton_tensor::files::RawTensor;
use carton_tensor::weights::Statistics;
use serde::Serialize;

use super::stats::short;

/// Into how many parts the range is cut.
const N_BINS: usize = 20;
/// The longest bar, in characters.
const WIDTH: usize = 50;
/// How many elements are looked at at a time.
const AT_ONCE: usize = 1 << 16;

/// How many numbers lie in each of several parts of their range, all of one width.
#[derive(Debug, Serialize)]
pub(super) struct Histogram {
    /// Where each part begins, and where the last one ends.
    edges: Vec<f64>,
    counts: Vec<u64>,
}

impl Histogram {
    /// The finite numbers of a tensor; `None` if there are none.
    pub(super) fn of(tensor: &RawTensor, statistics: &Statistics) -> Option<Self> {
        let (min, max) = (statistics.min?, statistics.max?);
        // Numbers that are all the same have one part.
        let n_bins = if min < max { N_BINS } else { 1 };
        let width = (max / N_BINS as f64) - (min / N_BINS as f64);
        let dtype = tensor.dtype();
        // Whole bytes for types of any width.
        let n_bytes = dtype.n_bytes(AT_ONCE).filter(|n_bytes| *n_bytes > 0)?;
        let mut counts = vec![0_u64; n_bins];
        for piece in tensor.bytes().chunks(n_bytes) {
            for number in dtype.to_f64(piece)? {
                if number.is_finite() {
                    let bin = ((number / width - min / width) as usize).min(n_bins - 1);
                    counts[bin] += 1;
                }
            }
        }
        let mut edges: Vec<f64> = (0..n_bins).map(|bin| width.mul_add(bin as f64, min)).collect();
        edges.push(max);
        Some(Self { edges, counts })
    }

    /// A line for each part: where it begins, a bar, and how many there are.
    pub(super) fn drawn(&self) -> String {
        let largest = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let range = self.edges.last().zip(self.edges.first()).map_or(0.0, |(last, first)| last - first);
        // What is left of zero by adding up parts is no number anyone wants to read.
        let cleaned = |edge: f64| if edge.abs() < range * 1e-9 { 0.0 } else { edge };
        let labels: Vec<String> = self.edges.iter().map(|&edge| short(Some(cleaned(edge)))).collect();
        let label_width = labels.iter().map(String::len).max().unwrap_or(0);
        let mut text = String::new();
        for (label, &count) in labels.iter().zip(&self.counts) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{label:>label_width$} │{} {count}", bar(count, largest));
        }
        text
    }
}

/// A bar in eighths of a character. What is there at all is seen.
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

    use carton_tensor::files::ElementType;
    use carton_tensor::weights;

    use super::*;

    fn histogram(numbers: &[f32]) -> Option<Histogram> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let tensor = RawTensor::new(ElementType::Float32, vec![numbers.len()], bytes.into()).unwrap();
        Histogram::of(&tensor, &weights::stats(&tensor).unwrap())
    }

    #[test]
    fn counts_are_those_of_the_parts() {
        let numbers: Vec<f32> = (0..=40_u8).map(f32::from).collect();
        let found = histogram(&numbers).unwrap();
        // numpy.histogram(range(41), bins=20)
        assert_eq!(found.counts, [&[2_u64; 19][..], &[3]].concat());
        assert_eq!((found.edges[0], found.edges[1], found.edges[20]), (0.0, 2.0, 40.0));
        let found = histogram(&[f32::NAN, 1.0, f32::INFINITY, 1.0]).unwrap();
        assert_eq!((found.counts, found.edges), (vec![2], vec![1.0, 1.0]));
        assert!(histogram(&[f32::NAN]).is_none() && histogram(&[]).is_none());
        let found = histogram(&[f32::MIN, f32::MAX]).unwrap();
        assert_eq!((found.counts[0], found.counts[19]), (1, 1));
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
}
