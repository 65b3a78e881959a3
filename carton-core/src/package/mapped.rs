//! Tensors as views of the memory-mapped carton, for callers that want to avoid a copy.

use std::ops::Range;

use carton_tensor::Tensor;
use carton_tensor::files::SharedBytes;

use super::{Package, PackageError};
use crate::contents::Contents;
use crate::tensor_data::TensorFiles;

/// The files of a carton, memory-mapped where possible.
struct MappedFiles<'a>(&'a Contents);

impl Package {
    /// Does the same as [`tensor`](Self::tensor), but returns a tensor of a file that holds many ([`TensorFormat::Safetensors`],
    /// [`TensorFormat::Ztensor`]) as a view of the mapped file: of the carton itself if it is a local file. The carton must not change
    /// while the tensor is in use; see [`map_file`](Self::map_file). What cannot be mapped is copied.
    ///
    /// [`TensorFormat::Safetensors`]: crate::TensorFormat::Safetensors
    /// [`TensorFormat::Ztensor`]: crate::TensorFormat::Ztensor
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn mapped_tensor(&self, name: &str) -> Result<Tensor, PackageError> {
        let opened = &*self.opened;
        opened.tensors.read(name, &MappedFiles(&opened.contents), &opened.directories)
    }
}

impl TensorFiles for MappedFiles<'_> {
    type Error = PackageError;

    fn size(&self, path: &str) -> Result<Option<u64>, PackageError> {
        TensorFiles::size(self.0, path)
    }

    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, PackageError> {
        TensorFiles::read(self.0, path, cap)
    }

    fn read_into(&self, path: &str, buffer: &mut [u8]) -> Result<(), PackageError> {
        TensorFiles::read_into(self.0, path, buffer)
    }

    fn exact_size(&self, path: &str) -> Result<u64, PackageError> {
        TensorFiles::exact_size(self.0, path)
    }

    fn read_range(&self, path: &str, offset: u64, buffer: &mut [u8]) -> Result<(), PackageError> {
        TensorFiles::read_range(self.0, path, offset, buffer)
    }

    fn view(&self, path: &str, range: Range<u64>) -> Result<Option<SharedBytes>, PackageError> {
        let position = |position: u64| usize::try_from(position).ok();
        let range = position(range.start).zip(position(range.end));
        Ok(self.0.map(path)?.zip(range).and_then(|(bytes, (start, end))| bytes.slice(start..end)))
    }
}
