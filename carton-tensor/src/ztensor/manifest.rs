//! The manifest: what objects a file has, and where their components are (spec/ztensor.md §2).
//!
//! Strings lie one after another in one buffer, shapes in another, and objects are ranges of both, so that a manifest of a
//! hundred thousand objects is a handful of allocations.

use std::cmp::Ordering;
use std::ops::Range;

use super::attributes::{self, Attributes};
use super::name::Name;
use super::place::Place;
use super::{Digest, ZTensorError, parse, types};
use crate::files::ElementType;

/// The objects of a file.
///
/// ```
/// use carton_tensor::ztensor::Manifest;
/// let manifest = Manifest::parse(b"\xa2gversione1.2.0gobjects\xa0", 64)?;
/// assert_eq!((manifest.version(), manifest.len()), ("1.2.0", 0));
/// # Ok::<(), carton_tensor::ztensor::ZTensorError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// All strings, one after another.
    pub(super) text: String,
    /// All dimensions, one after another.
    pub(super) dimensions: Vec<usize>,
    /// All attributes as CBOR, one after another.
    pub(super) attributes: Vec<u8>,
    pub(super) objects: Vec<ObjectEntry>,
    pub(super) components: Vec<ComponentEntry>,
    /// The objects by name, unless the file has them in this order.
    pub(super) by_name: Option<Vec<u32>>,
    /// Whether any two components are the same bytes of the file.
    pub(super) shares_blobs: bool,
    pub(super) version: Span,
    pub(super) file_attributes: Span,
}

/// A piece of one of the buffers. A manifest has at most 1 GiB, and so has what is kept of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    pub(super) const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(super) const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

#[derive(Clone, Debug)]
pub(super) struct ObjectEntry {
    pub(super) name: Span,
    pub(super) shape: Span,
    pub(super) format: FormatEntry,
    pub(super) attributes: Span,
    pub(super) components: Span,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum FormatEntry {
    Dense,
    SparseCsr,
    SparseCoo,
    QuantizedGroup,
    Other(Span),
}

#[derive(Clone, Debug)]
pub(super) struct ComponentEntry {
    pub(super) role: Span,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The size that it says to have uncompressed; `None` when it says nothing.
    pub(super) uncompressed_length: Option<u64>,
    pub(super) dtype: ElementType,
    pub(super) logical: Logical,
    pub(super) encoding: Encoding,
    pub(super) digest: Option<Span>,
}

/// The logical type of a component.
#[derive(Clone, Copy, Debug)]
pub(super) enum Logical {
    /// The same as `dtype`.
    Same,
    /// One that is known, and goes with `dtype`.
    Known(ElementType),
    /// One that is not known.
    Unknown(Span),
}

/// How a component's bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As they are.
    Raw,
    /// As zstd frames.
    Zstd,
}

impl Encoding {
    /// The name that manifests have.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
        }
    }
}

/// How an object's components make a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format<'m> {
    /// One component `data`, in C order.
    Dense,
    /// A matrix by compressed rows: `values`, `indices`, `indptr`.
    SparseCsr,
    /// Values and their coordinates: `values`, `coords`.
    SparseCoo,
    /// Integers of a few bits with scales and zero points for groups of them: `packed_weight`, `scales`, `zeros`.
    QuantizedGroup,
    /// Any other, whose components can be read one by one.
    Other(&'m str),
}

impl<'m> Format<'m> {
    /// The name that manifests have.
    #[must_use]
    pub const fn name(self) -> &'m str {
        match self {
            Self::Dense => "dense",
            Self::SparseCsr => "sparse_csr",
            Self::SparseCoo => "sparse_coo",
            Self::QuantizedGroup => "quantized_group",
            Self::Other(name) => name,
        }
    }

    /// The roles of the components that its objects must have (spec/ztensor.md §5); none for other formats.
    #[must_use]
    pub fn required_components(self) -> &'static [&'static str] {
        types::required_components(self.name()).map_or(&[], |(_, roles)| roles)
    }
}

impl Manifest {
    /// Parses the manifest of a file, which starts at byte `offset` of it. Everything that can be checked without a look at
    /// the blobs is checked.
    ///
    /// # Errors
    /// A rule of the sections 1.3 to 4.1 that is broken.
    pub fn parse(cbor: &[u8], offset: u64) -> Result<Self, ZTensorError> {
        parse::parse(cbor, offset)
    }

    /// The version that the manifest claims. Writers are known to claim another than they write.
    #[must_use]
    pub fn version(&self) -> &str {
        self.text(self.version)
    }

    /// The attributes of the whole file.
    ///
    /// # Errors
    /// [`TooManyAttributes`](ZTensorError::TooManyAttributes).
    pub fn attributes(&self) -> Result<Attributes, ZTensorError> {
        self.decode_attributes(self.file_attributes, &Place::manifest())
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The objects, in the order of the file.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = Object<'_>> + DoubleEndedIterator {
        self.objects.iter().map(|entry| Object { manifest: self, entry })
    }

    /// The object of this name.
    #[must_use]
    pub fn object(&self, name: &str) -> Option<Object<'_>> {
        let compare = |entry: &ObjectEntry| -> Ordering { self.text(entry.name).cmp(name) };
        let entry = match &self.by_name {
            None => self.objects.binary_search_by(compare).ok().and_then(|index| self.objects.get(index)),
            Some(by_name) => {
                let entry = |index: u32| self.objects.get(index as usize);
                let found = by_name.binary_search_by(|&index| entry(index).map_or(Ordering::Less, compare));
                found.ok().and_then(|index| by_name.get(index)).and_then(|&index| entry(index))
            }
        };
        entry.map(|entry| Object { manifest: self, entry })
    }

    pub(super) fn text(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or_default()
    }

    fn decode_attributes(&self, span: Span, at: &Place) -> Result<Attributes, ZTensorError> {
        if span.is_empty() {
            return Ok(Attributes::new());
        }
        attributes::decode(self.attributes.get(span.range()).unwrap_or_default(), at)
    }
}

/// A tensor of a file, as the manifest describes it.
#[derive(Clone, Copy, Debug)]
pub struct Object<'m> {
    manifest: &'m Manifest,
    entry: &'m ObjectEntry,
}

impl<'m> Object<'m> {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &'m str {
        self.manifest.text(self.entry.name)
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &'m [usize] {
        self.manifest.dimensions.get(self.entry.shape.range()).unwrap_or_default()
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> Format<'m> {
        match self.entry.format {
            FormatEntry::Dense => Format::Dense,
            FormatEntry::SparseCsr => Format::SparseCsr,
            FormatEntry::SparseCoo => Format::SparseCoo,
            FormatEntry::QuantizedGroup => Format::QuantizedGroup,
            FormatEntry::Other(span) => Format::Other(self.manifest.text(span)),
        }
    }

    /// The object's attributes.
    ///
    /// # Errors
    /// [`TooManyAttributes`](ZTensorError::TooManyAttributes).
    pub fn attributes(&self) -> Result<Attributes, ZTensorError> {
        self.manifest.decode_attributes(self.entry.attributes, &self.place())
    }

    /// The components, in the order of the file.
    pub fn components(&self) -> impl ExactSizeIterator<Item = Component<'m>> + use<'m> {
        let (manifest, object) = (self.manifest, self.entry);
        let entries = manifest.components.get(object.components.range()).unwrap_or_default();
        entries.iter().map(move |entry| Component { manifest, object, entry })
    }

    /// The component of this role.
    #[must_use]
    pub fn component(&self, role: &str) -> Option<Component<'m>> {
        self.components().find(|component| component.role() == role)
    }

    /// The component of this role.
    ///
    /// # Errors
    /// [`NoSuchComponent`](ZTensorError::NoSuchComponent).
    pub(super) fn require(&self, role: &str) -> Result<Component<'m>, ZTensorError> {
        let missing = || ZTensorError::NoSuchComponent { at: Place::component(self.name(), role) };
        self.component(role).ok_or_else(missing)
    }

    /// The element type of the tensor: that of `data`, of the `values` of sparse formats; `None` for others.
    #[must_use]
    pub fn element_type(&self) -> Option<ElementType> {
        let role = match self.entry.format {
            FormatEntry::Dense => "data",
            FormatEntry::SparseCsr | FormatEntry::SparseCoo => "values",
            FormatEntry::QuantizedGroup | FormatEntry::Other(_) => return None,
        };
        self.component(role).map(|component| component.element_type())
    }

    /// Checks that the object has a format.
    pub(super) fn expect(&self, expected: Format<'static>) -> Result<(), ZTensorError> {
        if self.format() == expected {
            return Ok(());
        }
        let found = Name::new(self.format().name());
        Err(ZTensorError::WrongFormat { at: self.place(), expected: expected.name(), found })
    }

    pub(super) fn place(&self) -> Box<Place> {
        Place::object(self.name())
    }
}

/// One blob of an object, as the manifest describes it.
#[derive(Clone, Copy, Debug)]
pub struct Component<'m> {
    manifest: &'m Manifest,
    object: &'m ObjectEntry,
    entry: &'m ComponentEntry,
}

impl<'m> Component<'m> {
    /// What it is to its object: `data`, `values` and so on.
    #[must_use]
    pub fn role(&self) -> &'m str {
        self.manifest.text(self.entry.role)
    }

    /// The type of its elements: the logical type, or the storage type where there is no logical type, or none that is known.
    #[must_use]
    pub fn element_type(&self) -> ElementType {
        match self.entry.logical {
            Logical::Known(dtype) => dtype,
            Logical::Same | Logical::Unknown(_) => self.entry.dtype,
        }
    }

    /// The type that its bytes are stored as: one of thirteen (spec/ztensor.md §3.1).
    #[must_use]
    pub fn storage_type(&self) -> ElementType {
        types::storage_type(self.entry.dtype)
    }

    /// The logical type, if it is one that is not known. Such a component is read as its storage type.
    #[must_use]
    pub fn unknown_type(&self) -> Option<&'m str> {
        match self.entry.logical {
            Logical::Unknown(span) => Some(self.manifest.text(span)),
            Logical::Same | Logical::Known(_) => None,
        }
    }

    /// The `dtype` that the manifest states.
    pub(super) fn dtype(&self) -> ElementType {
        self.entry.dtype
    }

    /// Whether it has a known logical type that is not its `dtype`.
    pub(super) fn has_logical_type(&self) -> bool {
        matches!(self.entry.logical, Logical::Known(_))
    }

    /// The size that the manifest states beside that of the stored bytes.
    pub(super) fn uncompressed_length(&self) -> Option<u64> {
        self.entry.uncompressed_length
    }

    /// The bytes of the file that hold it, as they are stored.
    #[must_use]
    pub fn stored(&self) -> Range<u64> {
        // The parser checked that they lie before the manifest.
        self.entry.offset..self.entry.offset.saturating_add(self.entry.length)
    }

    /// How they are stored.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.entry.encoding
    }

    /// The bytes that it has once they are decoded, where the manifest tells.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match self.entry.encoding {
            Encoding::Raw => Some(self.entry.length),
            Encoding::Zstd => self.entry.uncompressed_length.or_else(|| self.dense_length()),
        }
    }

    /// The bytes that the shape of a dense object asks for.
    fn dense_length(&self) -> Option<u64> {
        if !matches!(self.object.format, FormatEntry::Dense) || self.role() != "data" || self.unknown_type().is_some() {
            return None;
        }
        let shape = self.manifest.dimensions.get(self.object.shape.range()).unwrap_or_default();
        let n_bytes = self.element_type().n_bytes(crate::element_count(shape)?)?;
        u64::try_from(n_bytes).ok()
    }

    /// The digest, as the manifest spells it.
    #[must_use]
    pub fn digest_text(&self) -> Option<&'m str> {
        self.entry.digest.map(|digest| self.manifest.text(digest))
    }

    /// The digest of the stored bytes; `None` where there is none.
    ///
    /// # Errors
    /// [`UnknownDigest`](ZTensorError::UnknownDigest), [`MalformedDigest`](ZTensorError::MalformedDigest).
    pub fn digest(&self) -> Result<Option<Digest>, ZTensorError> {
        self.digest_text().map(|digest| Digest::parse(digest, || self.place())).transpose()
    }

    pub(super) fn place(&self) -> Box<Place> {
        Place::component(self.manifest.text(self.object.name), self.role())
    }
}
