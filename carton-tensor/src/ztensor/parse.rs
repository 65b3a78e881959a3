//! Parses the CBOR of a manifest into a [`Manifest`], and checks its ranges and sizes (spec/ztensor.md §1.3 to §4.1).

use super::cbor::{OBJECT_DEPTH, Walker};
use super::footer::{ALIGNMENT, MAX_MANIFEST};
use super::manifest::{ComponentEntry, Encoding, FormatEntry, Logical, Manifest, ObjectEntry};
use super::name::Name;
use super::place::FilePart;
use super::span::Span;
use super::{ZTensorError, types};
use crate::files::ElementType;
use crate::{MAX_RANK, element_count};

/// The nesting depth of values in the fields of the root and of a component.
const ROOT_DEPTH: usize = 2;
const COMPONENT_DEPTH: usize = 6;

impl Manifest {
    /// Parses the manifest of a file, which starts at byte `offset` of the file. Checks everything that does not require reading the
    /// blobs.
    ///
    /// # Errors
    /// The rule of sections 1.3 to 4.1 that the manifest breaks.
    pub fn parse(cbor: &[u8], offset: u64) -> Result<Self, ZTensorError> {
        let found = cbor.len() as u64;
        if found > MAX_MANIFEST {
            return Err(ZTensorError::ManifestSize { found, limit: MAX_MANIFEST });
        }
        let mut parser = Parser {
            walker: Walker::new(cbor, offset),
            manifest: Self::default(),
            blobs_end: offset,
            last_end: 0,
            in_order: true,
        };
        parser.walker.take_self_described();
        parser.root()?;
        let n_bytes = cbor.len().saturating_sub(parser.walker.position()) as u64;
        if n_bytes > 0 {
            return Err(ZTensorError::TrailingCbor { position: parser.walker.place(), n_bytes });
        }
        parser.index()?;
        if !parser.in_order {
            parser.check_overlaps()?;
        }
        Ok(parser.manifest)
    }
}

struct Parser<'b> {
    walker: Walker<'b>,
    manifest: Manifest,
    /// Where the manifest starts. Blobs must end before it.
    blobs_end: u64,
    /// The end of the last blob, while the blobs are `in_order`.
    last_end: u64,
    in_order: bool,
}

/// The fields of a map so far, to detect duplicates.
#[derive(Default)]
struct Fields {
    known: u32,
    /// The spans of unknown keys in the CBOR.
    unknown: Vec<Span>,
}

impl Fields {
    /// Records a known field by its index. Fails if it was recorded before.
    fn known(&mut self, index: u32, name: &str, at: impl Fn() -> Box<FilePart>) -> Result<(), ZTensorError> {
        let bit = 1 << index;
        if self.known & bit != 0 {
            return Err(ZTensorError::DuplicateKey { at: at(), key: Name::new(name) });
        }
        self.known |= bit;
        Ok(())
    }

    fn check_unknown(&mut self, walker: &Walker<'_>, at: impl Fn() -> Box<FilePart>) -> Result<(), ZTensorError> {
        if self.unknown.len() > 1 { walker.check_keys(&mut self.unknown, &at()) } else { Ok(()) }
    }
}

fn missing<T>(found: Option<T>, field: &'static str, at: impl Fn() -> Box<FilePart>) -> Result<T, ZTensorError> {
    found.ok_or_else(|| ZTensorError::MissingField { at: at(), field })
}

impl Parser<'_> {
    fn root(&mut self) -> Result<(), ZTensorError> {
        let (mut version, mut objects) = (None, None);
        let mut fields = Fields::default();
        let mut items = self.walker.map()?;
        while self.walker.more(&mut items)? {
            let start = self.walker.position();
            let key = self.walker.text()?;
            match &*key {
                "version" => {
                    fields.known(0, &key, FilePart::manifest)?;
                    version = Some(self.version()?);
                }
                "attributes" => {
                    fields.known(1, &key, FilePart::manifest)?;
                    self.manifest.file_attributes = self.attributes(ROOT_DEPTH, FilePart::manifest)?;
                }
                "objects" => {
                    fields.known(2, &key, FilePart::manifest)?;
                    objects = Some(self.objects()?);
                }
                _ => {
                    fields.unknown.push(self.walker.span_since(start));
                    self.walker.skip(ROOT_DEPTH, None)?;
                }
            }
        }
        fields.check_unknown(&self.walker, FilePart::manifest)?;
        self.manifest.version = missing(version, "version", FilePart::manifest)?;
        missing(objects, "objects", FilePart::manifest)
    }

    /// Reads a version, which must have 1 before its first dot.
    fn version(&mut self) -> Result<Span, ZTensorError> {
        let version = self.walker.text()?;
        if version.split('.').next() == Some("1") {
            Ok(self.keep(&version))
        } else {
            Err(ZTensorError::ManifestVersion { found: Name::new(&version) })
        }
    }

    fn keep(&mut self, text: &str) -> Span {
        let start = self.manifest.text.len() as u32;
        self.manifest.text.push_str(text);
        Span { start, end: self.manifest.text.len() as u32 }
    }

    /// Skips attributes and keeps their CBOR.
    fn attributes(&mut self, depth: usize, at: impl Fn() -> Box<FilePart>) -> Result<Span, ZTensorError> {
        if self.walker.take_null() {
            return Ok(Span::default());
        }
        let start = self.walker.position();
        self.walker.skip_attributes(depth, &at())?;
        let cbor = self.walker.since(start);
        let from = self.manifest.attributes.len() as u32;
        self.manifest.attributes.extend_from_slice(cbor);
        Ok(Span { start: from, end: self.manifest.attributes.len() as u32 })
    }

    fn objects(&mut self) -> Result<(), ZTensorError> {
        let mut items = self.walker.map()?;
        while self.walker.more(&mut items)? {
            let name = self.walker.text()?;
            let name_span = self.keep(&name);
            self.object(&name, name_span)?;
        }
        Ok(())
    }

    fn object(&mut self, name: &str, name_span: Span) -> Result<(), ZTensorError> {
        let at = || FilePart::object(name);
        let (mut shape, mut format, mut attributes, mut components) = (None, None, Span::default(), None);
        let mut fields = Fields::default();
        let mut items = self.walker.map()?;
        while self.walker.more(&mut items)? {
            let start = self.walker.position();
            let key = self.walker.text()?;
            match &*key {
                "shape" => {
                    fields.known(0, &key, at)?;
                    shape = Some(self.shape(name)?);
                }
                "format" => {
                    fields.known(1, &key, at)?;
                    format = Some(self.format()?);
                }
                "components" => {
                    fields.known(2, &key, at)?;
                    components = Some(self.components(name)?);
                }
                "attributes" => {
                    fields.known(3, &key, at)?;
                    attributes = self.attributes(OBJECT_DEPTH, at)?;
                }
                _ => {
                    fields.unknown.push(self.walker.span_since(start));
                    self.walker.skip(OBJECT_DEPTH, None)?;
                }
            }
        }
        fields.check_unknown(&self.walker, at)?;
        let shape = missing(shape, "shape", at)?;
        let format = missing(format, "format", at)?;
        let components = missing(components, "components", at)?;
        self.check_object(name, shape, format, components)?;
        self.manifest.objects.push(ObjectEntry { name: name_span, shape, format, attributes, components });
        Ok(())
    }

    fn shape(&mut self, name: &str) -> Result<Span, ZTensorError> {
        let start = self.manifest.dimensions.len();
        let mut items = self.walker.array()?;
        while self.walker.more(&mut items)? {
            if self.manifest.dimensions.len() - start == MAX_RANK {
                return Err(ZTensorError::Rank { at: FilePart::object(name), limit: MAX_RANK });
            }
            let dimension = usize::try_from(self.walker.unsigned()?);
            let dimension = dimension.map_err(|_| ZTensorError::TooLarge { at: FilePart::object(name) })?;
            self.manifest.dimensions.push(dimension);
        }
        Ok(Span { start: start as u32, end: self.manifest.dimensions.len() as u32 })
    }

    fn format(&mut self) -> Result<FormatEntry, ZTensorError> {
        let format = self.walker.text()?;
        Ok(match &*format {
            "dense" => FormatEntry::Dense,
            "sparse_csr" => FormatEntry::SparseCsr,
            "sparse_coo" => FormatEntry::SparseCoo,
            "quantized_group" => FormatEntry::QuantizedGroup,
            other => FormatEntry::Other(self.keep(other)),
        })
    }

    fn components(&mut self, name: &str) -> Result<Span, ZTensorError> {
        let start = self.manifest.components.len();
        let mut items = self.walker.map()?;
        while self.walker.more(&mut items)? {
            let role = self.walker.text()?;
            let component = self.component(name, &role)?;
            self.manifest.components.push(component);
        }
        let span = Span { start: start as u32, end: self.manifest.components.len() as u32 };
        self.check_roles(name, span)?;
        Ok(span)
    }

    /// Refuses two components with the same role.
    fn check_roles(&self, name: &str, span: Span) -> Result<(), ZTensorError> {
        let manifest = &self.manifest;
        let entries = manifest.components.get(span.range()).unwrap_or_default();
        let role = |entry: &ComponentEntry| manifest.text(entry.role);
        if entries.windows(2).all(|pair| role(&pair[0]) < role(&pair[1])) {
            return Ok(());
        }
        let mut roles: Vec<&str> = entries.iter().map(role).collect();
        roles.sort_unstable();
        match roles.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(ZTensorError::DuplicateKey { at: FilePart::object(name), key: Name::new(pair[0]) }),
            None => Ok(()),
        }
    }

    fn component(&mut self, name: &str, role: &str) -> Result<ComponentEntry, ZTensorError> {
        let at = || FilePart::component(name, role);
        let (mut dtype, mut offset, mut length, mut uncompressed_length) = (None, None, None, None);
        let (mut logical, mut encoding, mut digest) = (None, Encoding::Raw, None);
        let mut fields = Fields::default();
        let mut items = self.walker.map()?;
        while self.walker.more(&mut items)? {
            let start = self.walker.position();
            let key = self.walker.text()?;
            match &*key {
                "dtype" => {
                    fields.known(0, &key, at)?;
                    let found = self.walker.text()?;
                    let unknown = || ZTensorError::UnknownDtype { at: at(), found: Name::new(&found) };
                    dtype = Some((types::from_dtype(&found).ok_or_else(unknown)?, found));
                }
                "offset" => {
                    fields.known(1, &key, at)?;
                    offset = Some(self.walker.unsigned()?);
                }
                "length" => {
                    fields.known(2, &key, at)?;
                    length = Some(self.walker.unsigned()?);
                }
                "type" => {
                    fields.known(3, &key, at)?;
                    logical = if self.walker.take_null() { None } else { Some(self.walker.text()?) };
                }
                "uncompressed_length" => {
                    fields.known(4, &key, at)?;
                    uncompressed_length = if self.walker.take_null() { None } else { Some(self.walker.unsigned()?) };
                }
                "encoding" => {
                    fields.known(5, &key, at)?;
                    encoding = self.encoding(at)?;
                }
                "digest" => {
                    fields.known(6, &key, at)?;
                    if !self.walker.take_null() {
                        let text = self.walker.text()?;
                        digest = Some(self.keep(&text));
                    }
                }
                _ => {
                    fields.unknown.push(self.walker.span_since(start));
                    self.walker.skip(COMPONENT_DEPTH, None)?;
                }
            }
        }
        fields.check_unknown(&self.walker, at)?;
        let (dtype, spelling) = missing(dtype, "dtype", at)?;
        let offset = missing(offset, "offset", at)?;
        let length = missing(length, "length", at)?;
        let logical = match logical {
            None => Logical::Same,
            Some(logical) if logical == spelling => Logical::Same,
            Some(logical) => self.logical(dtype, &logical, at)?,
        };
        self.check_blob(offset, length, at)?;
        match uncompressed_length {
            Some(found) if encoding == Encoding::Raw && found != length => {
                return Err(ZTensorError::UncompressedLength { at: at(), length, found });
            }
            _ => {}
        }
        let role = self.keep(role);
        Ok(ComponentEntry { role, offset, length, uncompressed_length, dtype, logical, encoding, digest })
    }

    fn encoding(&mut self, at: impl Fn() -> Box<FilePart>) -> Result<Encoding, ZTensorError> {
        if self.walker.take_null() {
            return Ok(Encoding::Raw);
        }
        let encoding = self.walker.text()?;
        match &*encoding {
            "raw" => Ok(Encoding::Raw),
            "zstd" => Ok(Encoding::Zstd),
            other => Err(ZTensorError::UnknownEncoding { at: at(), found: Name::new(other) }),
        }
    }

    fn logical(
        &mut self,
        dtype: ElementType,
        name: &str,
        at: impl Fn() -> Box<FilePart>,
    ) -> Result<Logical, ZTensorError> {
        let Some(logical) = types::from_type(name) else { return Ok(Logical::Unknown(self.keep(name))) };
        let expected = types::storage_type(logical);
        if dtype == expected || dtype == logical {
            Ok(Logical::Known(logical))
        } else {
            Err(ZTensorError::LogicalType { at: at(), logical, expected, found: dtype })
        }
    }

    fn check_blob(&mut self, offset: u64, length: u64, at: impl Fn() -> Box<FilePart>) -> Result<(), ZTensorError> {
        let limit = self.blobs_end;
        if !offset.is_multiple_of(ALIGNMENT) {
            return Err(ZTensorError::Unaligned { at: at(), offset });
        }
        let end = offset.checked_add(length).filter(|&end| end <= limit);
        let Some(end) = end else { return Err(ZTensorError::OutOfBounds { at: at(), offset, length, limit }) };
        if length > 0 {
            if offset < ALIGNMENT {
                return Err(ZTensorError::BeforeBlobs { at: at(), offset, length });
            }
            self.in_order &= offset >= self.last_end;
            self.last_end = end;
        }
        Ok(())
    }

    /// Checks that an object has the components that its format requires, and that their sizes fit its shape.
    fn check_object(&self, name: &str, shape: Span, format: FormatEntry, components: Span) -> Result<(), ZTensorError> {
        let format = match format {
            FormatEntry::Dense => "dense",
            FormatEntry::SparseCsr => "sparse_csr",
            FormatEntry::SparseCoo => "sparse_coo",
            FormatEntry::QuantizedGroup => "quantized_group",
            FormatEntry::Other(_) => "",
        };
        let (format, roles) = types::required_components(format).unwrap_or_default();
        let entries = self.manifest.components.get(components.range()).unwrap_or_default();
        for &role in roles {
            if !entries.iter().any(|entry| self.manifest.text(entry.role) == role) {
                return Err(ZTensorError::MissingComponent { at: FilePart::object(name), format, role });
            }
        }
        let dimensions = self.manifest.dimensions.get(shape.range()).unwrap_or_default();
        let n_elements =
            element_count(dimensions).ok_or_else(|| ZTensorError::TooLarge { at: FilePart::object(name) })?;
        for entry in entries {
            let role = self.manifest.text(entry.role);
            let at = || FilePart::component(name, role);
            let known = match entry.encoding {
                Encoding::Raw => Some(entry.length),
                Encoding::Zstd => entry.uncompressed_length,
            };
            if format == "dense" && role == "data" && !matches!(entry.logical, Logical::Unknown(_)) {
                check_dense(entry, n_elements, known, at)?;
            } else if let Some(found) = known {
                check_whole_elements(entry, found, at)?;
            }
        }
        Ok(())
    }

    /// Refuses two objects of the same name, and sorts the objects by name unless the file already has this order.
    fn index(&mut self) -> Result<(), ZTensorError> {
        let manifest = &mut self.manifest;
        let name = |entry: &ObjectEntry| manifest.text.get(entry.name.range()).unwrap_or_default();
        if manifest.objects.windows(2).all(|pair| name(&pair[0]) < name(&pair[1])) {
            return Ok(());
        }
        let name = |index: &u32| manifest.objects.get(*index as usize).map_or("", name);
        // This sort is fast for presorted runs, which files have.
        let mut by_name: Vec<u32> = (0..manifest.objects.len() as u32).collect();
        by_name.sort_by(|one, other| name(one).cmp(name(other)));
        if let Some(pair) = by_name.windows(2).find(|pair| name(&pair[0]) == name(&pair[1])) {
            return Err(ZTensorError::DuplicateKey { at: FilePart::manifest(), key: Name::new(name(&pair[0])) });
        }
        manifest.by_name = Some(by_name);
        Ok(())
    }

    /// Refuses blobs that partly overlap, and records whether any are identical.
    fn check_overlaps(&mut self) -> Result<(), ZTensorError> {
        let entries = self.manifest.components.iter().enumerate();
        let mut blobs: Vec<(u64, u64, u32)> = entries
            .filter(|(_, entry)| entry.length > 0)
            .map(|(index, entry)| (entry.offset, entry.offset.saturating_add(entry.length), index as u32))
            .collect();
        blobs.sort();
        let is_same = |pair: &[(u64, u64, u32)]| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1);
        self.manifest.shares_blobs = blobs.windows(2).any(is_same);
        match blobs.windows(2).find(|pair| pair[1].0 < pair[0].1 && !is_same(pair)) {
            None => Ok(()),
            Some(pair) => {
                let (first, second) = (self.place_of(pair[0].2), self.place_of(pair[1].2));
                Err(ZTensorError::Overlap { first, second, offset: pair[1].0 })
            }
        }
    }

    /// Returns the place of the component with this index, for an error.
    fn place_of(&self, index: u32) -> Box<FilePart> {
        let manifest = &self.manifest;
        let owner = manifest.objects.iter().find(|entry| entry.components.range().contains(&(index as usize)));
        let role = manifest.components.get(index as usize).map(|entry| manifest.text(entry.role));
        FilePart::component(owner.map_or("", |entry| manifest.text(entry.name)), role.unwrap_or_default())
    }
}

/// Checks that the bytes of a dense tensor fill its shape.
fn check_dense(
    entry: &ComponentEntry,
    n_elements: usize,
    found: Option<u64>,
    at: impl Fn() -> Box<FilePart>,
) -> Result<(), ZTensorError> {
    let dtype = if let Logical::Known(dtype) = entry.logical { dtype } else { entry.dtype };
    let Some(expected) = dtype.n_bytes(n_elements) else {
        let bits = dtype.bits();
        return Err(if bits < 8 && n_elements.checked_mul(bits).is_some() {
            let (found, size) = (found.unwrap_or(entry.length), if bits == 6 { 3 } else { 1 });
            ZTensorError::PartialElement { at: at(), found, size }
        } else {
            ZTensorError::TooLarge { at: at() }
        });
    };
    let expected = expected as u64;
    match found {
        Some(found) if found != expected => Err(ZTensorError::Size { at: at(), expected, found }),
        _ => Ok(()),
    }
}

/// Checks that the bytes are a whole number of elements of their storage type.
fn check_whole_elements(
    entry: &ComponentEntry,
    found: u64,
    at: impl Fn() -> Box<FilePart>,
) -> Result<(), ZTensorError> {
    let size = (entry.dtype.bits() / 8) as u64;
    if size > 0 && !found.is_multiple_of(size) {
        return Err(ZTensorError::PartialElement { at: at(), found, size });
    }
    Ok(())
}
