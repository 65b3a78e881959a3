//! stub
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;

use super::ArchiveError;
use crate::digest::Sha256Digest;
use crate::manifest::Manifest;

/// How entries are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Chosen for each file: what does not compress well is stored so that it can be mapped in place.
    #[default]
    Auto,
    /// Nothing is compressed.
    Stored,
    /// Everything but what every zip tool must be able to read is Zstandard.
    Zstd,
    /// Everything is Deflate.
    Deflate,
}

/// What an entry is made of.
#[derive(Debug, Clone)]
pub enum Content {
    /// A file's bytes, read while packing.
    File(PathBuf),
    /// These bytes.
    Bytes(Vec<u8>),
    /// A symbolic link: its target, relative to its folder, and the digest of the file it leads to, which MANIFEST lists.
    Symlink(String, Sha256Digest),
}

/// What comes after the files.
#[derive(Debug, Clone, Default)]
pub struct Tail {
    /// The bytes of `carton.toml`.
    pub carton_toml: Vec<u8>,
    /// The bytes of `LINKS`, if there is one.
    pub links: Option<Vec<u8>>,
    /// Files that MANIFEST lists without an entry, because `LINKS` says where they are.
    pub linked: BTreeMap<String, Sha256Digest>,
}

/// How far the writer is. Bytes are those of the files, before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteProgress {
    /// Bytes hashed and written.
    pub bytes_done: u64,
    /// Bytes in all.
    pub bytes_total: u64,
    /// Files hashed and written.
    pub files_done: u64,
    /// Files in all.
    pub files_total: u64,
}

/// Called every few megabytes, from any of the writer's threads; `Break` ends the writing with
/// [`ArchiveError::Interrupted`].
pub type Progress<'a> = &'a (dyn Fn(WriteProgress) -> ControlFlow<()> + Sync);

/// Writes a carton to `output`, which must be empty.
pub fn write(
    output: &mut File,
    entries: Vec<(String, Content)>,
    tail: Tail,
    compression: Compression,
    progress: Progress<'_>,
) -> Result<Manifest, ArchiveError> {
    let _ = (output, entries, tail, compression, progress);
    Err(ArchiveError::Interrupted)
}
