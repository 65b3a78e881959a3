//! Unpacks the archives of runners (spec/runner-descriptor.md, "Archives"): zip, tar and tar.gz, recognized by their content.
//!
//! An archive is not trusted, even if its hash is right. [`names`] and [`tree`] enforce the rules for all formats: no name and no
//! link leaves the folder, no name occurs twice, there are only files, folders and links, files have mode 0644 or 0755, and sizes
//! are limited. Links are created last, so nothing is ever written through one.

mod error;
mod limits;
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

pub(crate) use error::UnpackError;
pub(super) use limits::UnpackLimits;
pub(super) use tree::Tree;

use tar::TAR_BLOCK;
use tree::BUFFER_LENGTH;

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
