//! The formats of the files that hold the tensors of a carton.

/// How [`entries`](super::entries) stores numeric tensors. Tensors of strings are always TOML.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorFormat {
    /// One file for each tensor, with nothing but the elements. Every reader of cartons can read them.
    #[default]
    Bin,
    /// One safetensors file for all tensors. Only readers that support it can read them (spec/carton-format-extensions.md,
    /// "Tensor files").
    Safetensors,
    /// One zTensor file for all tensors. Only readers that support it can read them.
    Ztensor,
}

impl TensorFormat {
    /// Returns the format of the file that holds all tensors; `None` if each tensor has its own file.
    #[must_use]
    pub const fn file_format(self) -> Option<FileFormat> {
        match self {
            Self::Bin => None,
            Self::Safetensors => Some(FileFormat::Safetensors),
            Self::Ztensor => Some(FileFormat::Ztensor),
        }
    }
}

/// A format of files that hold many tensors of a carton.
///
/// The variants are complete: readers have one branch for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// safetensors (spec/safetensors.md).
    Safetensors,
    /// zTensor 1.1 or 1.2 (spec/ztensor.md).
    Ztensor,
}

impl FileFormat {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::Safetensors, Self::Ztensor];

    /// Returns the name that `index.toml` has for the format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Ztensor => "ztensor",
        }
    }

    /// Returns the extension of its files, with the dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Safetensors => ".safetensors",
            Self::Ztensor => ".zt",
        }
    }

    /// Returns the format with this name; `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Whether the path of a file says that it holds many tensors, so that parts of it are read.
pub fn is_tensor_file(path: &str) -> bool {
    let name = path.strip_prefix(super::FOLDER);
    name.is_some_and(|name| FileFormat::ALL.iter().any(|format| name.ends_with(format.extension())))
}
