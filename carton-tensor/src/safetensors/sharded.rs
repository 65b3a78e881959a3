//! Reads a sharded checkpoint, several files with an index, as one (spec/safetensors.md §7).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::quoted;
use super::index::{ShardIndex, ShardIndexError};
use super::{Reader, SafetensorsError, TensorInfo};
use crate::files::{FileBytes, RawTensor};
use crate::parallel::par_map;

/// The reason that a sharded checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardedError {
    /// The index breaks a rule.
    #[error("`{place}` is not a valid index of safetensors files")]
    Index {
        /// The index.
        place: String,
        /// The rule.
        #[source]
        source: ShardIndexError,
    },
    /// Files are missing that the index names, or that the numbers in the names of the other files imply.
    #[error(
        "`{place}`: {count} of its files {} missing: {} (spec/safetensors.md §{section})",
        if *.count == 1 { "is" } else { "are" }, list(.files, *.count)
    )]
    MissingShards {
        /// The index.
        place: String,
        /// The first of the missing files.
        files: Vec<String>,
        /// The number of missing files. For §7.3, counting stops at 1001, which means more than 1000.
        count: usize,
        /// §7.3 if the index names the files, §7.4 if it does not.
        section: &'static str,
    },
    /// The name of a file says that it belongs to the checkpoint, but the index does not name it.
    #[error(
        "`{place}` does not name {}, whose name says that it is one of its files (spec/safetensors.md §7.4)",
        quoted(.file)
    )]
    ExtraShard {
        /// The index.
        place: String,
        /// The file.
        file: String,
    },
    /// The index names something that is not a regular file.
    #[error(
        "{} of `{place}` is {found}, expected a safetensors file (spec/safetensors.md §7.3)", quoted(.file)
    )]
    NotAFile {
        /// The index.
        place: String,
        /// The name of the file.
        file: String,
        /// What was found under the name.
        found: &'static str,
    },
    /// A symbolic link leads out of the checkpoint.
    #[error("{} of `{place}` is a link that leads out of its folder (spec/safetensors.md §7.3)", quoted(.file))]
    Outside {
        /// The index.
        place: String,
        /// The file.
        file: String,
    },
    /// A tensor is not in the file that the index names for it.
    #[error(
        "`{place}` says that tensor {} is in {}, which does not have it (spec/safetensors.md §7.5)",
        quoted(.tensor), quoted(.file)
    )]
    MissingTensor {
        /// The index.
        place: String,
        /// The tensor.
        tensor: String,
        /// The file that the index names for the tensor.
        file: String,
    },
    /// A file has a tensor for which the index names another file, or none.
    #[error(
        "`{place}` does not say that tensor {} is in {}, which has it{} (spec/safetensors.md §7.5)",
        quoted(.tensor), quoted(.file), other(.said)
    )]
    ExtraTensor {
        /// The index.
        place: String,
        /// The tensor.
        tensor: String,
        /// The file that has it.
        file: String,
        /// The file that the index names for the tensor, if any.
        said: Option<String>,
    },
    /// No shard has a tensor of this name.
    #[error("`{place}` has no tensor {}", quoted(.name))]
    NoSuchTensor {
        /// The index.
        place: String,
        /// The requested name.
        name: String,
    },
    /// One of the files cannot be read.
    #[error(transparent)]
    Shard(#[from] SafetensorsError),
    /// The index of a checkpoint that is not in a folder of this machine names too many files.
    #[error("`{place}` names {found} files, and elsewhere than in a folder at most {MAX_ELSEWHERE} are opened")]
    TooMany {
        /// The index.
        place: String,
        /// The number of files.
        found: usize,
    },
    /// The index or the folder cannot be read.
    #[error("cannot read `{place}`")]
    Io {
        /// The index, its folder or a file in it.
        place: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// The most files of a checkpoint that is not in a folder of this machine: each takes a request.
const MAX_ELSEWHERE: usize = 10_000;

/// The most file names that an error lists.
const LISTED: usize = 10;

/// The most missing files to look for, because an index may name millions.
const COUNTED: usize = 1000;

fn list(files: &[String], count: usize) -> String {
    let shown: Vec<String> = files.iter().take(LISTED).map(|file| quoted(file).to_string()).collect();
    let more = count.saturating_sub(shown.len());
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

fn other(file: &Option<String>) -> String {
    file.as_ref().map(|file| format!(", but in {}", quoted(file))).unwrap_or_default()
}

/// An open checkpoint of several files. All headers have been read and agree with the index.
#[derive(Clone, Debug)]
pub struct Sharded {
    place: String,
    index: ShardIndex,
    /// In the order of [`ShardIndex::files`].
    shards: Vec<Reader>,
}

impl Sharded {
    /// Opens the checkpoint with the index at `path`. Reading a tensor copies its bytes out of its file.
    ///
    /// # Errors
    /// [`ShardedError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ShardedError> {
        Self::of_path(path.as_ref(), |path| FileBytes::open(path))
    }

    /// Opens the checkpoint like [`open`](Self::open), but maps all files. No process may write to them while they are mapped
    /// ([`FileBytes::map`]).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn map(path: impl AsRef<Path>) -> Result<Self, ShardedError> {
        Self::of_path(path.as_ref(), |path| FileBytes::map(path))
    }

    fn of_path(path: &Path, open: impl Fn(&Path) -> io::Result<FileBytes>) -> Result<Self, ShardedError> {
        let place = path.display().to_string();
        let index = read_index(path, &place)?;
        let folders = Folders::of(path, &place)?;
        // Comes first, because it stops early if an index names millions of files.
        let paths = folders.resolve(&index, &place)?;
        folders.check_numbers(&index, &place)?;
        let mut shards = Vec::with_capacity(paths.len());
        for (file, path) in index.files().zip(paths) {
            let shown = folders.named.join(file).display().to_string();
            let bytes = open(&path).map_err(|source| ShardedError::Io { place: shown.clone(), source })?;
            shards.push(Reader::new(bytes, shown)?);
        }
        let sharded = Self { place, index, shards };
        sharded.check_tensors()?;
        Ok(sharded)
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
                Ok::<_, ShardedError>(Reader::new(bytes, shown)?)
            },
        )?;
        let sharded = Self { place, index, shards };
        sharded.check_tensors()?;
        Ok(sharded)
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
            if self.get(tensor).is_none() {
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

    /// The names of the files with their readers, sorted by name.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&str, &Reader)> {
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

    /// The names of all tensors, file by file, in the order of their data.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shards.iter().flat_map(Reader::names)
    }

    /// Returns the file that has the tensor of this name.
    #[must_use]
    pub fn shard_of(&self, name: &str) -> Option<&Reader> {
        self.shards.get(self.index.position_of_file(name)?)
    }

    /// Returns the tensor of this name, without its data. Its range is relative to [its file](Self::shard_of).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<TensorInfo<'_>> {
        self.shard_of(name)?.get(name)
    }

    /// Reads the tensor of this name; see [`Reader::read`].
    ///
    /// # Errors
    /// [`ShardedError::NoSuchTensor`]; [`ShardedError::Shard`].
    pub fn read(&self, name: &str) -> Result<RawTensor, ShardedError> {
        match self.shard_of(name) {
            Some(shard) => Ok(shard.read(name)?),
            None => Err(ShardedError::NoSuchTensor { place: self.place.clone(), name: name.to_owned() }),
        }
    }
}

fn read_index(path: &Path, place: &str) -> Result<ShardIndex, ShardedError> {
    let bytes = FileBytes::open(path).map_err(|source| ShardedError::Io { place: place.to_owned(), source })?;
    parse_index(&bytes, place)
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

/// Refuses everything but regular files: a folder cannot be read, and opening a pipe would wait for a writer.
fn check_regular(path: &Path, file: &str, place: &str) -> Result<(), ShardedError> {
    let io = |source| ShardedError::Io { place: path.display().to_string(), source };
    let metadata = fs::metadata(path).map_err(io)?;
    if metadata.is_file() {
        return Ok(());
    }
    let found = if metadata.is_dir() { "a folder" } else { "a device, a pipe or a socket" };
    Err(ShardedError::NotAFile { place: place.to_owned(), file: file.to_owned(), found })
}

/// The folders in which the files of a checkpoint may be.
struct Folders {
    /// The folder of the index, as the caller named it.
    named: PathBuf,
    /// The canonical form of the same folder, and the folder that holds the index itself if the index is a link.
    real: [PathBuf; 2],
}

impl Folders {
    fn of(index: &Path, place: &str) -> Result<Self, ShardedError> {
        let named = match index.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let io = |source| ShardedError::Io { place: place.to_owned(), source };
        let folder = fs::canonicalize(&named).map_err(io)?;
        let mut target = fs::canonicalize(index).map_err(io)?;
        target.pop();
        Ok(Self { named, real: [folder, target] })
    }

    /// Returns the canonical paths of the files that the index names (§7.3).
    fn resolve(&self, index: &ShardIndex, place: &str) -> Result<Vec<PathBuf>, ShardedError> {
        let mut paths = Vec::with_capacity(index.files().len());
        let (mut missing, mut count) = (Vec::new(), 0);
        for file in index.files() {
            let path = self.named.join(file);
            match fs::canonicalize(&path) {
                Ok(real) if self.real.iter().any(|folder| real.starts_with(folder)) => {
                    check_regular(&real, file, place)?;
                    paths.push(real);
                }
                Ok(_) => return Err(ShardedError::Outside { place: place.to_owned(), file: file.to_owned() }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    count += 1;
                    if count > COUNTED {
                        break;
                    }
                    missing.extend((count <= LISTED).then(|| file.to_owned()));
                }
                Err(source) => return Err(ShardedError::Io { place: path.display().to_string(), source }),
            }
        }
        if count == 0 {
            return Ok(paths);
        }
        Err(ShardedError::MissingShards { place: place.to_owned(), files: missing, count, section: "7.3" })
    }

    /// Checks that the index names all files of each numbered series, and that the folder has no other file of such a series (§7.4).
    fn check_numbers(&self, index: &ShardIndex, place: &str) -> Result<(), ShardedError> {
        let series = check_series(index, place)?;
        if series.is_empty() {
            return Ok(());
        }
        let named: BTreeSet<&str> = index.files().collect();
        let io = |source| ShardedError::Io { place: self.named.display().to_string(), source };
        for entry in fs::read_dir(&self.named).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            // The index cannot contain a name that is not UTF-8.
            let Some(name) = name.to_str() else { continue };
            let is_of_series = Numbered::parse(name).is_some_and(|file| series.contains(&(file.prefix, file.total)));
            if is_of_series && !named.contains(name) {
                return Err(ShardedError::ExtraShard { place: place.to_owned(), file: name.to_owned() });
            }
        }
        Ok(())
    }
}

/// Checks that the index names all files of each numbered series (§7.4). Returns the prefix and the total of each.
fn check_series<'i>(index: &'i ShardIndex, place: &str) -> Result<BTreeSet<(&'i str, &'i str)>, ShardedError> {
    // For each series, the numbers and how many digits they have.
    let mut series: BTreeMap<(&str, &str), (BTreeSet<u32>, usize)> = BTreeMap::new();
    for file in index.files().filter_map(Numbered::parse) {
        let (numbers, width) = series.entry((file.prefix, file.total)).or_default();
        numbers.extend(file.number.parse::<u32>());
        *width = file.number.len();
    }
    for (&(prefix, total), (numbers, width)) in &series {
        let Ok(n_files) = total.parse::<u32>() else { continue };
        // Almost all writers count from 1.
        let first = u32::from(!numbers.contains(&0));
        let expected = first..first.saturating_add(n_files);
        let count = n_files as usize - numbers.range(expected.clone()).count();
        if count > 0 {
            let missing = expected.filter(|number| !numbers.contains(number)).take(LISTED);
            let files = missing.map(|number| format!("{prefix}-{number:0width$}-of-{total}.safetensors")).collect();
            return Err(ShardedError::MissingShards { place: place.to_owned(), files, count, section: "7.4" });
        }
    }
    Ok(series.into_keys().collect())
}

/// A name of the form `PREFIX-NUMBER-of-TOTAL.safetensors`.
struct Numbered<'n> {
    prefix: &'n str,
    number: &'n str,
    total: &'n str,
}

impl<'n> Numbered<'n> {
    fn parse(name: &'n str) -> Option<Self> {
        let (rest, total) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let is_number = |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(number) && is_number(total)).then_some(Self { prefix, number, total })
    }
}
