//! Unpacks the archives of runners (spec/runner-descriptor.md, "Archives"): zip, tar and tar.gz, recognized by their content.
//!
//! An archive is not trusted, even if its hash is right. [`names`] and [`tree`] enforce the rules for all formats: no name and no
//! link leaves the folder, no name occurs twice, there are only files, folders and links, files have mode 0644 or 0755, and sizes
//! are limited. Links are created last, so nothing is ever written through one.

mod error;
pub(super) mod names;
mod tar;
#[cfg(test)]
mod tests;
mod tree;
mod zip;

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::MultiGzDecoder;

pub use error::UnpackError;
pub(super) use tree::Tree;

/// The number of bytes that are read from an archive and written to a file at once.
const BUFFER_LENGTH: usize = 256 << 10;
/// The size of a tar header; a tar file has at least one.
const TAR_BLOCK: usize = 512;

/// Limits for the contents of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// The number of files, folders and links, including folders that are only implied.
    pub(super) n_entries: u64,
    /// The total size of all files in bytes.
    pub(super) n_bytes: u64,
    /// An archive of `n` bytes may contain at most `free_bytes + ratio * n` bytes.
    pub(super) free_bytes: u64,
    pub(super) ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { n_entries: 1 << 20, n_bytes: 64 << 30, free_bytes: 64 << 20, ratio: 200 }
    }
}

impl Limits {
    /// Returns how many bytes an archive of this length may contain.
    fn of_archive(&self, archive_length: u64) -> u64 {
        self.n_bytes.min(self.free_bytes.saturating_add(archive_length.saturating_mul(self.ratio)))
    }
}

/// Unpacks the archive at `path` into `folder` of `tree`; an empty `folder` means the top.
pub(super) fn unpack(path: &Path, folder: &str, tree: &mut Tree<'_>) -> Result<(), UnpackError> {
    let mut file = File::open(path).map_err(UnpackError::io("open", path))?;
    let length = file.metadata().map_err(UnpackError::io("inspect", path))?.len();
    let mut start = Vec::new();
    (&mut file).take(TAR_BLOCK as u64).read_to_end(&mut start).map_err(UnpackError::io("read", path))?;
    file.seek(SeekFrom::Start(0)).map_err(UnpackError::io("read", path))?;
    tree.begin_archive(length)?;
    match Format::of(&start)? {
        Format::Zip => zip::unpack(path, folder, tree),
        Format::Tar => tar::unpack(BufReader::with_capacity(BUFFER_LENGTH, file), folder, tree),
        Format::TarGz => {
            let mut decoder = MultiGzDecoder::new(BufReader::with_capacity(BUFFER_LENGTH, file));
            let mut start = Vec::new();
            (&mut decoder).take(TAR_BLOCK as u64).read_to_end(&mut start).map_err(UnpackError::Damaged)?;
            if Format::of(&start).ok() != Some(Format::Tar) {
                return Err(UnpackError::Format { found: "gzip with something else than a tar file in it" });
            }
            tar::unpack(start.chain(decoder), folder, tree)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Zip,
    Tar,
    TarGz,
}

impl Format {
    fn of(start: &[u8]) -> Result<Self, UnpackError> {
        if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
            return Ok(Self::Zip);
        }
        if start.starts_with(b"\x1F\x8B") {
            return Ok(Self::TarGz);
        }
        if tar::is_header(start) {
            return Ok(Self::Tar);
        }
        let known: [(&[u8], &str); 5] = [
            (b"\xFD7zXZ", "xz"),
            (b"\x28\xB5\x2F\xFD", "zstd"),
            (b"BZh", "bzip2"),
            (b"7z\xBC\xAF", "7z"),
            (b"", "something else"),
        ];
        let found = known.iter().find(|(magic, _)| start.starts_with(magic)).map_or("", |(_, name)| name);
        Err(UnpackError::Format { found: if start.is_empty() { "an empty file" } else { found } })
    }
}

/// Returns the path of `name` in `folder`; an empty `folder` means the top.
fn inside(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
