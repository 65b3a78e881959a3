//! Files that are in a carton on a server.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use carton_format::archive::{Archive, Method};
use carton_format::digest::{Hasher, Sha256Digest};
use carton_format::error_kind::ErrorKind;
use carton_format::progress::Stage;
use carton_format::source::Nearby;
use carton_network::download::{Download, Target};
use carton_network::remote_source::RemoteSource;

use super::plan::Candidate;
use super::settle::{DECODED, settle};
use super::{Failure, Fetch};
use crate::cache::{Cache, CacheError, Checksum, FileLock, SHARED_FROM};
use crate::contents::ContentsError;
use crate::contents::locate::Archived;
use crate::contents::raw_reader::CHUNK_LENGTH;
use crate::error::Failure as _;
use crate::fetch_verified::Unverified;

/// Verified small files that are not yet in the cache. They can be many times larger than their compressed bytes.
pub(super) struct Small<'a> {
    cache: &'a Cache,
    files: Vec<(Sha256Digest, Vec<u8>)>,
    n_bytes: usize,
}

impl<'a> Small<'a> {
    pub(super) fn new(cache: &'a Cache) -> Self {
        Self { cache, files: Vec::new(), n_bytes: 0 }
    }

    fn add(&mut self, digest: Sha256Digest, bytes: Vec<u8>) -> Result<(), CacheError> {
        const ENOUGH: usize = 8 << 20;
        self.n_bytes += bytes.len();
        self.files.push((digest, bytes));
        if self.n_bytes >= ENOUGH { self.store() } else { Ok(()) }
    }

    /// Writes those that were not written yet.
    pub(super) fn store(&mut self) -> Result<(), CacheError> {
        let files: Vec<(Sha256Digest, &[u8])> =
            self.files.iter().map(|(digest, bytes)| (*digest, bytes.as_slice())).collect();
        self.cache.files().insert_small(&files)?;
        self.files.clear();
        self.n_bytes = 0;
        Ok(())
    }
}

/// A download of these bytes of a carton, in the version that was opened.
fn target<'a>(remote: &'a RemoteSource, range: &Range<u64>, folder: &'a Path) -> Target<'a> {
    Target {
        url: remote.url(),
        version: Some(remote.version()),
        range: Some(range.clone()),
        folder,
        accept_encoded: false,
        limit: range.end - range.start,
    }
}

impl<'a> Fetch<'a> {
    /// Small files that lie beside each other.
    pub(super) fn span(
        &self,
        remote: &RemoteSource,
        window: &Range<u64>,
        files: &[Candidate<Archived<'a>>],
    ) -> Vec<Failure<'a>> {
        let result = || {
            let lock = self.cache.files().lock(&span_key(files), self.context.cancel_token())?;
            // Another process may have fetched some of them meanwhile.
            let is_missing = |candidate: &&Candidate<Archived<'a>>| !self.cache.files().has(&candidate.file.digest);
            let missing: Vec<_> = files.iter().filter(is_missing).collect();
            match missing.first() {
                Some(first) => self.missing_of_span(&lock, remote, first.file.archive, window, &missing),
                None => Ok(lock.discard().map(|()| Vec::new())?),
            }
        };
        // One message is enough: it is about the request, and so about all files.
        result()
            .unwrap_or_else(|error| files.first().map(|candidate| (candidate.file.item, error)).into_iter().collect())
    }

    /// Fetches files by one download, and returns those that failed.
    fn missing_of_span(
        &self,
        lock: &FileLock<'_>,
        remote: &RemoteSource,
        archive: &Archive,
        window: &Range<u64>,
        missing: &[&Candidate<Archived<'a>>],
    ) -> Result<Vec<Failure<'a>>, ContentsError> {
        let needed = missing.iter().fold(window.end..window.start, |needed, file| {
            needed.start.min(file.window.start)..needed.end.max(file.window.end)
        });
        if remote.holds(&needed) {
            // The bytes arrived with the metadata.
            return self.keep_all(archive, missing);
        }
        let folder = lock.download_folder()?;
        let has_earlier_bytes = Download::has_begun(&folder);
        // The earlier attempt requested the whole window; resuming needs the same range.
        let range = if has_earlier_bytes { window } else { &needed };
        let attempt = || {
            let target = target(remote, range, &folder);
            let download = Download::start(&self.access.network, &target, &self.activity)?;
            let nearby = Nearby::new(archive.source().clone(), range.clone(), download.source());
            self.keep_all(&archive.with_source(Arc::new(nearby)), missing)
        };
        let is_wrong =
            |failures: &[Failure<'_>]| failures.iter().any(|(_, error)| error.kind() == ErrorKind::Integrity);
        let mut failures = attempt()?;
        if has_earlier_bytes && is_wrong(&failures) {
            tracing::warn!("what an earlier download left is damaged; it is fetched again");
            lock.discard()?;
            lock.download_folder()?;
            failures = attempt()?;
        }
        // Keeps partial data for the next attempt.
        if failures.is_empty() || is_wrong(&failures) {
            lock.discard()?;
        }
        Ok(failures)
    }

    /// Puts files of an archive whose bytes are local into the cache, and returns those that failed.
    fn keep_all(
        &self,
        archive: &Archive,
        files: &[&Candidate<Archived<'a>>],
    ) -> Result<Vec<Failure<'a>>, ContentsError> {
        let mut failures = Vec::new();
        let mut small = Small::new(self.cache);
        for Candidate { file, .. } in files {
            if let Err(error) = self.keep(archive, file, &mut small) {
                failures.push((file.item, error));
            }
        }
        small.store()?;
        Ok(failures)
    }

    /// Puts a file of an archive into the cache, or into `small` if it is small. `archive` is the same archive with its
    /// bytes local.
    pub(super) fn keep(
        &self,
        archive: &Archive,
        file: &Archived<'_>,
        small: &mut Small<'_>,
    ) -> Result<(), ContentsError> {
        let Archived { item, entry, digest, .. } = *file;
        let path = &item.path;
        let mut reader = archive.reader(entry).map_err(ContentsError::archive(path))?;
        if entry.size() < SHARED_FROM {
            let mut bytes = Vec::with_capacity(usize::try_from(entry.size()).unwrap_or(0));
            reader.read_to_end(&mut bytes).map_err(|error| ContentsError::from_fetch(error, path))?;
            let found = Sha256Digest::of(&bytes);
            if found != digest {
                return Err(ContentsError::Digest { path: path.clone(), expected: digest, found });
            }
            self.checksums.note_proven(self.locator, [item]);
            return Ok(small.add(digest, bytes)?);
        }
        let mut was_read = false;
        self.cache.files().obtain::<ContentsError>(
            &digest,
            path,
            &mut |sink| {
                was_read = true;
                let mut chunk = vec![0; CHUNK_LENGTH];
                loop {
                    match reader.read(&mut chunk).map_err(|error| ContentsError::from_fetch(error, path))? {
                        0 => return Ok(()),
                        n_bytes => sink(&chunk[..n_bytes])?,
                    }
                    self.context.check()?;
                }
            },
            &self.context.meter(Stage::Fetch, entry.size()),
        )?;
        self.checksums.note_proven(self.locator, was_read.then_some(item));
        Ok(())
    }

    /// A file that is downloaded by itself.
    pub(super) fn large(
        &self,
        remote: &RemoteSource,
        candidate: &Candidate<Archived<'_>>,
    ) -> Result<(), ContentsError> {
        let Archived { item, archive, entry, digest } = candidate.file;
        let path = &item.path;
        let lock = self.cache.files().lock(&digest, self.context.cancel_token())?;
        if lock.file(self.context.cancel_token())?.is_some() {
            return Ok(());
        }
        let (range, is_stored) = match entry.method() {
            Method::Stored => {
                let range = archive.stored_range(entry).map_err(ContentsError::archive(path))?;
                (range.unwrap_or_else(|| candidate.window.clone()), true)
            }
            _ => (candidate.window.clone(), false),
        };
        settle(&lock, path, |folder| {
            let target = target(remote, &range, folder);
            let download = Download::start(&self.access.network, &target, &self.activity)?;
            if is_stored {
                let mut crc32 = crc32fast::Hasher::new();
                let mut size = 0;
                let found = self.consume(&mut download.reader(), path, &mut |chunk| {
                    crc32.update(chunk);
                    size += chunk.len() as u64;
                    Ok(())
                })?;
                let (expected, stated) =
                    (Checksum { crc32: crc32.finalize(), size }, Checksum { crc32: entry.crc32(), size: entry.size() });
                // A reader of the archive would refuse it too.
                if found == digest && expected != stated {
                    return Err(ContentsError::Checksum { path: path.clone(), expected, found: stated });
                }
                return Ok(Unverified { digest: found, file: download.path() });
            }
            let near = archive.with_source(download.source());
            let mut reader = near.reader(entry).map_err(ContentsError::archive(path))?;
            let file = folder.join(DECODED);
            Ok(Unverified { digest: self.write(&mut reader, &file, path)?, file })
        })?;
        self.checksums.note_proven(self.locator, [item]);
        Ok(())
    }
}

/// The lock of several files: the same in every process that wants the same ones.
fn span_key(files: &[Candidate<Archived<'_>>]) -> Sha256Digest {
    let mut hasher = Hasher::new();
    for candidate in files {
        hasher.update(candidate.file.digest.as_bytes());
    }
    hasher.finish()
}
