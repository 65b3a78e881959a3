//! Files that are in a carton on a server.

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::Fetch;
use super::plan::Candidate;
use super::settle::{DECODED, settle};
use crate::archive::{Archive, Entry, Method};
use crate::cache::{Cache, CacheError, Checksum, FileLock, SHARED_FROM};
use crate::contents::origin::CHUNK_LENGTH;
use crate::contents::{ContentsError, ErrorKind, Place};
use crate::digest::{Hasher, Sha256Digest};
use crate::download::{Download, Target};
use crate::fetch_verified::Unverified;
use crate::source::{Nearby, RemoteSource};

/// Verified small files on their way into the cache. They can be many times as large as what they were compressed to.
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
        self.cache.insert_small(&files)?;
        self.files.clear();
        self.n_bytes = 0;
        Ok(())
    }
}

/// These bytes of a carton, in the version that it was opened in.
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

impl Fetch<'_> {
    /// Small files that lie beside each other.
    pub(super) fn span(&self, window: &Range<u64>, files: &[Candidate]) -> Vec<(usize, ContentsError)> {
        let all = |error: ContentsError| {
            // One message is enough: it is about the request, and so about all files.
            files.first().map(|file| (file.item, error)).into_iter().collect()
        };
        let lock = match self.cache.lock_file::<ContentsError>(&self.span_key(files), &|| self.checkpoint()) {
            Ok(lock) => lock,
            Err(error) => return all(error),
        };
        // Another process may have fetched some of them meanwhile.
        let is_missing = |file: &&Candidate| {
            self.contents.items[file.item].digest.is_some_and(|digest| !self.cache.has_file(&digest))
        };
        let missing: Vec<&Candidate> = files.iter().filter(is_missing).collect();
        if missing.is_empty() {
            return lock.discard().map_or_else(|error| all(error.into()), |()| Vec::new());
        }
        self.missing_of_span(&lock, window, &missing).unwrap_or_else(all)
    }

    /// Fetches files by one download, and returns those that failed.
    fn missing_of_span(
        &self,
        lock: &FileLock<'_>,
        window: &Range<u64>,
        missing: &[&Candidate],
    ) -> Result<Vec<(usize, ContentsError)>, ContentsError> {
        let archive = self.archive()?;
        let remote = self.remote(archive)?;
        let needed = missing.iter().fold(window.end..window.start, |needed, file| {
            needed.start.min(file.window.start)..needed.end.max(file.window.end)
        });
        if remote.holds(&needed) {
            // They came with the metadata.
            return self.keep_all(archive, missing);
        }
        let folder = lock.download_folder()?;
        let has_earlier_bytes = Download::has_begun(&folder);
        // An earlier attempt was at all of it.
        let range = if has_earlier_bytes { window } else { &needed };
        let attempt = || {
            let target = target(remote, range, &folder);
            let download = Download::start(&self.access.network, &target, &self.activity)?;
            let nearby = Nearby::new(archive.source().clone(), range.clone(), download.source());
            self.keep_all(&archive.with_source(Arc::new(nearby)), missing)
        };
        let is_wrong = |failures: &[(usize, ContentsError)]| {
            failures.iter().any(|(_, error)| error.kind() == ErrorKind::Integrity)
        };
        let mut failures = attempt()?;
        if has_earlier_bytes && is_wrong(&failures) {
            tracing::warn!("what an earlier download left is damaged; it is fetched again");
            lock.discard()?;
            lock.download_folder()?;
            failures = attempt()?;
        }
        // What is there of it may be gone on with, unless it is complete or wrong.
        if failures.is_empty() || is_wrong(&failures) {
            lock.discard()?;
        }
        Ok(failures)
    }

    /// Puts files of an archive that is near into the cache, and returns those that failed.
    fn keep_all(&self, archive: &Archive, files: &[&Candidate]) -> Result<Vec<(usize, ContentsError)>, ContentsError> {
        let mut failures = Vec::new();
        let mut small = Small::new(self.cache);
        for file in files {
            if let Err(error) = self.keep(archive, file.item, &mut small) {
                failures.push((file.item, error));
            }
        }
        small.store()?;
        Ok(failures)
    }

    /// The lock of several files: the same in every process that wants the same ones.
    fn span_key(&self, files: &[Candidate]) -> Sha256Digest {
        let mut hasher = Hasher::new();
        for digest in files.iter().filter_map(|file| self.contents.items[file.item].digest) {
            hasher.update(digest.as_bytes());
        }
        hasher.finish()
    }

    fn remote<'a>(&self, archive: &'a Archive) -> Result<&'a RemoteSource, ContentsError> {
        archive.source().remote().ok_or_else(|| ContentsError::NoSuchFile { path: self.contents.location() })
    }

    fn entry<'a>(&self, archive: &'a Archive, item: usize) -> Result<(&'a Entry, Sha256Digest), ContentsError> {
        let item = &self.contents.items[item];
        let entry = match item.place {
            Place::Here { entry, .. } => archive.entries().get(entry),
            _ => None,
        };
        entry.zip(item.digest).ok_or_else(|| ContentsError::NoSuchFile { path: item.path.clone() })
    }

    /// Puts a file of an archive that is near into the cache, or into `small` if it is small.
    pub(super) fn keep(&self, archive: &Archive, item: usize, small: &mut Small<'_>) -> Result<(), ContentsError> {
        let path = &self.contents.items[item].path;
        let (entry, digest) = self.entry(archive, item)?;
        let mut reader = archive.reader(entry).map_err(ContentsError::archive(path))?;
        if entry.size() < SHARED_FROM {
            let mut bytes = Vec::with_capacity(usize::try_from(entry.size()).unwrap_or(0));
            reader.read_to_end(&mut bytes).map_err(|error| ContentsError::from_fetch(error, path))?;
            let found = Sha256Digest::of(&bytes);
            if found != digest {
                return Err(ContentsError::Digest { path: path.clone(), expected: digest, found });
            }
            self.contents.note_proven([item]);
            return Ok(small.add(digest, bytes)?);
        }
        let mut was_read = false;
        self.cache.obtain_file::<ContentsError>(
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
                    self.checkpoint()?;
                }
            },
            &|_| self.checkpoint(),
        )?;
        self.contents.note_proven(was_read.then_some(item));
        Ok(())
    }

    /// A file that is downloaded by itself.
    pub(super) fn large(&self, file: &Candidate) -> Result<(), ContentsError> {
        let archive = self.archive()?;
        let path = &self.contents.items[file.item].path;
        let (entry, digest) = self.entry(archive, file.item)?;
        let lock = self.cache.lock_file::<ContentsError>(&digest, &|| self.checkpoint())?;
        if lock.file::<ContentsError>(&|_| self.checkpoint())?.is_some() {
            return Ok(());
        }
        let remote = self.remote(archive)?;
        let (range, is_stored) = match entry.method() {
            Method::Stored => {
                let range = archive.stored_range(entry).map_err(ContentsError::archive(path))?;
                (range.unwrap_or_else(|| file.window.clone()), true)
            }
            _ => (file.window.clone(), false),
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
        self.contents.note_proven([file.item]);
        Ok(())
    }
}
