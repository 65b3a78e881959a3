//! Files of the cache, by the SHA-256 of their bytes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use carton_format::context::{CancelToken, Cancelled, Meter};
use carton_format::digest::{Hasher, Sha256Digest};
use carton_format::source::FileIdentity;

use super::folder::create_folder;
use super::layout::Made;
use super::partial::{Partial, create_file, remove_tree};
use super::record::Verified;
use super::{Cache, CacheError, Moment};

/// Files of at least this size (bytes) are stored once and shared by hard links. For smaller files that costs more than it saves.
pub(crate) const SHARED_FROM: u64 = 64 * 1024;

/// Files of the cache are read-only, because several models can share one.
pub(super) const FILE_MODE: u32 = 0o444;
/// From this size on (bytes), hashing takes longer than waiting for the clock tick after which the result can be recorded.
pub(crate) const WORTH_WAITING: u64 = 16 * 1024 * 1024;
pub(super) const CHUNK_LENGTH: usize = 256 * 1024;

/// The files of the cache.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(super) cache: &'a Cache,
}

impl Files<'_> {
    /// Path of the file with this digest, whether or not the cache has it.
    pub(crate) fn path(&self, digest: &Sha256Digest) -> PathBuf {
        self.cache.layout.file(digest)
    }

    /// Returns the file with this digest, open at its start, if the cache has it. Its bytes are hashed unless its identity is the one
    /// recorded when they were last verified; a damaged file is deleted.
    ///
    /// # Errors
    /// The cache's folders cannot be read.
    pub(crate) fn get(&self, digest: &Sha256Digest) -> Result<Option<File>, CacheError> {
        self.checked(digest, &CancelToken::default())
    }

    /// Whether there is a file with this digest. Reads nothing, so the bytes may still be wrong.
    pub(crate) fn has(&self, digest: &Sha256Digest) -> bool {
        std::fs::symlink_metadata(self.path(digest)).is_ok_and(|metadata| metadata.is_file())
    }

    /// Returns the verified bytes of a file if the cache has it and it has at most `cap` bytes. For small files: no verification is
    /// recorded, and the file is hashed at each use. A damaged file is deleted.
    ///
    /// # Errors
    /// The cache's folders cannot be read.
    pub(crate) fn read_small(&self, digest: &Sha256Digest, cap: u64) -> Result<Option<Vec<u8>>, CacheError> {
        let path = self.path(digest);
        let Some((file, identity)) = open_regular(&path)? else { return Ok(None) };
        if identity.size > cap {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(identity.size).unwrap_or(0));
        file.take(cap).read_to_end(&mut bytes).map_err(CacheError::io("read", &path))?;
        if Sha256Digest::of(&bytes) == *digest {
            return Ok(Some(bytes));
        }
        self.delete_damaged(&path, &identity)?;
        Ok(None)
    }

    /// Puts small files, which the caller has verified, into the cache.
    ///
    /// # Errors
    /// A file cannot be written; the files before it are in the cache.
    pub(crate) fn insert_small(&self, files: &[(Sha256Digest, &[u8])]) -> Result<(), CacheError> {
        let partial = self.cache.partial()?;
        for (digest, bytes) in files {
            let path = partial.fresh_path();
            let mut file = create_file(&path, FILE_MODE)?;
            file.write_all(bytes).map_err(CacheError::io("write", &path))?;
            // An existing file is replaced: that is as fast as checking whether its bytes are right.
            let place = self.clear_place(digest)?;
            std::fs::rename(&path, &place).map_err(CacheError::io("move into place", &place))?;
        }
        Ok(())
    }

    /// Puts the bytes of `reader` into the cache and returns their digest.
    ///
    /// # Errors
    /// `reader` fails, or the file cannot be written; the cache is then as before.
    #[cfg(test)]
    pub(crate) fn insert(&self, reader: &mut dyn Read) -> Result<Sha256Digest, CacheError> {
        let partial = self.cache.partial()?;
        let path = partial.fresh_path();
        let mut chunk = vec![0; CHUNK_LENGTH];
        let (digest, file) = write_hashed::<CacheError>(&path, &mut |sink| {
            loop {
                match reader.read(&mut chunk) {
                    Ok(0) => return Ok(()),
                    Ok(n_bytes) => sink(&chunk[..n_bytes])?,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(CacheError::io("read what is to become", &path)(error)),
                }
            }
        })?;
        let _lock = self.cache.lock(Made::File(&digest), &CancelToken::default())?;
        if self.checked(&digest, &CancelToken::default())?.is_none() {
            self.place(&partial, &digest, &path, &file)?;
        }
        Ok(digest)
    }

    /// Returns the file with this digest, open at its start. If the cache does not have it, it is written from the bytes that `feed`
    /// supplies. `name` is for error messages. `meter` counts the bytes that need not be fed.
    pub(crate) fn obtain<E: From<CacheError>>(
        &self,
        digest: &Sha256Digest,
        name: &str,
        feed: &mut Feed<'_, E>,
        meter: &Meter<'_>,
    ) -> Result<File, E> {
        let cancel_token = meter.context().cancel_token();
        // Try without the lock first: usually the file is there.
        if let Some(file) = self.known(digest)? {
            meter.advance(self.length(&file, digest)?).map_err(CacheError::from)?;
            return Ok(file);
        }
        let _lock = self.cache.lock(Made::File(digest), cancel_token)?;
        if let Some(file) = self.checked(digest, cancel_token)? {
            meter.advance(self.length(&file, digest)?).map_err(CacheError::from)?;
            return Ok(file);
        }
        let partial = self.cache.partial()?;
        let path = partial.fresh_path();
        let (found, file) = write_hashed(&path, feed)?;
        if found != *digest {
            return Err(CacheError::Digest { name: name.to_owned(), expected: *digest, found }.into());
        }
        // The descriptor that we wrote with must not reach a runner.
        let readable = File::open(&path).map_err(CacheError::io("open", &path))?;
        self.place(&partial, digest, &path, &file)?;
        Ok(readable)
    }

    fn length(&self, file: &File, digest: &Sha256Digest) -> Result<u64, CacheError> {
        Ok(file.metadata().map_err(CacheError::io("inspect", &self.path(digest)))?.len())
    }

    /// Returns the file if a record says that it was verified.
    fn known(&self, digest: &Sha256Digest) -> Result<Option<File>, CacheError> {
        let Some((file, identity)) = open_regular(&self.path(digest))? else { return Ok(None) };
        Ok((self.cache.verifications().of(&identity) == Some(Verified::File { sha256: *digest })).then_some(file))
    }

    /// Moves the verified bytes at `path` to their final place. The caller holds the file's lock.
    pub(super) fn place(
        &self,
        partial: &Partial,
        digest: &Sha256Digest,
        path: &Path,
        file: &File,
    ) -> Result<(), CacheError> {
        let place = self.clear_place(digest)?;
        std::fs::rename(path, &place).map_err(CacheError::io("move into place", &place))?;
        self.remember_link(partial, digest, file);
        Ok(())
    }

    /// Returns the final path of the file. Creates its folder, and deletes anything there that a rename of a file could not replace.
    fn clear_place(&self, digest: &Sha256Digest) -> Result<PathBuf, CacheError> {
        let place = self.path(digest);
        if let Some(shard) = place.parent() {
            create_folder(shard)?;
        }
        if std::fs::symlink_metadata(&place).is_ok_and(|metadata| !metadata.is_file()) {
            remove_tree(&place).map_err(CacheError::io("delete", &place))?;
        }
        Ok(place)
    }

    /// As [`Files::get`], until `cancel_token` is cancelled.
    pub(crate) fn checked(
        &self,
        digest: &Sha256Digest,
        cancel_token: &CancelToken,
    ) -> Result<Option<File>, CacheError> {
        let path = self.path(digest);
        let Some((file, identity)) = open_regular(&path)? else { return Ok(None) };
        if self.cache.verifications().of(&identity) == Some(Verified::File { sha256: *digest }) {
            return Ok(Some(file));
        }
        let checked = check_bytes(&path, &file, digest, &|_| cancel_token.check())?;
        match checked {
            Checked::Wrong(_) => {
                self.delete_damaged(&path, &identity)?;
                return Ok(None);
            }
            Checked::Right(Some(identity)) => {
                self.cache.verifications().remember_quietly(&self.cache.partial()?, &identity, digest)
            }
            Checked::Right(None) => {}
        }
        Ok(Some(file))
    }

    /// Deletes a file whose bytes do not have the digest in its name, unless another process has made the file again meanwhile.
    pub(super) fn delete_damaged(&self, path: &Path, damaged: &FileIdentity) -> Result<(), CacheError> {
        tracing::warn!(path = %path.display(), "a file of the cache is damaged; it is deleted and made again when needed");
        delete_if_same(path, damaged)
    }

    /// Creates a hard link `destination` to the cache's file for `digest`. The caller holds the file's lock. Returns false if the cache
    /// does not have the file, or if it cannot be linked there.
    pub(super) fn link(
        &self,
        partial: &Partial,
        digest: &Sha256Digest,
        destination: &Path,
        cancel_token: &CancelToken,
    ) -> Result<bool, CacheError> {
        let Some(file) = self.checked(digest, cancel_token)? else { return Ok(false) };
        if let Err(error) = std::fs::hard_link(self.path(digest), destination) {
            // Too many links, or a file system without hard links: the bytes are then written again.
            tracing::debug!(%error, path = %destination.display(), "cannot link a file of the cache");
            return Ok(false);
        }
        self.remember_link(partial, digest, &file);
        Ok(true)
    }

    /// Makes the verified bytes at `path` the cache's file for `digest`. The caller holds the file's lock. If the file cannot be linked
    /// there, the bytes stay unshared, which is not an error.
    pub(super) fn share(
        &self,
        partial: &Partial,
        digest: &Sha256Digest,
        path: &Path,
        file: &File,
    ) -> Result<(), CacheError> {
        let shared = self.clear_place(digest)?;
        match std::fs::hard_link(path, &shared) {
            Ok(()) => self.remember_link(partial, digest, file),
            Err(error) => tracing::debug!(%error, path = %shared.display(), "cannot share a file"),
        }
        Ok(())
    }

    /// Records a file that was just verified and then moved or linked, which changes the inode's change time, and with it the identity,
    /// but not the bytes.
    fn remember_link(&self, partial: &Partial, digest: &Sha256Digest, file: &File) {
        if let Ok(metadata) = file.metadata() {
            self.cache.verifications().remember_quietly(partial, &FileIdentity::of(&metadata), digest);
        }
    }
}

/// Receives the bytes of a file, piece by piece.
pub(crate) type Sink<'a, E> = dyn FnMut(&[u8]) -> Result<(), E> + 'a;

/// Calls its argument with all bytes of a file, in order.
pub(crate) type Feed<'a, E> = dyn FnMut(&mut Sink<'_, E>) -> Result<(), E> + 'a;

/// Creates the file at `path` from the bytes that `feed` supplies. Returns their digest and the open file.
pub(super) fn write_hashed<E: From<CacheError>>(
    path: &Path,
    feed: &mut Feed<'_, E>,
) -> Result<(Sha256Digest, File), E> {
    let mut output = create_file(path, FILE_MODE)?;
    let mut hasher = Hasher::new();
    feed(&mut |bytes| {
        hasher.update(bytes);
        Ok(output.write_all(bytes).map_err(CacheError::io("write", path))?)
    })?;
    Ok((hasher.finish(), output))
}

/// Opens a regular file without following a symbolic link. Returns `None` if the path is missing or anything else.
pub(crate) fn open_regular(path: &Path) -> Result<Option<(File, FileIdentity)>, CacheError> {
    use rustix::fs::{Mode, OFlags};
    // Without NONBLOCK, opening a named pipe here would block forever.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(CacheError::io("open", path)(error.into())),
    };
    let metadata = file.metadata().map_err(CacheError::io("inspect", path))?;
    Ok(metadata.is_file().then(|| (file, FileIdentity::of(&metadata))))
}

/// The result of hashing a file.
pub(crate) enum Checked {
    /// The bytes are right. The identity, if there is one, proves that they stay right for as long as the file has it.
    Right(Option<FileIdentity>),
    /// The bytes have this digest instead.
    Wrong(Sha256Digest),
}

/// Hashes an open file from its start and leaves it there. `hashed` is called with the number of bytes just hashed.
pub(crate) fn check_bytes(
    path: &Path,
    file: &File,
    expected: &Sha256Digest,
    hashed: &dyn Fn(u64) -> Result<(), Cancelled>,
) -> Result<Checked, CacheError> {
    use std::os::unix::fs::FileExt;
    let identify =
        || file.metadata().map(|metadata| FileIdentity::of(&metadata)).map_err(CacheError::io("inspect", path));
    let before = identify()?;
    let moment = if before.size >= WORTH_WAITING { Moment::after_tick_of(file, &before) } else { Moment::now(file) };
    let mut hasher = Hasher::new();
    let mut chunk = vec![0; CHUNK_LENGTH.min(usize::try_from(before.size).unwrap_or(CHUNK_LENGTH).max(1))];
    let mut offset = 0;
    loop {
        let n_bytes = match file.read_at(&mut chunk, offset) {
            Ok(0) => break,
            Ok(n_bytes) => n_bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(CacheError::io("read", path)(error)),
        };
        hasher.update(&chunk[..n_bytes]);
        hashed(n_bytes as u64)?;
        offset += n_bytes as u64;
    }
    let found = hasher.finish();
    if found != *expected {
        return Ok(Checked::Wrong(found));
    }
    let proven = moment.is_after(&before) && identify()? == before;
    Ok(Checked::Right(proven.then_some(before)))
}

/// Deletes a file, unless another file has taken its place.
pub(super) fn delete_if_same(path: &Path, identity: &FileIdentity) -> Result<(), CacheError> {
    if open_regular(path)?.is_some_and(|(_, now)| (now.device, now.inode) == (identity.device, identity.inode)) {
        remove_tree(path).map_err(CacheError::io("delete", path))?;
    }
    Ok(())
}

/// Parses the digest in the name of a file or folder of the cache, which is followed by `suffix`.
pub(super) fn digest_of_name<D: FromStr>(name: &OsStr, suffix: &str) -> Option<D> {
    name.to_str()?.strip_suffix(suffix)?.parse().ok()
}
