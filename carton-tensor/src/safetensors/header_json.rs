//! Parses the JSON of a header (spec/safetensors.md §2 to §4) in one pass into flat vectors. Checks each tensor on its own, but not
//! where its data lies relative to the others.
//!
//! `serde_json` defines what counts as JSON. Since the `safetensors` library uses it too, this parser accepts no JSON that the library
//! refuses. The visitors below write their results directly to their destination, because a map of owned values would cost more than
//! the parsing. A broken rule is kept in [`Parsed::broken`], because an error of serde only carries text.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::error::cut;
use super::string_table::StringTable;
use super::{HeaderError, Metadata, dtype};
use crate::MAX_RANK;
use crate::files::ElementType;

/// The description of one tensor, without its name.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where the data begins, relative to the end of the header.
    pub(super) begin: u64,
    /// Where the data ends; not before `begin`.
    pub(super) end: u64,
    /// The position of the first dimension among those of all tensors.
    first_dimension: u32,
    rank: u8,
    pub(super) dtype: ElementType,
}

impl Entry {
    /// Returns `None` for numbers that no header of valid length can reach.
    pub(super) fn new(dtype: ElementType, data: Range<u64>, first_dimension: usize, rank: usize) -> Option<Self> {
        let (first_dimension, rank) = (u32::try_from(first_dimension).ok()?, u8::try_from(rank).ok()?);
        Some(Self { begin: data.start, end: data.end, first_dimension, rank, dtype })
    }

    /// The positions of the dimensions among those of all tensors.
    pub(super) fn shape(&self) -> Range<usize> {
        let first = self.first_dimension as usize;
        first..first + usize::from(self.rank)
    }
}

/// The content of a header, in its order.
#[derive(Default)]
pub(super) struct Parsed {
    pub(super) entries: Vec<Entry>,
    pub(super) names: StringTable,
    pub(super) dimensions: Vec<usize>,
    pub(super) metadata: Metadata,
    place: HeaderPart,
    broken: Option<HeaderError>,
}

/// The part of the header that is being read. Determines the error for a value of the wrong type.
#[derive(Clone, Copy, Default)]
enum HeaderPart {
    #[default]
    Header,
    Metadata,
    /// The entry of the tensor whose name was added last.
    Tensor,
}

/// Parses arbitrary JSON, from its `{` to its `}`.
pub(super) fn parse_json(json: &str) -> Result<Parsed, HeaderError> {
    let mut parsed = Parsed::default();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let result = HeaderSeed(&mut parsed).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    match result {
        Ok(()) => Ok(parsed),
        Err(error) => Err(parsed.broken_rule(&error)),
    }
}

impl Parsed {
    /// Records the broken rule, and returns an error that stops serde.
    fn refuse<E: Error>(&mut self, broken: HeaderError) -> E {
        self.broken = Some(broken);
        E::custom("a rule is broken")
    }

    fn broken_rule(&mut self, error: &serde_json::Error) -> HeaderError {
        if let Some(broken) = self.broken.take() {
            return broken;
        }
        let problem = cut(&error.to_string());
        match self.place {
            // The JSON is valid, but has another type than expected here.
            HeaderPart::Metadata if error.is_data() => HeaderError::NotMetadata { problem },
            HeaderPart::Tensor if error.is_data() => HeaderError::NotATensor { tensor: self.name(), problem },
            _ => HeaderError::Json { problem },
        }
    }

    /// Returns the name of the tensor that is being read.
    fn name(&self) -> String {
        self.names.get(self.names.len().saturating_sub(1)).to_owned()
    }
}

/// The whole header.
struct HeaderSeed<'p>(&'p mut Parsed);

impl<'de> DeserializeSeed<'de> for HeaderSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HeaderSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(KeySeed(self.0))? {
            match key {
                Key::Metadata if self.0.metadata.is_absent() && !self.0.metadata.is_null() => {
                    self.0.metadata = Metadata::present();
                    self.0.place = HeaderPart::Metadata;
                    map.next_value_seed(MetadataSeed(self.0))?;
                }
                Key::Metadata => return Err(self.0.refuse(HeaderError::DuplicateMetadata)),
                Key::Tensor => {
                    self.0.place = HeaderPart::Tensor;
                    let entry = map.next_value_seed(TensorSeed(self.0))?;
                    self.0.entries.push(entry);
                }
            }
            self.0.place = HeaderPart::Header;
        }
        Ok(())
    }
}

/// A key of the header.
enum Key {
    Metadata,
    /// The name of a tensor, which was added to the names.
    Tensor,
}

struct KeySeed<'p>(&'p mut Parsed);

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a tensor")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
        if name == super::METADATA_KEY {
            return Ok(Key::Metadata);
        }
        match self.0.names.push(name) {
            Some(()) => Ok(Key::Tensor),
            None => Err(self.0.refuse(HeaderError::TooLong { length: u64::from(u32::MAX) })),
        }
    }
}

/// `__metadata__`, which may be null.
struct MetadataSeed<'p>(&'p mut Parsed);

impl<'de> DeserializeSeed<'de> for MetadataSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for MetadataSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.0.metadata = Metadata::null();
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Parsed { metadata, broken, .. } = self.0;
        while map.next_key_seed(StringSeed(|key: &str| metadata.push_key(key), broken))?.is_some() {
            map.next_value_seed(StringSeed(|value: &str| metadata.push_value(value), broken))?;
        }
        metadata.index().map_err(|error| self.0.refuse(error))
    }
}

/// A string that is passed to a function. An error of the function is recorded as the broken rule.
struct StringSeed<'p, F>(F, &'p mut Option<HeaderError>);

impl<'de, T, F: FnOnce(&str) -> Result<T, HeaderError>> DeserializeSeed<'de> for StringSeed<'_, F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T, F: FnOnce(&str) -> Result<T, HeaderError>> Visitor<'_> for StringSeed<'_, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, string: &str) -> Result<T, E> {
        (self.0)(string).map_err(|error| {
            *self.1 = Some(error);
            E::custom("a rule is broken")
        })
    }
}

/// Reads the entry of the tensor whose name was added last.
struct TensorSeed<'p>(&'p mut Parsed);

/// The fields of a tensor.
#[derive(Clone, Copy)]
enum Field {
    Dtype,
    Shape,
    DataOffsets,
}

impl Field {
    const fn name(self) -> &'static str {
        match self {
            Self::Dtype => "dtype",
            Self::Shape => "shape",
            Self::DataOffsets => "data_offsets",
        }
    }
}

impl<'de> DeserializeSeed<'de> for TensorSeed<'_> {
    type Value = Entry;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entry, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TensorSeed<'_> {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `dtype`, `shape` and `data_offsets`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        while let Some(field) = map.next_key_seed(FieldSeed(self.0))? {
            let is_duplicate = match field {
                Field::Dtype => dtype.replace(map.next_value_seed(DtypeSeed(self.0))?).is_some(),
                Field::Shape => shape.replace(map.next_value_seed(ShapeSeed(self.0))?).is_some(),
                Field::DataOffsets => offsets.replace(map.next_value_seed(OffsetsSeed)?).is_some(),
            };
            if is_duplicate {
                let tensor = self.0.name();
                return Err(self.0.refuse(HeaderError::DuplicateField { tensor, field: field.name() }));
            }
        }
        let (Some(dtype), Some(shape), Some((begin, end))) = (dtype, &shape, offsets) else {
            let field = match (dtype, shape) {
                (None, _) => Field::Dtype,
                (_, None) => Field::Shape,
                _ => Field::DataOffsets,
            };
            let tensor = self.0.name();
            return Err(self.0.refuse(HeaderError::MissingField { tensor, field: field.name() }));
        };
        let sizes = self.0.dimensions.get(shape.clone()).unwrap_or_default();
        if let Err(broken) = check_size(dtype, sizes, begin, end, || self.0.name()) {
            return Err(self.0.refuse(broken));
        }
        Entry::new(dtype, begin..end, shape.start, shape.len())
            .ok_or_else(|| self.0.refuse(HeaderError::TooLong { length: u64::from(u32::MAX) }))
    }
}

/// Checks that the size that dtype and shape need equals the size that the offsets state (§4.3).
pub(super) fn check_size(
    dtype: ElementType,
    shape: &[usize],
    begin: u64,
    end: u64,
    name: impl Fn() -> String,
) -> Result<(), HeaderError> {
    let expected = super::n_bytes(dtype, shape, &name)?;
    if end.checked_sub(begin) == Some(expected) {
        return Ok(());
    }
    Err(HeaderError::SizeMismatch { tensor: name(), dtype, shape: shape.to_vec(), expected, begin, end })
}

struct FieldSeed<'p>(&'p mut Parsed);

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldSeed<'_> {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`dtype`, `shape` or `data_offsets`")
    }

    fn visit_str<E: Error>(self, field: &str) -> Result<Field, E> {
        match field {
            "dtype" => Ok(Field::Dtype),
            "shape" => Ok(Field::Shape),
            "data_offsets" => Ok(Field::DataOffsets),
            _ => {
                let tensor = self.0.name();
                Err(self.0.refuse(HeaderError::UnknownField { tensor, field: field.to_owned() }))
            }
        }
    }
}

struct DtypeSeed<'p>(&'p mut Parsed);

impl<'de> DeserializeSeed<'de> for DtypeSeed<'_> {
    type Value = ElementType;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ElementType, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for DtypeSeed<'_> {
    type Value = ElementType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a dtype")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<ElementType, E> {
        dtype::parse_dtype(name).ok_or_else(|| {
            let tensor = self.0.name();
            self.0.refuse(HeaderError::UnknownDtype { tensor, dtype: name.to_owned() })
        })
    }
}

/// Reads a shape, and returns the positions of its dimensions among those of all tensors.
struct ShapeSeed<'p>(&'p mut Parsed);

impl<'de> DeserializeSeed<'de> for ShapeSeed<'_> {
    type Value = Range<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Range<usize>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ShapeSeed<'_> {
    type Value = Range<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of sizes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sizes: A) -> Result<Range<usize>, A::Error> {
        let first = self.0.dimensions.len();
        while let Some(size) = sizes.next_element::<usize>()? {
            self.0.dimensions.push(size);
            let rank = self.0.dimensions.len() - first;
            if rank > MAX_RANK {
                let tensor = self.0.name();
                return Err(self.0.refuse(HeaderError::TooManyDimensions { tensor, found: rank }));
            }
        }
        Ok(first..self.0.dimensions.len())
    }
}

/// Reads where the data begins and ends.
struct OffsetsSeed;

impl<'de> DeserializeSeed<'de> for OffsetsSeed {
    type Value = (u64, u64);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(u64, u64), D::Error> {
        deserializer.deserialize_tuple(2, self)
    }
}

impl<'de> Visitor<'de> for OffsetsSeed {
    type Value = (u64, u64);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of two offsets")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut offsets: A) -> Result<(u64, u64), A::Error> {
        let (Some(begin), Some(end)) = (offsets.next_element()?, offsets.next_element()?) else {
            return Err(A::Error::custom("expected a list of two offsets, found fewer"));
        };
        if offsets.next_element::<u64>()?.is_some() {
            return Err(A::Error::custom("expected a list of two offsets, found more"));
        }
        Ok((begin, end))
    }
}
