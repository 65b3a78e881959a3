//! All files of a checkpoint, and whether they agree with the index.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{LISTED, MAX_ELSEWHERE, ShardedError};
use super::kind::ShardKind;
use super::series::{Numbered, check_series};
use super::shard::Shard;
use crate::files::{FileBytes, RawTensor};
use crate::files::{Folder, FollowLinks, UnusableFile};
use crate::parallel::par_map;
use crate::safetensors::{ShardIndex, ShardIndexError};

/// The most missing files to look for, because an index may name millions.
const COUNTED: usize = 1000;

/// An open checkpoint of several files. What describes their tensors has been read, and agrees with the index.
#[derive(Clone, Debug)]
pub struct Sharded {
    place: String,
    index: ShardIndex,
    /// In the order of [`ShardIndex::files`].
    shards: Vec<Shard>,
}

impl Sharded {
    /// Opens the checkpoint with the index at `path`. Reading a tensor copies its bytes out of its file.
    ///
    /// # Errors
    /// [`ShardedError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ShardedError> {
        Self::open_following(path.as_ref(), FollowLinks::default(), |path| FileBytes::open(path))
    }

    /// Opens the checkpoint like [`open`](Self::open), but maps all files. No process may write to them while they are mapped
    /// ([`FileBytes::map`]).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn map(path: impl AsRef<Path>) -> Result<Self, ShardedError> {
        Self::open_following(path.as_ref(), FollowLinks::default(), |path| FileBytes::map(path))
    }

    /// Opens the checkpoint with the index at `path`. Its files are opened by `open`; `links` says which links to them are followed.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_following(
        path: &Path,
        links: FollowLinks,
        open: impl Fn(&Path) -> io::Result<FileBytes>,
    ) -> Result<Self, ShardedError> {
        let place = path.display().to_string();
        let io = |source| ShardedError::Io { place: place.clone(), source };
        let index = parse_index(&FileBytes::open(path).map_err(io)?, &place)?;
        let folder = Folder::of(path, links).map_err(io)?;
        // Comes first, because it stops early if an index names millions of files.
        let paths = resolve(&folder, &index, &place)?;
        check_numbers(&folder, &index, &place)?;
        let mut shards = Vec::with_capacity(paths.len());
        for (file, path) in index.files().zip(paths) {
            let shown = folder.named.join(file).display().to_string();
            let bytes = open(&path).map_err(|source| ShardedError::Io { place: shown.clone(), source })?;
            shards.push(Shard::open(bytes, shown)?);
        }
        Self::of_shards(place, index, shards)
    }

    /// Opens the checkpoint whose index has these bytes and is at `place`, a path or a URL. `open` opens the file of a name beside the index, on
    /// several threads. A file beside the index that the index should name (§7.4) is not noticed.
    ///
    /// # Errors
    /// [`ShardedError`].
    pub fn of_index(
        index: &FileBytes,
        place: impl Into<String>,
        open: impl Fn(&str) -> io::Result<FileBytes> + Sync,
    ) -> Result<Self, ShardedError> {
        /// How many files are opened at a time: each waits for an answer of its server.
        const AT_ONCE: usize = 8;
        let place = place.into();
        let index = parse_index(index, &place)?;
        let files: Vec<&str> = index.files().collect();
        if files.len() > MAX_ELSEWHERE {
            return Err(ShardedError::TooMany { place, found: files.len() });
        }
        check_series(&index, &place)?;
        let folder = place.rfind('/').map_or("", |end| &place[..=end]);
        let shards = par_map(
            files.len(),
            AT_ONCE,
            || (),
            |(), position| {
                let file = files[position];
                let shown = format!("{folder}{file}");
                let bytes = open(file).map_err(|source| match source.kind() {
                    io::ErrorKind::NotFound => {
                        let (place, files) = (place.clone(), vec![file.to_owned()]);
                        ShardedError::MissingShards { place, files, count: 1, section: "7.3" }
                    }
                    _ => ShardedError::Io { place: shown.clone(), source },
                })?;
                Shard::open(bytes, shown)
            },
        )?;
        Self::of_shards(place, index, shards)
    }

    /// Takes the files of an index, in its order.
    fn of_shards(place: String, index: ShardIndex, shards: Vec<Shard>) -> Result<Self, ShardedError> {
        let sharded = Self { place, index, shards };
        sharded.check_kinds()?;
        sharded.check_tensors()?;
        Ok(sharded)
    }

    /// Checks that all files are of one kind (§7.7).
    fn check_kinds(&self) -> Result<(), ShardedError> {
        let Some((file, first)) = self.shards().next() else { return Ok(()) };
        match self.shards().find(|(_, shard)| shard.kind() != first.kind()) {
            None => Ok(()),
            Some((other, shard)) => Err(ShardedError::Mixed {
                place: self.place.clone(),
                file: file.to_owned(),
                kind: first.kind(),
                other: other.to_owned(),
                other_kind: shard.kind(),
            }),
        }
    }

    /// Checks that each file has exactly the tensors that the index assigns to it (§7.5).
    fn check_tensors(&self) -> Result<(), ShardedError> {
        for (position, (file, shard)) in self.shards().enumerate() {
            for tensor in shard.names() {
                if self.index.position_of_file(tensor) != Some(position) {
                    return Err(ShardedError::ExtraTensor {
                        place: self.place.clone(),
                        tensor: tensor.to_owned(),
                        file: file.to_owned(),
                        said: self.index.file_of(tensor).map(str::to_owned),
                    });
                }
            }
        }
        for (tensor, file) in self.index.iter() {
            if !self.shard_of(tensor).is_some_and(|shard| shard.has(tensor)) {
                let (place, tensor, file) = (self.place.clone(), tensor.to_owned(), file.to_owned());
                return Err(ShardedError::MissingTensor { place, tensor, file });
            }
        }
        Ok(())
    }

    /// The path of the index, by which errors refer to the checkpoint.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> &ShardIndex {
        &self.index
    }

    /// The kind of all files; of no file, [`ShardKind::Safetensors`].
    #[must_use]
    pub fn kind(&self) -> ShardKind {
        self.shards.first().map_or(ShardKind::Safetensors, Shard::kind)
    }

    /// The names of the files with their readers, sorted by name.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&str, &Shard)> {
        self.index.files().zip(&self.shards)
    }

    /// The number of tensors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are no tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The names of all tensors, file by file, in the order of each.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shards.iter().flat_map(Shard::names)
    }

    /// Returns the file that has the tensor of this name.
    #[must_use]
    pub fn shard_of(&self, name: &str) -> Option<&Shard> {
        self.shards.get(self.index.position_of_file(name)?)
    }

    /// Reads the tensor of this name; see [`Shard::read`].
    ///
    /// # Errors
    /// [`ShardedError::NoSuchTensor`]; those of its file.
    pub fn read(&self, name: &str) -> Result<RawTensor, ShardedError> {
        match self.shard_of(name) {
            Some(shard) => shard.read(name),
            None => Err(ShardedError::NoSuchTensor { place: self.place.clone(), name: name.to_owned() }),
        }
    }
}

fn parse_index(bytes: &FileBytes, place: &str) -> Result<ShardIndex, ShardedError> {
    let io = |source| ShardedError::Io { place: place.to_owned(), source };
    let invalid = |source| ShardedError::Index { place: place.to_owned(), source };
    let length = bytes.len();
    if length > ShardIndex::MAX_LENGTH {
        return Err(invalid(ShardIndexError::TooLong { length }));
    }
    ShardIndex::parse(&bytes.read(0..length).map_err(io)?).map_err(invalid)
}

/// Returns the canonical paths of the files that the index names (§7.3).
fn resolve(folder: &Folder, index: &ShardIndex, place: &str) -> Result<Vec<PathBuf>, ShardedError> {
    let mut paths = Vec::with_capacity(index.files().len());
    let (mut missing, mut count) = (Vec::new(), 0);
    for file in index.files() {
        match folder.resolve(file) {
            Ok(path) => paths.push(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                count += 1;
                if count > COUNTED {
                    break;
                }
                missing.extend((count <= LISTED).then(|| file.to_owned()));
            }
            Err(source) => return Err(unusable(source, folder, file, place)),
        }
    }
    if count == 0 {
        return Ok(paths);
    }
    Err(ShardedError::MissingShards { place: place.to_owned(), files: missing, count, section: "7.3" })
}

/// The error about a file of the index that is not opened.
fn unusable(error: io::Error, folder: &Folder, file: &str, place: &str) -> ShardedError {
    let unusable = error.get_ref().and_then(|inner| inner.downcast_ref::<UnusableFile>()).cloned();
    let (place, file) = (place.to_owned(), file.to_owned());
    match unusable {
        Some(UnusableFile::NotAFile(found)) => ShardedError::NotAFile { place, file, found },
        Some(UnusableFile::Link { target, owner }) => ShardedError::Outside { place, file, target, owner },
        None => ShardedError::Io { place: folder.named.join(file).display().to_string(), source: error },
    }
}

/// Checks that the index names all files of each series, and that the folder has no other file of such a series (§7.4).
fn check_numbers(folder: &Folder, index: &ShardIndex, place: &str) -> Result<(), ShardedError> {
    let series = check_series(index, place)?;
    if series.is_empty() {
        return Ok(());
    }
    let named: BTreeSet<&str> = index.files().collect();
    let io = |source| ShardedError::Io { place: folder.named.display().to_string(), source };
    for entry in fs::read_dir(&folder.named).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        // The index cannot contain a name that is not UTF-8.
        let Some(name) = name.to_str() else { continue };
        let is_of_series = Numbered::parse(name).is_some_and(|file| series.contains(&file.series()));
        if is_of_series && !named.contains(name) {
            return Err(ShardedError::ExtraShard { place: place.to_owned(), file: name.to_owned() });
        }
    }
    Ok(())
}
