//! Opens a file, and reads its tensors (spec/ztensor2.md §1, §4, §5).

use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use super::digest::{Digest, Hasher, xxh3};
use super::error::malformed;
use super::footer;
use super::layout::Layout;
use super::manifest::{Manifest, Object, Part};
use super::pieces::{Growing, PIECE, Pieces};
use super::seekable::Encoded;
use super::shards::Shards;
use super::{ZTensor2Error, content, sparse};
use crate::files::{
    Beside, ElementType, FileBytes, FollowLinks, RawTensor, SharedBytes, Visit, open_beside, visit_range,
};
use crate::ztensor::{Checks, Name};

/// An open file. Opening validates the manifest; parts are read on request. Any number of threads may read at once.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: FileBytes,
    /// Shared by clones, because it can be large.
    manifest: Arc<Manifest>,
    shards: Arc<Shards>,
    checks: Checks,
}

impl Reader {
    /// Opens the file at `path`, and the shards beside it if it has any. Reading a part copies its bytes out of the file.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ZTensor2Error> {
        let path = path.as_ref();
        let beside = |name: &str| open_beside(path, name, FollowLinks::default());
        Self::new(FileBytes::open(path)?, &path.to_string_lossy(), Some(&beside))
    }

    /// Opens a file from its bytes. Reads only its start, its end and the manifest. The file is at `place`, by which the names of its shards
    /// begin; `beside` opens those.
    ///
    /// # Errors
    /// [`Io`](ZTensor2Error::Io), or the rule of sections 1 to 6 that the file breaks; [`Unsupported`](ZTensor2Error::Unsupported) for a
    /// data shard, which has no manifest, and for shards without `beside`.
    pub fn new(bytes: FileBytes, place: &str, beside: Option<Beside<'_>>) -> Result<Self, ZTensor2Error> {
        let Some((footer, blobs_end)) = footer::read(&bytes)? else {
            let problem = "it is a data shard: bytes of tensors that the manifest of another file describes";
            return Err(ZTensor2Error::Unsupported { section: "6.2", problem: problem.to_owned() });
        };
        let range = footer.manifest();
        let n_bytes = range.end - range.start;
        // Copies the manifest, because a mapped file may change after the text was validated.
        let mut cbor = Vec::new();
        let memory = |_| ZTensor2Error::Memory { at: "the manifest".to_owned(), n_bytes };
        cbor.try_reserve_exact(n_bytes as usize).map_err(memory)?;
        cbor.resize(n_bytes as usize, 0);
        bytes.read_into(range.start, &mut cbor)?;
        let (found, expected) = (xxh3(&cbor), footer.hash());
        if found != expected {
            let problem =
                format!("the manifest has the XXH3 {found:016x}, expected {expected:016x} as the footer states");
            return Err(malformed("1.2", range.start, problem));
        }
        let manifest = Arc::new(Manifest::parse(cbor, range.start, blobs_end)?);
        let shards = Arc::new(Shards::open(&manifest, place, beside)?);
        Ok(Self { bytes, manifest, shards, checks: Checks::default() })
    }

    /// Sets the checks for everything that is read as a tensor from now on. Bools are always checked (§3.3).
    #[must_use]
    pub fn checking(self, checks: Checks) -> Self {
        Self { checks, ..self }
    }

    /// The checks for everything that is read.
    #[must_use]
    pub fn checks(&self) -> Checks {
        self.checks
    }

    /// The manifest of the file.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The bytes of the file itself, without its shards.
    #[must_use]
    pub fn bytes(&self) -> &FileBytes {
        &self.bytes
    }

    /// The names of the files of the shards.
    pub fn shard_files(&self) -> impl Iterator<Item = &str> {
        self.shards.files()
    }

    pub(super) fn shards(&self) -> &Shards {
        &self.shards
    }

    /// The objects, sorted by name.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = Object<'_>> + DoubleEndedIterator {
        self.manifest.objects()
    }

    /// Returns the object of this name.
    ///
    /// # Errors
    /// [`NoSuchObject`](ZTensor2Error::NoSuchObject).
    pub fn object(&self, name: &str) -> Result<Object<'_>, ZTensor2Error> {
        self.manifest.object(name).ok_or_else(|| ZTensor2Error::NoSuchObject { name: Name::new(name) })
    }

    /// The file that has the bytes of a part.
    pub(super) fn file_of(&self, part: &Part<'_>) -> Result<&FileBytes, ZTensor2Error> {
        let Some(shard) = part.shard() else { return Ok(&self.bytes) };
        let missing = || io::Error::new(io::ErrorKind::NotFound, "the file of a shard is not open");
        Ok(self.shards.bytes(shard).ok_or_else(missing)?)
    }

    /// Where a file holds exactly the bytes of a part. `None` if they are encoded, or must be checked when they are read.
    #[must_use]
    pub fn location(&self, part: &Part<'_>) -> Option<(&FileBytes, Range<u64>)> {
        let is_plain = part.encoding().is_none() && part.element_type().is_some_and(|dtype| dtype != ElementType::Bool);
        is_plain.then(|| Some((self.file_of(part).ok()?, part.stored())))?
    }

    /// Reads an object as a tensor. Sparse ones become dense, of at most `max_dense` bytes.
    ///
    /// # Errors
    /// [`Unsupported`](ZTensor2Error::Unsupported) for an object that is [not readable](Object::unreadable), the rules of sections 5.2 and
    /// 5.3, and those of [`read_part`](Self::read_part).
    pub fn read(&self, object: &Object<'_>, max_dense: u64) -> Result<RawTensor, ZTensor2Error> {
        check_readable(object)?;
        match object.layout() {
            Layout::SparseCsr => sparse::csr(self, object, max_dense),
            Layout::SparseCoo => sparse::coo(self, object, max_dense),
            Layout::Dense | Layout::Other(_) => match object.part("data") {
                Some(data) => self.tensor(&data, object.shape().to_vec()),
                None => Err(ZTensor2Error::NoSuchObject { name: Name::new(object.name()) }),
            },
        }
    }

    /// Reads a part whose type is known as a tensor of this shape.
    pub(super) fn tensor(&self, part: &Part<'_>, shape: Vec<usize>) -> Result<RawTensor, ZTensor2Error> {
        let bytes = self.read_part(part, self.checks)?;
        let dtype = part.element_type().unwrap_or(part.dtype());
        let failed = |source| ZTensor2Error::Tensor { name: Name::new(part.object().name()), source };
        RawTensor::new(dtype, shape, bytes).map_err(failed)
    }

    /// Reads the decoded bytes of a part of this file.
    ///
    /// # Errors
    /// [`Io`](ZTensor2Error::Io), [`Memory`](ZTensor2Error::Memory), [`Unsupported`](ZTensor2Error::Unsupported) for an encoding that is
    /// not known, the rules of sections 3.3 and 4.2. If digests are checked, [`DigestMismatch`](ZTensor2Error::DigestMismatch).
    pub fn read_part(&self, part: &Part<'_>, checks: Checks) -> Result<SharedBytes, ZTensor2Error> {
        if part.encoding().is_none() {
            let bytes = self.file_of(part)?.read(part.stored())?;
            if checks.digests
                && let Some(digest) = part.digest()?
                && !digest.is_of(&bytes)
            {
                let mut hasher = Hasher::like(&digest);
                hasher.update(&bytes);
                compare(part, digest, hasher.finish())?;
            }
            content::check(part, &bytes, 0)?;
            return Ok(bytes);
        }
        let mut whole = Growing::new(part)?;
        let mut failed = Ok(());
        self.visit_part(part, checks, PIECE, &mut |piece| {
            failed = whole.push(piece);
            if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        failed?;
        whole.finish()
    }

    /// Passes the decoded bytes of a part of this file to `visit`, in pieces of `n_bytes`, until it wants no more. One piece is in memory at a
    /// time, and a frame of at most 16 MiB where they are compressed. What `visit` got is only what the file has if no error follows.
    ///
    /// # Errors
    /// As [`read_part`](Self::read_part).
    pub fn visit_part(
        &self,
        part: &Part<'_>,
        checks: Checks,
        n_bytes: usize,
        visit: Visit<'_>,
    ) -> Result<(), ZTensor2Error> {
        let digest = if checks.digests { part.digest()? } else { None };
        let mut hasher = digest.as_ref().map(Hasher::like);
        let (mut position, mut bad) = (0, None);
        let mut pieces = Pieces::new(n_bytes, visit);
        self.decode(part, n_bytes, &mut |bytes| {
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
            if bad.is_none() {
                bad = content::check(part, bytes, position).err();
            }
            position += bytes.len() as u64;
            match (&bad, &hasher) {
                (None, _) => pieces.push(bytes),
                // Damaged bytes may break a rule too. That they are damaged is the better answer.
                (Some(_), Some(_)) => ControlFlow::Continue(()),
                (Some(_), None) => ControlFlow::Break(()),
            }
        })?;
        if bad.is_none() {
            pieces.finish();
        }
        if pieces.is_over() {
            return Ok(());
        }
        if let (Some(digest), Some(hasher)) = (digest, hasher) {
            compare(part, digest, hasher.finish())?;
        }
        bad.map_or(Ok(()), Err)
    }

    /// Passes the decoded bytes of a part to `visit`, in pieces of `n_bytes` if they are raw, and else by frames.
    pub(super) fn decode(&self, part: &Part<'_>, n_bytes: usize, visit: Visit<'_>) -> Result<(), ZTensor2Error> {
        let (file, range) = (self.file_of(part)?, part.stored());
        if let Some(unknown) = part.unknown_encoding() {
            let problem = format!("{} has the encoding {}, which is not known", part.place(), Name::new(unknown));
            return Err(ZTensor2Error::Unsupported { section: "4.1", problem });
        }
        if part.encoding().is_some() {
            return Encoded { bytes: file, range, decoded: part.decoded_length(), place: part.place() }.visit(visit);
        }
        Ok(visit_range(file, range, n_bytes.max(1), visit)?)
    }
}

fn check_readable(object: &Object<'_>) -> Result<(), ZTensor2Error> {
    let Some(what) = object.unreadable() else { return Ok(()) };
    Err(ZTensor2Error::Unsupported {
        section: "5.4",
        problem: format!("object {} is {what}", Name::new(object.name())),
    })
}

pub(super) fn compare(part: &Part<'_>, expected: Digest, found: Digest) -> Result<(), ZTensor2Error> {
    if found == expected {
        return Ok(());
    }
    let (expected, found) = (expected.to_string(), found.to_string());
    Err(ZTensor2Error::DigestMismatch { section: "4.3", at: part.place(), expected, found })
}
