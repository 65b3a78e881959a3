//! Each rule of `tensor_data`, case by case; round trips; and random bytes as an index.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod file_each;
mod one_file;
mod round_trips;

use std::collections::BTreeMap;

use carton_tensor::Tensor;

use super::*;
use crate::archive::Content;

/// Files in memory, whose sizes are known, unknown, or claimed to be something else.
struct Memory {
    files: BTreeMap<String, Vec<u8>>,
    size: fn(u64) -> Option<u64>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    TensorData(#[from] TensorDataError),
    #[error("no file {0}")]
    NoFile(String),
    #[error("{0} has another size than asked for")]
    Size(String),
}

impl Memory {
    fn get(&self, path: &str) -> Result<&Vec<u8>, Failure> {
        self.files.get(path).ok_or_else(|| Failure::NoFile(path.to_owned()))
    }

    /// Reads a tensor from the files with `TensorIndex::read`.
    fn tensor(&self, name: &str) -> Result<Tensor, Failure> {
        let index = TensorIndex::parse(self.get("tensor_data/index.toml")?)?;
        index.read(name, self, &Directories::default())
    }
}

impl TensorFiles for Memory {
    type Error = Failure;

    fn size(&self, path: &str) -> Result<Option<u64>, Failure> {
        Ok((self.size)(self.get(path)?.len() as u64))
    }

    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, Failure> {
        let bytes = self.get(path)?;
        if bytes.len() as u64 > cap { Err(Failure::Size(path.to_owned())) } else { Ok(bytes.clone()) }
    }

    fn read_into(&self, path: &str, buffer: &mut [u8]) -> Result<(), Failure> {
        let bytes = self.get(path)?;
        if bytes.len() != buffer.len() {
            return Err(Failure::Size(path.to_owned()));
        }
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn exact_size(&self, path: &str) -> Result<u64, Failure> {
        Ok(self.get(path)?.len() as u64)
    }

    fn read_range(&self, path: &str, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        let start = usize::try_from(offset).unwrap();
        let range = self.get(path)?.get(start..start + buffer.len());
        buffer.copy_from_slice(range.ok_or_else(|| Failure::Size(path.to_owned()))?);
        Ok(())
    }
}

/// `index.toml` and other files, with sizes that are known.
fn memory(index: &str, files: &[(&str, &[u8])]) -> Memory {
    let mut map: BTreeMap<_, _> =
        files.iter().map(|(name, bytes)| (format!("{FOLDER}{name}"), bytes.to_vec())).collect();
    map.insert(format!("{FOLDER}{INDEX}"), index.as_bytes().to_vec());
    Memory { files: map, size: Some }
}

/// Returns the error chain on one line.
fn chain(error: &dyn std::error::Error) -> String {
    crate::causes::in_one_line(error).replace('\n', " ")
}

fn bits(tensor: &Tensor) -> String {
    match tensor {
        Tensor::Numeric(tensor) => format!("{} {:?} {:?}", tensor.dtype(), tensor.shape(), tensor.bytes()),
        Tensor::String(tensor) => format!("string {:?} {:?}", tensor.shape(), tensor.elements()),
        Tensor::Bytes(tensor) => format!("bytes {:?} {:?}", tensor.shape(), tensor.elements()),
        Tensor::Nested(tensor) => format!("nested {:?}", tensor.elements().iter().map(bits).collect::<Vec<_>>()),
        _ => panic!("another kind of tensor"),
    }
}

/// Reads `t` and compares either its description or a part of the error.
fn check(index: &str, files: &[(&str, &[u8])], expected: Result<&str, &str>) {
    let found = memory(index, files).tensor("t");
    match (found, expected) {
        (Ok(found), Ok(expected)) => assert_eq!(bits(&found), expected, "{index}"),
        (Err(found), Err(expected)) => {
            let found = chain(&found);
            assert!(found.contains(expected), "{index}\nexpected {expected}\nfound {found}");
        }
        (found, expected) => panic!("{index}\nexpected {expected:?}\nfound {found:?}"),
    }
}

/// An index with one plain tensor called `t`.
fn plain(dtype: &str, shape: &str, file: &str) -> String {
    format!("[[tensor]]\nname = 't'\ndtype = '{dtype}'\nshape = {shape}\nfile = '{file}'\n")
}

/// The files that `entries` makes, with sizes that are known.
fn written(tensors: &BTreeMap<String, Tensor>) -> Memory {
    written_as(tensors, TensorFormat::Bin)
}

fn written_as(tensors: &BTreeMap<String, Tensor>, format: TensorFormat) -> Memory {
    let bytes = |content| match content {
        Content::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    };
    let files = entries(tensors, format)
        .unwrap()
        .into_iter()
        .map(|(path, content)| match content {
            Content::InPlace(content) => {
                assert!(is_tensor_file(&path), "{path}");
                (path, bytes(*content))
            }
            content => (path, bytes(content)),
        })
        .collect();
    Memory { files, size: Some }
}
