//! Lists and maps of JSON that have a most of entries. A part of a request can have ten bytes in JSON and takes ten times that in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The most inputs, and the most outputs, of a request in JSON; of a request of gRPC, the most of all its parts together.
pub(crate) const MAX_PARTS: usize = 10_000;

/// The most dimensions of an input: more than tensors can have, so that their own check names the rank.
pub(crate) const MAX_RANK: usize = 1000;

/// The most parameters of a request, an input or an output in JSON.
pub(super) const MAX_PARAMETERS: usize = 100;

/// A list of at most `MOST` entries.
pub(super) struct Few<T, const MOST: usize>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(List(PhantomData))
    }
}

struct List<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for List<T, MOST> {
    type Value = Few<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            if entries.len() == MOST {
                return Err(A::Error::custom(format_args!("a list has more than {MOST} entries")));
            }
            entries.push(entry);
        }
        Ok(Few(entries))
    }
}

/// Deserializes a map of at most [`MAX_PARAMETERS`] entries, or `null`.
pub(super) fn parameters<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, T>>, D::Error> {
    deserializer.deserialize_option(Map(PhantomData))
}

struct Map<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Map<T> {
    type Value = Option<BTreeMap<String, T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = BTreeMap::new();
        let mut n_entries = 0;
        while let Some((name, value)) = map.next_entry()? {
            // A name that comes again counts, too.
            n_entries += 1;
            if n_entries > MAX_PARAMETERS {
                return Err(A::Error::custom(format_args!("there are more than {MAX_PARAMETERS} parameters")));
            }
            entries.insert(name, value);
        }
        Ok(Some(entries))
    }
}
