//! Why a checkpoint of several files cannot be read.

use std::io;
use std::path::PathBuf;

use super::kind::ShardKind;
use crate::files::quoted;
use crate::safetensors::{SafetensorsError, ShardIndexError};
use crate::torch::TorchError;

/// The reason that a sharded checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardedError {
    /// The index breaks a rule.
    #[error("`{place}` is not a valid index of a checkpoint")]
    Index {
        /// The index.
        place: String,
        /// The rule.
        #[source]
        source: ShardIndexError,
    },
    /// Files are missing that the index names, or that the numbers in the names of the other files imply.
    #[error(
        "`{place}`: {count} of its files {} missing: {} (spec/safetensors.md §{section})",
        if *.count == 1 { "is" } else { "are" }, list(.files, *.count)
    )]
    MissingShards {
        /// The index.
        place: String,
        /// The first of the missing files.
        files: Vec<String>,
        /// The number of missing files. For §7.3, counting stops at 1001, which means more than 1000.
        count: usize,
        /// §7.3 if the index names the files, §7.4 if it does not.
        section: &'static str,
    },
    /// The name of a file says that it belongs to the checkpoint, but the index does not name it.
    #[error(
        "`{place}` does not name {}, whose name says that it is one of its files (spec/safetensors.md §7.4)",
        quoted(.file)
    )]
    ExtraShard {
        /// The index.
        place: String,
        /// The file.
        file: String,
    },
    /// The index names something that is not a regular file.
    #[error(
        "{} of `{place}` is {found}, expected a file of tensors (spec/safetensors.md §7.3)", quoted(.file)
    )]
    NotAFile {
        /// The index.
        place: String,
        /// The name of the file.
        file: String,
        /// What was found under the name.
        found: &'static str,
    },
    /// A symbolic link leads out of the checkpoint, and is not followed.
    #[error(
        "{} of `{place}` is a link to `{}`, outside of its folder{} (spec/safetensors.md §7.3)",
        quoted(.file), target.display(), whose(*.owner)
    )]
    Outside {
        /// The index.
        place: String,
        /// The file.
        file: String,
        /// Where the link leads.
        target: PathBuf,
        /// The number of the user who made a link on the way, and is not the one who runs this, if that is the reason.
        owner: Option<u32>,
    },
    /// The files are of more than one kind.
    #[error(
        "{} of `{place}` is {kind}, and {} is {other_kind}: the files of a checkpoint are of one kind (spec/safetensors.md §7.7)",
        quoted(.file), quoted(.other)
    )]
    Mixed {
        /// The index.
        place: String,
        /// The first file.
        file: String,
        /// Its kind.
        kind: ShardKind,
        /// The first file of another kind.
        other: String,
        /// Its kind.
        other_kind: ShardKind,
    },
    /// A tensor is not in the file that the index names for it.
    #[error(
        "`{place}` says that tensor {} is in {}, which does not have it (spec/safetensors.md §7.5)",
        quoted(.tensor), quoted(.file)
    )]
    MissingTensor {
        /// The index.
        place: String,
        /// The tensor.
        tensor: String,
        /// The file that the index names for the tensor.
        file: String,
    },
    /// A file has a tensor for which the index names another file, or none.
    #[error(
        "`{place}` does not say that tensor {} is in {}, which has it{} (spec/safetensors.md §7.5)",
        quoted(.tensor), quoted(.file), other(.said)
    )]
    ExtraTensor {
        /// The index.
        place: String,
        /// The tensor.
        tensor: String,
        /// The file that has it.
        file: String,
        /// The file that the index names for the tensor, if any.
        said: Option<String>,
    },
    /// No shard has a tensor of this name.
    #[error("`{place}` has no tensor {}", quoted(.name))]
    NoSuchTensor {
        /// The index.
        place: String,
        /// The requested name.
        name: String,
    },
    /// One of the files cannot be read as safetensors.
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    /// One of the files cannot be read as a PyTorch checkpoint.
    #[error(transparent)]
    Torch(#[from] TorchError),
    /// The index of a checkpoint that is not in a folder of this machine names too many files.
    #[error("`{place}` names {found} files, and elsewhere than in a folder at most {MAX_ELSEWHERE} are opened")]
    TooMany {
        /// The index.
        place: String,
        /// The number of files.
        found: usize,
    },
    /// The index or the folder cannot be read.
    #[error("cannot read `{place}`")]
    Io {
        /// The index, its folder or a file in it.
        place: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// The most files of a checkpoint that is not in a folder of this machine: each takes a request.
pub(super) const MAX_ELSEWHERE: usize = 10_000;

/// The most file names that an error lists.
pub(super) const LISTED: usize = 10;

fn list(files: &[String], count: usize) -> String {
    let shown: Vec<String> = files.iter().take(LISTED).map(|file| quoted(file).to_string()).collect();
    let more = count.saturating_sub(shown.len());
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

fn other(file: &Option<String>) -> String {
    file.as_ref().map(|file| format!(", but in {}", quoted(file))).unwrap_or_default()
}

fn whose(owner: Option<u32>) -> String {
    owner.map(|owner| format!(", by way of a link that another user made (uid {owner})")).unwrap_or_default()
}
