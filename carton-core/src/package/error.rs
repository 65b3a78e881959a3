//! What can be wrong with a carton as a whole, or with the input of a new one.

use std::io;
use std::path::{Path, PathBuf};

use carton_format::archive::ArchiveError;
use carton_format::context::Cancelled;
use carton_format::error_kind::ErrorKind;
use carton_format::metadata::MetadataError;
use carton_format::name::NameError;
use carton_format::tensor_data::TensorDataError;

use crate::contents::ContentsError;
use crate::error::{Advice, Failure};

/// The largest carton.toml that is read, in bytes.
pub(super) const MAX_METADATA_LENGTH: u64 = 4 << 20;

/// Why a carton cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackageError {
    /// A file of the carton cannot be read or fetched, or does not match MANIFEST.
    #[error(transparent)]
    Contents(#[from] ContentsError),
    /// The carton.toml cannot be used.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A tensor, or the index of the tensors, cannot be used.
    #[error(transparent)]
    TensorData(#[from] TensorDataError),
    /// The archive cannot be written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// There is no carton.toml.
    #[error("`{location}` is not a carton: it has no file carton.toml")]
    NoMetadata {
        /// The carton.
        location: String,
    },
    /// The carton.toml refers to something that does not exist.
    #[error("carton.toml: {owner}: `{reference}` is not in the carton (`{field}`)")]
    Dangling {
        /// The self-test or example, and its tensor, as text for people.
        owner: String,
        /// The field of carton.toml, as in `self_test[0].inputs.x`.
        field: String,
        /// What it refers to, as in `@misc/cat.png`.
        reference: String,
    },
    /// There is no example of this name.
    #[error("there is no example `{name}`, there {}", listed(examples))]
    NoExample {
        /// The requested name.
        name: String,
        /// The names of the existing examples.
        examples: Vec<String>,
    },
    /// There is no self-test of this name.
    #[error("there is no self-test `{name}`, there {}", listed(self_tests))]
    NoSelfTest {
        /// The requested name.
        name: String,
        /// The names of the existing self-tests.
        self_tests: Vec<String>,
    },
    /// The model cannot be run on the inputs of an example, because one of them is not a tensor.
    #[error("example `{example}`: input `{input}` is the file `{file}`, expected a tensor")]
    ExampleInput {
        /// The example.
        example: String,
        /// The input.
        input: String,
        /// The file in the carton.
        file: String,
    },
    /// A file to be packed is not a regular file, folder or symbolic link.
    #[error("cannot pack `{}`: expected a file, a folder or a symbolic link, found {found}", path.display())]
    SpecialFile {
        /// The file.
        path: PathBuf,
        /// A description of what was found.
        found: &'static str,
    },
    /// A file to be packed has a name that a carton cannot have.
    #[error("cannot pack `{}`: its name is not allowed", path.display())]
    Name {
        /// The file, or its requested path below `misc/`.
        path: PathBuf,
        /// Why not.
        #[source]
        source: NameError,
    },
    /// A symbolic link to be packed leads nowhere or in a circle.
    #[error("cannot pack the symbolic link `{}`: {reason}", path.display())]
    Link {
        /// The link.
        path: PathBuf,
        /// The reason, in words.
        reason: &'static str,
    },
    /// There is nothing to pack.
    #[error("cannot pack `{}`: it has no files", path.display())]
    EmptyModel {
        /// The folder.
        path: PathBuf,
    },
    /// The carton.toml would be larger than readers accept.
    #[error("carton.toml is too large: at most {MAX_METADATA_LENGTH} bytes, found {found}")]
    MetadataTooLarge {
        /// Its length in bytes.
        found: usize,
    },
    /// The carton would replace one of the files that are to be packed.
    #[error("cannot write `{}`: it is one of the files to be packed", output.display())]
    OutputIsInput {
        /// The path of the output.
        output: PathBuf,
    },
    /// The output would replace the carton that it is made from, or lie in its folder.
    #[error("cannot write `{}`: it is, or is in, the carton that is read", output.display())]
    OutputIsSource {
        /// The path of the output.
        output: PathBuf,
    },
    /// The model has more files than a carton may have.
    #[error("cannot pack `{}`: at most {limit} files", path.display())]
    TooManyFiles {
        /// The folder.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// A rule about what is packed is no pattern.
    #[error("{}: `{}` is no pattern of files: {problem}", place.display(), pattern.escape_debug())]
    IgnorePattern {
        /// Where the rule is from.
        place: PathBuf,
        /// The rule.
        pattern: String,
        /// Why it is none.
        problem: String,
    },
    /// A file is the whole model, and a rule is to leave something of it out.
    #[error("`{}` is one file, and `{}` can leave nothing of it out", path.display(), pattern.escape_debug())]
    NothingToExclude {
        /// The file.
        path: PathBuf,
        /// The rule.
        pattern: String,
    },
    /// The file of such rules is none that is read.
    #[error("cannot use `{}`: expected a file of at most {limit} bytes", path.display())]
    IgnoreFile {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// A file changed while it was packed.
    #[error("`{}` changed while it was being packed", path.display())]
    SourceChanged {
        /// The file.
        path: PathBuf,
    },
    /// The caller asked to stop. Nothing is left behind.
    #[error("interrupted")]
    Interrupted,
    /// The operating system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

impl Failure for PackageError {
    fn kind(&self) -> ErrorKind {
        match self {
            // The library reads this file to open the carton, so the carton exceeds a limit of the library.
            Self::Contents(ContentsError::Size { .. }) => ErrorKind::Unsupported,
            Self::Contents(error) => error.kind(),
            Self::Metadata(MetadataError::UnsupportedVersion { .. }) => ErrorKind::Unsupported,
            Self::Metadata(_) | Self::NoMetadata { .. } | Self::Dangling { .. } => ErrorKind::Integrity,
            Self::TensorData(TensorDataError::NoSuchTensor { .. }) => ErrorKind::InvalidInput,
            Self::TensorData(TensorDataError::TooLarge { .. }) => ErrorKind::Unsupported,
            Self::TensorData(TensorDataError::OutOfMemory { .. }) => ErrorKind::Machine,
            Self::TensorData(_) => ErrorKind::Integrity,
            Self::Archive(ArchiveError::Interrupted) | Self::Interrupted => ErrorKind::Interrupted,
            Self::Io { action, source, .. } => ErrorKind::of_io(action, source),
            Self::Archive(ArchiveError::Io { .. }) => ErrorKind::Machine,
            // Here archives are only written, so the fault is in the input.
            Self::Archive(_)
            | Self::SpecialFile { .. }
            | Self::Name { .. }
            | Self::Link { .. }
            | Self::EmptyModel { .. }
            | Self::OutputIsInput { .. }
            | Self::OutputIsSource { .. }
            | Self::MetadataTooLarge { .. }
            | Self::TooManyFiles { .. }
            | Self::IgnorePattern { .. }
            | Self::NothingToExclude { .. }
            | Self::IgnoreFile { .. }
            | Self::SourceChanged { .. }
            | Self::NoExample { .. }
            | Self::NoSelfTest { .. }
            | Self::ExampleInput { .. } => ErrorKind::InvalidInput,
        }
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::Contents(error) => error.advice(),
            Self::Archive(ArchiveError::NotZip { content: Some(content), .. }) => content.hint().map(Advice::from),
            Self::OutputIsSource { .. } => Some("name another file to write".into()),
            Self::ExampleInput { .. } => Some(Advice::PassTensor),
            _ => None,
        }
    }

    fn is_unreachable(&self) -> bool {
        matches!(self, Self::Contents(error) if error.is_unreachable())
    }

    fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { .. }) && self.kind() == ErrorKind::InvalidInput
    }
}

impl PackageError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}

fn listed(examples: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<String> = examples.iter().take(SHOWN).map(|example| format!("`{example}`")).collect();
    match examples.len() {
        0 => "are none".to_owned(),
        1 => format!("is only {}", shown.concat()),
        count if count > SHOWN => format!("are {} and {} more", shown.join(", "), count - SHOWN),
        _ => format!("are {}", shown.join(", ")),
    }
}

impl From<Cancelled> for PackageError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}
