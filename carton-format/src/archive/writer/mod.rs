//! Writes a carton's zip file: layout, alignment and choice of compression (spec/carton-format.md, "What is written").
//!
//! The same input gives the same bytes on every machine and with any number of threads. Files are hashed, compressed and written while
//! they are read, on all cores; the memory in use does not depend on their sizes.

mod compress;
mod copy;
mod header;
mod input;
mod plan;
mod schedule;
#[cfg(test)]
mod tests;
mod worker;

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;

pub use self::input::{Compression, Content, Tail};

use self::header::Placed;
use self::plan::Planned;
use self::worker::write_error;
use super::record::{
    EndOfCentralDirectory, IN_ZIP64_16, IN_ZIP64_32, Zip64EndOfCentralDirectory, Zip64EndOfCentralDirectoryLocator,
};
use super::{ArchiveError, MAX_DIRECTORY_LENGTH};
use crate::context::Context;
use crate::manifest::{self, Manifest};

/// More threads need more memory and do not help, because the output is one file.
const MAX_THREADS: usize = 16;

/// Writes a carton to `output` and returns its MANIFEST, which is made here unless the tail has one.
///
/// `entries` are all files except `carton.toml`, `LINKS` and `MANIFEST`, by their path in the carton, in any order. Existing contents of
/// `output` are overwritten; after an error its contents are unspecified. The caller names the file, and renames it when it is complete.
///
/// ```
/// use carton_format::archive::Compression;
/// use carton_format::context::Context;
/// use carton_format::archive::{Content, Tail, write};
///
/// let mut output = tempfile::tempfile()?;
/// let entries = vec![("model/greeting.txt".to_owned(), Content::Bytes(b"hello".to_vec()))];
/// let tail = Tail { carton_toml: b"spec_version = 1".to_vec(), ..Tail::default() };
/// let manifest = write(&mut output, entries, tail, Compression::Auto, &Context::default())?;
/// assert_eq!(manifest.iter().map(|(path, _)| path).collect::<Vec<_>>(), ["carton.toml", "model/greeting.txt"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ArchiveError::Input`] for paths that a carton cannot have or that the given MANIFEST does not list, [`ArchiveError::Digest`] for a
/// file with another digest than it lists, [`ArchiveError::SourceChanged`] for a file whose size changes meanwhile,
/// [`ArchiveError::Interrupted`] once `context` is cancelled, and [`ArchiveError::Io`]; for entries of another archive also the errors
/// of reading that one.
pub fn write(
    output: &mut File,
    entries: Vec<(String, Content)>,
    tail: Tail,
    compression: Compression,
    context: &Context,
) -> Result<Manifest, ArchiveError> {
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS);
    write_on(threads, output, entries, tail, compression, context)
}

/// [`write`] with a given number of threads.
fn write_on(
    threads: usize,
    output: &mut File,
    entries: Vec<(String, Content)>,
    tail: Tail,
    compression: Compression,
    context: &Context,
) -> Result<Manifest, ArchiveError> {
    let (linked, given) = (tail.linked.clone(), tail.manifest.clone());
    let plan = plan::make(entries, tail, compression, threads)?;
    let (placed, mut end) = worker::run(&plan, threads, output, context)?;

    let manifest = match given {
        // Every digest was compared with it.
        Some(given) => given,
        None => {
            let listed = plan.iter().zip(&placed).filter(|(planned, _)| planned.name != crate::links::NAME);
            let digests = listed.map(|(planned, placed)| (planned.name.clone(), placed.outcome.digest)).chain(linked);
            Manifest::from_entries(digests)
                .map_err(|error| ArchiveError::Input { name: manifest::NAME.to_owned(), reason: error.to_string() })?
        }
    };

    let planned = Planned::metadata(manifest::NAME, manifest.to_bytes().to_vec())?;
    let (written, length) = worker::write_one(&planned, end, output)?;
    end += length;
    let end = write_directory(output, plan.iter().zip(&placed).chain([(&planned, &written)]), end)?;
    // Cuts off what remains of earlier contents of the file.
    output.set_len(end).map_err(write_error)?;
    Ok(manifest)
}

/// Writes the central directory and the end records at `offset`, and returns the offset of their end.
fn write_directory<'a>(
    output: &File,
    entries: impl Iterator<Item = (&'a Planned, &'a Placed)>,
    offset: u64,
) -> Result<u64, ArchiveError> {
    let mut bytes = Vec::new();
    let mut written = 0;
    let mut n_entries = 0u64;
    for (planned, placed) in entries {
        let is_link = matches!(planned.content, Content::Symlink(..));
        header::write_central(&planned.name, is_link, placed, &mut bytes);
        n_entries += 1;
        if bytes.len() >= 4 << 20 {
            output.write_all_at(&bytes, offset + written).map_err(write_error)?;
            written += bytes.len() as u64;
            bytes.clear();
        }
    }
    let size = written + bytes.len() as u64;
    if size > MAX_DIRECTORY_LENGTH {
        let what = "central directory size".to_owned();
        return Err(ArchiveError::Limit { what, limit: MAX_DIRECTORY_LENGTH, found: size });
    }
    let short = u16::try_from(n_entries).unwrap_or(IN_ZIP64_16);
    let record = EndOfCentralDirectory {
        disk: 0,
        directory_disk: 0,
        entries_on_disk: short,
        entries: short,
        directory_size: u32::try_from(size).unwrap_or(IN_ZIP64_32),
        directory_offset: u32::try_from(offset).unwrap_or(IN_ZIP64_32),
        comment_length: 0,
    };
    if record.entries == IN_ZIP64_16 || record.directory_offset == IN_ZIP64_32 {
        let zip64 = Zip64EndOfCentralDirectory {
            record_size: Zip64EndOfCentralDirectory::LENGTH as u64 - Zip64EndOfCentralDirectory::UNCOUNTED,
            version_made_by: header::VERSION_MADE_BY,
            version_needed: header::VERSION_ZIP64,
            disk: 0,
            directory_disk: 0,
            entries_on_disk: n_entries,
            entries: n_entries,
            directory_size: size,
            directory_offset: offset,
        };
        zip64.write(&mut bytes);
        Zip64EndOfCentralDirectoryLocator { disk: 0, offset: offset + size, disks: 1 }.write(&mut bytes);
    }
    record.write(&mut bytes);
    output.write_all_at(&bytes, offset + written).map_err(write_error)?;
    Ok(offset + written + bytes.len() as u64)
}
