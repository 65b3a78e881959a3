//! How tensors are stored in the file that is written.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use carton_tensor::context::Context;
use carton_tensor::ztensor::{DigestAlgorithm, Version};

use crate::error::TensorFilesError;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputFormat {
    /// A safetensors file.
    Safetensors,
    /// A zTensor file, version 1.1 or 1.2.
    Ztensor,
    /// A file of zTensor 2.
    Ztensor2,
    /// An archive of NumPy's.
    Npz,
    /// One array of NumPy's.
    Npy,
    /// A GGUF file.
    Gguf,
}

impl OutputFormat {
    /// Returns the format that the extension of a file names.
    ///
    /// # Errors
    /// It names none.
    pub fn of(path: &Path) -> Result<Self, TensorFilesError> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("safetensors") => Ok(Self::Safetensors),
            Some("zt") => Ok(Self::Ztensor),
            Some("npz") => Ok(Self::Npz),
            Some("npy") => Ok(Self::Npy),
            Some("gguf") => Ok(Self::Gguf),
            _ => Err(TensorFilesError::UnknownOutput { path: path.to_path_buf() }),
        }
    }

    /// Returns an error if an option for zTensor files is used with another format.
    pub(crate) fn expect_ztensor(self, option: &'static str, path: &Path) -> Result<(), TensorFilesError> {
        if self == Self::Ztensor || self == Self::Ztensor2 && option == VERSION {
            return Ok(());
        }
        Err(TensorFilesError::NotForFormat { option, path: path.to_path_buf(), format: self.name() })
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "a safetensors file",
            Self::Ztensor => "a zTensor file",
            Self::Ztensor2 => "a file of zTensor 2",
            Self::Npz => "an .npz file",
            Self::Npy => "an .npy file",
            Self::Gguf => "a GGUF file",
        }
    }
}

/// The version of a zTensor file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ZtensorVersion {
    /// One of the versions with the container of 1.x.
    V1(Version),
    /// Version 2, another container, whose files hold dense tensors in canonical form. The other options for zTensor files are not for it.
    V2,
}

/// The option that is for files of zTensor 2 too.
const VERSION: &str = "version";

/// Kept while a file with a temporary name exists; see [`WriteOptions::on_temporary`].
pub type Temporary = Box<dyn Any + Send>;

/// Called with a temporary name; see [`WriteOptions::on_temporary`].
pub type OnTemporary = Arc<dyn Fn(&Path) -> Temporary + Send + Sync>;

/// How tensors are stored in the file that is written, and the context of that work. The first four options are for zTensor files; another
/// format is an error with them.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Compresses with zstd, from 1 (fast) to 22 (small).
    pub zstd: Option<i32>,
    /// Stores a digest of this algorithm with each tensor. By default those are kept that a zTensor input has.
    pub digest: Option<DigestAlgorithm>,
    /// The version of the format; 1.2 by default.
    pub version: Option<ZtensorVersion>,
    /// Stores a tensor as sparse if less than this share of its elements is not 0, from 0 to 1. -0.0 counts as not 0, and is kept.
    pub sparse_below: Option<f64>,
    /// How the caller cancels the work, and where it reports its progress.
    pub context: Context,
    /// Called with the temporary name of the file where the file system has no files without names. What it returns is dropped once the file
    /// has its own name or is deleted.
    pub on_temporary: Option<OnTemporary>,
}

impl fmt::Debug for WriteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOptions")
            .field("zstd", &self.zstd)
            .field("digest", &self.digest)
            .field("version", &self.version)
            .field("sparse_below", &self.sparse_below)
            .finish_non_exhaustive()
    }
}

impl WriteOptions {
    /// The options in this context.
    #[must_use]
    pub fn context(self, context: Context) -> Self {
        Self { context, ..self }
    }

    /// Returns the format of the file that is written.
    ///
    /// # Errors
    /// The extension names none.
    pub(crate) fn format(&self, path: &Path) -> Result<OutputFormat, TensorFilesError> {
        match (OutputFormat::of(path)?, self.version) {
            (OutputFormat::Ztensor, Some(ZtensorVersion::V2)) => Ok(OutputFormat::Ztensor2),
            (format, _) => Ok(format),
        }
    }

    /// Returns the first given option that applies to zTensor files only. The version comes last, because it applies to all of them.
    pub(crate) fn for_ztensor(&self) -> Option<&'static str> {
        let options = [
            ("zstd", self.zstd.is_some()),
            ("digest", self.digest.is_some()),
            ("sparse_below", self.sparse_below.is_some()),
            (VERSION, self.version.is_some()),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }
}
