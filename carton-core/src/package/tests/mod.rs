//! Cartons are written, opened and compared with their input; models and cartons that must be refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod odd;
mod opening;
mod packing;
mod random;
mod tensor_files;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use carton_format::archive::Compression;
use carton_tensor::{NestedTensor, NumericTensor, StringTensor};
use tempfile::TempDir;

use super::*;

/// Returns the error chain on one line.
fn chain(error: &dyn std::error::Error) -> String {
    carton_format::causes::in_one_line(error).replace('\n', " ")
}

/// A temporary folder to build models and cartons in.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn link(&self, name: &str, target: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, &path).unwrap();
        path
    }

    /// The names of everything in the folder. Links are not followed.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![self.0.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else {
                    let name = entry.path().strip_prefix(self.0.path()).unwrap().to_path_buf();
                    names.push(name.to_str().unwrap().to_owned());
                }
            }
        }
        names.sort();
        names
    }
}

/// Minimal metadata, followed by `tables`.
fn metadata(tables: &str) -> Metadata {
    let text = format!(
        "spec_version = 1\ninput = []\noutput = []\n{tables}\n[runner]\nrunner_name = 'noop'\nrequired_framework_version = '1'"
    );
    Metadata::parse(&text).unwrap()
}

fn numbers(elements: &[f32]) -> Tensor {
    NumericTensor::from_vec(elements.to_vec(), vec![elements.len()]).unwrap().into()
}

fn strings(elements: &[&str]) -> Tensor {
    let elements: Vec<_> = elements.iter().map(|element| (*element).to_owned()).collect();
    let shape = vec![elements.len()];
    StringTensor::new(elements, shape).unwrap().into()
}

fn elements(tensor: &Tensor) -> String {
    match tensor {
        Tensor::Numeric(tensor) => format!("{:?} {:?}", tensor.shape(), tensor.to_vec::<f32>().unwrap()),
        Tensor::String(tensor) => format!("{:?} {:?}", tensor.shape(), tensor.elements()),
        Tensor::Nested(tensor) => format!("{:?}", tensor.elements().iter().map(elements).collect::<Vec<_>>()),
        _ => panic!("another kind of tensor"),
    }
}

/// Packs `input` as `name` in `folder`.
fn pack(folder: &Folder, name: &str, input: &PackageInput) -> Result<PathBuf, PackageError> {
    let output = folder.path(name);
    write(input, &output, Compression::Auto, &Context::default()).map(|_| output)
}

fn open(path: &Path) -> Result<Package, PackageError> {
    Package::open(path, OpenOptions::default())
}

/// The model's files by path, each with its bytes or the target of its link.
fn listing(package: &Package) -> BTreeMap<String, String> {
    let described = |file: crate::contents::FileInfo| match file.symlink {
        Some(target) => (file.path, format!("-> {target}")),
        None => {
            let bytes = package.contents().read(&file.path, 1 << 20, &Context::default()).unwrap();
            (file.path, String::from_utf8_lossy(&bytes).into_owned())
        }
    };
    package.info().files.into_iter().filter(|file| file.path.starts_with("model/")).map(described).collect()
}

fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
