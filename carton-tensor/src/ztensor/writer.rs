//! Writes a file from front to back (spec/ztensor.md §6).

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;

use minicbor::Encoder;

use super::attributes::{self, Attributes};
use super::digest::Hasher;
use super::footer::{ALIGNMENT, MAGIC, MAX_MANIFEST};
use super::manifest::{Component, Encoding, Object};
use super::name::Name;
use super::place::FilePart;
use super::version::is_before_1_2;
use super::{Checks, Digest, DigestAlgorithm, Reader, Version, ZTensorError, types};
use crate::files::{ElementType, RawTensor};
use crate::{MAX_RANK, element_count};

/// The storage of a component: whether it is compressed, and whether it has a digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreAs {
    /// The level of zstd, 1 to 22; `None` for uncompressed bytes.
    pub zstd: Option<i32>,
    /// The algorithm of the digest of the stored bytes; `None` for no digest.
    pub digest: Option<DigestAlgorithm>,
}

impl StoreAs {
    /// Uncompressed, so that the bytes can be mapped, and without a digest.
    pub const RAW: Self = Self { zstd: None, digest: None };

    /// Compresses with zstd.
    #[must_use]
    pub const fn zstd(self, level: i32) -> Self {
        Self { zstd: Some(level), ..self }
    }

    /// Adds a digest.
    #[must_use]
    pub const fn digest(self, algorithm: DigestAlgorithm) -> Self {
        Self { digest: Some(algorithm), ..self }
    }
}

/// The bytes of a component that are copied at a time.
const COPIED_AT_ONCE: usize = 1 << 20;

/// A component that is to be written: its role, its elements with any number of dimensions, and its storage.
pub type Part<'a> = (&'a str, &'a RawTensor, StoreAs);

/// Writes a file. It never seeks, so that the output can be a pipe.
///
/// The same calls give the same bytes. The output is only a valid file after [`finish`](Self::finish).
pub struct Writer<W: Write> {
    inner: W,
    /// The number of bytes before the next one.
    offset: u64,
    version: Version,
    pub(super) head: Head,
    /// The CBOR of each object, by name.
    pub(super) objects: BTreeMap<String, Vec<u8>>,
    /// The copied blobs of files in which components share blobs.
    copied: HashMap<CopiedFrom, Copied>,
    /// Whether writing a blob failed before its end.
    is_broken: bool,
    /// Called when everything has been written.
    commit: fn(&mut W) -> io::Result<()>,
}

/// The fields of a manifest other than its objects.
#[derive(Default)]
pub(super) struct Head {
    /// The version of the previous manifest, if this writer appends to a file.
    pub(super) version: Option<String>,
    /// Whether something was written that version 1.1 does not have.
    pub(super) needs_1_2: bool,
    /// The attributes as CBOR; empty if there are none.
    pub(super) attributes: Vec<u8>,
    /// Unknown fields, with key and value as CBOR.
    pub(super) others: Vec<Vec<u8>>,
}

impl<W: Write> Writer<W> {
    /// Starts a file of version 1.2.
    ///
    /// # Errors
    /// [`Io`](ZTensorError::Io).
    pub fn new(inner: W) -> Result<Self, ZTensorError> {
        Self::with_version(inner, Version::V1_2)
    }

    /// Starts a file of the given version.
    ///
    /// # Errors
    /// [`Io`](ZTensorError::Io).
    pub fn with_version(inner: W, version: Version) -> Result<Self, ZTensorError> {
        Self::begin(inner, version, W::flush)
    }

    /// Starts a file and sets the function to call at its end.
    pub(super) fn begin(
        mut inner: W,
        version: Version,
        commit: fn(&mut W) -> io::Result<()>,
    ) -> Result<Self, ZTensorError> {
        inner.write_all(&MAGIC)?;
        Ok(Self::resume(inner, MAGIC.len() as u64, version, commit))
    }

    /// Continues after `offset` bytes.
    pub(super) fn resume(inner: W, offset: u64, version: Version, commit: fn(&mut W) -> io::Result<()>) -> Self {
        Self {
            inner,
            offset,
            version,
            head: Head::default(),
            objects: BTreeMap::new(),
            copied: HashMap::new(),
            is_broken: false,
            commit,
        }
    }

    /// The output.
    pub(super) fn inner_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// Sets the attributes of the file, and replaces the previous ones.
    ///
    /// # Errors
    /// [`Attributes`](ZTensorError::Attributes), [`Depth`](ZTensorError::Depth), [`DuplicateKey`](ZTensorError::DuplicateKey),
    /// [`TooManyAttributes`](ZTensorError::TooManyAttributes) for attributes that a reader would refuse.
    pub fn set_attributes(&mut self, attributes: &Attributes) -> Result<(), ZTensorError> {
        self.head.attributes.clear();
        if !attributes.is_empty() {
            self.head.attributes = attributes::encode(attributes, &FilePart::manifest())?;
        }
        Ok(())
    }

    /// Writes a dense tensor.
    ///
    /// # Errors
    /// [`Io`](ZTensorError::Io), [`DuplicateName`](ZTensorError::DuplicateName), [`NotInVersion`](ZTensorError::NotInVersion),
    /// [`Unfinished`](ZTensorError::Unfinished).
    pub fn add(&mut self, name: &str, tensor: &RawTensor, store_as: StoreAs) -> Result<(), ZTensorError> {
        self.object(name, tensor.shape(), "dense", &Attributes::new(), &[("data", tensor, store_as)])
    }

    /// Writes a dense tensor whose elements are read from `source`, as many bytes as dtype and shape need.
    ///
    /// # Errors
    /// Those of [`add`](Self::add), also if `source` fails or ends early; [`TooLarge`](ZTensorError::TooLarge).
    pub fn add_from(
        &mut self,
        name: &str,
        dtype: ElementType,
        shape: &[usize],
        source: &mut dyn Read,
        store_as: StoreAs,
    ) -> Result<(), ZTensorError> {
        self.add_with(name, dtype, shape, store_as, |out, n_bytes| io::copy(&mut source.take(n_bytes), out).map(drop))
    }

    /// Writes a dense tensor whose elements `write` writes: as many bytes as dtype and shape need, which is its second argument.
    ///
    /// # Errors
    /// Those of [`add`](Self::add), also if `write` fails, or writes more or less; [`TooLarge`](ZTensorError::TooLarge).
    pub fn add_with(
        &mut self,
        name: &str,
        dtype: ElementType,
        shape: &[usize],
        store_as: StoreAs,
        write: impl FnOnce(&mut dyn Write, u64) -> io::Result<()>,
    ) -> Result<(), ZTensorError> {
        self.check_new(name, shape)?;
        let too_large = || ZTensorError::TooLarge { at: FilePart::object(name) };
        let n_bytes = element_count(shape).and_then(|count| dtype.n_bytes(count)).ok_or_else(too_large)? as u64;
        let spelling = self.spelling(dtype)?;
        let blob = self.blob(store_as, Some(n_bytes), |out| {
            let mut exactly = Exactly { inner: out, left: n_bytes };
            write(&mut exactly, n_bytes)?;
            if exactly.left == 0 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        })?;
        let component = self.component("data", spelling, n_bytes, &blob);
        self.insert(name, shape, "dense", &[], &[component])
    }

    /// Writes an object of any format. For formats that the specification defines, makes the checks of opening a file.
    ///
    /// # Errors
    /// Those of [`add`](Self::add); [`MissingComponent`](ZTensorError::MissingComponent), [`Size`](ZTensorError::Size),
    /// [`DuplicateKey`](ZTensorError::DuplicateKey), [`Rank`](ZTensorError::Rank), [`TooLarge`](ZTensorError::TooLarge).
    pub fn object(
        &mut self,
        name: &str,
        shape: &[usize],
        format: &str,
        attributes: &Attributes,
        parts: &[Part<'_>],
    ) -> Result<(), ZTensorError> {
        self.check_new(name, shape)?;
        check_parts(name, shape, format, parts)?;
        let attributes =
            if attributes.is_empty() { Vec::new() } else { attributes::encode(attributes, &FilePart::object(name))? };
        let mut spellings = Vec::with_capacity(parts.len());
        for (_, tensor, _) in parts {
            spellings.push(self.spelling(tensor.dtype())?);
        }
        let mut components = Vec::with_capacity(parts.len());
        for (&(role, tensor, store_as), spelling) in parts.iter().zip(spellings) {
            let bytes = tensor.bytes();
            let n_bytes = bytes.len() as u64;
            let blob = self.blob(store_as, Some(n_bytes), |out| out.write_all(bytes))?;
            components.push(self.component(role, spelling, n_bytes, &blob));
        }
        self.insert(name, shape, format, &attributes, &components)
    }

    /// Copies an object of another file, under this name, with its attributes and all its components, including those of unknown formats and
    /// logical types. `store_as` returns the storage of each component: a digest of an algorithm that is not known cannot be made of the bytes
    /// that are written. The components are copied in pieces of a megabyte. Bytes that components of the other file share are written once if
    /// they have the same type and storage.
    ///
    /// # Errors
    /// Those of [`add`](Self::add), of [`Reader::read_component`] with these checks, and of `store_as`.
    pub fn copy(
        &mut self,
        name: &str,
        reader: &Reader,
        object: &Object<'_>,
        checks: Checks,
        store_as: impl Fn(&Component<'_>) -> Result<StoreAs, ZTensorError>,
    ) -> Result<(), ZTensorError> {
        self.check_new(name, object.shape())?;
        let attributes = object.attributes()?;
        let attributes =
            if attributes.is_empty() { Vec::new() } else { attributes::encode(&attributes, &FilePart::object(name))? };
        let mut spellings = Vec::new();
        for component in object.components() {
            spellings.push(self.spelling_of(&component)?);
        }
        let mut components = Vec::with_capacity(spellings.len());
        for (component, spelling) in object.components().zip(spellings) {
            let Copied { blob, n_bytes, .. } = self.copy_blob(reader, &component, checks, store_as(&component)?)?;
            components.push(self.component(component.role(), spelling, n_bytes, &blob));
        }
        self.insert(name, object.shape(), object.format().name(), &attributes, &components)
    }

    /// Writes the bytes of a component of another file, or returns where they have already been written.
    fn copy_blob(
        &mut self,
        reader: &Reader,
        component: &Component<'_>,
        checks: Checks,
        store_as: StoreAs,
    ) -> Result<Copied, ZTensorError> {
        let (stored, digest) = (component.stored(), component.known_digest()?);
        let from = CopiedFrom {
            reader: reader.number(),
            stored: (stored.start, stored.end),
            encoding: component.encoding(),
            dtype: component.element_type(),
            length: component.length(),
            store_as,
        };
        if let Some(copied) = self.copied.get(&from).copied() {
            // The bytes have been checked against the digest of their first component. This component states another digest.
            if checks.digests && digest.is_some() && digest != copied.digest {
                reader.verify(component)?;
            }
            return Ok(copied);
        }
        let mut n_bytes = 0;
        let mut failure = None;
        let blob = self.blob(store_as, None, |out| {
            let visited = reader.visit_component(component, checks, COPIED_AT_ONCE, &mut |piece| {
                n_bytes += piece.len() as u64;
                match out.write_all(piece) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failure = Some(error.into());
                        ControlFlow::Break(())
                    }
                }
            });
            if let Err(error) = visited {
                failure.get_or_insert(error);
            }
            if failure.is_none() { Ok(()) } else { Err(io::Error::other("the source cannot be copied")) }
        });
        let blob = match (blob, failure) {
            (_, Some(failure)) => return Err(failure),
            (blob, None) => blob?,
        };
        let copied = Copied { blob, n_bytes, digest };
        if reader.manifest().shares_blobs {
            self.copied.insert(from, copied);
        }
        Ok(copied)
    }

    /// Writes the manifest, and returns the output.
    ///
    /// # Errors
    /// [`Io`](ZTensorError::Io), [`Unfinished`](ZTensorError::Unfinished), [`ManifestSize`](ZTensorError::ManifestSize).
    pub fn finish(mut self) -> Result<W, ZTensorError> {
        self.check_whole()?;
        let manifest = self.manifest()?;
        let found = manifest.len() as u64;
        if found > MAX_MANIFEST {
            return Err(ZTensorError::ManifestSize { found, limit: MAX_MANIFEST });
        }
        self.inner.write_all(&manifest)?;
        self.inner.write_all(&found.to_le_bytes())?;
        self.inner.write_all(&MAGIC)?;
        (self.commit)(&mut self.inner)?;
        Ok(self.inner)
    }

    /// Whether an object of this name has been written.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.objects.contains_key(name)
    }

    fn check_whole(&self) -> Result<(), ZTensorError> {
        if self.is_broken { Err(ZTensorError::Unfinished) } else { Ok(()) }
    }

    fn check_new(&self, name: &str, shape: &[usize]) -> Result<(), ZTensorError> {
        self.check_whole()?;
        if self.contains(name) {
            return Err(ZTensorError::DuplicateName { name: Name::new(name) });
        }
        if shape.len() > MAX_RANK {
            return Err(ZTensorError::Rank { at: FilePart::object(name), limit: MAX_RANK });
        }
        Ok(())
    }

    fn spelling(&self, dtype: ElementType) -> Result<Spelling<'static>, ZTensorError> {
        types::spelling(dtype, self.version).ok_or_else(|| ZTensorError::NotInVersion {
            version: self.version.name(),
            what: format!("elements of type {dtype}"),
        })
    }

    fn spelling_of<'a>(&self, component: &Component<'a>) -> Result<Spelling<'a>, ZTensorError> {
        let Some(unknown) = component.unknown_type() else { return self.spelling(component.element_type()) };
        if self.version < Version::V1_2 {
            let what = format!("elements of the type `{}`", Name::new(unknown));
            return Err(ZTensorError::NotInVersion { version: self.version.name(), what });
        }
        let (storage, _) = self.spelling(component.storage_type())?;
        Ok((storage, Some(unknown)))
    }

    /// Writes a blob, of `n_bytes` bytes where that is known, and compresses and hashes it on the way.
    fn blob(
        &mut self,
        store_as: StoreAs,
        n_bytes: Option<u64>,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Blob, ZTensorError> {
        self.is_broken = true;
        let offset = self.offset.next_multiple_of(ALIGNMENT);
        let padding = (offset - self.offset) as usize;
        self.inner.write_all([0; ALIGNMENT as usize].get(..padding).unwrap_or_default())?;
        let hasher = store_as.digest.map(Hasher::new);
        let mut out = Counted { inner: &mut self.inner, n_bytes: 0, hasher };
        let encoding = match store_as.zstd {
            None => {
                write(&mut out)?;
                Encoding::Raw
            }
            Some(level) => {
                let mut encoder = zstd::stream::write::Encoder::new(&mut out, level)?;
                write(&mut encoder)?;
                encoder.finish()?;
                Encoding::Zstd
            }
        };
        let length = out.n_bytes;
        let digest = out.hasher.map(Hasher::finish);
        debug_assert!(encoding == Encoding::Zstd || n_bytes.is_none_or(|n_bytes| n_bytes == length));
        self.offset = offset + length;
        self.is_broken = false;
        Ok(Blob { offset, length, encoding, digest })
    }

    /// Returns the role and the CBOR of a component.
    fn component(
        &mut self,
        role: &str,
        (dtype, logical): Spelling<'_>,
        n_bytes: u64,
        blob: &Blob,
    ) -> (String, Vec<u8>) {
        let is_zstd = blob.encoding == Encoding::Zstd;
        let uncompressed = (is_zstd && self.version >= Version::V1_2).then_some(n_bytes);
        self.head.needs_1_2 |= logical.is_some() || uncompressed.is_some();
        let digest = blob.digest.map(|digest| digest.to_string());
        let n_optional = [logical.is_some(), uncompressed.is_some(), is_zstd, digest.is_some()];
        let mut cbor = Cbor::default();
        cbor.map(3 + n_optional.iter().filter(|is_there| **is_there).count());
        cbor.text("dtype").text(dtype);
        if let Some(logical) = logical {
            cbor.text("type").text(logical);
        }
        cbor.text("offset").unsigned(blob.offset);
        cbor.text("length").unsigned(blob.length);
        if let Some(uncompressed) = uncompressed {
            cbor.text("uncompressed_length").unsigned(uncompressed);
        }
        if is_zstd {
            cbor.text("encoding").text(blob.encoding.name());
        }
        if let Some(digest) = digest {
            cbor.text("digest").text(&digest);
        }
        (role.to_owned(), cbor.0)
    }

    fn insert(
        &mut self,
        name: &str,
        shape: &[usize],
        format: &str,
        attributes: &[u8],
        components: &[(String, Vec<u8>)],
    ) -> Result<(), ZTensorError> {
        let mut cbor = Cbor::default();
        cbor.map(3 + usize::from(!attributes.is_empty()));
        cbor.text("shape").array(shape.len());
        for &dimension in shape {
            cbor.unsigned(dimension as u64);
        }
        cbor.text("format").text(format);
        if !attributes.is_empty() {
            cbor.text("attributes").0.extend_from_slice(attributes);
        }
        cbor.text("components").map(components.len());
        let mut sorted: Vec<&(String, Vec<u8>)> = components.iter().collect();
        sorted.sort();
        for (role, component) in sorted {
            cbor.text(role).0.extend_from_slice(component);
        }
        self.objects.insert(name.to_owned(), cbor.0);
        Ok(())
    }

    fn manifest(&self) -> Result<Vec<u8>, ZTensorError> {
        let head = &self.head;
        let version = match &head.version {
            Some(version) if head.needs_1_2 && is_before_1_2(version) => Version::V1_2.name(),
            Some(version) => version,
            None => self.version.name(),
        };
        let mut cbor = Cbor::default();
        cbor.map(2 + usize::from(!head.attributes.is_empty()) + head.others.len());
        cbor.text("version").text(version);
        if !head.attributes.is_empty() {
            cbor.text("attributes").0.extend_from_slice(&head.attributes);
        }
        cbor.text("objects").map(self.objects.len());
        for (name, object) in &self.objects {
            cbor.text(name).0.extend_from_slice(object);
        }
        for field in &head.others {
            cbor.0.extend_from_slice(field);
        }
        Ok(cbor.0)
    }
}

/// The values of `dtype` and `type`.
type Spelling<'a> = (&'static str, Option<&'a str>);

/// Bytes copied from another file, the type they were read as, and their new storage.
#[derive(PartialEq, Eq, Hash)]
struct CopiedFrom {
    reader: u64,
    stored: (u64, u64),
    encoding: Encoding,
    dtype: ElementType,
    length: Option<u64>,
    store_as: StoreAs,
}

/// The result of copying bytes.
#[derive(Clone, Copy)]
struct Copied {
    blob: Blob,
    /// The number of bytes without compression.
    n_bytes: u64,
    /// The digest that the other file states.
    digest: Option<Digest>,
}

/// The position and storage of a blob that was written.
#[derive(Clone, Copy)]
struct Blob {
    offset: u64,
    length: u64,
    encoding: Encoding,
    digest: Option<Digest>,
}

/// Counts and hashes the bytes that pass through.
struct Counted<'a, W: Write> {
    inner: &'a mut W,
    n_bytes: u64,
    hasher: Option<Hasher>,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n_bytes = self.inner.write(bytes)?;
        self.n_bytes += n_bytes as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes.get(..n_bytes).unwrap_or_default());
        }
        Ok(n_bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Refuses more than a number of bytes.
struct Exactly<'a> {
    inner: &'a mut dyn Write,
    left: u64,
}

impl Write for Exactly<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the tensor has more bytes than its shape says"));
        }
        let n_bytes = self.inner.write(bytes)?;
        self.left -= n_bytes as u64;
        Ok(n_bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// An encoder of CBOR to memory, which cannot fail.
#[derive(Default)]
struct Cbor(Vec<u8>);

impl Cbor {
    fn map(&mut self, n_items: usize) -> &mut Self {
        let _ = Encoder::new(&mut self.0).map(n_items as u64);
        self
    }

    fn array(&mut self, n_items: usize) -> &mut Self {
        let _ = Encoder::new(&mut self.0).array(n_items as u64);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        let _ = Encoder::new(&mut self.0).str(text);
        self
    }

    fn unsigned(&mut self, number: u64) -> &mut Self {
        let _ = Encoder::new(&mut self.0).u64(number);
        self
    }
}

/// Checks what a reader checks when it opens a file.
fn check_parts(name: &str, shape: &[usize], format: &str, parts: &[Part<'_>]) -> Result<(), ZTensorError> {
    let n_elements = element_count(shape).ok_or_else(|| ZTensorError::TooLarge { at: FilePart::object(name) })?;
    if let Some((format, roles)) = types::required_components(format) {
        for &role in roles {
            if !parts.iter().any(|part| part.0 == role) {
                return Err(ZTensorError::MissingComponent { at: FilePart::object(name), format, role });
            }
        }
    }
    for (index, (role, tensor, _)) in parts.iter().enumerate() {
        if parts.iter().take(index).any(|part| part.0 == *role) {
            return Err(ZTensorError::DuplicateKey { at: FilePart::object(name), key: Name::new(role) });
        }
        if format == "dense" && *role == "data" && tensor.n_elements() != n_elements {
            let expected = tensor.dtype().n_bytes(n_elements).unwrap_or(usize::MAX) as u64;
            let at = FilePart::component(name, role);
            return Err(ZTensorError::Size { at, expected, found: tensor.bytes().len() as u64 });
        }
    }
    Ok(())
}
