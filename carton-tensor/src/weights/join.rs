//! Joins the tensors of several files into one (spec/weights.md §5). At most one tensor is in memory at a time.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use super::WeightsError;
use super::load::stored_bytes;
use super::options::{LoadOptions, LoaderStatistics};
use crate::any_file::{Entry, TensorFile};
use crate::context::Meter;
use crate::files::{FileBytes, PendingFile};
use crate::safetensors::{self, Layout, Metadata};
use crate::ztensor::{self, Attribute, Checks, Component, Encoding, Format, Object, StoreAs, ZTensorError};

/// The bytes that are copied at a time.
const PIECE: usize = 4 << 20;

/// Joins the tensors of several files, such as the shards of a checkpoint, into the file `output`. The format is zTensor if its name
/// ends in `.zt`, otherwise safetensors. The file gets its name once it is complete.
///
/// Metadata is joined too, and zTensor objects are copied with all their components. Content that the output format cannot hold is an
/// error. Of `options`, this uses the filter, the context, and `verify`, which checks the copied bytes that have a digest.
///
/// # Errors
/// [`WeightsError::Duplicate`] or [`WeightsError::Metadata`] if files contradict each other; [`WeightsError::File`] for an input that
/// cannot be read; [`WeightsError::Write`] for an output that cannot be written or cannot hold the content;
/// [`WeightsError::NoTensors`] or [`WeightsError::NoneSelected`] if there is nothing to write.
pub fn join<P: AsRef<Path>>(
    inputs: impl IntoIterator<Item = P>,
    output: impl AsRef<Path>,
    options: &LoadOptions,
) -> Result<LoaderStatistics, WeightsError> {
    let started = Instant::now();
    let output = output.as_ref();
    let files = inputs.into_iter().map(|path| Ok(TensorFile::open(path)?)).collect::<Result<Vec<_>, WeightsError>>()?;
    let entries = collect(&files, options)?;
    let metadata = joined_metadata(&files)?;
    let checks = Checks { digests: options.verify, ..Checks::default() };
    let n_verified = if options.verify { entries.iter().filter(|entry| entry.has_digest()).count() } else { 0 };
    let total_bytes = stored_bytes(&entries);
    let meter = options.context.meter("joining", total_bytes);
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| WeightsError::Write {
        place: output.display().to_string(),
        source,
    };
    let pending = PendingFile::new(output).map_err(|error| failed(error.into()))?;
    let is_ztensor = output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zt"));
    if is_ztensor {
        write_ztensor(pending.file(), &entries, metadata, checks, &meter, &failed)?;
    } else {
        write_safetensors(pending.file(), &entries, &metadata, checks, &meter, &failed)?;
    }
    options.context.cancel_token().begin_publishing()?;
    pending.publish().map_err(|error| failed(error.into()))?;
    Ok(LoaderStatistics::new(entries.len(), total_bytes, n_verified, started.elapsed()))
}

/// The bytes of the output that are buffered.
const BUFFER: usize = 1 << 16;

type Failed<'a> = &'a dyn Fn(Box<dyn std::error::Error + Send + Sync>) -> WeightsError;

/// Returns the tensors that the filter accepts. Fails if two of them have one name.
fn collect<'a>(files: &'a [TensorFile], options: &LoadOptions) -> Result<Vec<Entry<'a>>, WeightsError> {
    let mut places: HashMap<&str, &str> = HashMap::new();
    let (mut entries, mut n_tensors) = (Vec::new(), 0);
    for file in files {
        for entry in file.entries() {
            n_tensors += 1;
            if !options.filter.accepts(entry.name()) {
                continue;
            }
            if let Some(first) = places.insert(entry.name(), file.place()) {
                return Err(WeightsError::Duplicate {
                    name: entry.name().escape_debug().to_string(),
                    first: first.to_owned(),
                    second: file.place().to_owned(),
                });
            }
            entries.push(entry);
        }
    }
    let place = files.first().map_or("", TensorFile::place).to_owned();
    match (entries.is_empty(), n_tensors) {
        (false, _) => Ok(entries),
        (true, 0) => Err(WeightsError::NoTensors { place }),
        (true, _) => Err(WeightsError::NoneSelected { place, n_tensors }),
    }
}

/// Joins the metadata of the files, in the order of first occurrence. Fails if files have different values for a key.
fn joined_metadata(files: &[TensorFile]) -> Result<Vec<(String, Attribute)>, WeightsError> {
    let mut joined: Vec<(String, Attribute)> = Vec::new();
    let mut positions: HashMap<String, usize> = HashMap::new();
    for file in files {
        let said: Vec<(String, Attribute)> = match file.as_ztensor() {
            Some(reader) => {
                let attributes = reader.manifest().attributes().map_err(|source| file.ztensor_error(source))?;
                attributes.into_iter().collect()
            }
            None if file.as_ztensor2().is_some() => {
                let attributes = file.as_ztensor2().map(|reader| reader.manifest().attributes()).transpose();
                attributes.map_err(|source| file.ztensor2_error(source))?.unwrap_or_default().into_iter().collect()
            }
            None => file.metadata()?.into_iter().map(|(key, value)| (key, Attribute::Text(value))).collect(),
        };
        for (key, value) in said {
            let Some(&position) = positions.get(&key) else {
                positions.insert(key.clone(), joined.len());
                joined.push((key, value));
                continue;
            };
            if joined[position].1 != value {
                let shown = |value: &Attribute| {
                    let text = value.as_text().map_or_else(|| format!("{value:?}"), str::to_owned);
                    text.chars().take(100).flat_map(char::escape_debug).collect()
                };
                return Err(WeightsError::Metadata {
                    key: key.escape_debug().to_string(),
                    first: shown(&joined[position].1),
                    second: shown(&value),
                    place: file.place().to_owned(),
                });
            }
        }
    }
    Ok(joined)
}

/// Refuses an object with properties that a safetensors file cannot hold.
fn check_plain(entry: &Entry<'_>, object: &Object<'_>, failed: Failed<'_>) -> Result<(), WeightsError> {
    let name = object.name().escape_debug();
    if !object.attributes().map_err(|source| entry.ztensor_error(source))?.is_empty() {
        return Err(failed(format!("object `{name}` has attributes, which safetensors cannot hold").into()));
    }
    // An object of an unknown format cannot be read, which is the better reason.
    let needed = object.format().required_components();
    let has_further = object.components().any(|component| !needed.contains(&component.role()));
    if has_further && !matches!(object.format(), Format::Other(_)) {
        return Err(failed(format!("object `{name}` has further components, which safetensors cannot hold").into()));
    }
    let Some(unknown) = object.components().find_map(|component| component.unknown_type()) else { return Ok(()) };
    let unknown = unknown.escape_debug();
    Err(failed(format!("object `{name}` has the unknown type `{unknown}`, which would be lost").into()))
}

fn write_safetensors(
    file: &File,
    entries: &[Entry<'_>],
    metadata: &[(String, Attribute)],
    checks: Checks,
    meter: &Meter<'_>,
    failed: Failed<'_>,
) -> Result<(), WeightsError> {
    let write_error = |error: safetensors::SafetensorsError| failed(error.into());
    let mut pairs = Vec::with_capacity(metadata.len());
    for (key, value) in metadata {
        let text = value.as_text().ok_or_else(|| {
            failed(format!("attribute `{}` is not text, which safetensors cannot hold", key.escape_debug()).into())
        })?;
        pairs.push((key, text));
    }
    let metadata = if pairs.is_empty() { Ok(Metadata::default()) } else { Metadata::new(pairs) };
    let metadata = metadata.map_err(|error| failed(error.into()))?;
    let mut described = Vec::with_capacity(entries.len());
    for entry in entries {
        if let Some(object) = entry.as_ztensor() {
            check_plain(entry, object, failed)?;
        }
        if !entry.attributes_of_2()?.is_empty() {
            let name = entry.name().escape_debug();
            return Err(failed(format!("object `{name}` has attributes, which safetensors cannot hold").into()));
        }
        // An entry without an element type cannot be read, and reading it returns the reason.
        let dtype = entry.dtype().map_or_else(|| entry.read().map(|tensor| tensor.dtype()), Ok)?;
        described.push((entry.name(), dtype, entry.shape()));
    }
    let layout = Layout::new(described, &metadata).map_err(|error| failed(error.into()))?;
    let order = layout.order().to_vec();
    let mut writer = safetensors::Writer::new(BufWriter::with_capacity(BUFFER, file), layout).map_err(write_error)?;
    let mut buffer = Vec::new();
    for entry in order.into_iter().filter_map(|position| entries.get(position)) {
        let verified = checks.digests && entry.digest().is_some();
        match (entry.in_ztensor(), entry.location()) {
            (Some((reader, object)), _) if verified => {
                for component in object.components() {
                    let bytes = reader.read_component(&component, checks);
                    let bytes = bytes.map_err(|source| entry.ztensor_error(source))?;
                    writer.write(entry.name(), &bytes).map_err(write_error)?;
                }
            }
            // The digest is compared when the tensor is read, below.
            (_, Some((bytes, range))) if !verified => {
                let mut source = Source { bytes, range };
                while let Some(piece) = source.next(&mut buffer).map_err(|error| read_error(entry, error))? {
                    meter.context().check()?;
                    writer.write(entry.name(), piece).map_err(write_error)?;
                }
            }
            _ => {
                if checks.digests {
                    entry.verify()?;
                }
                writer.write(entry.name(), entry.read()?.bytes()).map_err(write_error)?;
            }
        }
        meter.advance(entry.stored_bytes())?;
    }
    writer.finish().map_err(write_error)?;
    Ok(())
}

fn write_ztensor(
    file: &File,
    entries: &[Entry<'_>],
    metadata: Vec<(String, Attribute)>,
    checks: Checks,
    meter: &Meter<'_>,
    failed: Failed<'_>,
) -> Result<(), WeightsError> {
    let write_error = |error: ZTensorError| failed(error.into());
    let has_failed = Cell::new(false);
    let output = BufWriter::with_capacity(BUFFER, Output { file, has_failed: &has_failed });
    let mut writer = ztensor::Writer::new(output).map_err(write_error)?;
    writer.set_attributes(&metadata.into_iter().collect()).map_err(write_error)?;
    for entry in entries {
        // The writer reads an entry and writes it in one step, so either file can have caused an error.
        let entry_error = |error: ZTensorError| match error {
            error if has_failed.get() => write_error(error),
            ZTensorError::Io(source) => read_error(entry, source),
            error => entry.ztensor_error(error).into(),
        };
        match (entry.in_ztensor(), entry.location(), entry.dtype()) {
            (Some((reader, object)), _, _) => {
                writer.copy(object.name(), reader, &object, checks, stored_as).map_err(entry_error)?;
            }
            // The digests of zTensor 2 are compared first.
            _ if entry.as_ztensor2().is_some() => {
                if checks.digests {
                    entry.verify()?;
                }
                let parts = [("data", &entry.read()?, StoreAs::RAW)];
                let attributes = entry.attributes_of_2()?;
                writer.object(entry.name(), entry.shape(), "dense", &attributes, &parts).map_err(write_error)?;
            }
            (None, Some((bytes, range)), Some(dtype)) => {
                let mut source = Source { bytes, range };
                writer.add_from(entry.name(), dtype, entry.shape(), &mut source, StoreAs::RAW).map_err(entry_error)?;
            }
            _ => writer.add(entry.name(), &entry.read()?, StoreAs::RAW).map_err(write_error)?,
        }
        meter.advance(entry.stored_bytes())?;
    }
    writer.finish().map_err(write_error)?;
    Ok(())
}

/// The output, which remembers whether writing to it failed.
struct Output<'a> {
    file: &'a File,
    has_failed: &'a Cell<bool>,
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An interrupted write is repeated by the caller.
        let is_failure = |error: &io::Error| error.kind() != io::ErrorKind::Interrupted;
        self.file.write(bytes).inspect_err(|error| self.has_failed.set(is_failure(error)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Keeps the compression and the kind of digest. A digest of an unknown kind cannot be computed again, and is an error.
fn stored_as(component: &Component<'_>) -> Result<StoreAs, ZTensorError> {
    Ok(StoreAs {
        zstd: (component.encoding() == Encoding::Zstd).then_some(DEFAULT_LEVEL),
        digest: component.digest()?.map(|digest| digest.algorithm()),
    })
}

/// The default level of zstd.
const DEFAULT_LEVEL: i32 = 3;

fn read_error(entry: &Entry<'_>, source: io::Error) -> WeightsError {
    crate::any_file::TensorFileError::Io { place: entry.place().to_owned(), source }.into()
}

/// A range of a file that is read from front to back.
struct Source<'a> {
    bytes: &'a FileBytes,
    range: Range<u64>,
}

impl Source<'_> {
    /// Returns the next piece, if there is one.
    fn next<'b>(&mut self, buffer: &'b mut Vec<u8>) -> io::Result<Option<&'b [u8]>> {
        buffer.resize(PIECE, 0);
        let n_bytes = self.read(buffer)?;
        Ok(buffer.get(..n_bytes).filter(|piece| !piece.is_empty()))
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.range.end - self.range.start;
        let n_bytes = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        self.bytes.read_into(self.range.start, buffer.get_mut(..n_bytes).unwrap_or_default())?;
        self.range.start += n_bytes as u64;
        Ok(n_bytes)
    }
}
