//! Files by the SHA-256 of their bytes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::partial::{Partial, create_file, remove_tree};
use super::record::Verified;
use super::{Cache, CacheError, FILES, Made, Moment, create_folder};
use crate::digest::{Hasher, Sha256Digest};
use crate::source::FileIdentity;

/// From this size on a file is kept here and shared by hard links. For smaller ones that would cost more than it saves.
pub(crate) const SHARED_FROM: u64 = 64 * 1024;

/// Nobody may write to a file of the cache: several models can share it.
pub(super) const FILE_MODE: u32 = 0o444;
/// Hashing this much takes longer than waiting until its result can be remembered.
pub(crate) const WORTH_WAITING: u64 = 16 * 1024 * 1024;
pub(super) const CHUNK_LENGTH: usize = 256 * 1024;

impl Cache {
    /// Where the file with this digest is when the cache has it.
    pub(crate) fn file_path(&self, digest: &Sha256Digest) -> PathBuf {
        let name = digest.to_string();
        self.bucket(FILES).join(&name[..2]).join(name)
    }

    /// The file with this digest, open at its start, if the cache has it. Its bytes are checked unless its identity is
    /// the one recorded when they last were; a damaged file is deleted.
    ///
    /// # Errors
    /// The cache's folders cannot be read.
    pub(crate) fn file(&self, digest: &Sha256Digest) -> Result<Option<File>, CacheError> {
        self.checked_file(digest, &|_| Ok(()))
    }

    /// Whether there is a file with this digest. Nothing is read, so this says nothing about its bytes.
    pub(crate) fn has_file(&self, digest: &Sha256Digest) -> bool {
        std::fs::symlink_metadata(self.file_path(digest)).is_ok_and(|metadata| metadata.is_file())
    }

    /// The bytes of a file, verified, if the cache has it and it has at most `cap` of them. For small files: nothing is
    /// remembered, and they are hashed at each use. A damaged one is deleted.
    ///
    /// # Errors
    /// The cache's folders cannot be read.
    pub(crate) fn read_small(&self, digest: &Sha256Digest, cap: u64) -> Result<Option<Vec<u8>>, CacheError> {
        let path = self.file_path(digest);
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

    /// Puts small files into the cache. The caller has verified them.
    ///
    /// # Errors
    /// A file cannot be written; those before it are in the cache.
    pub(crate) fn insert_small(&self, files: &[(Sha256Digest, &[u8])]) -> Result<(), CacheError> {
        let partial = self.partial()?;
        for (digest, bytes) in files {
            let path = partial.fresh_path();
            let mut file = create_file(&path, FILE_MODE)?;
            file.write_all(bytes).map_err(CacheError::io("write", &path))?;
            // Whatever is there already is replaced: that is as fast as looking whether its bytes are right.
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
    pub(crate) fn insert_file(&self, reader: &mut dyn Read) -> Result<Sha256Digest, CacheError> {
        let partial = self.partial()?;
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
        let _lock = self.lock::<CacheError>(Made::File, &digest, &|| Ok(()))?;
        if self.checked_file::<CacheError>(&digest, &|_| Ok(()))?.is_none() {
            self.place(&partial, &digest, &path, &file)?;
        }
        Ok(digest)
    }

    /// The file with this digest, open at its start; if the cache does not have it, with the bytes that `feed` hands on.
    /// `name` is for messages. `advance` is told of bytes that need not be fed, and called with 0 while waiting.
    pub(crate) fn obtain_file<E: From<CacheError>>(
        &self,
        digest: &Sha256Digest,
        name: &str,
        feed: &mut Feed<'_, E>,
        advance: &dyn Fn(u64) -> Result<(), E>,
    ) -> Result<File, E> {
        // Without the lock at first: the usual case is that it is there.
        if let Some(file) = self.known_file(digest)? {
            advance(length(&file, digest, self)?)?;
            return Ok(file);
        }
        let _lock = self.lock(Made::File, digest, &|| advance(0))?;
        if let Some(file) = self.checked_file(digest, &|_| advance(0))? {
            advance(length(&file, digest, self)?)?;
            return Ok(file);
        }
        let partial = self.partial()?;
        let path = partial.fresh_path();
        let (found, file) = write_hashed(&path, feed)?;
        if found != *digest {
            return Err(CacheError::Digest { name: name.to_owned(), expected: *digest, found }.into());
        }
        // The descriptor we wrote with must not reach a runner.
        let readable = File::open(&path).map_err(CacheError::io("open", &path))?;
        self.place(&partial, digest, &path, &file)?;
        Ok(readable)
    }

    /// The file, if a record vouches for it.
    fn known_file(&self, digest: &Sha256Digest) -> Result<Option<File>, CacheError> {
        let Some((file, identity)) = open_regular(&self.file_path(digest))? else { return Ok(None) };
        Ok((self.verified(&identity) == Some(Verified::File { sha256: *digest })).then_some(file))
    }

    /// Moves the verified bytes at `path` to their place. The caller holds the file's lock.
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

    /// Where the file goes. Its folder is there afterwards, and nothing that only a file could replace.
    fn clear_place(&self, digest: &Sha256Digest) -> Result<PathBuf, CacheError> {
        let place = self.file_path(digest);
        if let Some(shard) = place.parent() {
            create_folder(shard)?;
        }
        if std::fs::symlink_metadata(&place).is_ok_and(|metadata| !metadata.is_file()) {
            remove_tree(&place).map_err(CacheError::io("delete", &place))?;
        }
        Ok(place)
    }

    /// As [`Cache::file`]; `hashed` is told how many bytes were just checked and may end it.
    pub(crate) fn checked_file<E: From<CacheError>>(
        &self,
        digest: &Sha256Digest,
        hashed: &dyn Fn(u64) -> Result<(), E>,
    ) -> Result<Option<File>, E> {
        let path = self.file_path(digest);
        let Some((file, identity)) = open_regular(&path)? else { return Ok(None) };
        if self.verified(&identity) == Some(Verified::File { sha256: *digest }) {
            return Ok(Some(file));
        }
        let checked = check_bytes(&path, &file, digest, hashed)?;
        match checked {
            Checked::Wrong(_) => {
                self.delete_damaged(&path, &identity)?;
                return Ok(None);
            }
            Checked::Right(Some(identity)) => self.remember_quietly(&self.partial()?, &identity, digest),
            Checked::Right(None) => {}
        }
        Ok(Some(file))
    }

    /// Deletes a file whose bytes are not the ones it is named for, unless somebody has made it again meanwhile.
    pub(super) fn delete_damaged(&self, path: &Path, damaged: &FileIdentity) -> Result<(), CacheError> {
        tracing::warn!(path = %path.display(), "a file of the cache is damaged; it is deleted and made again when needed");
        delete_if_same(path, damaged)
    }

    /// Gives the file that the cache has for `digest` the further name `destination`. The caller holds the file's lock.
    /// False when the cache does not have it, or when it cannot be linked there.
    pub(super) fn link_file<E: From<CacheError>>(
        &self,
        partial: &Partial,
        digest: &Sha256Digest,
        destination: &Path,
        hashed: &dyn Fn(u64) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Some(file) = self.checked_file(digest, hashed)? else { return Ok(false) };
        if let Err(error) = std::fs::hard_link(self.file_path(digest), destination) {
            // Too many links, or a file system without: the bytes are then written once more.
            tracing::debug!(%error, path = %destination.display(), "cannot link a file of the cache");
            return Ok(false);
        }
        self.remember_link(partial, digest, &file);
        Ok(true)
    }

    /// Makes the verified bytes at `path` the cache's file for `digest`. The caller holds the file's lock. If it cannot be
    /// linked there the bytes stay unshared, which is no error.
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

    /// Moving or linking changes the inode's time, and with it the identity, but not the bytes: those were just found right.
    fn remember_link(&self, partial: &Partial, digest: &Sha256Digest, file: &File) {
        if let Ok(metadata) = file.metadata() {
            self.remember_quietly(partial, &FileIdentity::of(&metadata), digest);
        }
    }

    /// A record that cannot be written costs another hashing, no more.
    pub(super) fn remember_quietly(&self, partial: &Partial, identity: &FileIdentity, digest: &Sha256Digest) {
        if let Err(error) = self.remember_in(partial, identity, Verified::File { sha256: *digest }) {
            tracing::debug!(%error, "cannot record a verification");
        }
    }
}

/// Takes the bytes of a file, piece by piece.
pub type Sink<'a, E> = dyn FnMut(&[u8]) -> Result<(), E> + 'a;

/// Calls its argument with all bytes of a file, in order.
pub(crate) type Feed<'a, E> = dyn FnMut(&mut Sink<'_, E>) -> Result<(), E> + 'a;

/// Creates the file at `path` from the bytes that `feed` hands on.
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

fn length(file: &File, digest: &Sha256Digest, cache: &Cache) -> Result<u64, CacheError> {
    Ok(file.metadata().map_err(CacheError::io("inspect", &cache.file_path(digest)))?.len())
}

/// Opens a regular file without following a link; nothing there, or something else, is none.
pub(crate) fn open_regular(path: &Path) -> Result<Option<(File, FileIdentity)>, CacheError> {
    open_with(path, rustix::fs::OFlags::NOFOLLOW)
}

/// As [`open_regular`], wherever symbolic links lead.
pub(crate) fn open_following(path: &Path) -> Result<Option<(File, FileIdentity)>, CacheError> {
    open_with(path, rustix::fs::OFlags::empty())
}

fn open_with(path: &Path, flags: rustix::fs::OFlags) -> Result<Option<(File, FileIdentity)>, CacheError> {
    use rustix::fs::{Mode, OFlags};
    // Without NONBLOCK a pipe in a file's place would keep us waiting for ever.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(CacheError::io("open", path)(error.into())),
    };
    let metadata = file.metadata().map_err(CacheError::io("inspect", path))?;
    Ok(metadata.is_file().then(|| (file, FileIdentity::of(&metadata))))
}

/// What hashing a file found.
pub(crate) enum Checked {
    /// The bytes are right; if there is an identity, it proves that they still are.
    Right(Option<FileIdentity>),
    /// The bytes have this digest instead.
    Wrong(Sha256Digest),
}

/// Hashes an open file from its start and leaves it there.
pub(crate) fn check_bytes<E: From<CacheError>>(
    path: &Path,
    file: &File,
    expected: &Sha256Digest,
    hashed: &dyn Fn(u64) -> Result<(), E>,
) -> Result<Checked, E> {
    use std::os::unix::fs::FileExt;
    let identify = || Ok(FileIdentity::of(&file.metadata().map_err(CacheError::io("inspect", path))?));
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
            Err(error) => return Err(CacheError::io("read", path)(error).into()),
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

/// Deletes a file unless somebody has put another one in its place.
pub(super) fn delete_if_same(path: &Path, identity: &FileIdentity) -> Result<(), CacheError> {
    if open_regular(path)?.is_some_and(|(_, now)| (now.device, now.inode) == (identity.device, identity.inode)) {
        remove_tree(path).map_err(CacheError::io("delete", path))?;
    }
    Ok(())
}

/// The digest that the name of a file or folder of the cache is, before `suffix`.
pub(super) fn digest_of_name(name: &OsStr, suffix: &str) -> Option<Sha256Digest> {
    name.to_str()?.strip_suffix(suffix)?.parse().ok()
}
