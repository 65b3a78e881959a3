//! Many strings in one piece of memory, found by a hash table of their positions. A header may have millions of names,
//! and a `String` and a key of a map for each would cost more than all the rest of reading it.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Strings one after another. Headers are capped far below 4 GiB, so 32 bits are enough for places in the text.
#[derive(Clone, Debug, Default)]
pub(super) struct StringTable {
    text: String,
    spans: Vec<(u32, u32)>,
    /// Positions in `spans` by the hash of their string, once [`index`](Self::index) was called.
    positions: HashTable<u32>,
    /// Has a random key: the names are chosen by whoever wrote the file.
    hasher: RandomState,
}

impl StringTable {
    /// Appends a string; `None` when there is no room for it in what 32 bits can address.
    pub(super) fn push(&mut self, string: &str) -> Option<()> {
        let start = u32::try_from(self.text.len()).ok()?;
        let end = u32::try_from(self.text.len().checked_add(string.len())?).ok()?;
        u32::try_from(self.spans.len()).ok()?;
        self.text.push_str(string);
        self.spans.push((start, end));
        Some(())
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The string at a position; empty where there is none, which no caller asks for.
    pub(super) fn get(&self, position: usize) -> &str {
        let span = self.spans.get(position).map_or(0..0, |&(start, end)| start as usize..end as usize);
        self.text.get(span).unwrap_or_default()
    }

    /// Brings the strings into another order: the first will be the one that is at `order[0]` now.
    pub(super) fn reorder(&mut self, order: &[u32]) {
        self.spans = order.iter().filter_map(|&position| self.spans.get(position as usize).copied()).collect();
    }

    /// Makes [`find`](Self::find) work. The position of a string that is there twice is the error.
    pub(super) fn index(&mut self) -> Result<(), usize> {
        let mut positions = HashTable::with_capacity(self.spans.len());
        for position in 0..self.spans.len() {
            let string = self.get(position);
            let is_same = |&other: &u32| self.get(other as usize) == string;
            let hash = |&other: &u32| self.hasher.hash_one(self.get(other as usize));
            match positions.entry(self.hasher.hash_one(string), is_same, hash) {
                // Bounded by `push`.
                Entry::Vacant(place) => place.insert(u32::try_from(position).map_err(|_| position)?),
                Entry::Occupied(_) => return Err(position),
            };
        }
        self.positions = positions;
        Ok(())
    }

    /// Where a string is.
    pub(super) fn find(&self, string: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(string);
        self.positions.find(hash, |&position| self.get(position as usize) == string).map(|&position| position as usize)
    }
}
