//! Opens a file, and reads and verifies its tensors (spec/ztensor.md §1, §3, §4).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{self, Read};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::digest::Hasher;
use super::manifest::{Component, Format, Manifest, Object};
use super::name::Name;
use super::place::FilePart;
use super::{Digest, DigestAlgorithm, Footer, ZTensorError, component, footer};
use crate::context::{CancelToken, Cancelled};
use crate::element_count;
use crate::files::{FileBytes, RawTensor, SharedBytes};
use crate::parallel::{available_threads, par_map};

/// The checks when a component is read, in addition to those of opening the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Whether to check that stored bytes match their digest, if they have one of an algorithm that is known.
    pub digests: bool,
    /// Whether to check that bools are 0 or 1.
    pub bools: bool,
}

impl Checks {
    /// All checks.
    pub const ALL: Self = Self { digests: true, bools: true };
}

/// An open file. Opening validates the manifest; components are read on request.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// use carton_tensor::ztensor::{Reader, StoreAs, Writer};
/// let tensor = RawTensor::new(ElementType::Uint8, vec![3], vec![1_u8, 2, 3].into())?;
/// let mut writer = Writer::new(Vec::new())?;
/// writer.add("numbers", &tensor, StoreAs::RAW)?;
/// let reader = Reader::new(writer.finish()?.into())?;
/// assert_eq!(reader.read("numbers")?, tensor);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: FileBytes,
    /// Shared by clones, because it can be large.
    manifest: Arc<Manifest>,
    /// Where the manifest starts.
    blobs_end: u64,
    checks: Checks,
    /// Identifies the reader and its clones, which read the same file, within this process.
    number: u64,
}

/// The number of the next reader.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The result of [`Reader::verify_all`].
#[derive(Debug, Default)]
pub struct Verified {
    /// The number of components that match their digest.
    pub n_verified: usize,
    /// The number of components without a digest.
    pub n_without: usize,
    /// The number of components whose digest has an algorithm that is not known, so that it was not compared.
    pub n_unknown: usize,
    /// The stored bytes of the verified components. Bytes that several components share count once.
    pub n_bytes: u64,
    /// The errors of the other components.
    pub failures: Vec<ZTensorError>,
}

/// The bytes that are hashed at a time if they must be copied out of the file.
const PIECE: usize = 1 << 20;

impl Reader {
    /// Opens the file at `path`. Reading a component copies its bytes out of the file.
    ///
    /// # Errors
    /// [`Open`](ZTensorError::Open), and those of [`new`](Self::new).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ZTensorError> {
        let path = path.as_ref();
        Self::new(FileBytes::open(path).map_err(|source| ZTensorError::Open { path: path.to_owned(), source })?)
    }

    /// Maps the file at `path`. Components that are not compressed are views of the map, and nothing is copied.
    ///
    /// Use this only for files that no process writes to while they are mapped; see [`FileBytes::map`].
    ///
    /// # Errors
    /// [`Open`](ZTensorError::Open), and those of [`new`](Self::new).
    pub fn map(path: impl AsRef<Path>) -> Result<Self, ZTensorError> {
        let path = path.as_ref();
        Self::new(FileBytes::map(path).map_err(|source| ZTensorError::Open { path: path.to_owned(), source })?)
    }

    /// Opens a file from its bytes. Reads only its start, its end and the manifest.
    ///
    /// # Errors
    /// [`Io`](ZTensorError::Io), or the rule of sections 1.1 to 4.1 that the file breaks.
    pub fn new(bytes: FileBytes) -> Result<Self, ZTensorError> {
        let file_length = bytes.len();
        // The magic number is checked before the length, so that a file of another format is reported as such even if it is short.
        let mut first = [0; 8];
        let n_bytes = file_length.min(8) as usize;
        bytes.read_into(0, first.get_mut(..n_bytes).unwrap_or_default())?;
        if n_bytes == 8 {
            footer::check_header(first)?;
        }
        footer::check_length(file_length)?;
        let mut last = [0; Footer::LENGTH];
        bytes.read_into(file_length - Footer::LENGTH as u64, &mut last)?;
        let range = Footer::parse(&last, file_length)?.manifest();
        // Copies the manifest, because a mapped file may change after the text was validated.
        let n_bytes = range.end - range.start;
        let mut cbor = Vec::new();
        let memory = |_| ZTensorError::Memory { at: FilePart::manifest(), n_bytes };
        cbor.try_reserve_exact(n_bytes as usize).map_err(memory)?;
        cbor.resize(n_bytes as usize, 0);
        bytes.read_into(range.start, &mut cbor)?;
        let manifest = Arc::new(Manifest::parse(&cbor, range.start)?);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Self { bytes, manifest, blobs_end: range.start, checks: Checks::default(), number })
    }

    /// Sets the checks for everything read from now on.
    #[must_use]
    pub fn checking(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// The manifest of the file.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The checks for everything that is read.
    #[must_use]
    pub fn checks(&self) -> Checks {
        self.checks
    }

    /// A number that identifies the file of this reader.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Where the manifest starts in the file.
    pub(super) fn blobs_end(&self) -> u64 {
        self.blobs_end
    }

    /// The bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &FileBytes {
        &self.bytes
    }

    /// The objects, in the order of the file.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = Object<'_>> + DoubleEndedIterator {
        self.manifest.objects()
    }

    /// Returns the object of this name.
    ///
    /// # Errors
    /// [`NoSuchObject`](ZTensorError::NoSuchObject).
    pub fn object(&self, name: &str) -> Result<Object<'_>, ZTensorError> {
        self.manifest.object(name).ok_or_else(|| ZTensorError::NoSuchObject { name: Name::new(name) })
    }

    /// Reads a dense tensor.
    ///
    /// If its logical type is unknown, it is read as its storage type. If the bytes then do not fit the shape, the tensor gets a single
    /// dimension (spec/ztensor.md §3.3).
    ///
    /// # Errors
    /// [`NoSuchObject`](ZTensorError::NoSuchObject), [`WrongFormat`](ZTensorError::WrongFormat), and those of
    /// [`read_component`](Self::read_component).
    pub fn read(&self, name: &str) -> Result<RawTensor, ZTensorError> {
        self.read_object(&self.object(name)?)
    }

    /// Reads a dense object like [`read`](Self::read).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_object(&self, object: &Object<'_>) -> Result<RawTensor, ZTensorError> {
        object.expect(Format::Dense)?;
        let data = object.require("data")?;
        let bytes = self.read_component(&data, self.checks)?;
        let dtype = data.element_type();
        let fills = |shape: &[usize]| element_count(shape).and_then(|count| dtype.n_bytes(count)) == Some(bytes.len());
        if data.unknown_type().is_some() && !fills(object.shape()) {
            return flat(object, &data, bytes);
        }
        let tensor = RawTensor::new(dtype, object.shape().to_vec(), bytes);
        tensor.map_err(|source| ZTensorError::Tensor { at: object.place(), source })
    }

    /// Reads the decompressed bytes of a component.
    ///
    /// # Errors
    /// [`NoSuchObject`](ZTensorError::NoSuchObject), [`NoSuchComponent`](ZTensorError::NoSuchComponent), and those of
    /// [`read_component`](Self::read_component).
    pub fn component(&self, name: &str, role: &str) -> Result<SharedBytes, ZTensorError> {
        self.read_component(&self.object(name)?.require(role)?, self.checks)
    }

    /// Reads the decompressed bytes of a component of this file, with exactly these checks.
    ///
    /// # Errors
    /// [`Io`](ZTensorError::Io), [`Memory`](ZTensorError::Memory). With checks, [`DigestMismatch`](ZTensorError::DigestMismatch),
    /// [`UnknownDigest`](ZTensorError::UnknownDigest) for a text that names no algorithm,
    /// [`MalformedDigest`](ZTensorError::MalformedDigest) and [`Bool`](ZTensorError::Bool). For zstd, the rules of section 4.2.
    pub fn read_component(&self, component: &Component<'_>, checks: Checks) -> Result<SharedBytes, ZTensorError> {
        let stored = self.bytes.read(component.stored())?;
        if checks.digests
            && let Some(digest) = component.known_digest()?
        {
            digest.verify(&stored, || component.place())?;
        }
        let bytes = component::decode(stored, component)?;
        if checks.bools {
            component::check_bools(&bytes, 0, component)?;
        }
        Ok(bytes)
    }

    /// Reads the decompressed bytes of a component of this file, with exactly these checks, in pieces of `n_bytes`, of which only one is in
    /// memory. `visit` says by its result whether it wants the next piece. What it got is only what the file has if no error follows.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use carton_tensor::files::{ElementType, RawTensor};
    /// use carton_tensor::ztensor::{Checks, Reader, StoreAs, Writer};
    /// let tensor = RawTensor::new(ElementType::Uint8, vec![5], vec![1_u8, 2, 3, 4, 5].into())?;
    /// let mut writer = Writer::new(Vec::new())?;
    /// writer.add("numbers", &tensor, StoreAs::RAW.zstd(3))?;
    /// let reader = Reader::new(writer.finish()?.into())?;
    /// let data = reader.object("numbers")?.component("data").unwrap();
    /// let mut lengths = Vec::new();
    /// reader.visit_component(&data, Checks::ALL, 2, &mut |piece| {
    ///     lengths.push(piece.len());
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(lengths, [2, 2, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`read_component`](Self::read_component).
    pub fn visit_component(
        &self,
        component: &Component<'_>,
        checks: Checks,
        n_bytes: usize,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ZTensorError> {
        let digest = if checks.digests { component.known_digest()? } else { None };
        let mut stored = Stored {
            bytes: &self.bytes,
            rest: component.stored(),
            hasher: digest.map(|digest| Hasher::new(digest.algorithm())),
            failure: None,
        };
        let (mut position, mut bad, mut is_over) = (0, None, false);
        let visited = component::stream(&mut stored, component, n_bytes.max(1), &mut |piece| {
            if checks.bools
                && let Err(error) = component::check_bools(piece, position, component)
            {
                bad = Some(error);
                return ControlFlow::Break(());
            }
            position += piece.len();
            let next = visit(piece);
            is_over = next.is_break();
            next
        });
        if let Some(failure) = stored.failure.take() {
            return Err(failure.into());
        }
        if is_over {
            return Ok(());
        }
        if let Err(error) = &visited
            && component::needs_whole(error, component)
        {
            let whole = self.read_component(component, checks)?;
            let mut rest = whole.get(position..).unwrap_or_default().chunks(n_bytes.max(1));
            let _ = rest.try_for_each(visit);
            return Ok(());
        }
        // Damaged bytes may also break another rule. That they are damaged is the better answer.
        if let Some(digest) = digest {
            compare(component, digest, stored.finish()?)?;
        }
        visited.and_then(|()| bad.map_or(Ok(()), Err))
    }

    /// Reads a component as a tensor of one dimension.
    pub(super) fn elements(&self, object: &Object<'_>, role: &str) -> Result<RawTensor, ZTensorError> {
        let component = object.require(role)?;
        let bytes = self.read_component(&component, self.checks)?;
        flat(object, &component, bytes)
    }

    /// Verifies the digest of a component of this file. Hashes the stored bytes in pieces, without decompressing them.
    ///
    /// # Errors
    /// [`NoDigest`](ZTensorError::NoDigest), [`UnknownDigest`](ZTensorError::UnknownDigest),
    /// [`MalformedDigest`](ZTensorError::MalformedDigest), [`DigestMismatch`](ZTensorError::DigestMismatch),
    /// [`Io`](ZTensorError::Io).
    pub fn verify(&self, component: &Component<'_>) -> Result<(), ZTensorError> {
        let digest = component.digest()?.ok_or_else(|| ZTensorError::NoDigest { at: component.place() })?;
        compare(component, digest, self.digest_of(component.stored(), digest.algorithm())?)
    }

    /// Computes the digest of a range of the file in pieces.
    fn digest_of(&self, range: Range<u64>, algorithm: DigestAlgorithm) -> Result<Digest, ZTensorError> {
        self.digest_within(range, algorithm, &CancelToken::default())
    }

    /// As [`digest_of`](Self::digest_of). Work that is cancelled returns any digest.
    fn digest_within(
        &self,
        range: Range<u64>,
        algorithm: DigestAlgorithm,
        cancel_token: &CancelToken,
    ) -> Result<Digest, ZTensorError> {
        if self.bytes.is_in_memory() {
            return Ok(algorithm.digest(&self.bytes.read(range)?));
        }
        let mut hasher = Hasher::new(algorithm);
        let mut buffer = vec![0; PIECE.min(usize::try_from(range.end - range.start).unwrap_or(PIECE))];
        let mut offset = range.start;
        while offset < range.end && !cancel_token.is_cancelled() {
            let n_bytes = (range.end - offset).min(PIECE as u64);
            let piece = buffer.get_mut(..n_bytes as usize).unwrap_or_default();
            self.bytes.read_into(offset, piece)?;
            hasher.update(piece);
            offset += n_bytes;
        }
        Ok(hasher.finish())
    }

    /// Verifies the digests of all components, on all cores. Bytes that several components share are hashed once.
    #[must_use]
    pub fn verify_all(&self) -> Verified {
        // Nobody else has this token, so the work is never cancelled.
        self.verify_some(|_| true, &CancelToken::default()).unwrap_or_default()
    }

    /// Verifies the digests of all components of the objects whose names `is_wanted` accepts, as [`verify_all`](Self::verify_all) does.
    ///
    /// # Errors
    /// The work was cancelled.
    pub fn verify_some(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        cancel_token: &CancelToken,
    ) -> Result<Verified, Cancelled> {
        let mut verified = Verified::default();
        let mut failures = Vec::new();
        let mut by_blob: BTreeMap<(u64, u64, &str), Blob<'_>> = BTreeMap::new();
        for (index, component) in
            self.objects().filter(|object| is_wanted(object.name())).flat_map(|object| object.components()).enumerate()
        {
            match component.known_digest() {
                Ok(None) if component.unknown_digest().is_some() => verified.n_unknown += 1,
                Ok(None) => verified.n_without += 1,
                Err(error) => failures.push((index, error)),
                Ok(Some(digest)) => {
                    let (range, algorithm) = (component.stored(), digest.algorithm());
                    let blob = by_blob.entry((range.start, range.end, algorithm.name()));
                    let blob = blob.or_insert_with(|| Blob { range, algorithm, components: Vec::new() });
                    blob.components.push((index, component, digest));
                }
            }
        }
        let mut blobs: Vec<Blob<'_>> = by_blob.into_values().collect();
        // The largest blobs come first, so that none of them runs alone at the end.
        blobs.sort_by_key(|blob| std::cmp::Reverse(blob.length()));
        let digest_of = |at: usize| self.digest_within(blobs[at].range.clone(), blobs[at].algorithm, cancel_token);
        let digests = par_map(blobs.len(), available_threads(), || (), |(), at| Ok::<_, Infallible>(digest_of(at)));
        cancel_token.check()?;
        for (blob, digest) in blobs.iter().zip(digests.into_iter().flatten()) {
            blob.judge(digest, &mut verified, &mut failures);
        }
        failures.sort_by_key(|(index, _)| *index);
        verified.failures = failures.into_iter().map(|(_, error)| error).collect();
        Ok(verified)
    }
}

/// The stored bytes of a component, which are hashed as they are read.
struct Stored<'a> {
    bytes: &'a FileBytes,
    rest: Range<u64>,
    hasher: Option<Hasher>,
    /// Why the file cannot be read, if it cannot. The decoder would report it as if the bytes were at fault.
    failure: Option<io::Error>,
}

impl Stored<'_> {
    /// Returns the digest of all bytes, also those that have not been read.
    fn finish(mut self) -> Result<Digest, ZTensorError> {
        let mut buffer = vec![0; PIECE];
        loop {
            match self.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(self.failure.take().unwrap_or(error).into()),
            }
        }
        self.hasher.map(Hasher::finish).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput).into())
    }
}

impl Read for Stored<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_bytes = (self.rest.end - self.rest.start).min(buffer.len() as u64) as usize;
        let buffer = buffer.get_mut(..n_bytes).unwrap_or_default();
        if let Err(failure) = self.bytes.read_into(self.rest.start, buffer) {
            let kind = failure.kind();
            self.failure = Some(failure);
            return Err(kind.into());
        }
        self.rest.start += n_bytes as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(buffer);
        }
        Ok(n_bytes)
    }
}

/// A range of the file, and the components with these bytes and a digest of this algorithm. The numbers are the positions among all
/// components.
struct Blob<'m> {
    range: Range<u64>,
    algorithm: DigestAlgorithm,
    components: Vec<(usize, Component<'m>, Digest)>,
}

impl Blob<'_> {
    fn length(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Compares the digest of the bytes with those that the manifest states.
    fn judge(
        &self,
        found: Result<Digest, ZTensorError>,
        verified: &mut Verified,
        failures: &mut Vec<(usize, ZTensorError)>,
    ) {
        let found = match found {
            Ok(found) => found,
            // One error is enough for bytes that cannot be read.
            Err(error) => return failures.extend(self.components.first().map(|(index, ..)| (*index, error))),
        };
        let n_before = verified.n_verified;
        for (index, component, digest) in &self.components {
            match compare(component, *digest, found) {
                Ok(()) => verified.n_verified += 1,
                Err(error) => failures.push((*index, error)),
            }
        }
        if verified.n_verified > n_before {
            verified.n_bytes += self.length();
        }
    }
}

fn compare(component: &Component<'_>, expected: Digest, found: Digest) -> Result<(), ZTensorError> {
    if found == expected {
        return Ok(());
    }
    let at = component.place();
    Err(ZTensorError::DigestMismatch { at, expected: expected.to_string(), found: found.to_string() })
}

/// Makes a tensor with one dimension from all elements of a component.
fn flat(object: &Object<'_>, component: &Component<'_>, bytes: SharedBytes) -> Result<RawTensor, ZTensorError> {
    let (dtype, found) = (component.element_type(), bytes.len());
    let n_elements = match dtype.bits() {
        bits if bits >= 8 => found / (bits / 8),
        // Every whole number of bytes is a whole number of 4-bit elements.
        4 => found.saturating_mul(2),
        _ => found / 3 * 4,
    };
    if dtype.n_bytes(n_elements) != Some(found) {
        let size = if dtype.bits() < 8 { 3 } else { dtype.bits() as u64 / 8 };
        return Err(ZTensorError::PartialElement { at: component.place(), found: found as u64, size });
    }
    let at = || FilePart::object(object.name());
    RawTensor::new(dtype, vec![n_elements], bytes).map_err(|source| ZTensorError::Tensor { at: at(), source })
}
