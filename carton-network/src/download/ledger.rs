//! Tracks which bytes of a download are present, and which are assigned to a task. Pure.
//!
//! The bytes are divided into chunks of equal size. One task at a time fills a chunk from its start, so a single number describes what
//! the chunk holds.

use std::ops::Range;

/// The bytes that are present, and those that are being fetched.
#[derive(Debug)]
pub(super) struct Ledger {
    length: u64,
    chunk_size: u64,
    chunks: Vec<Chunk>,
    /// The first incomplete chunk.
    front: usize,
    missing: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    /// The number of bytes from its start that are present.
    done: u64,
    /// Whether a task is fetching more of it.
    taken: bool,
}

/// Adjacent bytes that one task fetches.
#[derive(Debug)]
pub(super) struct Span {
    /// The next byte to fetch.
    pub(super) next: u64,
    /// The end of the span, exclusive.
    pub(super) end: u64,
    chunks: Range<usize>,
}

impl Span {
    /// Shortens the span to its first bytes; the others are handed out again after its release.
    pub(super) fn at_most(self, n_bytes: u64) -> Span {
        Span { end: self.end.min(self.next.saturating_add(n_bytes)), ..self }
    }
}

impl Ledger {
    /// A ledger of `length` bytes in chunks of `chunk_size`. `done` has the number of present bytes of each chunk; chunks beyond the list
    /// are empty.
    pub(super) fn new(length: u64, chunk_size: u64, done: &[u64]) -> Ledger {
        let n_chunks = usize::try_from(length.div_ceil(chunk_size)).unwrap_or(usize::MAX);
        let mut ledger =
            Ledger { length, chunk_size, chunks: vec![Chunk::default(); n_chunks], front: 0, missing: length };
        for (index, done) in done.iter().enumerate().take(n_chunks) {
            let done = (*done).min(ledger.size(index));
            ledger.chunks[index].done = done;
            ledger.missing -= done;
        }
        ledger.advance();
        ledger
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The number of missing bytes.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// The number of bytes from the start of the download that are present without a gap.
    pub(super) fn frontier(&self) -> u64 {
        let start = self.start(self.front);
        start + self.chunks.get(self.front).map_or(0, |chunk| chunk.done)
    }

    /// Whether all these bytes are present.
    pub(super) fn has(&self, range: &Range<u64>) -> bool {
        if range.end <= self.frontier() {
            return true;
        }
        if range.end > self.length {
            return false;
        }
        let mut position = range.start;
        while position < range.end {
            let index = self.index(position);
            let there = self.start(index) + self.chunks.get(index).map_or(0, |chunk| chunk.done);
            if there <= position {
                return false;
            }
            position = there;
            if there < self.start(index) + self.size(index) {
                break;
            }
        }
        position >= range.end
    }

    /// Hands out the first missing bytes that no task fetches: at least `at_least` if that many are adjacent, and up to the end of a
    /// chunk, so that the rest of the chunk needs no request of its own.
    pub(super) fn take(&mut self, at_least: u64) -> Option<Span> {
        let first = (self.front..self.chunks.len()).find(|&index| self.is_free(index))?;
        let next = self.start(first) + self.chunks[first].done;
        let wanted = next.saturating_add(at_least);
        let mut last = first;
        while self.start(last + 1) < wanted
            && self.chunks.get(last + 1).is_some_and(|chunk| chunk.done == 0 && !chunk.taken)
        {
            last += 1;
        }
        let end = self.start(last + 1);
        let chunks = first..last + 1;
        self.chunks[chunks.clone()].iter_mut().for_each(|chunk| chunk.taken = true);
        Some(Span { next, end, chunks })
    }

    /// Returns a span, whether or not all of it was fetched.
    pub(super) fn release(&mut self, span: &Span) {
        self.chunks[span.chunks.clone()].iter_mut().for_each(|chunk| chunk.taken = false);
    }

    /// Records that these bytes, which continue a chunk, are present. Returns the chunks that they lie in.
    pub(super) fn add(&mut self, bytes: Range<u64>) -> Range<usize> {
        let mut position = bytes.start;
        while position < bytes.end {
            let index = self.index(position);
            let end = bytes.end.min(self.start(index) + self.size(index));
            let Some(chunk) = self.chunks.get_mut(index).filter(|_| end > position) else { break };
            chunk.done += end - position;
            self.missing -= end - position;
            position = end;
        }
        self.advance();
        self.index(bytes.start)..self.index(position.saturating_sub(1)) + 1
    }

    /// The number of bytes from its start that a chunk holds.
    pub(super) fn done(&self, index: usize) -> u64 {
        self.chunks.get(index).map_or(0, |chunk| chunk.done)
    }

    fn is_free(&self, index: usize) -> bool {
        let chunk = &self.chunks[index];
        !chunk.taken && chunk.done < self.size(index)
    }

    fn advance(&mut self) {
        while self.chunks.get(self.front).is_some_and(|chunk| chunk.done == self.size(self.front)) {
            self.front += 1;
        }
    }

    fn index(&self, position: u64) -> usize {
        usize::try_from(position / self.chunk_size).unwrap_or(usize::MAX)
    }

    fn start(&self, index: usize) -> u64 {
        (index as u64 * self.chunk_size).min(self.length)
    }

    fn size(&self, index: usize) -> u64 {
        self.start(index + 1) - self.start(index)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the ledger with a flag for each byte.
        #[test]
        fn a_ledger_knows_each_byte(
            length in 0_u64..200,
            chunk_size in 1_u64..40,
            done in proptest::collection::vec(0_u64..50, 0..8),
            steps in proptest::collection::vec((1_u64..100, 0_usize..4, 0.0..=1.0), 0..60),
        ) {
            let mut ledger = Ledger::new(length, chunk_size, &done);
            let mut there = vec![false; length as usize];
            for (index, done) in done.iter().enumerate() {
                let start = index as u64 * chunk_size;
                (start..(start + done.min(&chunk_size)).min(length)).for_each(|at| there[at as usize] = true);
            }
            let mut spans: Vec<Span> = Vec::new();
            for (at_most, index, share) in steps {
                if let Some(span) = ledger.take(at_most) {
                    prop_assert!(span.end - span.next < at_most + chunk_size && span.next < span.end);
                    prop_assert!((span.next..span.end).all(|at| !there[at as usize]));
                    prop_assert!(spans.iter().all(|other| other.end <= span.next || span.end <= other.next));
                    spans.push(span);
                }
                if let Some(span) = spans.get_mut(index) {
                    let end = span.next + ((span.end - span.next) as f64 * share) as u64;
                    if end > span.next {
                        let chunks = ledger.add(span.next..end);
                        prop_assert_eq!(chunks.start as u64, span.next / chunk_size);
                        prop_assert_eq!(chunks.end as u64, (end - 1) / chunk_size + 1);
                    }
                    (span.next..end).for_each(|at| there[at as usize] = true);
                    span.next = end;
                    if span.next == span.end || share < 0.3 {
                        ledger.release(&spans.swap_remove(index));
                    }
                }
                prop_assert_eq!(ledger.frontier() as usize, there.iter().take_while(|there| **there).count());
                prop_assert_eq!(ledger.missing() as usize, there.iter().filter(|there| !**there).count());
                let range = (at_most / 2).min(length)..(at_most + index as u64 * 9).min(length);
                let has = range.clone().all(|at| there[at as usize]);
                prop_assert_eq!(ledger.has(&range), has, "{:?} of {:?}", range, there);
            }
            // Everything left over is handed out again, and nothing afterwards.
            spans.iter().for_each(|span| ledger.release(span));
            while let Some(span) = ledger.take(7) {
                ledger.add(span.next..span.end);
                ledger.release(&span);
            }
            prop_assert_eq!((ledger.missing(), ledger.frontier()), (0, length));
            prop_assert!(ledger.has(&(0..length)) && !ledger.has(&(0..length + 1)));
        }
    }

    #[test]
    fn the_front_goes_first() {
        let mut ledger = Ledger::new(100, 10, &[10, 4, 0, 0, 7]);
        let mut take = |at_least| ledger.take(at_least).map(|span| span.next..span.end);
        assert_eq!(take(6), Some(14..20));
        assert_eq!(take(15), Some(20..40));
        assert_eq!(take(15), Some(47..70));
        assert_eq!(take(1000), Some(70..100));
        assert_eq!(take(1), None);
    }
}
