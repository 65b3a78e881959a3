//! Many strings in one allocation, found by a hash table of their positions. A header may have millions of names, and a `String` and a
//! map entry for each would cost more than all other parsing.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Strings, concatenated. Headers are capped far below 4 GiB, so 32 bits are enough for positions in the text.
#[derive(Clone, Debug, Default)]
pub(super) struct StringTable {
    text: String,
    spans: Vec<(u32, u32)>,
    /// Positions in `spans` by the hash of their string. Empty until [`index`](Self::index) is called.
    positions: HashTable<u32>,
    /// Has a random key, because the author of a file chooses the names and could otherwise provoke collisions.
    hasher: RandomState,
}

impl StringTable {
    /// Appends a string. Returns `None` if the text would exceed what 32 bits can address.
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

    /// Returns the string at a position. Out of range, which no caller asks for, it returns an empty string.
    pub(super) fn get(&self, position: usize) -> &str {
        let span = self.spans.get(position).map_or(0..0, |&(start, end)| start as usize..end as usize);
        self.text.get(span).unwrap_or_default()
    }

    /// Reorders the strings: `order[0]` is the present position of the future first string.
    pub(super) fn reorder(&mut self, order: &[u32]) {
        self.spans = order.iter().filter_map(|&position| self.spans.get(position as usize).copied()).collect();
    }

    /// Builds the hash table for [`find`](Self::find). Fails with the position of a string that occurred before.
    pub(super) fn index(&mut self) -> Result<(), usize> {
        let mut positions = HashTable::with_capacity(self.spans.len());
        for position in 0..self.spans.len() {
            let string = self.get(position);
            let is_same = |&other: &u32| self.get(other as usize) == string;
            let hash = |&other: &u32| self.hasher.hash_one(self.get(other as usize));
            match positions.entry(self.hasher.hash_one(string), is_same, hash) {
                // `push` made sure that the position fits.
                Entry::Vacant(place) => place.insert(u32::try_from(position).map_err(|_| position)?),
                Entry::Occupied(_) => return Err(position),
            };
        }
        self.positions = positions;
        Ok(())
    }

    /// Returns the position of a string. Needs [`index`](Self::index) to have been called.
    pub(super) fn find(&self, string: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(string);
        self.positions.find(hash, |&position| self.get(position as usize) == string).map(|&position| position as usize)
    }
}
