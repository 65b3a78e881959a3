//! What is wrong with a dataset.

use std::fmt;

/// The sort of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Category {
    /// A shard that the manifest names is not there.
    Missing,
    /// A shard that the manifest does not name.
    Extra,
    /// A shard is shorter than the manifest says.
    Truncated,
    /// A shard is longer than the manifest says.
    Altered,
    /// A shard cannot be read, or is no safetensors file.
    Unreadable,
    /// A link leads out of the dataset's folder.
    Link,
    /// A shard's tensors are not those of the manifest's schema.
    Schema,
    /// A shard has not as many samples as the manifest says.
    Samples,
    /// The index does not say what the shards say.
    Index,
    /// A writer was stopped before it was done, or is not done yet.
    Unfinished,
}

impl Category {
    /// Its name, as in the output of programs.
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

/// Something that is wrong with a dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Its sort.
    pub category: Category,
    /// The file, as a path below the dataset's folder.
    pub file: String,
    /// What is there, and what was expected.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.file.escape_debug(), self.problem)
    }
}
