//! Which files hold the tensors of a carton.

/// How [`entries`](super::entries) stores numeric tensors. Strings are TOML in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorFormat {
    /// A file each, with the elements alone: what every reader of cartons can read.
    #[default]
    Bin,
    /// One safetensors file for all. Only readers that know of it can read them (spec/carton-format-extensions.md, "Tensor files").
    Safetensors,
    /// One zTensor file for all. Only readers that know of it can read them.
    Ztensor,
}

impl TensorFormat {
    /// The format of the one file, if there is only one.
    #[must_use]
    pub const fn file_format(self) -> Option<FileFormat> {
        match self {
            Self::Bin => None,
            Self::Safetensors => Some(FileFormat::Safetensors),
            Self::Ztensor => Some(FileFormat::Ztensor),
        }
    }
}

/// A format of files that hold many tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// safetensors.
    Safetensors,
    /// zTensor 1.1 or 1.2.
    Ztensor,
}

impl FileFormat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Safetensors, Self::Ztensor];

    /// The name in `index.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Ztensor => "ztensor",
        }
    }

    /// The extension of its files, with the dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Safetensors => ".safetensors",
            Self::Ztensor => ".zt",
        }
    }

    /// The format of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Whether a file of a carton is one that holds many tensors, as its path says, so that parts of it are read.
pub(crate) fn is_tensor_file(path: &str) -> bool {
    let name = path.strip_prefix(super::FOLDER);
    name.is_some_and(|name| FileFormat::ALL.iter().any(|format| name.ends_with(format.extension())))
}
