//! Files of which parts are read: verified as a whole once, then read by position.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_format::context::{Context, Meter};
use carton_format::digest::Hasher;
use carton_format::progress::Stage;
use carton_format::source::FileIdentity;
use carton_tensor::files::{FileBytes, SharedBytes};

use super::locate::{Archived, Located};
use super::raw_reader::RawReader;
use super::state::Verified;
use super::tree::Item;
use super::unpack::{TemporaryFolder, create_file};
use super::{Contents, ContentsError};
use crate::cache::Scope;

/// The folder whose stored files are verified together, because parts of them are read.
const TENSORS: &str = "tensor_data/";

/// How many files are kept open. Our writer makes one that is read in parts; another may make thousands.
const MOST_OPEN: usize = 8;

impl Contents {
    /// Fills `buffer` with the bytes of a file from `offset` on. The first call verifies the whole file, or finds that this is
    /// remembered; each later one costs no more than its own bytes.
    ///
    /// A file that is elsewhere is fetched first, and one that is compressed in the carton is decompressed to the cache.
    ///
    /// # Errors
    /// There is no such file, it is not what MANIFEST lists, it has no such range, or it changed since it was verified.
    pub(crate) fn read_range(
        &self,
        path: &str,
        offset: u64,
        buffer: &mut [u8],
        context: &Context,
    ) -> Result<(), ContentsError> {
        let outside = |length: u64| ContentsError::Size {
            path: path.to_owned(),
            expected: format!("{} bytes from offset {offset} on", buffer.len()),
            found: length,
        };
        match &*self.verified(path, context)? {
            Verified::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let part = start.checked_add(buffer.len()).and_then(|end| bytes.get(start..end));
                buffer.copy_from_slice(part.ok_or_else(|| outside(bytes.len() as u64))?);
                Ok(())
            }
            Verified::File { file, range, identity, .. } => {
                let length = range.end - range.start;
                if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > length) {
                    return Err(outside(length));
                }
                let read = file.read_exact_at(buffer, range.start + offset);
                // Checked after reading: bytes that were read before a change are right.
                if !is_unchanged(file, identity) {
                    return Err(ContentsError::Changed { location: self.location() });
                }
                read.map_err(ContentsError::io("read", Path::new(path)))
            }
        }
    }

    /// The length of a file, which is verified as [`read_range`](Self::read_range) does.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    pub(crate) fn verified_length(&self, path: &str, context: &Context) -> Result<u64, ContentsError> {
        Ok(match &*self.verified(path, context)? {
            Verified::Memory(bytes) => bytes.len() as u64,
            Verified::File { range, .. } => range.end - range.start,
        })
    }

    /// The open file and the range of it that [`map`](Self::map) maps; `None` for a file that is in memory.
    #[cfg(test)]
    pub(crate) fn mappable(&self, path: &str) -> Option<(Arc<File>, std::ops::Range<u64>)> {
        match &*self.verified(path, &Context::default()).ok()? {
            Verified::Memory(_) => None,
            Verified::File { file, range, .. } => Some((Arc::clone(file), range.clone())),
        }
    }

    /// Maps a file, verified as by [`read_range`](Self::read_range); `None` for a file in memory. Nothing is copied, and all callers
    /// share one map.
    ///
    /// Do not modify the file while it is mapped: truncation raises SIGBUS, and written bytes are seen ([`FileBytes::map`]). This call
    /// checks that the file has not changed since it was verified. A file of the cache keeps its bytes, even if it is deleted.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range); the system cannot map it.
    pub(crate) fn map(&self, path: &str, context: &Context) -> Result<Option<SharedBytes>, ContentsError> {
        let verified = self.verified(path, context)?;
        let Verified::File { file, range, identity, map } = &*verified else { return Ok(None) };
        let bytes = match map.get() {
            Some(bytes) => bytes.clone(),
            None => {
                let bytes = FileBytes::map_range(file, range.clone());
                let bytes = bytes.map_err(ContentsError::io("map", Path::new(path)))?;
                map.get_or_init(|| bytes).clone()
            }
        };
        if !is_unchanged(file, identity) {
            return Err(ContentsError::Changed { location: self.location() });
        }
        Ok(Some(bytes))
    }

    /// The file at this path, verified by this call or an earlier one.
    fn verified(&self, path: &str, context: &Context) -> Result<Arc<Verified>, ContentsError> {
        let item = self.follow(self.find(path)?);
        // Held while a file is verified, so that none is verified twice at the same time.
        let mut verified = self.verified.lock();
        if let Some(found) = verified.get(&item.path) {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(self.verify_for_parts(item, context)?);
        if verified.len() >= MOST_OPEN {
            verified.clear();
        }
        verified.insert(item.path.clone(), Arc::clone(&found));
        Ok(found)
    }

    fn verify_for_parts(&self, item: &Item, context: &Context) -> Result<Verified, ContentsError> {
        let meter = context.meter(Stage::Verify, self.size(item).unwrap_or(0));
        match self.locate(item) {
            Located::Remote { .. } | Located::Linked { .. } => match self.raw_reader(item, context)? {
                // The cache has checked it.
                RawReader::File { file, path, .. } => whole(file, &path),
                RawReader::Bytes { .. } | RawReader::Entry { .. } => self.in_memory(item, context),
            },
            Located::Local(archived) => {
                let source = archived.archive.source();
                let Some(file) = source.file() else { return self.in_memory(item, context) };
                if let Some((range, identity)) = archived.stored_range()?.zip(self.unchanged_identity()?) {
                    let file = file.try_clone().map_err(ContentsError::io("open", Path::new(source.location())))?;
                    self.verify_with_its_folder(&archived, &meter)?;
                    return Ok(Verified::file(file, range, identity));
                }
                match &self.cache {
                    _ if self.is_small(item) => self.in_memory(item, context),
                    Some(cache) => whole(self.cached(cache, item, archived.digest, &meter)?, Path::new(&item.path)),
                    None => self.in_temporary_file(item, &meter),
                }
            }
            Located::Folder { root, digest, .. } => {
                let (folder, known) = self.known_of_folder(root)?;
                let ((file, identity), line) = self.verified_in_folder(root, item, digest, &known, &meter)?;
                self.remember_in_folder(&folder, known, &[item], line.into_iter().collect());
                Ok(Verified::file(file, 0..identity.size, identity))
            }
            Located::Bare { .. } => self.in_memory(item, context),
        }
    }

    /// Verifies a file that is stored in a local archive. Files beside it in `tensor_data/` are verified with it, because only all of
    /// them together can be recorded.
    fn verify_with_its_folder(&self, file: &Archived<'_>, meter: &Meter<'_>) -> Result<(), ContentsError> {
        let is_tensor_file = |item: &&Item| item.path.starts_with(TENSORS) && !item.is_symlink();
        if self.cache.is_none() || !is_tensor_file(&file.item) {
            let mut hasher = Hasher::new();
            self.feed(file.item, meter.context(), &mut |chunk| {
                hasher.update(chunk);
                Ok(meter.advance(chunk.len() as u64)?)
            })?;
            return self.compare(file.item, hasher);
        }
        let mut stored = Vec::new();
        for item in self.items.iter().filter(is_tensor_file) {
            if let Located::Local(file) = self.locate(item)
                && file.stored_range()?.is_some()
            {
                stored.push(item);
            }
        }
        self.verify_stored(stored, Scope::StoredTensorFiles, meter)
    }

    /// A small file, or one of an archive that is itself in memory.
    fn in_memory(&self, item: &Item, context: &Context) -> Result<Verified, ContentsError> {
        Ok(Verified::Memory(self.read(&item.path, u64::MAX, context)?))
    }

    /// Decompresses a file to a temporary one, because there is no cache.
    fn in_temporary_file(&self, item: &Item, meter: &Meter<'_>) -> Result<Verified, ContentsError> {
        let folder = TemporaryFolder::create(None)?;
        let path = folder.path().join("file");
        let output = create_file(&path)?;
        let mut hasher = Hasher::new();
        let mut length = 0;
        self.feed(item, meter.context(), &mut |chunk| {
            hasher.update(chunk);
            output.write_all_at(chunk, length).map_err(ContentsError::io("write", &path))?;
            length += chunk.len() as u64;
            Ok(meter.advance(chunk.len() as u64)?)
        })?;
        self.compare(item, hasher)?;
        // Reopens the file read-only; the bytes stay readable after the folder is deleted.
        whole(File::open(&path).map_err(ContentsError::io("open", &path))?, &path)
    }
}

fn whole(file: File, path: &Path) -> Result<Verified, ContentsError> {
    let metadata = file.metadata().map_err(ContentsError::io("inspect", &PathBuf::from(path)))?;
    let identity = FileIdentity::of(&metadata);
    Ok(Verified::file(file, 0..identity.size, identity))
}

fn is_unchanged(file: &File, identity: &FileIdentity) -> bool {
    file.metadata().is_ok_and(|metadata| FileIdentity::of(&metadata).has_same_bytes(identity))
}
