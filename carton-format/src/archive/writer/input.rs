//! What is written: the contents of entries, and the metadata that follows them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::archive::{Archive, Entry};
use crate::digest::Sha256Digest;
use crate::manifest::Manifest;

/// How entries are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Chosen for each file: one that does not compress well is stored, so that it can be mapped in place.
    #[default]
    Auto,
    /// Nothing is compressed.
    Stored,
    /// Zstandard, except for the files that every zip tool must be able to read: `carton.toml`, `LINKS` and `MANIFEST`.
    Zstd,
    /// Deflate.
    Deflate,
}

/// The source of an entry's bytes.
#[derive(Debug, Clone)]
pub enum Content {
    /// A file's bytes, read while packing.
    File(PathBuf),
    /// These bytes.
    Bytes(Vec<u8>),
    /// A symbolic link: its target, relative to its folder, and the digest of the target file, which MANIFEST lists.
    Symlink(String, Sha256Digest),
    /// A file of another archive, copied in its stored form, and decompressed meanwhile to check and hash it.
    Entry(Archive, Entry),
    /// This content, stored so that its data begins at a multiple of 4096, whatever its size and the compression of the others: for a
    /// file of which parts are read and mapped. An entry that is compressed in its archive stays compressed.
    InPlace(Box<Content>),
}

/// The metadata that follows the files.
#[derive(Debug, Clone, Default)]
pub struct Tail {
    /// The bytes of `carton.toml`.
    pub carton_toml: Vec<u8>,
    /// The bytes of `LINKS`, if there is one.
    pub links: Option<Vec<u8>>,
    /// Files that MANIFEST lists without an entry, because `LINKS` says where they can be fetched.
    pub linked: BTreeMap<String, Sha256Digest>,
    /// The MANIFEST to write unchanged; `None` to make one. The files must be those that it lists, with the digests that it lists.
    pub manifest: Option<Manifest>,
}
