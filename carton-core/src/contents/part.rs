//! Files of which parts are read: verified as a whole once, then read by position.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use carton_format::context::{Context, Meter};
use carton_format::digest::Hasher;
use carton_format::progress::Stage;
use carton_tensor::files::SharedBytes;

use super::in_place::verified_in_folder;
use super::locate::{Archived, Located};
use super::raw_reader::RawReader;
use super::tree::Item;
use super::unpack::{TemporaryFolder, create_file};
use super::verified_files::VerifiedFile;
use super::{Contents, ContentsError};
use crate::cache::Scope;

/// The folder whose stored files are verified together, because parts of them are read.
const TENSORS: &str = "tensor_data/";

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
        self.verified(path, context)?.read(offset, buffer, path, self.locator.origin())
    }

    /// The length of a file, which is verified as [`read_range`](Self::read_range) does.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    pub(crate) fn verified_length(&self, path: &str, context: &Context) -> Result<u64, ContentsError> {
        Ok(self.verified(path, context)?.length())
    }

    /// The open file and the range of it that [`map`](Self::map) maps; `None` for a file that is in memory.
    #[cfg(test)]
    pub(crate) fn mappable(&self, path: &str) -> Option<(Arc<File>, std::ops::Range<u64>)> {
        match &*self.verified(path, &Context::default()).ok()? {
            VerifiedFile::Memory(_) => None,
            VerifiedFile::File { file, range, .. } => Some((Arc::clone(file), range.clone())),
        }
    }

    /// Maps a file, verified as by [`read_range`](Self::read_range); `None` for a file in memory. Nothing is copied, and all callers
    /// share one map.
    ///
    /// Do not modify the file while it is mapped: truncation raises SIGBUS, and written bytes are seen
    /// ([`map_range`](carton_tensor::files::FileBytes::map_range)). This call checks that the file has not changed since it was
    /// verified. A file of the cache keeps its bytes, even if it is deleted.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range); the system cannot map it.
    pub(crate) fn map(&self, path: &str, context: &Context) -> Result<Option<SharedBytes>, ContentsError> {
        self.verified(path, context)?.map(path, self.locator.origin())
    }

    /// The file at this path, verified by this call or an earlier one.
    fn verified(&self, path: &str, context: &Context) -> Result<Arc<VerifiedFile>, ContentsError> {
        let item = self.tree().follow(self.tree().find(path)?);
        self.verified.get_or_verify(&item.path, || self.verify_for_parts(item, context))
    }

    fn verify_for_parts(&self, item: &Item, context: &Context) -> Result<VerifiedFile, ContentsError> {
        let meter = context.meter(Stage::Verify, self.locator.size(item).unwrap_or(0));
        match self.locator.locate(item) {
            Located::Remote { .. } | Located::Linked { .. } => match self.raw_reader(item, context)? {
                // The cache has checked it.
                RawReader::File { file, path, .. } => VerifiedFile::whole(file, &path),
                RawReader::Bytes { .. } | RawReader::Entry { .. } => self.in_memory(item, context),
            },
            Located::Local(archived) => {
                let source = archived.archive.source();
                let Some(file) = source.file() else { return self.in_memory(item, context) };
                if let Some((range, identity)) =
                    archived.stored_range()?.zip(self.locator.origin().unchanged_identity()?)
                {
                    let file = file.try_clone().map_err(ContentsError::io("open", Path::new(source.location())))?;
                    self.verify_with_its_folder(&archived, &meter)?;
                    return Ok(VerifiedFile::file(file, range, identity));
                }
                match self.locator.cache() {
                    _ if self.locator.is_small(item) => self.in_memory(item, context),
                    Some(cache) => {
                        VerifiedFile::whole(self.cached(cache, item, archived.digest, &meter)?, Path::new(&item.path))
                    }
                    None => self.in_temporary_file(item, &meter),
                }
            }
            Located::Folder { root, digest, .. } => {
                let (folder, known) = self.locator.known_of_folder(root)?;
                let ((file, identity), line) = verified_in_folder(root, item, digest, &known, &meter)?;
                self.locator.remember_in_folder(&folder, known, &[item], line.into_iter().collect());
                Ok(VerifiedFile::file(file, 0..identity.size, identity))
            }
            Located::Bare { .. } => self.in_memory(item, context),
        }
    }

    /// Verifies a file that is stored in a local archive. Files beside it in `tensor_data/` are verified with it, because only all of
    /// them together can be recorded.
    fn verify_with_its_folder(&self, file: &Archived<'_>, meter: &Meter<'_>) -> Result<(), ContentsError> {
        let is_tensor_file = |item: &&Item| item.path.starts_with(TENSORS) && !item.is_symlink();
        if self.locator.cache().is_none() || !is_tensor_file(&file.item) {
            let mut hasher = Hasher::new();
            self.feed(file.item, meter.context(), &mut |chunk| {
                hasher.update(chunk);
                Ok(meter.advance(chunk.len() as u64)?)
            })?;
            return file.item.compare(hasher);
        }
        let mut stored = Vec::new();
        for item in self.tree().items().iter().filter(is_tensor_file) {
            if let Located::Local(file) = self.locator.locate(item)
                && file.stored_range()?.is_some()
            {
                stored.push(item);
            }
        }
        self.verify_stored(stored, Scope::StoredTensorFiles, meter)
    }

    /// A small file, or one of an archive that is itself in memory.
    fn in_memory(&self, item: &Item, context: &Context) -> Result<VerifiedFile, ContentsError> {
        Ok(VerifiedFile::Memory(self.read(&item.path, u64::MAX, context)?))
    }

    /// Decompresses a file to a temporary one, because there is no cache.
    fn in_temporary_file(&self, item: &Item, meter: &Meter<'_>) -> Result<VerifiedFile, ContentsError> {
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
        item.compare(hasher)?;
        // Reopens the file read-only; the bytes stay readable after the folder is deleted.
        VerifiedFile::whole(File::open(&path).map_err(ContentsError::io("open", &path))?, &path)
    }
}
