//! What a manifest says: objects, their parts, and shards (spec/ztensor2.md §2). Texts stay where the manifest has them.

use std::ops::Range;

use super::ZTensor2Error;
use super::cbor;
use super::digest::{self, Digest};
use super::layout::Layout;
use super::types;
use crate::files::ElementType;
use crate::ztensor::{Attributes, Name, Span};

/// A parsed and validated manifest.
#[derive(Debug, Default)]
pub struct Manifest {
    pub(super) cbor: Vec<u8>,
    /// Where the manifest is in the file.
    pub(super) base: u64,
    pub(super) attributes: Option<Span>,
    pub(super) shards: Vec<ShardRecord>,
    /// Sorted by name.
    pub(super) objects: Vec<ObjectRecord>,
    /// Those of an object are together, and sorted by name.
    pub(super) parts: Vec<PartRecord>,
    /// The dimensions of all objects.
    pub(super) dimensions: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ShardRecord {
    pub(super) name: Span,
    pub(super) size: u64,
    pub(super) digest: Span,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectRecord {
    pub(super) name: Span,
    pub(super) layout: Span,
    pub(super) attributes: Option<Span>,
    pub(super) dimensions: Span,
    pub(super) parts: Span,
    /// Where the object is in the manifest.
    pub(super) position: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PartRecord {
    pub(super) name: Span,
    pub(super) dtype: ElementType,
    pub(super) logical: Option<Span>,
    /// The number of the shard, if the bytes are in one.
    pub(super) shard: Option<u32>,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) encoding: Option<Span>,
    /// The size after decoding.
    pub(super) decoded: u64,
    pub(super) digest: Option<Span>,
    /// Where the part is in the manifest.
    pub(super) position: u32,
}

impl Manifest {
    /// The text in a range that the parser has checked.
    pub(super) fn text(&self, span: Span) -> &str {
        self.cbor.get(span.range()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// The number of objects.
    #[must_use]
    pub fn n_objects(&self) -> usize {
        self.objects.len()
    }

    /// The objects, sorted by name.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = Object<'_>> + DoubleEndedIterator {
        self.objects.iter().map(|record| Object { manifest: self, record })
    }

    /// Returns the object of this name.
    #[must_use]
    pub fn object(&self, name: &str) -> Option<Object<'_>> {
        let found = self.objects.binary_search_by(|record| self.text(record.name).cmp(name)).ok()?;
        self.objects.get(found).map(|record| Object { manifest: self, record })
    }

    /// The names of the shards, in the order of the manifest.
    pub fn shard_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.shards.iter().map(|shard| self.text(shard.name))
    }

    /// Decodes the attributes of the file.
    ///
    /// # Errors
    /// There are too many.
    pub fn attributes(&self) -> Result<Attributes, ZTensor2Error> {
        self.decode(self.attributes)
    }

    fn decode(&self, span: Option<Span>) -> Result<Attributes, ZTensor2Error> {
        let Some(span) = span else { return Ok(Attributes::new()) };
        cbor::attributes(self.cbor.get(span.range()).unwrap_or_default(), self.base + u64::from(span.start))
    }
}

/// An object: a tensor of one part or several.
#[derive(Clone, Copy, Debug)]
pub struct Object<'m> {
    pub(super) manifest: &'m Manifest,
    pub(super) record: &'m ObjectRecord,
}

impl<'m> Object<'m> {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &'m str {
        self.manifest.text(self.record.name)
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &'m [usize] {
        self.manifest.dimensions.get(self.record.dimensions.range()).unwrap_or_default()
    }

    /// How the parts combine into a tensor.
    #[must_use]
    pub fn layout(&self) -> Layout<'m> {
        Layout::of(self.manifest.text(self.record.layout))
    }

    /// Decodes the attributes.
    ///
    /// # Errors
    /// There are too many.
    pub fn attributes(&self) -> Result<Attributes, ZTensor2Error> {
        self.manifest.decode(self.record.attributes)
    }

    /// The parts, sorted by name.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = Part<'m>> + use<'m> {
        let object = *self;
        let records = self.manifest.parts.get(self.record.parts.range()).unwrap_or_default();
        records.iter().map(move |record| Part { object, record })
    }

    /// Returns the part of this name.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<Part<'m>> {
        self.parts().find(|part| part.name() == name)
    }

    /// Where the object is in the file.
    pub(super) fn at(&self) -> u64 {
        self.manifest.base + u64::from(self.record.position)
    }

    /// The part with the values: `data` of dense objects, and `values` of sparse ones. `None` for layouts that are not known.
    #[must_use]
    pub fn values(&self) -> Option<Part<'m>> {
        match self.layout() {
            Layout::Dense => self.part("data"),
            Layout::SparseCsr | Layout::SparseCoo => self.part("values"),
            Layout::Other(_) => None,
        }
    }

    /// The element type of the tensor that reading the object gives; `None` if it is [not readable](Self::unreadable).
    #[must_use]
    pub fn element_type(&self) -> Option<ElementType> {
        let values = self.values().filter(|_| self.unreadable().is_none())?;
        values.element_type()
    }

    /// Says why the object follows the format and cannot be read as a tensor nevertheless, if that is so.
    #[must_use]
    pub fn unreadable(&self) -> Option<String> {
        let Some(values) = self.values() else {
            return match self.layout() {
                Layout::Other(layout) => Some(format!("of the layout {}", Name::new(layout))),
                // That the values are missing breaks a rule, which reading names.
                _ => None,
            };
        };
        let unknown = self.parts().find_map(|part| part.unknown_encoding());
        match values.element_type() {
            _ if unknown.is_some() => {
                Some(format!("of bytes in the encoding {}, which is not known", Name::new(unknown.unwrap_or_default())))
            }
            None => Some(format!(
                "of elements of the type {}, which is not known",
                Name::new(values.logical().unwrap_or_default())
            )),
            Some(dtype) if dtype.bits() < 8 && !matches!(self.layout(), Layout::Dense) => {
                Some(format!("a sparse tensor of {dtype}, whose elements are smaller than a byte"))
            }
            Some(dtype)
                if dtype.bits() < 8 && crate::element_count(self.shape()).is_some_and(|count| count % 2 == 1) =>
            {
                Some(format!("an odd number of {dtype}, whose elements are half a byte"))
            }
            Some(_) => None,
        }
    }
}

/// A part of an object: bytes, and what they mean.
#[derive(Clone, Copy, Debug)]
pub struct Part<'m> {
    object: Object<'m>,
    record: &'m PartRecord,
}

impl<'m> Part<'m> {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &'m str {
        self.object.manifest.text(self.record.name)
    }

    /// The object that has the part.
    #[must_use]
    pub fn object(&self) -> Object<'m> {
        self.object
    }

    /// The storage type.
    #[must_use]
    pub fn dtype(&self) -> ElementType {
        self.record.dtype
    }

    /// The logical type, if the part states one.
    #[must_use]
    pub fn logical(&self) -> Option<&'m str> {
        self.text(self.record.logical)
    }

    /// What the elements are; `None` for a logical type that is not known.
    #[must_use]
    pub fn element_type(&self) -> Option<ElementType> {
        match self.logical() {
            None => Some(self.record.dtype),
            Some(logical) => types::logical_type(logical).map(|(dtype, _)| dtype),
        }
    }

    /// The logical type, if it is not known.
    #[must_use]
    pub fn unknown_type(&self) -> Option<&'m str> {
        self.logical().filter(|_| self.element_type().is_none())
    }

    /// Where the bytes are in their file, as they are stored.
    #[must_use]
    pub fn stored(&self) -> Range<u64> {
        self.record.offset..self.record.offset + self.record.length
    }

    /// The number of the shard whose file has the bytes; `None` for the file itself.
    pub(super) fn shard(&self) -> Option<usize> {
        self.record.shard.map(|shard| shard as usize)
    }

    /// The number of bytes after decoding, as the manifest states it.
    #[must_use]
    pub fn decoded_length(&self) -> u64 {
        self.record.decoded
    }

    /// The encoding, if the bytes are not stored as they are.
    #[must_use]
    pub fn encoding(&self) -> Option<&'m str> {
        self.text(self.record.encoding)
    }

    /// The encoding, if it is not known.
    #[must_use]
    pub fn unknown_encoding(&self) -> Option<&'m str> {
        self.encoding().filter(|encoding| *encoding != super::ZSTD)
    }

    /// The digest of the decoded bytes, as the manifest spells it.
    #[must_use]
    pub fn digest_text(&self) -> Option<&'m str> {
        self.text(self.record.digest)
    }

    /// The digest, if there is one of an algorithm that is known.
    ///
    /// # Errors
    /// It has another length than digests of its algorithm.
    pub fn digest(&self) -> Result<Option<Digest>, ZTensor2Error> {
        match self.digest_text() {
            Some(text) => digest::parse(text, self.at()),
            None => Ok(None),
        }
    }

    /// The digest, if its algorithm is not known.
    #[must_use]
    pub fn unknown_digest(&self) -> Option<&'m str> {
        self.digest_text().filter(|text| !digest::is_known(text))
    }

    pub(super) fn record(&self) -> &'m PartRecord {
        self.record
    }

    /// Where the part is in the file.
    pub(super) fn at(&self) -> u64 {
        self.object.manifest.base + u64::from(self.record.position)
    }

    /// How messages name the part.
    pub(super) fn place(&self) -> String {
        format!("part {} of object {}", Name::new(self.name()), Name::new(self.object.name()))
    }

    fn text(&self, span: Option<Span>) -> Option<&'m str> {
        span.map(|span| self.object.manifest.text(span))
    }
}
