//! The findings of a verification: what is wrong with a dataset (spec/dataset.md §7).

use std::fmt;

/// The category of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Category {
    /// A shard of the manifest does not exist, or is not a file.
    Missing,
    /// A shard is not in the manifest.
    Extra,
    /// A shard is shorter than the manifest says.
    Truncated,
    /// A shard is longer than the manifest says.
    Altered,
    /// A shard cannot be read, or is not a safetensors file.
    Unreadable,
    /// A link leads out of the dataset's folder.
    Link,
    /// The tensors of a shard differ from the manifest's schema.
    Schema,
    /// The number of samples in a shard differs from the manifest.
    Samples,
    /// The index contradicts the shards.
    Index,
    /// A writer was stopped before it was done, or is still running.
    Unfinished,
}

impl Category {
    /// The name of the category, as programs print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Truncated => "truncated",
            Self::Altered => "altered",
            Self::Unreadable => "unreadable",
            Self::Link => "link",
            Self::Schema => "schema",
            Self::Samples => "samples",
            Self::Index => "index",
            Self::Unfinished => "unfinished",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One problem of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The category.
    pub category: Category,
    /// The path of the file, relative to the dataset's folder.
    pub file: String,
    /// What was found, and what was expected.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.file.escape_debug(), self.problem)
    }
}
