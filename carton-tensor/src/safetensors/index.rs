//! Parses and writes the index of a sharded checkpoint, which maps tensors to files (spec/safetensors.md §7.1, §7.2, §7.6). Pure: bytes
//! in, names out, and back. The files may also be those of PyTorch.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::error::cut;
use super::string_table::StringTable;
use crate::files::quoted;

/// The rule that an index breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardIndexError {
    /// The index is longer than the format allows.
    #[error("{length} bytes, expected at most 100000000 (spec/safetensors.md §7.1)")]
    TooLong {
        /// The size of the index.
        length: u64,
    },
    /// The index is not JSON, or the JSON does not have the form of an index.
    #[error("{problem} (spec/safetensors.md §7.1)")]
    Json {
        /// What is wrong and where, from the JSON parser.
        problem: String,
    },
    /// The index begins with a byte order mark.
    #[error("it begins with a byte order mark (U+FEFF), expected `{{` (spec/safetensors.md §7.1)")]
    ByteOrderMark,
    /// A tensor, or a key of the index, occurs twice.
    #[error("{} occurs twice (spec/safetensors.md §7.1)", quoted(.key))]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The name of a file leads out of the folder of the index, or could.
    #[error(
        "the file of tensor {} is {}, which is not the name of a file beside the index (spec/safetensors.md §7.2)",
        quoted(.tensor), quoted(.file)
    )]
    FileName {
        /// The tensor's name.
        tensor: String,
        /// The name of its file.
        file: String,
    },
}

/// A validated index: the file of each tensor.
///
/// ```
/// use carton_tensor::safetensors::ShardIndex;
/// let index = ShardIndex::parse(br#"{"weight_map": {"a": "x.safetensors", "b": "y.safetensors"}}"#)?;
/// assert_eq!(index.file_of("b"), Some("y.safetensors"));
/// assert!(ShardIndex::parse(br#"{"weight_map": {"a": "../x.safetensors"}}"#).is_err());
/// # Ok::<(), carton_tensor::safetensors::ShardIndexError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ShardIndex {
    tensors: StringTable,
    /// For each tensor, the position of its file.
    file_of: Vec<u32>,
    /// The distinct files, sorted by name.
    files: StringTable,
    is_metadata_null: bool,
}

impl ShardIndex {
    /// The longest index that is read, in bytes.
    pub const MAX_LENGTH: u64 = 100_000_000;

    /// Parses an index.
    ///
    /// # Errors
    /// [`ShardIndexError`], the rule that the index breaks.
    pub fn parse(bytes: &[u8]) -> Result<Self, ShardIndexError> {
        let length = bytes.len() as u64;
        if length > Self::MAX_LENGTH {
            return Err(ShardIndexError::TooLong { length });
        }
        // The whole text is checked, because the JSON parser only checks the encoding of strings that it keeps.
        let text = std::str::from_utf8(bytes).map_err(|error| ShardIndexError::Json { problem: error.to_string() })?;
        if text.starts_with('\u{feff}') {
            return Err(ShardIndexError::ByteOrderMark);
        }
        let mut parsing = Parsing::default();
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let result = IndexSeed(&mut parsing).deserialize(&mut deserializer).and_then(|()| deserializer.end());
        match result {
            Ok(()) => Ok(ShardIndex { is_metadata_null: parsing.is_metadata_null, ..parsing.files.into_index()? }),
            Err(error) => {
                Err(parsing.broken.unwrap_or_else(|| ShardIndexError::Json { problem: cut(&error.to_string()) }))
            }
        }
    }

    /// The tensors and their files, in the order of the index.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.file_of
            .iter()
            .enumerate()
            .map(|(position, &file)| (self.tensors.get(position), self.files.get(file as usize)))
    }

    /// The files that have tensors, sorted by name.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.files.len()).map(|position| self.files.get(position))
    }

    /// Returns the file of a tensor.
    #[must_use]
    pub fn file_of(&self, tensor: &str) -> Option<&str> {
        self.position_of_file(tensor).map(|file| self.files.get(file))
    }

    /// Returns the position of a tensor's file in [`files`](Self::files).
    pub(crate) fn position_of_file(&self, tensor: &str) -> Option<usize> {
        self.file_of.get(self.tensors.find(tensor)?).map(|&file| file as usize)
    }

    /// Whether `metadata` is null, which some libraries refuse (§7.1).
    #[must_use]
    pub fn is_metadata_null(&self) -> bool {
        self.is_metadata_null
    }

    /// The number of tensors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.file_of.len()
    }

    /// Whether there are no tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.file_of.is_empty()
    }
}

/// Formats an index like the libraries of Hugging Face (§7.6). `total_size` is the number of bytes of all tensors.
pub(super) fn to_json(weight_map: &BTreeMap<&str, &str>, total_size: u64) -> Result<String, serde_json::Error> {
    let metadata = BTreeMap::from([("total_size", total_size)]);
    // Converts both parts to JSON values, so that they fit into one map, which sorts its keys.
    let (metadata, weight_map) = (serde_json::to_value(metadata)?, serde_json::to_value(weight_map)?);
    let text = serde_json::to_string_pretty(&BTreeMap::from([("metadata", metadata), ("weight_map", weight_map)]))?;
    // Characters outside ASCII only occur in strings, where they may be escaped.
    let mut ascii = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if character.is_ascii() && character != '\x7f' {
            ascii.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(ascii, "\\u{unit:04x}");
        }
    }
    ascii.push('\n');
    Ok(ascii)
}

/// Whether the name is that of a file in the same folder, on every system (§7.2). Colons are refused because Windows uses them for
/// drives and streams.
pub(super) fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(|c: char| matches!(c, '/' | '\\' | ':') || c.is_control())
}

/// The tensors and, at the same positions, the names of their files.
#[derive(Default)]
struct Files {
    tensors: StringTable,
    files: StringTable,
}

impl Files {
    /// Assigns one position to each distinct file.
    fn into_index(self) -> Result<ShardIndex, ShardIndexError> {
        let Self { mut tensors, files } = self;
        let duplicate =
            |tensors: &StringTable, position| ShardIndexError::DuplicateKey { key: tensors.get(position).to_owned() };
        tensors.index().map_err(|position| duplicate(&tensors, position))?;
        let names: BTreeSet<&str> = (0..files.len()).map(|position| files.get(position)).collect();
        let mut distinct = StringTable::default();
        let mut positions = HashMap::with_capacity(names.len());
        // This cannot happen, because an index of valid length has neither more files nor longer names.
        let too_long = ShardIndexError::TooLong { length: u64::from(u32::MAX) };
        for name in names {
            let position = u32::try_from(distinct.len()).map_err(|_| too_long.clone())?;
            distinct.push(name).ok_or_else(|| too_long.clone())?;
            positions.insert(name, position);
        }
        let file_of = (0..files.len()).filter_map(|position| positions.get(files.get(position)).copied()).collect();
        Ok(ShardIndex { tensors, file_of, files: distinct, is_metadata_null: false })
    }
}

/// The state of the parser.
#[derive(Default)]
struct Parsing {
    files: Files,
    is_metadata_null: bool,
    broken: Option<ShardIndexError>,
}

impl Parsing {
    /// Records the broken rule, and returns an error that stops serde.
    fn refuse<E: Error>(&mut self, broken: ShardIndexError) -> E {
        self.broken = Some(broken);
        E::custom("a rule is broken")
    }
}

/// The whole index.
struct IndexSeed<'p>(&'p mut Parsing);

impl<'de> DeserializeSeed<'de> for IndexSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for IndexSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `weight_map`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut has_metadata, mut has_weight_map) = (false, false);
        while let Some(key) = map.next_key::<String>()? {
            let seen = match key.as_str() {
                "metadata" => &mut has_metadata,
                "weight_map" => &mut has_weight_map,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if std::mem::replace(seen, true) {
                return Err(self.0.refuse(ShardIndexError::DuplicateKey { key }));
            }
            match key.as_str() {
                "metadata" => self.0.is_metadata_null = map.next_value_seed(AnyObject)?,
                _ => map.next_value_seed(WeightMapSeed(self.0))?,
            }
        }
        if has_weight_map { Ok(()) } else { Err(A::Error::custom("the index has no `weight_map`")) }
    }
}

/// An object with any content, or null. Returns whether it is null.
struct AnyObject;

impl<'de> DeserializeSeed<'de> for AnyObject {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for AnyObject {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E: Error>(self) -> Result<bool, E> {
        Ok(true)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(false)
    }
}

/// `weight_map`.
struct WeightMapSeed<'p>(&'p mut Parsing);

impl<'de> DeserializeSeed<'de> for WeightMapSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WeightMapSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors and their files")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((tensor, file)) = map.next_entry::<String, String>()? {
            if !is_file_name(&file) {
                return Err(self.0.refuse(ShardIndexError::FileName { tensor, file }));
            }
            let Files { tensors, files } = &mut self.0.files;
            if tensors.push(&tensor).is_none() || files.push(&file).is_none() {
                return Err(self.0.refuse(ShardIndexError::TooLong { length: u64::from(u32::MAX) }));
            }
        }
        Ok(())
    }
}
