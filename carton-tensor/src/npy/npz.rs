//! `.npz`: a zip file of `.npy` files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
#[cfg(feature = "weights")]
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zip::read::ZipArchive;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::error::{NpyError, Problem};
#[cfg(feature = "files")]
use super::{Array, ArrayInfo};
use super::{Size, elements, read_bounded};
use crate::Tensor;
use crate::content::Content;
#[cfg(feature = "files")]
use crate::files::ElementType;
#[cfg(feature = "weights")]
use crate::files::Visit;
use crate::fill::fill;

const SUFFIX: &str = ".npy";
/// The first bytes of a zip file that is not empty.
const LOCAL_FILE_HEADER: &[u8; 4] = b"PK\x03\x04";
/// The first bytes of the last record of a zip file.
const END: &[u8; 4] = b"PK\x05\x06";
/// The bytes of the last record without its comment, and the longest comment.
const END_LENGTH: u64 = 22;
const MAX_COMMENT: u64 = 65_535;
/// The highest compression ratio of deflate. An entry that claims a higher one is invalid.
const MAX_DEFLATE_RATIO: u64 = 1032;

/// An open `.npz` file. Opening it reads the names; each array is read on request.
///
/// ```
/// use carton_tensor::npy::{Npz, write_npz};
/// use carton_tensor::Tensor;
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("cases.npz");
/// let (x, y) = (Tensor::scalar(1.5_f32), Tensor::from_strings(["a", "b"], vec![2])?);
/// write_npz(std::fs::File::create(&path)?, [("x", &x), ("y", &y)])?;
///
/// let mut cases = Npz::open(&path)?;
/// assert_eq!(cases.names(), ["x", "y"]);
/// assert_eq!(cases.read("y")?, y);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Clones share the list of arrays, and read independently where their readers do.
#[derive(Clone)]
pub struct Npz<R = BufReader<File>> {
    place: String,
    limit: u64,
    archive: ZipArchive<R>,
    /// The bytes of the whole file.
    size: u64,
    list: Arc<ArrayList>,
}

/// The entries of an archive.
struct ArrayList {
    /// The names of the arrays, in the order of the file.
    names: Vec<String>,
    /// The position of each name in the archive.
    positions: BTreeMap<String, usize>,
    /// The names of the entries that are no arrays.
    others: Vec<String>,
}

impl Npz {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`NpyError`], naming the path.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, NpyError> {
        let place = path.as_ref().display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_reader(BufReader::new(file), &place),
            Err(error) => Err(Problem::Io(error).at(&place)),
        }
    }
}

impl<R: Read + Seek> Npz<R> {
    /// Opens an archive from `reader`. Errors refer to it as `place`.
    ///
    /// # Errors
    /// [`NpyError::Format`] if it is not a zip file or has two arrays of one name; [`NpyError::NotNpz`] if it has entries, but no array;
    /// [`NpyError::Io`].
    pub fn from_reader(mut reader: R, place: &str) -> Result<Self, NpyError> {
        let open = || {
            let size = reader.seek(SeekFrom::End(0))?;
            check_ends(&mut reader, size)?;
            let archive = ZipArchive::new(reader).map_err(of_zip)?;
            let (mut names, mut positions, mut others) = (Vec::new(), BTreeMap::new(), Vec::new());
            for position in 0..archive.len() {
                let Some(entry) = archive.name_for_index(position) else { continue };
                // Other entries are not arrays. NumPy returns them as bytes; here only their names are known.
                let entry = entry.map_err(of_zip)?;
                let Some(name) = entry.strip_suffix(SUFFIX) else {
                    others.push(entry.into_owned());
                    continue;
                };
                if positions.insert(name.to_owned(), position).is_some() {
                    return Err(Problem::Format(format!("it has two arrays `{name}`")));
                }
                names.push(name.to_owned());
            }
            // An archive of nothing is what NumPy writes for no arrays.
            if names.is_empty() && !others.is_empty() {
                return Err(Problem::NotNpz(Content::of_zip(others.iter().map(String::as_str))));
            }
            if archive.has_duplicate_names() {
                return Err(Problem::Format("two of its entries have the same name".to_owned()));
            }
            let list = Arc::new(ArrayList { names, positions, others });
            Ok(Self { place: place.to_owned(), limit: u64::MAX, archive, size, list })
        };
        open().map_err(|problem| problem.at(place))
    }

    /// Sets the most bytes, including the header, that an array may take. Without a limit, the size of the file bounds a stored array,
    /// and about a thousand times its compressed size bounds a compressed one.
    #[must_use]
    pub fn with_limit(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// The names of the arrays, without `.npy`, in the order of the file.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.list.names
    }

    /// The names of the entries that are no arrays, and are not read.
    #[must_use]
    pub fn other_entries(&self) -> &[String] {
        &self.list.others
    }

    /// Reads one array, without touching the others.
    ///
    /// # Errors
    /// [`NpyError::NoSuchArray`]; other [`NpyError`]s, naming file and array as `PATH#NAME`.
    pub fn read(&mut self, name: &str) -> Result<Tensor, NpyError> {
        self.with_entry(name, |entry, size, limit| read_bounded(entry, size, limit))
    }

    /// Reads the header of one array.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[cfg(feature = "files")]
    pub fn array_info(&mut self, name: &str) -> Result<ArrayInfo, NpyError> {
        self.with_entry(name, |entry, size, _| ArrayInfo::read(entry, size))
    }

    /// Where the archive holds the elements of an array, which `info` describes, if it holds them as a tensor has them.
    #[cfg(feature = "weights")]
    pub(crate) fn plain_elements(&mut self, name: &str, info: &ArrayInfo) -> Option<Range<u64>> {
        let plain_from = info.plain_from?;
        let entry = self.archive.by_index(*self.list.positions.get(name)?).ok()?;
        let data = entry.data_start().filter(|_| entry.compression() == CompressionMethod::Stored)?;
        let start = data.checked_add(plain_from)?;
        let end = start.checked_add(info.n_bytes).filter(|&end| end <= self.size)?;
        Some(start..end)
    }

    /// Reads an array like [`read`](Self::read), but also the dtypes that only tensor files have.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[cfg(feature = "files")]
    pub fn read_array(&mut self, name: &str) -> Result<Array, NpyError> {
        self.with_entry(name, |entry, size, limit| super::array::read_bounded(entry, size, limit))
    }

    /// Passes the elements of an array to `visit`, piece by piece; see [`super::array::visit_bounded`].
    #[cfg(feature = "weights")]
    pub(crate) fn visit(&mut self, name: &str, n_elements: usize, visit: Visit<'_>) -> Result<(), NpyError> {
        self.with_entry(name, |entry, size, _| super::array::visit_bounded(entry, size, n_elements, visit))
    }

    /// Calls `read` with the data of an array, its size, and the limit.
    fn with_entry<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut dyn Read, Size, u64) -> Result<T, Problem>,
    ) -> Result<T, NpyError> {
        let Some(&position) = self.list.positions.get(name) else {
            let (place, name, present) = (self.place.clone(), name.to_owned(), self.list.names.clone());
            return Err(NpyError::NoSuchArray { place, name, present });
        };
        let (limit, archive_size) = (self.limit, self.size);
        let read = || {
            let entry = self.archive.by_index(position).map_err(of_zip)?;
            let (size, compressed) = (entry.size(), entry.compressed_size());
            let possible = match entry.compression() {
                CompressionMethod::Stored => compressed,
                CompressionMethod::Deflated => compressed.saturating_mul(MAX_DEFLATE_RATIO),
                other => {
                    return Err(Problem::Unsupported(format!(
                        "it is compressed by {}, expected stored or deflate as NumPy writes them",
                        method_name(other)
                    )));
                }
            };
            if size > possible {
                return Err(Problem::Format(format!("it claims {size} bytes, which {compressed} bytes cannot hold")));
            }
            let stored = entry.compression() == CompressionMethod::Stored && size <= archive_size;
            let size = if stored { Size::Known(size) } else { Size::Claimed(size) };
            read(&mut BufReader::new(entry), size, limit)
        };
        read().map_err(|problem| problem.at(&format!("{}#{name}", self.place)))
    }
}

/// Distinguishes a file that is empty, truncated or not a zip file from a damaged one, because the zip library reports all of them
/// alike.
fn check_ends(reader: &mut (impl Read + Seek), size: u64) -> Result<(), Problem> {
    // Tries without a comment first, because hardly any file has one.
    for length in [END_LENGTH, END_LENGTH + MAX_COMMENT] {
        let length = length.min(size);
        reader.seek(SeekFrom::Start(size - length))?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        let found = fill(reader, &mut bytes)?;
        let starts = bytes.get(..found).unwrap_or_default().windows(END_LENGTH as usize);
        if starts.into_iter().any(|record| record.starts_with(END)) {
            return Ok(());
        }
    }
    reader.rewind()?;
    let mut begin = [0; LOCAL_FILE_HEADER.len()];
    let found = fill(reader, &mut begin)?;
    let begin = begin.get(..found).unwrap_or_default();
    Err(Problem::Format(match LOCAL_FILE_HEADER.starts_with(begin) {
        true if begin.is_empty() => "it is empty".to_owned(),
        true => "it is truncated: it begins as a zip file and does not end as one".to_owned(),
        false => format!("expected a zip file, found one that begins with `{}`", begin.escape_ascii()),
    }))
}

/// Returns the name of a compression method other than stored and deflate.
const fn method_name(method: CompressionMethod) -> &'static str {
    match method {
        CompressionMethod::DEFLATE64 => "deflate64",
        CompressionMethod::BZIP2 => "bzip2",
        CompressionMethod::LZMA => "LZMA",
        CompressionMethod::ZSTD => "zstd",
        CompressionMethod::XZ => "xz",
        CompressionMethod::PPMD => "PPMd",
        _ => "an unknown method",
    }
}

#[allow(clippy::needless_pass_by_value)] // `map_err` passes it by value.
fn of_zip(error: ZipError) -> Problem {
    match error {
        ZipError::Io(error) => error.into(),
        ZipError::UnsupportedArchive(_) | ZipError::CompressionMethodNotSupported(_) | ZipError::InvalidPassword => {
            Problem::Unsupported(error.to_string())
        }
        _ => Problem::Format(error.to_string()),
    }
}

/// A writer that only pretends to write after a failure or after the archive was abandoned. A `ZipWriter` that is dropped unfinished
/// tries to finish, and prints to standard error if it cannot. By then the failure itself has already been returned.
struct UntilFailure<W> {
    inner: W,
    position: u64,
    is_over: Arc<AtomicBool>,
}

impl<W> UntilFailure<W> {
    fn attempt<T>(&mut self, pretended: T, action: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(pretended);
        }
        let result = action(&mut self.inner);
        if matches!(&result, Err(error) if error.kind() != io::ErrorKind::Interrupted) {
            self.is_over.store(true, Ordering::Relaxed);
        }
        result
    }
}

/// Marks the archive as abandoned when it is dropped.
struct Unfinished(Arc<AtomicBool>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<W: Write> Write for UntilFailure<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n_written = self.attempt(bytes.len(), |inner| inner.write(bytes))?;
        self.position = self.position.saturating_add(n_written as u64);
        Ok(n_written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt((), Write::flush)
    }
}

impl<W: Seek> Seek for UntilFailure<W> {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        let pretended = match target {
            SeekFrom::Start(position) => position,
            SeekFrom::Current(distance) | SeekFrom::End(distance) => self.position.saturating_add_signed(distance),
        };
        self.position = self.attempt(pretended, |inner| inner.seek(target))?;
        Ok(self.position)
    }
}

/// Writes arrays to an `.npz` file, uncompressed like NumPy's `savez`. The same tensors in the same order give the same bytes.
///
/// # Errors
/// As [`write`](super::write); [`NpyError::Format`] for a repeated name; [`NpyError::Unsupported`] for one that [`leads_out`].
pub fn write_npz<'a, W: Write + Seek>(
    writer: W,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<(), NpyError> {
    let mut npz = NpzWriter::new(writer);
    for (name, tensor) in tensors {
        npz.add(name, tensor)?;
    }
    npz.finish()
}

/// Whether a program that unpacks an archive by the names of its entries could write the array of this name outside of its folder. NumPy writes and
/// reads such names, which are those of its caller's variables; the names that are written here come from files of others.
#[must_use]
pub fn leads_out(name: &str) -> bool {
    // TensorFlow has names like `w:0`.
    let has_drive = matches!(name.as_bytes(), [_, b':', b'/' | b'\\', ..]);
    // What is behind the last separator gets the suffix.
    let mut folders = name.rsplit(['/', '\\']).skip(1);
    has_drive || name.starts_with(['/', '\\']) || folders.any(|folder| folder == "..")
}

/// The place that errors name for an archive that is being written.
const PLACE: &str = "npz data";

/// Writes an `.npz` file array by array, uncompressed like NumPy's `savez`. The same arrays in the same order give the same bytes. The
/// output is only a valid file after [`finish`](Self::finish). Dropping the writer without it writes nothing more.
pub struct NpzWriter<W: Write + Seek> {
    /// Declared before `archive`, so that it is dropped first.
    unfinished: Unfinished,
    archive: ZipWriter<BufWriter<UntilFailure<W>>>,
    names: BTreeSet<String>,
}

impl<W: Write + Seek> NpzWriter<W> {
    /// Starts a file.
    pub fn new(writer: W) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let unfinished = Unfinished(Arc::clone(&is_over));
        let writer = UntilFailure { inner: writer, position: 0, is_over };
        Self { unfinished, archive: ZipWriter::new(BufWriter::new(writer)), names: BTreeSet::new() }
    }

    /// Adds a tensor.
    ///
    /// # Errors
    /// As [`write_npz`].
    pub fn add(&mut self, name: &str, tensor: &Tensor) -> Result<(), NpyError> {
        self.entry(name, |archive| elements::write(archive, tensor))
    }

    /// Adds an array of any dtype that NumPy has.
    ///
    /// # Errors
    /// As [`write_array`](super::write_array); [`NpyError::Format`] for a repeated name.
    #[cfg(feature = "files")]
    pub fn add_array(&mut self, name: &str, array: &Array) -> Result<(), NpyError> {
        self.entry(name, |archive| super::array::write(archive, array))
    }

    /// Adds an array of numbers, whose elements `write` writes.
    ///
    /// # Errors
    /// As [`write_array_with`](super::write_array_with); [`NpyError::Format`] for a repeated name.
    #[cfg(feature = "files")]
    pub fn add_array_with(
        &mut self,
        name: &str,
        dtype: ElementType,
        shape: &[usize],
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), NpyError> {
        self.entry(name, |archive| super::array::write_with(archive, dtype, shape, write))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// [`NpyError::Io`].
    pub fn finish(self) -> Result<(), NpyError> {
        let Self { unfinished, archive, .. } = self;
        let finish =
            || Ok(archive.finish().map_err(of_zip)?.into_inner().map_err(std::io::IntoInnerError::into_error)?);
        let finished = finish().map(drop).map_err(|problem: Problem| problem.at(PLACE));
        drop(unfinished);
        finished
    }

    fn entry(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut ZipWriter<BufWriter<UntilFailure<W>>>) -> Result<(), Problem>,
    ) -> Result<(), NpyError> {
        let Self { archive, names, .. } = self;
        let write = || {
            if leads_out(name) {
                return Err(Problem::Unsupported(
                    "programs that unpack the archive could write it elsewhere".to_owned(),
                ));
            }
            if !names.insert(name.to_owned()) {
                return Err(Problem::Format("the name is given to two arrays".to_owned()));
            }
            let options = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Stored)
                .last_modified_time(DateTime::default())
                .unix_permissions(0o644)
                // The size of strings is not known in advance. The larger record costs 20 bytes.
                .large_file(true);
            archive.start_file(format!("{name}{SUFFIX}"), options).map_err(of_zip)?;
            write(archive)
        };
        write().map_err(|problem| problem.at(&format!("{PLACE}#{name}")))
    }
}
