//! Where the bytes of a carton's files come from. They are not verified here.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::progress::{Meter, silent};
use super::tree::DESCRIBING;
use super::{Contents, ContentsError, Item, Place};
use crate::archive::{Archive, ArchiveError, Entry, EntryReader, Method};
use crate::cache::{Moment, SHARED_FROM, open_following, open_regular};
use crate::digest::Sha256Digest;
use crate::source::FileIdentity;

/// Bytes are handed on in pieces of this size.
pub(super) const CHUNK_LENGTH: usize = 256 * 1024;

/// What was opened.
pub(super) enum Origin {
    Archive {
        archive: Archive,
        /// When it was opened, before any byte of it was read: from then on a change of the file shows, or it does not.
        opened_at: Option<Moment>,
    },
    /// An unpacked carton: paths are those of the carton.
    Folder(PathBuf),
    /// A model that is not in a carton. Its items are called `model/…`; the file at `model/x` is `root/x`.
    BareFolder(PathBuf),
    /// A model of one file.
    BareFile(PathBuf),
}

impl Origin {
    pub(super) fn location(&self) -> String {
        match self {
            Self::Archive { archive, .. } => archive.source().location().to_owned(),
            Self::Folder(path) | Self::BareFolder(path) | Self::BareFile(path) => path.display().to_string(),
        }
    }

    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(path) | Self::BareFolder(path) => Some(path),
            Self::Archive { .. } | Self::BareFile(_) => None,
        }
    }

    /// The file or folder that it was opened from, unless that is the file `whole` of the cache.
    pub(super) fn local_path(&self, whole: Option<Sha256Digest>) -> Option<PathBuf> {
        let path = match self {
            Self::Archive { archive, .. } if archive.source().file().is_some() && whole.is_none() => {
                Path::new(archive.source().location())
            }
            Self::Archive { .. } => return None,
            Self::Folder(path) | Self::BareFolder(path) | Self::BareFile(path) => path,
        };
        std::path::absolute(path).ok()
    }

    /// How many bytes an entry takes in the archive.
    pub(super) fn stored_size(&self, entry: usize) -> Option<u64> {
        match self {
            Self::Archive { archive, .. } => archive.entries().get(entry).map(Entry::compressed_size),
            _ => None,
        }
    }

    /// How an entry's data is stored in the archive.
    pub(super) fn method(&self, entry: usize) -> Option<Method> {
        match self {
            Self::Archive { archive, .. } => archive.entries().get(entry).map(Entry::method),
            _ => None,
        }
    }

    /// Where an item of an unpacked carton or a bare model is in the file system.
    pub(super) fn path_of(&self, item: &Item) -> Option<PathBuf> {
        match self {
            Self::Archive { .. } => None,
            Self::Folder(root) => Some(root.join(&item.path)),
            Self::BareFolder(root) => Some(root.join(super::tree::model_path(&item.path)?)),
            Self::BareFile(path) => Some(path.clone()),
        }
    }
}

/// The unverified bytes of one file.
pub(super) enum RawReader<'a> {
    Entry { reader: EntryReader, path: &'a str },
    File { file: File, path: PathBuf, offset: u64 },
    Bytes { bytes: Vec<u8>, offset: usize },
}

impl RawReader<'_> {
    /// Reads up to the buffer's length; 0 at the end. The archive's own checks are made when the end is reached.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ContentsError> {
        loop {
            let result = match self {
                Self::Entry { reader, .. } => std::io::Read::read(reader, buffer),
                Self::File { file, offset, .. } => file.read_at(buffer, *offset),
                Self::Bytes { bytes, offset } => {
                    let rest = &bytes[*offset..];
                    let n_bytes = rest.len().min(buffer.len());
                    buffer[..n_bytes].copy_from_slice(&rest[..n_bytes]);
                    *offset += n_bytes;
                    return Ok(n_bytes);
                }
            };
            match (result, &mut *self) {
                (Ok(n_bytes), Self::File { offset, .. }) => {
                    *offset += n_bytes as u64;
                    return Ok(n_bytes);
                }
                (Ok(n_bytes), Self::Entry { .. } | Self::Bytes { .. }) => return Ok(n_bytes),
                (Err(error), _) if error.kind() == std::io::ErrorKind::Interrupted => {}
                (Err(error), Self::File { path, .. }) => return Err(ContentsError::io("read", path)(error)),
                // Reading from memory does not fail.
                (Err(_), Self::Bytes { .. }) => return Ok(0),
                (Err(error), Self::Entry { path, .. }) => {
                    return Err(ContentsError::archive(path)(ArchiveError::from_read(error, path)));
                }
            }
        }
    }
}

/// Opens an item of an unpacked carton or a bare model, which is where it was when the folder was listed.
pub(super) fn open_item(origin: &Origin, item: &Item) -> Result<(File, PathBuf, FileIdentity), ContentsError> {
    let path = origin.path_of(item).ok_or_else(|| ContentsError::NoSuchFile { path: item.path.clone() })?;
    // Nothing is promised about a bare model, and links may lead anywhere.
    let follow = matches!(origin, Origin::BareFolder(_));
    let opened = if follow { open_following(&path)? } else { open_regular(&path)? };
    match opened {
        Some((file, identity)) => Ok((file, path, identity)),
        None => Err(ContentsError::Changed { location: path.display().to_string() }),
    }
}

impl Contents {
    /// The unverified bytes of an item that is not a symbolic link.
    pub(super) fn raw_reader(&self, index: usize) -> Result<RawReader<'_>, ContentsError> {
        let item = &self.items[index];
        if self.is_elsewhere(index) {
            return self.elsewhere_reader(index);
        }
        match (&item.place, &self.origin) {
            (Place::Here { entry, .. }, Origin::Archive { archive, .. }) => {
                let entry = archive
                    .entries()
                    .get(*entry)
                    .ok_or_else(|| ContentsError::NoSuchFile { path: item.path.clone() })?;
                let reader = archive.reader(entry).map_err(ContentsError::archive(&item.path))?;
                Ok(RawReader::Entry { reader, path: &item.path })
            }
            (Place::Here { .. }, origin) => {
                let (file, path, _) = open_item(origin, item)?;
                Ok(RawReader::File { file, path, offset: 0 })
            }
            (Place::Linked, _) => self.elsewhere_reader(index),
            (Place::Symlink { leads_to, .. }, _) => self.raw_reader(*leads_to),
        }
    }

    /// The bytes of an item that is elsewhere: from the cache, into which it is fetched first if need be.
    pub(super) fn elsewhere_reader(&self, index: usize) -> Result<RawReader<'_>, ContentsError> {
        if let Some(reader) = self.cached_reader(index)? {
            return Ok(reader);
        }
        if let Some(reader) = self.known_reader(index)? {
            return Ok(reader);
        }
        self.fetch_items(&[index], &Meter::new(0, &silent))?;
        let item = &self.items[index];
        let not_fetched = |digest| ContentsError::NotFetched { path: item.path.clone(), digest };
        let no_such_file = || ContentsError::NoSuchFile { path: item.path.clone() };
        self.cached_reader(index)?.ok_or_else(|| item.digest.map_or_else(no_such_file, not_fetched))
    }

    /// Where the cache has the file of an item that is elsewhere; it is fetched there if need be.
    pub(super) fn fetched(&self, index: usize) -> Result<PathBuf, ContentsError> {
        self.fetch_items(&[index], &Meter::new(0, &silent))?;
        let item = &self.items[index];
        let found = self.cache.as_ref().zip(item.digest).map(|(cache, digest)| cache.file_path(&digest));
        let found = found.ok_or_else(|| ContentsError::NoSuchFile { path: item.path.clone() })?;
        self.check_stated(&[index], &|_| Some(found.clone()), &Meter::new(0, &silent))?;
        Ok(found)
    }

    /// The bytes of an item that the cache has. One that is damaged there is deleted, and is then not there.
    fn cached_reader(&self, index: usize) -> Result<Option<RawReader<'_>>, ContentsError> {
        let (Some(cache), Some(digest)) = (&self.cache, self.items[index].digest) else { return Ok(None) };
        if self.is_small(index) {
            let Some(bytes) = cache.read_small(&digest, SHARED_FROM)? else { return Ok(None) };
            self.check_stated_of(index, &bytes)?;
            return Ok(Some(RawReader::Bytes { bytes, offset: 0 }));
        }
        let Some(file) = cache.file(&digest)? else { return Ok(None) };
        let path = cache.file_path(&digest);
        self.check_stated(&[index], &|_| Some(path.clone()), &Meter::new(0, &silent))?;
        Ok(Some(RawReader::File { file, path, offset: 0 }))
    }

    /// The bytes of an item that were read when the remote archive was opened: those of its metadata.
    fn known_reader(&self, index: usize) -> Result<Option<RawReader<'_>>, ContentsError> {
        let Item { path, place, .. } = &self.items[index];
        let (Place::Here { entry, .. }, Origin::Archive { archive, .. }) = (place, &self.origin) else {
            return Ok(None);
        };
        let (Some(entry), Some(remote)) = (archive.entries().get(*entry), archive.source().remote()) else {
            return Ok(None);
        };
        // What describes the carton is read through the source, so that it is known the next time.
        let describes = DESCRIBING.iter().any(|(name, _)| name == path);
        if !describes && !remote.holds(&archive.window(entry)) {
            return Ok(None);
        }
        let reader = archive.reader(entry).map_err(ContentsError::archive(path))?;
        Ok(Some(RawReader::Entry { reader, path }))
    }

    /// Hands on all unverified bytes of an item, in order.
    pub(super) fn feed(
        &self,
        index: usize,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), ContentsError>,
    ) -> Result<(), ContentsError> {
        self.pump(index, self.raw_reader(index)?, sink)
    }

    /// As [`feed`](Self::feed), for whoever holds the lock of this file in the cache: it is not fetched, because that would wait
    /// for the same lock. Small files have none.
    pub(super) fn feed_locked(
        &self,
        index: usize,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), ContentsError>,
    ) -> Result<(), ContentsError> {
        let item = &self.items[index];
        let reader = match (self.is_elsewhere(index) && !self.is_small(index), item.digest) {
            (true, Some(digest)) => {
                let gone = || ContentsError::NotFetched { path: item.path.clone(), digest };
                self.cached_reader(index)?.ok_or_else(gone)?
            }
            _ => self.raw_reader(index)?,
        };
        self.pump(index, reader, sink)
    }

    fn pump(
        &self,
        index: usize,
        mut reader: RawReader<'_>,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), ContentsError>,
    ) -> Result<(), ContentsError> {
        // One byte more than a short file has, so that the same read can meet its end.
        let length = self.size(index).and_then(|size| usize::try_from(size).ok()).unwrap_or(CHUNK_LENGTH);
        let mut chunk = vec![0; length.saturating_add(1).min(CHUNK_LENGTH)];
        loop {
            match reader.read(&mut chunk)? {
                0 => return Ok(()),
                n_bytes => sink(&chunk[..n_bytes])?,
            }
        }
    }
}
