//! An index.toml, a separator, and arbitrary bytes as each of the files that it names. Tensors that can be read are the same after
//! writing and reading them again, in every format for numbers.

use std::collections::BTreeMap;
use std::ops::Range;

use carton_core::packing::TensorFormat;
use carton_core::tensor::{TensorEntry, TensorIndex};
use carton_format::archive::Content;
use carton_format::tensor_data::TensorDataError;
use carton_format::tensor_data::{Directories, TensorFiles, entries};
use carton_tensor::Tensor;

use super::same::is_same;
use crate::generate::pieces::head_and_rest;

/// The most tensors of an index that are read and written again.
const MAX_TENSORS: usize = 8;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(input: &[u8]) -> bool {
    let (index, file) = head_and_rest(input);
    let Ok(index) = TensorIndex::parse(index) else { return false };
    let _ = index.check_files(|_| Some(Some(file.len() as u64)));
    let (everywhere, directories) = (Everywhere(file), Directories::default());
    let mut tensors = BTreeMap::new();
    let mut elements = 0_usize;
    for (name, entry) in index.iter().take(MAX_TENSORS) {
        // A nested entry may name one tensor any number of times, and writing copies its strings each time.
        if let TensorEntry::Nested { inner } = entry {
            elements = elements.saturating_add(inner.len().saturating_mul(file.len()));
        }
        if elements > 1 << 20 {
            return true;
        }
        if let Ok(tensor) = index.read(name, &everywhere, &directories) {
            tensors.insert(name.to_owned(), tensor);
        }
    }
    for format in [TensorFormat::Bin, TensorFormat::Safetensors, TensorFormat::Ztensor] {
        check_written(&tensors, format);
    }
    !tensors.is_empty()
}

fn check_written(tensors: &BTreeMap<String, Tensor>, format: TensorFormat) {
    // Each format refuses some names or shapes.
    let Ok(written) = entries(tensors, format) else {
        assert_ne!(format, TensorFormat::Bin, "what was read can be written");
        return;
    };
    let files: BTreeMap<String, Vec<u8>> = written.into_iter().map(|(path, content)| (path, bytes(content))).collect();
    let index = TensorIndex::parse(&files["tensor_data/index.toml"]).expect("it was written");
    let directories = Directories::default();
    for (name, tensor) in tensors {
        let again = index.read(name, &Written(&files), &directories).expect("it was written");
        assert!(is_same(&again, tensor), "{name:?} as {format:?}");
    }
}

fn bytes(content: Content) -> Vec<u8> {
    match content {
        Content::Bytes(bytes) => bytes,
        Content::InPlace(content) => bytes(*content),
        other => panic!("tensors are written from memory, found {other:?}"),
    }
}

/// Returns the same bytes for every file.
struct Everywhere<'a>(&'a [u8]);

impl TensorFiles for Everywhere<'_> {
    type Error = TensorDataError;

    fn size(&self, path: &str) -> Result<Option<u64>, TensorDataError> {
        // The size of a linked file is only known when it is read.
        Ok((!path.contains("linked")).then_some(self.0.len() as u64))
    }

    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, TensorDataError> {
        range_of(self.0, path, 0, (self.0.len() as u64 <= cap).then_some(self.0.len())).map(<[u8]>::to_vec)
    }

    fn read_into(&self, path: &str, buffer: &mut [u8]) -> Result<(), TensorDataError> {
        let whole = (buffer.len() == self.0.len()).then_some(buffer.len());
        buffer.copy_from_slice(range_of(self.0, path, 0, whole)?);
        Ok(())
    }

    fn exact_size(&self, _path: &str) -> Result<u64, TensorDataError> {
        Ok(self.0.len() as u64)
    }

    fn read_range(&self, path: &str, offset: u64, buffer: &mut [u8]) -> Result<(), TensorDataError> {
        buffer.copy_from_slice(range_of(self.0, path, offset, Some(buffer.len()))?);
        Ok(())
    }
}

/// Returns a range of a file, whose length may be out of range.
fn range_of<'a>(bytes: &'a [u8], path: &str, offset: u64, length: Option<usize>) -> Result<&'a [u8], TensorDataError> {
    let range = length.and_then(|length| {
        let start = usize::try_from(offset).ok()?;
        Some(Range { start, end: start.checked_add(length)? })
    });
    let found = range.and_then(|range| bytes.get(range));
    found.ok_or_else(|| TensorDataError::NoSuchFile { name: String::new(), file: path.to_owned() })
}

/// Returns the files that were written.
struct Written<'a>(&'a BTreeMap<String, Vec<u8>>);

impl Written<'_> {
    fn file(&self, path: &str) -> Everywhere<'_> {
        Everywhere(self.0.get(path).expect("the index names what was written"))
    }
}

impl TensorFiles for Written<'_> {
    type Error = TensorDataError;

    fn size(&self, path: &str) -> Result<Option<u64>, TensorDataError> {
        Ok(Some(self.file(path).0.len() as u64))
    }

    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, TensorDataError> {
        self.file(path).read(path, cap)
    }

    fn read_into(&self, path: &str, buffer: &mut [u8]) -> Result<(), TensorDataError> {
        self.file(path).read_into(path, buffer)
    }

    fn exact_size(&self, path: &str) -> Result<u64, TensorDataError> {
        self.file(path).exact_size(path)
    }

    fn read_range(&self, path: &str, offset: u64, buffer: &mut [u8]) -> Result<(), TensorDataError> {
        self.file(path).read_range(path, offset, buffer)
    }
}
