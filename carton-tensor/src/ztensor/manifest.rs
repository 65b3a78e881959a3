//! The manifest: the objects of a file, and where their components are (spec/ztensor.md §2).
//!
//! All strings are in one buffer, all shapes in another, and objects refer to ranges of both. A manifest of a hundred thousand objects
//! therefore needs only a few allocations.

use std::cmp::Ordering;
use std::ops::Range;

use super::attributes::{self, Attributes};
use super::name::Name;
use super::place::FilePart;
use super::span::Span;
use super::{Digest, DigestAlgorithm, ZTensorError, types};
use crate::files::ElementType;

/// The objects of a file, from a validated manifest.
///
/// ```
/// use carton_tensor::ztensor::Manifest;
/// let manifest = Manifest::parse(b"\xa2gversione1.2.0gobjects\xa0", 64)?;
/// assert_eq!((manifest.version(), manifest.len()), ("1.2.0", 0));
/// # Ok::<(), carton_tensor::ztensor::ZTensorError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// All strings, concatenated.
    pub(super) text: String,
    /// All dimensions, concatenated.
    pub(super) dimensions: Vec<usize>,
    /// All attributes as CBOR, concatenated.
    pub(super) attributes: Vec<u8>,
    pub(super) objects: Vec<ObjectEntry>,
    pub(super) components: Vec<ComponentEntry>,
    /// The positions of the objects sorted by name; `None` if the file already has this order.
    pub(super) by_name: Option<Vec<u32>>,
    /// Whether any two components share the same bytes of the file.
    pub(super) shares_blobs: bool,
    pub(super) version: Span,
    pub(super) file_attributes: Span,
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
    /// The stated size after decompression, if it is stated.
    pub(super) uncompressed_length: Option<u64>,
    pub(super) dtype: ElementType,
    pub(super) logical: Logical,
    pub(super) encoding: Encoding,
    pub(super) digest: Option<Span>,
}

/// The logical type of a component.
#[derive(Clone, Copy, Debug)]
pub(super) enum Logical {
    /// The same type as `dtype`.
    Same,
    /// A known type that is stored as `dtype`.
    Known(ElementType),
    /// An unknown type.
    Unknown(Span),
}

/// The encoding of a component's stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Not compressed.
    Raw,
    /// Compressed as zstd frames.
    Zstd,
}

impl Encoding {
    /// The name in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
        }
    }
}

/// How the components of an object form a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format<'m> {
    /// One component `data`, in C order.
    Dense,
    /// A matrix in compressed sparse row format: `values`, `indices`, `indptr`.
    SparseCsr,
    /// Values and their coordinates: `values`, `coords`.
    SparseCoo,
    /// Integers of a few bits with scales and zero points for groups of them: `packed_weight`, `scales`, `zeros`.
    QuantizedGroup,
    /// Any other format. Its components can be read one by one.
    Other(&'m str),
}

impl<'m> Format<'m> {
    /// The name in manifests.
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

    /// The roles of the components that objects of this format must have (spec/ztensor.md §5). Empty for unknown formats.
    #[must_use]
    pub fn required_components(self) -> &'static [&'static str] {
        types::required_components(self.name()).map_or(&[], |(_, roles)| roles)
    }
}

impl Manifest {
    /// The version that the manifest states. Some writers state another version than they write.
    #[must_use]
    pub fn version(&self) -> &str {
        self.text(self.version)
    }

    /// Decodes the attributes of the file.
    ///
    /// # Errors
    /// [`TooManyAttributes`](ZTensorError::TooManyAttributes).
    pub fn attributes(&self) -> Result<Attributes, ZTensorError> {
        self.decode_attributes(self.file_attributes, &FilePart::manifest())
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The objects, in the order of the file.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = Object<'_>> + DoubleEndedIterator {
        self.objects.iter().map(|entry| Object { manifest: self, entry })
    }

    /// Returns the object of this name.
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

    fn decode_attributes(&self, span: Span, at: &FilePart) -> Result<Attributes, ZTensorError> {
        if span.is_empty() {
            return Ok(Attributes::new());
        }
        attributes::decode(self.attributes.get(span.range()).unwrap_or_default(), at)
    }
}

/// The description of a tensor in the manifest.
#[derive(Clone, Copy, Debug)]
pub struct Object<'m> {
    manifest: &'m Manifest,
    entry: &'m ObjectEntry,
}

impl<'m> Object<'m> {
    /// The name of the object.
    #[must_use]
    pub fn name(&self) -> &'m str {
        self.manifest.text(self.entry.name)
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &'m [usize] {
        self.manifest.dimensions.get(self.entry.shape.range()).unwrap_or_default()
    }

    /// The format of the object.
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

    /// Decodes the attributes of the object.
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

    /// Returns the component of this role.
    #[must_use]
    pub fn component(&self, role: &str) -> Option<Component<'m>> {
        self.components().find(|component| component.role() == role)
    }

    /// Returns the component of this role, which must exist.
    ///
    /// # Errors
    /// [`NoSuchComponent`](ZTensorError::NoSuchComponent).
    pub(super) fn require(&self, role: &str) -> Result<Component<'m>, ZTensorError> {
        let missing = || ZTensorError::NoSuchComponent { at: FilePart::component(self.name(), role) };
        self.component(role).ok_or_else(missing)
    }

    /// The element type of the tensor: that of `data` for dense objects, and of `values` for sparse formats; `None` for others.
    #[must_use]
    pub fn element_type(&self) -> Option<ElementType> {
        let role = match self.entry.format {
            FormatEntry::Dense => "data",
            FormatEntry::SparseCsr | FormatEntry::SparseCoo => "values",
            FormatEntry::QuantizedGroup | FormatEntry::Other(_) => return None,
        };
        self.component(role).map(|component| component.element_type())
    }

    /// Checks that the object has the expected format.
    pub(super) fn expect(&self, expected: Format<'static>) -> Result<(), ZTensorError> {
        if self.format() == expected {
            return Ok(());
        }
        let found = Name::new(self.format().name());
        Err(ZTensorError::WrongFormat { at: self.place(), expected: expected.name(), found })
    }

    pub(super) fn place(&self) -> Box<FilePart> {
        FilePart::object(self.name())
    }
}

/// The description of one blob of an object.
#[derive(Clone, Copy, Debug)]
pub struct Component<'m> {
    manifest: &'m Manifest,
    object: &'m ObjectEntry,
    entry: &'m ComponentEntry,
}

impl<'m> Component<'m> {
    /// The role of the component in its object: `data`, `values` and so on.
    #[must_use]
    pub fn role(&self) -> &'m str {
        self.manifest.text(self.entry.role)
    }

    /// The type of the elements: the logical type if there is one and it is known, otherwise the storage type.
    #[must_use]
    pub fn element_type(&self) -> ElementType {
        match self.entry.logical {
            Logical::Known(dtype) => dtype,
            Logical::Same | Logical::Unknown(_) => self.entry.dtype,
        }
    }

    /// The type of the stored bytes, one of thirteen (spec/ztensor.md §3.1).
    #[must_use]
    pub fn storage_type(&self) -> ElementType {
        types::storage_type(self.entry.dtype)
    }

    /// The logical type, if it is unknown. The component is then read as its storage type.
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

    /// Whether there is a known logical type that differs from `dtype`.
    pub(super) fn has_logical_type(&self) -> bool {
        matches!(self.entry.logical, Logical::Known(_))
    }

    /// The size after decompression, if the manifest states it.
    pub(super) fn uncompressed_length(&self) -> Option<u64> {
        self.entry.uncompressed_length
    }

    /// The range of the stored bytes in the file.
    #[must_use]
    pub fn stored(&self) -> Range<u64> {
        // The parser checked that the range ends before the manifest, so the sum does not overflow.
        self.entry.offset..self.entry.offset.saturating_add(self.entry.length)
    }

    /// The encoding of the stored bytes.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.entry.encoding
    }

    /// The number of bytes after decoding, as far as the manifest determines it.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match self.entry.encoding {
            Encoding::Raw => Some(self.entry.length),
            Encoding::Zstd => self.entry.uncompressed_length.or_else(|| self.dense_length()),
        }
    }

    /// Returns the number of bytes that the shape of a dense object needs.
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

    /// Parses the digest of the stored bytes; `None` if there is none.
    ///
    /// # Errors
    /// [`UnknownDigest`](ZTensorError::UnknownDigest), [`MalformedDigest`](ZTensorError::MalformedDigest).
    pub fn digest(&self) -> Result<Option<Digest>, ZTensorError> {
        self.digest_text().map(|digest| Digest::parse(digest, || self.place())).transpose()
    }

    /// Parses the digest like [`digest`](Self::digest); `None` also for one of another algorithm, which cannot be compared.
    ///
    /// # Errors
    /// As [`digest`](Self::digest), for a text that names no algorithm.
    pub fn known_digest(&self) -> Result<Option<Digest>, ZTensorError> {
        if self.unknown_digest().is_some() { Ok(None) } else { self.digest() }
    }

    /// Returns the algorithm of the digest, as the manifest spells it, if it is another one than those of [`DigestAlgorithm`].
    #[must_use]
    pub fn unknown_digest(&self) -> Option<&'m str> {
        let (algorithm, _) = self.digest_text()?.split_once(':')?;
        (!algorithm.is_empty() && !DigestAlgorithm::ALL.iter().any(|known| known.name() == algorithm))
            .then_some(algorithm)
    }

    pub(super) fn place(&self) -> Box<FilePart> {
        FilePart::component(self.manifest.text(self.object.name), self.role())
    }
}
