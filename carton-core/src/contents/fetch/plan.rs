//! Plans which downloads fetch which files. Pure.

use std::ops::Range;

/// From this size on a file is downloaded by itself.
pub(super) const LARGE: u64 = 4 << 20;
/// The most that one download fetches for several small files.
const LONGEST_SPAN: u64 = 8 << 20;
/// The largest number of unneeded bytes between two files that are fetched with them to save a request.
pub(super) const LARGEST_GAP: u64 = 64 << 10;

/// A file to fetch from a remote archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate<F> {
    pub(super) file: F,
    /// Where its local header and data are in the archive.
    pub(super) window: Range<u64>,
}

/// One download from a remote archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Planned<F> {
    /// Small files that lie beside each other.
    Span { window: Range<u64>, files: Vec<Candidate<F>> },
    /// A large file.
    Large(Candidate<F>),
}

/// Groups the files of an archive. Large ones come first, so that no worker is left with one at the end.
pub(super) fn plan<F>(mut candidates: Vec<Candidate<F>>) -> Vec<Planned<F>> {
    candidates.sort_by_key(|candidate| candidate.window.start);
    let mut large = Vec::new();
    let mut spans: Vec<(Range<u64>, Vec<Candidate<F>>)> = Vec::new();
    for candidate in candidates {
        if candidate.window.end - candidate.window.start >= LARGE {
            large.push(candidate);
            continue;
        }
        match spans.last_mut() {
            Some((window, files))
                if candidate.window.start.saturating_sub(window.end) <= LARGEST_GAP
                    && candidate.window.end.saturating_sub(window.start) <= LONGEST_SPAN =>
            {
                window.end = window.end.max(candidate.window.end);
                files.push(candidate);
            }
            _ => spans.push((candidate.window.clone(), vec![candidate])),
        }
    }
    large.sort_by_key(|candidate| std::cmp::Reverse(candidate.window.end - candidate.window.start));
    let spans = spans.into_iter().map(|(window, files)| Planned::Span { window, files });
    large.into_iter().map(Planned::Large).chain(spans).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_neighbours_come_together() {
        let check = |windows: &[Range<u64>], expected: &[(Range<u64>, usize)]| {
            let candidates = windows.iter().cloned().enumerate();
            let planned = plan(candidates.map(|(file, window)| Candidate { file, window }).collect());
            let found: Vec<(Range<u64>, usize)> = planned
                .into_iter()
                .map(|planned| match planned {
                    Planned::Span { window, files } => (window, files.len()),
                    Planned::Large(candidate) => (candidate.window, 0),
                })
                .collect();
            assert_eq!(found, expected, "{windows:?}");
        };
        let m = 1 << 20;
        check(&[], &[]);
        check(&[0..10, 10..30, 30 + LARGEST_GAP..2 * LARGEST_GAP], &[(0..2 * LARGEST_GAP, 3)]);
        check(&[20..30, 0..10], &[(0..30, 2)]);
        check(&[0..10, 11 + LARGEST_GAP..LARGEST_GAP * 2], &[(0..10, 1), (11 + LARGEST_GAP..LARGEST_GAP * 2, 1)]);
        check(&[0..3 * m, 3 * m..6 * m, 6 * m..9 * m], &[(0..6 * m, 2), (6 * m..9 * m, 1)]);
        // A large file between two small ones parts them.
        check(&[0..10, 10..5 * m, 5 * m..5 * m + 1], &[(10..5 * m, 0), (0..10, 1), (5 * m..5 * m + 1, 1)]);
        check(&[0..4 * m, 4 * m..12 * m], &[(4 * m..12 * m, 0), (0..4 * m, 0)]);
    }
}
