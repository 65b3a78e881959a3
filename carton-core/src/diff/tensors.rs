//! Compares the tensors of tensor files of two cartons.

use std::io;

use carton_format::context::Meter;
use carton_tensor::any_file::TensorFile;
use carton_tensor::difference::{
    Compared, DifferenceOptions, TensorForm, TensorsDifference, compare_entries, compare_lists,
};
use carton_tensor::files::FileBytes;

use super::error::{DiffError, Ended, in_one_line, is_of_reading};
use super::files::FilePair;
use super::report::FileTensors;
use crate::error::Error;
use crate::package::Package;

/// Why the tensors of a file are not compared that is not on this machine.
pub(super) const ELSEWHERE: &str = "not on this machine";

/// How tensors of two cartons are compared.
#[derive(Clone, Debug, Default)]
pub(super) struct TensorSettings {
    pub(super) elements: DifferenceOptions,
    /// Whether files that are elsewhere are fetched.
    pub(super) fetch: bool,
}

/// Compares the tensors of two tensor files.
///
/// # Errors
/// A file cannot be read, or is not what MANIFEST lists; the work was cancelled. What is no tensor file is a problem in the result.
pub(super) fn compare(
    a: &Package,
    b: &Package,
    pair: FilePair,
    settings: &TensorSettings,
    meter: &Meter<'_>,
) -> Result<FileTensors, Error> {
    let FilePair { a: path_a, b: path_b } = pair;
    let without = |problem: String| FileTensors {
        path_a: path_a.clone(),
        path_b: path_b.clone(),
        problem: Some(problem),
        found: TensorsDifference::default(),
    };
    if !(settings.fetch || is_here(a, &path_a) && is_here(b, &path_b)) {
        return Ok(without(ELSEWHERE.to_owned()));
    }
    let (file_a, file_b) = match (open(a, &path_a)?, open(b, &path_b)?) {
        (Ok(file_a), Ok(file_b)) => (file_a, file_b),
        (Err(problem), _) | (_, Err(problem)) => return Ok(without(problem)),
    };
    let forms =
        |file: &TensorFile| -> Vec<TensorForm> { file.entries().map(|entry| TensorForm::of_entry(&entry)).collect() };
    let found = compare_lists(&forms(&file_a), &forms(&file_b), |of_a, of_b| {
        let (entry_a, entry_b) = match (file_a.entry(&of_a.name), file_b.entry(&of_b.name)) {
            (Ok(entry_a), Ok(entry_b)) => (entry_a, entry_b),
            (Err(error), _) | (_, Err(error)) => return Ok(Compared::No(error.to_string())),
        };
        match compare_entries(&entry_a, &entry_b, &settings.elements, &|n_bytes| meter.advance(n_bytes)) {
            Ok(compared) => Ok(compared),
            Err(Ended::Cancelled(cancelled)) => Err(DiffError::Cancelled(cancelled)),
            Err(Ended::File(error)) if !is_of_reading(&error) => Ok(Compared::No(in_one_line(&error))),
            // Messages of an entry name its file; which of the two cartons it is of, its cause says.
            Err(Ended::File(source)) => {
                let (location, path) = (b.contents().location(), path_b.clone());
                Err(DiffError::Tensors { location, path, source: Box::new(source) })
            }
        }
    })?;
    Ok(FileTensors { path_a, path_b, problem: None, found })
}

/// Whether a tensor file, or all shards of an index, can be read without fetching anything.
fn is_here(package: &Package, path: &str) -> bool {
    let folder = path.rfind('/').map_or("", |end| &path[..=end]);
    let is_index = path.ends_with(".json");
    let is_shard = |other: &str| {
        is_index
            && other.ends_with(".safetensors")
            && other.strip_prefix(folder).is_some_and(|name| !name.contains('/'))
    };
    package.contents().has_locally(|other| other == path || is_shard(other))
}

/// Opens a tensor file, verified. The inner error says why it is none.
fn open(package: &Package, path: &str) -> Result<Result<TensorFile, String>, Error> {
    let folder = path.rfind('/').map_or("", |end| &path[..=end]);
    let beside = |name: &str| -> io::Result<FileBytes> {
        let path = format!("{folder}{name}");
        if !package.contents().contains(&path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        package.file_bytes(&path).map_err(io::Error::other)
    };
    let location = package.contents().location();
    match TensorFile::with_files_beside(package.file_bytes(path)?, path, beside) {
        Ok(file) => Ok(Ok(file)),
        Err(source) if is_of_reading(&source) => {
            Err(DiffError::Tensors { location, path: path.to_owned(), source: Box::new(source) }.into())
        }
        Err(error) => Ok(Err(in_one_line(&error))),
    }
}
