//! Reads tensors: copied into memory or, for callers that want to avoid a copy, as views of the memory-mapped carton.

use std::ops::Range;

use carton_format::tensor_data::TensorFiles;
use carton_tensor::Tensor;
use carton_tensor::files::SharedBytes;

use super::{Package, PackageError};
use crate::error::Error;

/// The files of a carton that hold its tensors.
struct Files<'a> {
    package: &'a Package,
    /// Whether files are memory-mapped where possible.
    are_mapped: bool,
}

impl Package {
    /// Reads and verifies one tensor of `tensor_data/`.
    ///
    /// # Errors
    /// There is no such tensor; its file does not match MANIFEST, or contradicts the index.
    pub fn tensor(&self, name: &str) -> Result<Tensor, Error> {
        Ok(self.read_tensor(name, false)?)
    }

    /// Does the same as [`tensor`](Self::tensor), but returns a tensor of a file that holds many ([`TensorFormat::Safetensors`],
    /// [`TensorFormat::Ztensor`]) as a view of the mapped file: of the carton itself if it is a local file. The carton must not change
    /// while the tensor is in use; see [`map_file`](Self::map_file). What cannot be mapped is copied.
    ///
    /// [`TensorFormat::Safetensors`]: crate::packing::TensorFormat::Safetensors
    /// [`TensorFormat::Ztensor`]: crate::packing::TensorFormat::Ztensor
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn mapped_tensor(&self, name: &str) -> Result<Tensor, Error> {
        Ok(self.read_tensor(name, true)?)
    }

    fn read_tensor(&self, name: &str, is_mapped: bool) -> Result<Tensor, PackageError> {
        let files = Files { package: self, are_mapped: is_mapped };
        self.opened.tensors.read(name, &files, &self.opened.directories)
    }
}

impl TensorFiles for Files<'_> {
    type Error = PackageError;

    fn size(&self, path: &str) -> Result<Option<u64>, PackageError> {
        Ok(self.package.contents().size_of(path)?)
    }

    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, PackageError> {
        Ok(self.package.contents().read(path, cap, &self.package.context)?)
    }

    fn read_into(&self, path: &str, buffer: &mut [u8]) -> Result<(), PackageError> {
        Ok(self.package.contents().read_into(path, buffer, &self.package.context)?)
    }

    fn exact_size(&self, path: &str) -> Result<u64, PackageError> {
        Ok(self.package.contents().verified_length(path, &self.package.context)?)
    }

    fn read_range(&self, path: &str, offset: u64, buffer: &mut [u8]) -> Result<(), PackageError> {
        Ok(self.package.contents().read_range(path, offset, buffer, &self.package.context)?)
    }

    fn view(&self, path: &str, range: Range<u64>) -> Result<Option<SharedBytes>, PackageError> {
        if !self.are_mapped {
            return Ok(None);
        }
        let position = |position: u64| usize::try_from(position).ok();
        let range = position(range.start).zip(position(range.end));
        let mapped = self.package.contents().map(path, &self.package.context)?;
        Ok(mapped.zip(range).and_then(|(bytes, (start, end))| bytes.slice(start..end)))
    }
}
