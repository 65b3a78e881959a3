//! Reads the bytes of a file from where `Locator::locate` finds them. They are not verified here.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use carton_format::archive::{ArchiveError, EntryReader};
use carton_format::context::Context;
use carton_format::digest::Sha256Digest;
use carton_format::source::FileIdentity;
use carton_network::remote_source::RemoteSource;

use super::locate::{Archived, Located};
use super::tree::{DESCRIBING, Item};
use super::{Contents, ContentsError};
use crate::cache::{SHARED_FROM, open_regular};

/// The number of bytes that are passed on at a time.
pub(super) const CHUNK_LENGTH: usize = 256 * 1024;

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

/// Opens a file of an unpacked carton, which is a regular file as when the folder was listed.
pub(super) fn open_in_folder(root: &Path, item: &Item) -> Result<(File, PathBuf, FileIdentity), ContentsError> {
    let path = root.join(&item.path);
    still_there(open_regular(&path)?, path)
}

/// Opens a file of a model that is not in a carton. Its path has no links: they were followed when the model was opened.
pub(super) fn open_bare(path: &Path) -> Result<(File, PathBuf, FileIdentity), ContentsError> {
    still_there(open_regular(path)?, path.to_path_buf())
}

fn still_there(
    opened: Option<(File, FileIdentity)>,
    path: PathBuf,
) -> Result<(File, PathBuf, FileIdentity), ContentsError> {
    match opened {
        Some((file, identity)) => Ok((file, path, identity)),
        None => Err(ContentsError::Changed { location: path.display().to_string() }),
    }
}

impl<'a> Archived<'a> {
    fn reader(&self) -> Result<RawReader<'a>, ContentsError> {
        let path = &self.item.path;
        let reader = self.archive.reader(self.entry).map_err(ContentsError::archive(path))?;
        Ok(RawReader::Entry { reader, path })
    }

    /// Whether the bytes were read when the remote archive was opened: those of its metadata.
    fn is_known(&self, remote: &RemoteSource) -> bool {
        // The metadata is read through the source, which remembers it.
        let describes = DESCRIBING.iter().any(|(name, _)| *name == self.item.path);
        describes || remote.holds(&self.archive.window(self.entry))
    }

    /// Where the bytes are in the archive as they are, if that is a local file.
    pub(super) fn stored_range(&self) -> Result<Option<Range<u64>>, ContentsError> {
        match self.archive.source().file() {
            Some(_) => self.archive.stored_range(self.entry).map_err(ContentsError::archive(&self.item.path)),
            None => Ok(None),
        }
    }
}

impl Contents {
    /// The unverified bytes of an item. Fetches a remote item into the cache first.
    pub(super) fn raw_reader<'a>(&'a self, item: &'a Item, context: &Context) -> Result<RawReader<'a>, ContentsError> {
        let located = self.locator.locate(item);
        if let Some(digest) = located.elsewhere()
            && let Some(reader) = self.cached_reader(item, digest, context)?
        {
            return Ok(reader);
        }
        let (file, path, _) = match located {
            Located::Local(file) => return file.reader(),
            Located::Remote { file, remote } if file.is_known(remote) => return file.reader(),
            Located::Remote { file: Archived { digest, .. }, .. } | Located::Linked { digest } => {
                self.fetch_items(&[item], context)?;
                let not_fetched = || ContentsError::NotFetched { path: item.path.clone(), digest };
                return self.cached_reader(item, digest, context)?.ok_or_else(not_fetched);
            }
            Located::Folder { root, .. } => open_in_folder(root, self.tree().follow(item))?,
            Located::Bare { path, .. } => open_bare(path)?,
        };
        Ok(RawReader::File { file, path, offset: 0 })
    }

    /// The path in the cache of an item that is elsewhere. Fetches the item first if it is missing there.
    pub(super) fn fetched(
        &self,
        item: &Item,
        digest: Sha256Digest,
        context: &Context,
    ) -> Result<PathBuf, ContentsError> {
        self.fetch_items(&[item], context)?;
        let not_fetched = || ContentsError::NotFetched { path: item.path.clone(), digest };
        let found = self.locator.cache().ok_or_else(not_fetched)?.files().path(&digest);
        self.check_stated(&[item], &|_| Some(found.clone()), context)?;
        Ok(found)
    }

    /// The bytes of an item in the cache. Deletes a damaged cache file and returns `None`.
    fn cached_reader(
        &self,
        item: &Item,
        digest: Sha256Digest,
        context: &Context,
    ) -> Result<Option<RawReader<'_>>, ContentsError> {
        let Some(cache) = self.locator.cache() else { return Ok(None) };
        if self.locator.is_small(item) {
            let Some(bytes) = cache.files().read_small(&digest, SHARED_FROM)? else { return Ok(None) };
            self.check_stated_of(item, &bytes, context)?;
            return Ok(Some(RawReader::Bytes { bytes, offset: 0 }));
        }
        let Some(file) = cache.files().checked(&digest, context.cancel_token())? else { return Ok(None) };
        let path = cache.files().path(&digest);
        self.check_stated(&[item], &|_| Some(path.clone()), context)?;
        Ok(Some(RawReader::File { file, path, offset: 0 }))
    }

    /// Hands on all unverified bytes of an item, in order.
    pub(super) fn feed(
        &self,
        item: &Item,
        context: &Context,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), ContentsError>,
    ) -> Result<(), ContentsError> {
        self.pump(item, self.raw_reader(item, context)?, context, sink)
    }

    /// As [`feed`](Self::feed), for a caller that holds the lock of this file in the cache: it is not fetched, because that would wait
    /// for the same lock. Small files have none.
    pub(super) fn feed_locked(
        &self,
        item: &Item,
        context: &Context,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), ContentsError>,
    ) -> Result<(), ContentsError> {
        let reader = match self.locator.locate(item).elsewhere() {
            Some(digest) if !self.locator.is_small(item) => {
                let gone = || ContentsError::NotFetched { path: item.path.clone(), digest };
                self.cached_reader(item, digest, context)?.ok_or_else(gone)?
            }
            _ => self.raw_reader(item, context)?,
        };
        self.pump(item, reader, context, sink)
    }

    fn pump(
        &self,
        item: &Item,
        mut reader: RawReader<'_>,
        context: &Context,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), ContentsError>,
    ) -> Result<(), ContentsError> {
        // One byte more than a short file has, so that the same read can meet its end.
        let length = self.locator.size(item).and_then(|size| usize::try_from(size).ok()).unwrap_or(CHUNK_LENGTH);
        let mut chunk = vec![0; length.saturating_add(1).min(CHUNK_LENGTH)];
        loop {
            match reader.read(&mut chunk)? {
                0 => return Ok(()),
                n_bytes => sink(&chunk[..n_bytes])?,
            }
            context.check()?;
        }
    }
}
