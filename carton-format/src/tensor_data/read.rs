//! Reads a single tensor on demand.

use std::collections::HashMap;
use std::sync::Arc;

use carton_tensor::{AlignedBytes, DataType, NestedTensor, NumericTensor, StringTensor, Tensor};
use serde::Deserialize;

use super::directory::{Directories, Directory, Misfit};
use super::files::TensorFiles;
use super::sizes::{check_member_size, check_size, n_bytes};
use super::toml_file::parse_toml;
use super::{Entry, FOLDER, TensorDataError, TensorIndex};

/// The largest file of a string tensor that is read, in bytes. TOML is parsed as a whole, and parsing a file of empty strings
/// takes fifty times its size in memory.
pub const MAX_STRINGS_LENGTH: u64 = 32 << 20;

impl TensorIndex {
    /// Reads one tensor. Its size is compared with that of its file before memory is allocated. `directories` caches the
    /// directories of files that hold many tensors, so that each is read once.
    ///
    /// # Errors
    /// [`TensorDataError::NoSuchTensor`], [`TensorDataError::SizeMismatch`] and others for the content of the carton, and the
    /// errors of `files`.
    pub fn read<F: TensorFiles>(&self, name: &str, files: &F, directories: &Directories) -> Result<Tensor, F::Error> {
        let entry = self.get(name).ok_or_else(|| TensorDataError::NoSuchTensor { name: name.to_owned() })?;
        match entry {
            Entry::Plain { dtype, shape, file } => {
                let (carrier, shape) = stored(*dtype, shape);
                Ok(restored(name, read_plain(name, carrier, &shape, file, files)?, *dtype)?)
            }
            Entry::Member { dtype, .. } => Ok(restored(name, read_member(name, entry, files, directories)?, *dtype)?),
            Entry::Nested { inner } => {
                // A list may name the same tensor many times. It is read once, and its clones share the data.
                let mut tensors: HashMap<&str, Tensor> = HashMap::new();
                for inner in inner {
                    // The elements of a nested tensor are not nested themselves.
                    if matches!(self.get(inner), Some(Entry::Plain { .. } | Entry::Member { .. }))
                        && !tensors.contains_key(inner.as_str())
                    {
                        tensors.insert(inner, self.read(inner, files, directories)?);
                    }
                }
                let elements = inner
                    .iter()
                    .map(|inner| tensors.get(inner.as_str()).cloned())
                    .collect::<Option<Vec<_>>>()
                    // The index was checked when it was parsed.
                    .ok_or_else(|| TensorDataError::NoSuchTensor { name: name.to_owned() })?;
                let nested = NestedTensor::new(elements).map_err(|source| malformed(name, source))?;
                Ok(nested.into())
            }
        }
    }
}

/// The dtype and the shape that the file of a tensor has.
fn stored(dtype: DataType, shape: &[usize]) -> (DataType, Vec<usize>) {
    let parts: &[usize] = if dtype.is_complex() { &[2] } else { &[] };
    (dtype.carrier(), [shape, parts].concat())
}

/// The tensor of the dtype that the index says, of what its file has.
fn restored(name: &str, stored: Tensor, dtype: DataType) -> Result<Tensor, TensorDataError> {
    if dtype.carrier() == dtype {
        return Ok(stored);
    }
    carton_tensor::restored(&stored, dtype).map_err(|source| TensorDataError::Element {
        name: name.to_owned(),
        dtype,
        source: Box::new(source),
    })
}

fn malformed(name: &str, source: carton_tensor::TensorError) -> TensorDataError {
    TensorDataError::Tensor { name: name.to_owned(), source }
}

fn read_plain<F: TensorFiles>(
    name: &str,
    dtype: DataType,
    shape: &[usize],
    file: &str,
    files: &F,
) -> Result<Tensor, F::Error> {
    let path = format!("{FOLDER}{file}");
    let size = files.size(&path)?;
    if let Some(size) = size {
        check_size(name, dtype, shape, file, size)?;
    }
    if dtype == DataType::String {
        if let Some(found) = size.filter(|size| *size > MAX_STRINGS_LENGTH) {
            let what = format!("`{path}`");
            return Err(TensorDataError::TooLarge { what, limit: MAX_STRINGS_LENGTH, found }.into());
        }
        let strings: Strings = parse_toml(file, &files.read(&path, MAX_STRINGS_LENGTH)?)?;
        let expected = n_bytes(dtype, shape).unwrap_or(usize::MAX);
        if strings.data.len() != expected {
            return Err(size_mismatch(name, file, expected, strings.data.len(), "strings").into());
        }
        let tensor = StringTensor::new(strings.data, shape.to_vec()).map_err(|source| malformed(name, source))?;
        return Ok(tensor.into());
    }
    let expected = n_bytes(dtype, shape).unwrap_or(usize::MAX);
    let storage = match size {
        Some(_) => {
            // The size of a compressed entry is only a claim until the entry is read. A failed allocation must therefore be an
            // error of the carton and not end the process. Pages that are never filled take no memory.
            let mut bytes = AlignedBytes::try_zeroed(expected)
                .ok_or_else(|| TensorDataError::OutOfMemory { name: name.to_owned(), n_bytes: expected })?;
            files.read_into(&path, bytes.as_mut_slice())?;
            bytes
        }
        None => {
            let cap = u64::try_from(expected).unwrap_or(u64::MAX);
            let bytes = files.read(&path, cap)?;
            if bytes.len() != expected {
                return Err(size_mismatch(name, file, expected, bytes.len(), "bytes").into());
            }
            AlignedBytes::copy_of(&bytes)
        }
    };
    // Files and tensors are both defined as little-endian, so no bytes are swapped on any host.
    let tensor =
        NumericTensor::new(dtype, shape.to_vec(), Arc::new(storage)).map_err(|source| malformed(name, source))?;
    Ok(tensor.into())
}

/// Reads one tensor of a file that holds many.
fn read_member<F: TensorFiles>(
    name: &str,
    entry: &Entry,
    files: &F,
    directories: &Directories,
) -> Result<Tensor, F::Error> {
    let Entry::Member { dtype, shape, file, format, name_in_file } = entry else {
        return Err(TensorDataError::NoSuchTensor { name: name.to_owned() }.into());
    };
    let (dtype, shape) = &stored(*dtype, shape);
    let path = format!("{FOLDER}{file}");
    if let Some(size) = files.size(&path)? {
        check_member_size(name, *dtype, shape, file, size)?;
    }
    let directory = directories.get(file, *format, || Directory::read(&path, file, *format, files))?;
    let place = directory.place(name_in_file).map_err(|misfit| match misfit {
        Misfit::NotThere => {
            let (name_in_file, file) = (name_in_file.clone(), file.clone());
            TensorDataError::NotInFile { name: name.to_owned(), name_in_file, file }
        }
        Misfit::Other(found) => disagreement(name, *dtype, shape, file, found),
    })?;
    if (place.dtype, &place.shape) != (*dtype, shape) {
        return Err(disagreement(name, *dtype, shape, file, format!("{} {:?}", place.dtype, place.shape)).into());
    }
    let expected = n_bytes(*dtype, shape).unwrap_or(usize::MAX);
    // The format requires this, but the code below must not rely on it.
    if place.range.end.checked_sub(place.range.start) != u64::try_from(expected).ok() {
        return Err(disagreement(name, *dtype, shape, file, format!("bytes {:?}", place.range)).into());
    }
    if let Some(bytes) = files.view(&path, place.range.clone())?
        // A file of another writer may have elements at any offset, and users of tensors need them aligned.
        && dtype.size().is_some_and(|size| bytes.as_ptr().addr().is_multiple_of(size))
    {
        let (storage, offset) = bytes.storage();
        let tensor = NumericTensor::with_offset(*dtype, shape.clone(), Arc::clone(storage), offset);
        return Ok(tensor.map_err(|source| malformed(name, source))?.into());
    }
    let mut bytes = AlignedBytes::try_zeroed(expected)
        .ok_or_else(|| TensorDataError::OutOfMemory { name: name.to_owned(), n_bytes: expected })?;
    files.read_range(&path, place.range.start, bytes.as_mut_slice())?;
    let tensor =
        NumericTensor::new(*dtype, shape.clone(), Arc::new(bytes)).map_err(|source| malformed(name, source))?;
    Ok(tensor.into())
}

fn disagreement(name: &str, dtype: DataType, shape: &[usize], file: &str, found: String) -> TensorDataError {
    let expected = format!("{dtype} {shape:?}");
    TensorDataError::Disagreement { name: name.to_owned(), file: file.to_owned(), expected, found }
}

fn size_mismatch(name: &str, file: &str, expected: usize, found: usize, unit: &'static str) -> TensorDataError {
    TensorDataError::SizeMismatch {
        name: name.to_owned(),
        file: file.to_owned(),
        expected: u64::try_from(expected).unwrap_or(u64::MAX),
        found: u64::try_from(found).unwrap_or(u64::MAX),
        unit,
    }
}

/// The file of a string tensor.
#[derive(Deserialize)]
struct Strings {
    data: Vec<String>,
}
