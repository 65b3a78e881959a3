//! What a model says of itself, as texts (spec/onnx-tensors.md §5). Pure.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::error::{Problem, refused};

/// The most keys, and the most bytes of all keys and values that the file has, with those that are replaced.
const MAX_KEYS: usize = 4096;
const MAX_BYTES: usize = 64 << 20;

/// Where a text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A field of the model has it.
    Field,
    /// A property has it, which does not replace what a field has.
    Property,
}

/// The keys and values of a model's metadata.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    entries: Vec<(String, String)>,
    positions: HashMap<String, (usize, Origin)>,
    n_bytes: usize,
}

impl Metadata {
    /// The keys and values, in the order of the file.
    pub(super) fn entries(&self) -> &[(String, String)] {
        &self.entries
    }

    /// Sets the value of a key, of which the last counts.
    pub(super) fn set(&mut self, key: &str, value: String, origin: Origin) -> Result<(), Problem> {
        self.n_bytes = self.n_bytes.saturating_add(key.len()).saturating_add(value.len());
        if self.n_bytes > MAX_BYTES {
            return refused(format!("its metadata has more than {MAX_BYTES} bytes"));
        }
        match self.positions.entry(key.to_owned()) {
            Entry::Occupied(known) if origin == Origin::Property && known.get().1 == Origin::Field => {}
            Entry::Occupied(mut known) => {
                known.get_mut().1 = origin;
                if let Some((_, replaced)) = self.entries.get_mut(known.get().0) {
                    *replaced = value;
                }
            }
            Entry::Vacant(_) if self.entries.len() == MAX_KEYS => {
                return refused(format!("its metadata has more than {MAX_KEYS} keys"));
            }
            Entry::Vacant(new) => {
                new.insert((self.entries.len(), origin));
                self.entries.push((key.to_owned(), value));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_property_does_not_replace_a_field() {
        let mut metadata = Metadata::default();
        let mut set = |key: &str, value: &str, origin| metadata.set(key, value.to_owned(), origin).unwrap();
        set("a", "1", Origin::Property);
        set("b", "2", Origin::Field);
        set("a", "3", Origin::Property);
        set("b", "4", Origin::Property);
        set("c", "5", Origin::Property);
        set("c", "6", Origin::Field);
        set("c", "7", Origin::Property);
        let found: Vec<(&str, &str)> = metadata.entries().iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(found, [("a", "3"), ("b", "2"), ("c", "6")]);
    }

    #[test]
    fn keys_and_bytes_are_limited() {
        let refusal = |result: Result<(), Problem>| match result.unwrap_err() {
            Problem::Refused(problem) => problem,
            problem => format!("{problem:?}"),
        };
        let mut metadata = Metadata::default();
        for key in 0..MAX_KEYS {
            metadata.set(&key.to_string(), String::new(), Origin::Property).unwrap();
        }
        metadata.set("0", "again".to_owned(), Origin::Property).unwrap();
        let error = refusal(metadata.set("one more", String::new(), Origin::Property));
        assert_eq!(error, "its metadata has more than 4096 keys");

        // Values that are replaced count, because the file has them.
        let mut metadata = Metadata::default();
        let quarter = "x".repeat(MAX_BYTES / 4 - 1);
        for _ in 0..4 {
            metadata.set("a", quarter.clone(), Origin::Property).unwrap();
        }
        assert_eq!(
            refusal(metadata.set("a", String::new(), Origin::Property)),
            "its metadata has more than 67108864 bytes"
        );
    }
}
