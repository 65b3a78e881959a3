//! Decides, before anything is written, the order of the entries and how each is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use carton_tensor::parallel::par_map;

use super::compress::{SAMPLE_LENGTH, is_worth_it, n_samples};
use super::header::{ALIGNED_FROM, Shape};
use super::{Compression, Content, Tail};
use crate::archive::{ArchiveError, EntryKind, MAX_ENTRIES, Method};
use crate::digest::Sha256Digest;
use crate::manifest::Manifest;
use crate::name::{self, Overlap};
use crate::source::{FileSource, Source};
use crate::{links, manifest};

/// The name of the metadata file.
const CARTON_TOML: &str = "carton.toml";

/// The number of files that a thread looks at before it takes the next ones.
const CHUNK: usize = 16;

/// Files up to this size are compressed in memory; above it, `Auto` takes Zstandard.
pub(super) const IN_MEMORY_LIMIT: u64 = 8 << 20;

/// An entry to write.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) content: Content,
    pub(super) size: u64,
    pub(super) treatment: Treatment,
    /// Whether its data begins at the start of a page even if it is small.
    pub(super) in_place: bool,
    /// The digest that it must have, if the MANIFEST is given.
    pub(super) expected: Option<Sha256Digest>,
}

/// How an entry is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Read completely and compressed with this method, or stored if that makes it no smaller.
    InMemory(Method),
    /// Stored while it is read. Its offset is known once that of the entry before it is.
    Stored,
    /// Compressed while it is read. Its length, and so the offset of all entries after it, is known at its end.
    Streamed(Method),
    /// Copied from another archive, with this method and this many bytes. Its offset is known as early as that of a stored entry.
    Copied(Method, u64),
}

impl Planned {
    /// An entry that every zip tool must be able to read.
    pub(super) fn metadata(name: &str, bytes: Vec<u8>) -> Result<Self, ArchiveError> {
        let size = bytes.len() as u64;
        let content = Content::Bytes(bytes);
        let treatment = match treatment(&content, size, Compression::Auto)? {
            Treatment::InMemory(Method::Zstd) | Treatment::Streamed(_) => Treatment::Stored,
            treatment => treatment,
        };
        Ok(Self { name: name.to_owned(), content, size, treatment, in_place: false, expected: None })
    }

    /// The shape of its local header at `offset`, before data that this method stores in at most `largest` bytes.
    pub(super) fn shape(&self, offset: u64, method: Method, largest: u64) -> Shape {
        Shape::new(&self.name, offset, method, self.size, largest, self.in_place)
    }

    /// Compares a digest with the one that it must have.
    pub(super) fn check_digest(&self, found: Sha256Digest) -> Result<(), ArchiveError> {
        match self.expected {
            Some(expected) if expected != found => {
                Err(ArchiveError::Digest { name: self.name.clone(), expected, found })
            }
            _ => Ok(()),
        }
    }
}

/// The part of the archive to which an entry belongs. The metadata comes last, so that one read of the file's end finds it.
fn part(name: &str) -> u8 {
    match name.split_once('/') {
        Some(("model", _)) => 0,
        Some(("misc", _)) => 1,
        Some(("tensor_data", _)) => 2,
        _ => 3,
    }
}

/// Checks the names, sorts the entries, samples the files, and decides on the treatment of each.
pub(super) fn make(
    mut entries: Vec<(String, Content)>,
    tail: Tail,
    compression: Compression,
    threads: usize,
) -> Result<Vec<Planned>, ArchiveError> {
    entries.sort_by(|(a, _), (b, _)| (part(a), a).cmp(&(part(b), b)));
    let in_place: Vec<bool> = entries.iter_mut().map(|(_, content)| take_in_place(content)).collect();
    check_names(&entries, &tail)?;

    // All threads read sizes and samples, each of the next few files.
    let decide = |index: usize| -> Result<(u64, Treatment), ArchiveError> {
        let content = &entries[index].1;
        let size = size(content)?;
        let compression = if in_place[index] { Compression::Stored } else { compression };
        Ok(match treatment(content, size, compression)? {
            Treatment::InMemory(Method::Stored) if in_place[index] && size > 0 => (size, Treatment::Stored),
            treatment => (size, treatment),
        })
    };
    let n_chunks = entries.len().div_ceil(CHUNK);
    let decisions = par_map(
        n_chunks,
        threads,
        || (),
        |(), chunk| {
            let end = entries.len().min((chunk + 1) * CHUNK);
            (chunk * CHUNK..end).map(decide).collect::<Result<Vec<_>, _>>()
        },
    )?;
    let decisions = decisions.into_iter().flatten();

    let decided = entries.into_iter().zip(decisions).zip(in_place);
    let planned = |(((name, content), (size, treatment)), in_place)| Planned {
        name,
        content,
        size,
        treatment,
        in_place,
        expected: None,
    };
    let mut plan: Vec<_> = decided.map(planned).collect();
    if let Some(bytes) = tail.links {
        plan.push(Planned::metadata(links::NAME, bytes)?);
    }
    plan.push(Planned::metadata(CARTON_TOML, tail.carton_toml)?);
    if let Some(manifest) = &tail.manifest {
        expect(&mut plan, manifest, &tail.linked)?;
    }
    Ok(plan)
}

/// Sets the expected digest of each entry from `manifest`, which must list exactly these entries and linked files.
fn expect(
    plan: &mut [Planned],
    manifest: &Manifest,
    linked: &BTreeMap<String, Sha256Digest>,
) -> Result<(), ArchiveError> {
    let unlisted = |name: &str| ArchiveError::Input {
        name: name.to_owned(),
        reason: "the given MANIFEST does not list it".to_owned(),
    };
    let mut n_found = linked.len();
    for planned in plan.iter_mut().filter(|planned| planned.name != links::NAME) {
        planned.expected = Some(manifest.get(&planned.name).ok_or_else(|| unlisted(&planned.name))?);
        n_found += 1;
    }
    for (name, found) in linked {
        let expected = manifest.get(name).ok_or_else(|| unlisted(name))?;
        if expected != *found {
            return Err(ArchiveError::Digest { name: name.clone(), expected, found: *found });
        }
    }
    // No name occurs twice, so equal counts mean that every listed name is present.
    if n_found != manifest.len() {
        let there: BTreeSet<&str> =
            plan.iter().map(|planned| planned.name.as_str()).chain(linked.keys().map(String::as_str)).collect();
        let missing = manifest.iter().map(|(name, _)| name).find(|name| !there.contains(name)).unwrap_or_default();
        let reason = "the given MANIFEST lists it, and it is not there".to_owned();
        return Err(ArchiveError::Input { name: missing.to_owned(), reason });
    }
    Ok(())
}

fn check_names(entries: &[(String, Content)], tail: &Tail) -> Result<(), ArchiveError> {
    let mut names: Vec<_> =
        entries.iter().map(|(name, _)| name).chain(tail.linked.keys()).map(String::as_str).collect();
    // Counts carton.toml, LINKS and MANIFEST.
    let found = names.len() as u64 + 3;
    if found > MAX_ENTRIES {
        return Err(ArchiveError::Limit { what: "number of entries".to_owned(), limit: MAX_ENTRIES, found });
    }
    names.sort_unstable();
    let mut tree = name::Tree::default();
    for name in names {
        let refuse = |reason: String| ArchiveError::Input { name: name.to_owned(), reason };
        // A file copied from another writer's carton keeps its name, so the rules for reading apply.
        name::check_read(name.as_bytes()).map_err(|source| ArchiveError::Name { name: name.to_owned(), source })?;
        let top = name.split('/').next();
        if [CARTON_TOML, links::NAME, manifest::NAME].iter().any(|reserved| top == Some(reserved)) {
            return Err(refuse("the name is reserved".to_owned()));
        }
        tree.add(name, false).map_err(|overlap| match overlap {
            Overlap::Duplicate => refuse("it is there twice".to_owned()),
            Overlap::InsideFile(file) => refuse(format!("`{file}` is a file")),
        })?;
    }
    for (name, content) in entries {
        if let Content::Entry(_, entry) = content
            && entry.kind() != EntryKind::File
        {
            return Err(ArchiveError::Input {
                name: name.clone(),
                reason: "it is not a file in its archive".to_owned(),
            });
        }
        if let Content::Symlink(target, _) = content {
            let refuse = |error| ArchiveError::Input {
                name: name.clone(),
                reason: format!("it is a link to `{}`: {error}", target.escape_debug()),
            };
            name::resolve_link(name, target.as_bytes()).map_err(refuse)?;
        }
    }
    Ok(())
}

/// Unwraps [`Content::InPlace`], and returns whether the content was one.
fn take_in_place(content: &mut Content) -> bool {
    let mut found = false;
    while let Content::InPlace(inner) = content {
        *content = std::mem::replace(&mut **inner, Content::Bytes(Vec::new()));
        found = true;
    }
    found
}

fn size(content: &Content) -> Result<u64, ArchiveError> {
    match content {
        Content::Bytes(bytes) => Ok(bytes.len() as u64),
        Content::Symlink(target, _) => Ok(target.len() as u64),
        Content::Entry(_, entry) => Ok(entry.size()),
        Content::InPlace(content) => size(content),
        Content::File(path) => {
            let metadata = std::fs::metadata(path).map_err(|error| read_error(path, error))?;
            if !metadata.is_file() {
                let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file");
                return Err(read_error(path, error));
            }
            Ok(metadata.len())
        }
    }
}

fn treatment(content: &Content, size: u64, compression: Compression) -> Result<Treatment, ArchiveError> {
    if let Content::Entry(_, entry) = content {
        // Other writers may store no data for an empty file, which need not be a complete compressed stream.
        return Ok(match size {
            0 => Treatment::InMemory(Method::Stored),
            _ => Treatment::Copied(entry.method(), entry.compressed_size()),
        });
    }
    let method = match compression {
        _ if matches!(content, Content::Symlink(..)) => Method::Stored,
        Compression::Stored => Method::Stored,
        Compression::Deflate => Method::Deflate,
        Compression::Zstd => Method::Zstd,
        Compression::Auto if size >= ALIGNED_FROM && !is_worth_it(&samples(content, size)?)? => Method::Stored,
        Compression::Auto if size > IN_MEMORY_LIMIT => Method::Zstd,
        Compression::Auto => Method::Deflate,
    };
    Ok(match method {
        Method::Stored if size >= ALIGNED_FROM => Treatment::Stored,
        method if size <= IN_MEMORY_LIMIT => Treatment::InMemory(method),
        method => Treatment::Streamed(method),
    })
}

/// Pieces of the content, spread evenly.
fn samples(content: &Content, size: u64) -> Result<Vec<u8>, ArchiveError> {
    let n_samples = n_samples(size);
    let step = (size - SAMPLE_LENGTH) / (n_samples - 1);
    let mut samples = vec![0; (n_samples * SAMPLE_LENGTH) as usize];
    let pieces = samples.chunks_exact_mut(SAMPLE_LENGTH as usize);
    let offsets = (0..n_samples).map(|index| index * step);
    match content {
        Content::File(path) => {
            let file = open(path, size)?;
            for (piece, offset) in pieces.zip(offsets) {
                file.read_at(offset, piece).map_err(|error| short_read(path, size, &file, error))?;
            }
        }
        Content::Bytes(bytes) => {
            for (piece, offset) in pieces.zip(offsets) {
                let offset = offset as usize;
                piece.copy_from_slice(&bytes[offset..offset + SAMPLE_LENGTH as usize]);
            }
        }
        // Their compressibility is never sampled.
        Content::Symlink(..) | Content::Entry(..) | Content::InPlace(_) => {}
    }
    Ok(samples)
}

/// Opens a file that is expected to have `size` bytes.
pub(super) fn open(path: &Path, size: u64) -> Result<FileSource, ArchiveError> {
    let file = FileSource::open(path).map_err(|error| read_error(path, error))?;
    if file.len() != size {
        return Err(ArchiveError::SourceChanged { path: path.to_owned(), expected: size, found: file.len() });
    }
    Ok(file)
}

/// Checks that a file still has `size` bytes after it was read.
pub(super) fn check_unchanged(path: &Path, size: u64, file: &FileSource) -> Result<(), ArchiveError> {
    match file.file().map(std::fs::File::metadata) {
        Some(Ok(metadata)) if metadata.len() != size => {
            Err(ArchiveError::SourceChanged { path: path.to_owned(), expected: size, found: metadata.len() })
        }
        Some(Err(error)) => Err(read_error(path, error)),
        _ => Ok(()),
    }
}

/// The error of a failed read, which may be that the file is shorter now.
pub(super) fn short_read(path: &Path, size: u64, file: &FileSource, error: std::io::Error) -> ArchiveError {
    match check_unchanged(path, size, file) {
        Err(changed) => changed,
        Ok(()) => read_error(path, error),
    }
}

fn read_error(path: &Path, source: std::io::Error) -> ArchiveError {
    ArchiveError::Io { action: "read", location: PathBuf::from(path).display().to_string(), source }
}
