//! Writes the contents of archives into a new folder.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use carton_format::context::CancelToken;

use super::names::Names;
use super::{UnpackError, UnpackLimits};

/// The number of bytes that are read from an archive and written to a file at once.
pub(super) const BUFFER_LENGTH: usize = 256 << 10;

/// A new folder that is being filled. [`finish`](Self::finish) completes it.
pub(in super::super) struct Tree<'a> {
    /// The folder. Only this process writes to it, and it is empty at first, so no path below it leads through a link while it is
    /// filled.
    root: PathBuf,
    limits: UnpackLimits,
    names: Names,
    /// The number of bytes written so far.
    n_bytes: u64,
    /// The largest value of `n_bytes` for the end of the present archive.
    n_bytes_allowed: u64,
    buffer: Vec<u8>,
    cancel_token: &'a CancelToken,
}

impl<'a> Tree<'a> {
    /// Makes a tree in the folder `root`, which must exist and be empty.
    pub(in super::super) fn new(root: PathBuf, limits: UnpackLimits, cancel_token: &'a CancelToken) -> Self {
        let names = Names::new(limits);
        Self {
            root,
            limits,
            names,
            n_bytes: 0,
            n_bytes_allowed: limits.n_bytes,
            buffer: vec![0; BUFFER_LENGTH],
            cancel_token,
        }
    }

    /// Sets the limit of the next archive from its length in bytes.
    pub(super) fn begin_archive(&mut self, length: u64) -> Result<(), UnpackError> {
        self.n_bytes_allowed = self.limits.n_bytes.min(self.n_bytes.saturating_add(self.limits.of_archive(length)));
        Ok(self.cancel_token.check()?)
    }

    /// Returns how many more bytes may be written.
    pub(super) fn n_bytes_left(&self) -> u64 {
        self.n_bytes_allowed.saturating_sub(self.n_bytes)
    }

    pub(super) fn too_large(&self) -> UnpackError {
        UnpackError::Limit { what: "unpacked bytes", limit: self.n_bytes_allowed }
    }

    /// Returns the token that cancels the work.
    pub(super) fn cancel_token(&self) -> &'a CancelToken {
        self.cancel_token
    }

    /// Counts an entry for which nothing is written.
    pub(super) fn count(&mut self) -> Result<(), UnpackError> {
        self.names.count()
    }

    pub(in super::super) fn folder(&mut self, name: &str) -> Result<(), UnpackError> {
        self.cancel_token.check()?;
        let root = &self.root;
        self.names.folder(name, &mut |name| make_folder(&root.join(name)))
    }

    /// Writes a file. Of its mode, only `is_executable` is kept.
    pub(in super::super) fn file(
        &mut self,
        name: &str,
        is_executable: bool,
        data: &mut dyn Read,
    ) -> Result<(), UnpackError> {
        self.cancel_token.check()?;
        let root = &self.root;
        self.names.file(name, &mut |name| make_folder(&root.join(name)))?;
        let path = self.root.join(name);
        let mode = if is_executable { 0o755 } else { 0o644 };
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .map_err(UnpackError::io("create", &path))?;
        self.copy(data, &mut file, &path)?;
        // Sets the bits that the umask of the process removed.
        file.set_permissions(fs::Permissions::from_mode(mode)).map_err(UnpackError::io("write", &path))
    }

    pub(in super::super) fn link(&mut self, name: &str, target: &[u8]) -> Result<(), UnpackError> {
        self.cancel_token.check()?;
        let root = &self.root;
        self.names.link(name, target, &mut |name| make_folder(&root.join(name)))
    }

    /// Makes a hard link to a file that was already written.
    pub(super) fn hard_link(&mut self, name: &str, target: &str) -> Result<(), UnpackError> {
        self.cancel_token.check()?;
        if !self.names.is_file(target) {
            let (name, target) = (name.escape_debug().to_string(), target.escape_debug().to_string());
            return Err(UnpackError::Link { name, target, problem: "leads to no file of the archive" });
        }
        let root = &self.root;
        self.names.file(name, &mut |name| make_folder(&root.join(name)))?;
        let path = self.root.join(name);
        fs::hard_link(self.root.join(target), &path).map_err(UnpackError::io("create", &path))
    }

    /// Checks that no link leaves the folder, and then creates the links.
    pub(in super::super) fn finish(self) -> Result<(), UnpackError> {
        for link in self.names.check_links()? {
            let path = self.root.join(&link.name);
            symlink(&link.target, &path).map_err(UnpackError::io("create", &path))?;
        }
        Ok(())
    }

    fn copy(&mut self, data: &mut dyn Read, file: &mut File, path: &Path) -> Result<(), UnpackError> {
        loop {
            let length = match data.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(UnpackError::from_read(error)),
            };
            if length as u64 > self.n_bytes_left() {
                return Err(self.too_large());
            }
            self.n_bytes += length as u64;
            file.write_all(&self.buffer[..length]).map_err(UnpackError::io("write", path))?;
            self.cancel_token.check()?;
        }
    }
}

fn make_folder(path: &Path) -> Result<(), UnpackError> {
    fs::create_dir(path).map_err(UnpackError::io("create", path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(UnpackError::io("create", path))
}
