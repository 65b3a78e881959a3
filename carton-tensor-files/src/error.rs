//! Why tensors cannot be read or written.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use carton_core::ErrorKind;
use carton_tensor::any_file;
use carton_tensor::content::Content;
use carton_tensor::context::Cancelled;
use carton_tensor::files::SliceError;
use carton_tensor::gguf::{self, GgmlType};
use carton_tensor::npy::NpyError;
use carton_tensor::safetensors::SafetensorsError;
use carton_tensor::weights::{DescriptionError, PackedError, WeightsError};
use carton_tensor::ztensor::{SparseError, ZTensorError};
use carton_tensor::ztensor2::ZTensor2Error;

use crate::checkpoint::NoChoice;
use crate::merge_error::MergeError;
use crate::text::{count, shown_name};

/// What to do about a tensor that a format cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// What this says.
    Text(&'static str),
    /// What this says, or leaving such tensors out.
    OrLeaveOut(&'static str),
    /// Choosing the other tensors.
    ChooseOthers,
    /// A zTensor file, or the float32 numbers of quantized groups.
    OrDequantize,
    /// The float32 numbers of quantized tensors.
    Dequantize,
    /// Another format, or another type of floats.
    OrRound(&'static str),
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::OrLeaveOut(text) => write!(f, "{text}, or leave such tensors out"),
            Self::ChooseOthers => f.write_str("choose the others"),
            Self::OrDequantize => f.write_str(
                "write a .zt file, which keeps it as it is, or have the float32 numbers of quantized groups written",
            ),
            Self::OrRound(text) => write!(f, "{text}, or have floats of another type written"),
            Self::Dequantize => f.write_str("have the float32 numbers of quantized tensors written"),
        }
    }
}

/// An error of reading or writing tensors. [`kind`](Self::kind) classifies it, and [`hint`](Self::hint) says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorFilesError {
    /// The operating system refused something.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried, as a verb: `open`, `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path is that of a device, a pipe or a socket.
    #[error("`{}` is not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A folder is neither a carton nor a checkpoint.
    #[error("the folder `{place}` has {found}, and one checkpoint was expected")]
    Folder {
        /// The folder.
        place: String,
        /// The tensor files in it.
        found: String,
    },
    /// The only tensor file of a folder is one of several of a checkpoint, whose index is not there.
    #[error("`{file}` in `{place}` is one of several files of a checkpoint, and their index is not there")]
    Incomplete {
        /// The folder.
        place: String,
        /// The file.
        file: String,
    },
    /// A carton has no such file.
    #[error("the carton `{place}` has no file `{file}`")]
    NoSuchFile {
        /// The carton.
        place: String,
        /// The path in it.
        file: String,
    },
    /// There is no tensor of this name.
    #[error("`{place}` has no tensor `{name}`")]
    NoSuchTensor {
        /// The file or carton.
        place: String,
        /// The name.
        name: String,
        /// The names of the tensors that are there.
        present: Vec<String>,
    },
    /// No name matches.
    #[error("no tensor of `{place}` is called `{}`", patterns.join("` or `"))]
    NoneMatches {
        /// The file or carton.
        place: String,
        /// The patterns.
        patterns: Vec<String>,
    },
    /// A pattern of names is not valid.
    #[error(transparent)]
    Pattern(WeightsError),
    /// One tensor is needed, and there are more or none.
    #[error("`{place}` has {}, and one was expected", count(*found, "tensor"))]
    NotOne {
        /// The file or carton.
        place: String,
        /// The number of tensors.
        found: usize,
    },
    /// Several tensors would go to a file that holds one.
    #[error("an .npy file holds one tensor, and {} would go to `{}`", count(*found, "tensor"), path.display())]
    OneFits {
        /// The file to write.
        path: PathBuf,
        /// The number of tensors.
        found: usize,
    },
    /// A tensor of a carton is of a kind of a later version.
    #[error("tensor `{name}` is of a kind that this version does not know")]
    UnknownKind {
        /// The tensor.
        name: String,
    },
    /// The name of the file to write does not say its format.
    #[error("cannot write to `{}`: its extension names no format", path.display())]
    UnknownOutput {
        /// The file to write.
        path: PathBuf,
    },
    /// The file to write is one that is read.
    #[error("`{}` is the file that is read", path.display())]
    OutputIsSource {
        /// The file.
        path: PathBuf,
    },
    /// An option of zTensor files was used for another format.
    #[error("the option `{option}` is for .zt files: `{}` would be {format}", path.display())]
    NotForFormat {
        /// The name of the option, as the field of [`WriteOptions`](crate::WriteOptions) and others.
        option: &'static str,
        /// The file to write.
        path: PathBuf,
        /// Its format.
        format: &'static str,
    },
    /// The format of the file to write cannot hold metadata.
    #[error("{format} cannot hold metadata")]
    NoMetadata {
        /// The format.
        format: &'static str,
    },
    /// The format of the file to write cannot hold a tensor.
    #[error("{format} cannot hold tensor `{name}`, {what}")]
    CannotHold {
        /// The format.
        format: &'static str,
        /// The tensor, as messages show it.
        name: String,
        /// What it is.
        what: String,
        /// What to do about it.
        remedy: Remedy,
    },
    /// Two tensors would have one name.
    #[error("two tensors would be called `{name}`: {first} and {second}")]
    TwoOfOneName {
        /// The name.
        name: String,
        /// One of them, and where it is.
        first: String,
        /// The other.
        second: String,
    },
    /// The scale of a quantized tensor would have the name of another tensor.
    #[error("two tensors would be called `{name}`")]
    ScaleNameTaken {
        /// The name.
        name: String,
    },
    /// Nothing is left to write.
    #[error("every tensor of `{place}` is left out")]
    NoneLeft {
        /// The files or cartons.
        place: String,
    },
    /// Two sources have other texts in their metadata.
    #[error("`{place}` has another value of `{key}` in its metadata than the files before it")]
    OtherMetadata {
        /// The name of the value.
        key: String,
        /// The file or carton.
        place: String,
    },
    /// Numbers are beyond the largest one of the type that they would get.
    #[error("{} of tensor `{name}` cannot be {dtype}: too large", count(*n_numbers, "number"))]
    Beyond {
        /// The tensor, as messages show it.
        name: String,
        /// How many of its numbers.
        n_numbers: u64,
        /// The type.
        dtype: &'static str,
    },
    /// Blocks have no NaN.
    #[error("{} of tensor `{name}` cannot be in blocks of {of}: NaN", count(*n_numbers, "number"))]
    NanInBlocks {
        /// The tensor, as messages show it.
        name: String,
        /// How many of its numbers.
        n_numbers: u64,
        /// The type of the blocks.
        of: GgmlType,
    },
    /// A tensor is in blocks already, of another type than is wanted.
    #[error("tensor `{name}` has blocks of {of}, which are not made blocks of {to}")]
    OtherBlocks {
        /// The tensor, as messages show it.
        name: String,
        /// The type of its blocks.
        of: GgmlType,
        /// The type that was asked for.
        to: GgmlType,
    },
    /// Floats become blocks in GGUF files only.
    #[error("blocks of {of} are for .gguf files: `{}` would be {format}", path.display())]
    NoBlocks {
        /// The type of the blocks.
        of: GgmlType,
        /// The file to write.
        path: PathBuf,
        /// Its format.
        format: &'static str,
    },
    /// A format that has no checkpoints of several files.
    #[error("only a checkpoint of safetensors files can have several, and `{}` would be {format}", path.display())]
    NoShards {
        /// The file to write.
        path: PathBuf,
        /// Its format.
        format: &'static str,
    },
    /// No tensor fits into files of no bytes.
    #[error("files of 0 bytes hold no tensors")]
    EmptyShards,
    /// A checkpoint would have too many files.
    #[error("the tensors would be in {found} files, expected at most {limit}")]
    TooManyShards {
        /// The number of files.
        found: usize,
        /// The most that are written.
        limit: usize,
    },
    /// Quantized groups are made of the tensors of one file.
    #[error("quantized groups are made of the tensors of one file, and {found} are read")]
    GroupsOfOne {
        /// The number of files.
        found: usize,
    },
    /// A file that is read has changed since it was opened, or contradicts itself.
    #[error("a file that is read changed meanwhile: {0}")]
    Changed(String),
    /// A tensor that must be in memory as a whole does not fit.
    #[error("a tensor does not fit in memory")]
    Memory,
    /// The operating system refused to write the file.
    #[error("cannot write")]
    Writing(#[source] io::Error),
    /// There are no floats to quantize.
    #[error("`{place}` has no tensor of floats to quantize")]
    NothingToQuantize {
        /// The file or carton.
        place: String,
        /// How its tensors are quantized already.
        schemes: Vec<&'static str>,
    },
    /// A tensor cannot become a quantized group.
    #[error("cannot make a quantized group of tensor `{name}`")]
    NotInGroups {
        /// The tensor, as messages show it.
        name: String,
        /// The cause.
        source: Box<WeightsError>,
    },
    /// There is no description of this name.
    #[error("there is no description `{name}`, neither built in nor in a file")]
    NoDescription {
        /// The name.
        name: String,
    },
    /// The description of a kind of model cannot be used.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// A thread ended early: a bug.
    #[error("a thread ended early: {0}")]
    Thread(String),
    /// The work was cancelled.
    #[error("interrupted")]
    Interrupted,
    /// A tensor file cannot be read.
    #[error(transparent)]
    File(#[from] Box<any_file::TensorFileError>),
    /// A safetensors file cannot be written.
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    /// A zTensor file cannot be read or written.
    #[error(transparent)]
    Ztensor(#[from] Box<ZTensorError>),
    /// A file of zTensor 2 cannot be read.
    #[error(transparent)]
    Ztensor2(#[from] Box<ZTensor2Error>),
    /// A NumPy file cannot be written.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// A GGUF file cannot be written.
    #[error(transparent)]
    Gguf(#[from] Box<gguf::WriteError>),
    /// A text describes no part of a tensor.
    #[error(transparent)]
    Slice(#[from] SliceError),
    /// A packed tensor is not dequantized (spec/packed.md).
    #[error(transparent)]
    Packed(PackedError),
    /// An operation on tensors failed.
    #[error(transparent)]
    Weights(WeightsError),
    /// Models cannot be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// A carton cannot be read, or a file cannot be fetched.
    #[error(transparent)]
    Carton(#[from] carton_core::Error),
}

impl From<any_file::TensorFileError> for TensorFilesError {
    fn from(error: any_file::TensorFileError) -> Self {
        Self::File(Box::new(error))
    }
}

impl From<ZTensor2Error> for TensorFilesError {
    fn from(error: ZTensor2Error) -> Self {
        Self::Ztensor2(Box::new(error))
    }
}

impl From<ZTensorError> for TensorFilesError {
    fn from(error: ZTensorError) -> Self {
        Self::Ztensor(Box::new(error))
    }
}

impl From<gguf::WriteError> for TensorFilesError {
    fn from(error: gguf::WriteError) -> Self {
        Self::Gguf(Box::new(error))
    }
}

impl From<Cancelled> for TensorFilesError {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted
    }
}

impl From<PackedError> for TensorFilesError {
    fn from(error: PackedError) -> Self {
        match error {
            PackedError::File(error) => error.into(),
            error => Self::Packed(error),
        }
    }
}

impl From<WeightsError> for TensorFilesError {
    fn from(error: WeightsError) -> Self {
        match error {
            WeightsError::Interrupted => Self::Interrupted,
            WeightsError::File(error) => error.into(),
            error @ WeightsError::Pattern { .. } => Self::Pattern(error),
            error => Self::Weights(error),
        }
    }
}

impl TensorFilesError {
    pub(crate) fn no_choice(place: &str, no_choice: NoChoice) -> Self {
        let place = place.to_owned();
        match no_choice {
            NoChoice::NotOne(found) => Self::Folder { place, found },
            NoChoice::Part(file) => Self::Incomplete { place, file: shown_name(&file) },
        }
    }

    pub(crate) fn not_in_groups(name: &str, source: WeightsError) -> Self {
        Self::NotInGroups { name: shown_name(name), source: Box::new(source) }
    }

    /// Whether the file breaks a rule of its format.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::File(error) => error.is_malformed(),
            Self::Ztensor(error) => error.is_malformed(),
            Self::Ztensor2(error) => error.is_malformed(),
            _ => false,
        }
    }

    /// The error of a carton or of the network, if it is one.
    #[must_use]
    pub fn carton(&self) -> Option<&carton_core::Error> {
        if let Self::Carton(error) = self {
            return Some(error);
        }
        self.io_causes().find_map(|io| io.get_ref()?.downcast_ref::<carton_core::Error>())
    }

    /// Whether the operating system refused to open, read or write a file, also because there is none.
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::NotAFile { .. }) || self.io_causes().next().is_some()
    }

    /// The error of a zTensor file, if it is one: of version 2, only those that other versions have too.
    #[must_use]
    pub fn as_ztensor(&self) -> Option<&ZTensorError> {
        match self {
            Self::File(error) => match &**error {
                any_file::TensorFileError::ZTensor { source, .. } => Some(source),
                any_file::TensorFileError::ZTensor2 { source, .. } => match &**source {
                    ZTensor2Error::Sparse(error) => Some(error),
                    _ => None,
                },
                _ => None,
            },
            Self::Ztensor(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        if let Some(error) = self.carton() {
            return error.kind();
        }
        match self {
            error if error.is_malformed() => ErrorKind::Integrity,
            Self::Incomplete { .. } => ErrorKind::Integrity,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Thread(_) => ErrorKind::Other,
            Self::Io { action, source, .. } => ErrorKind::of_io(action, source),
            Self::Description(DescriptionError::Io { source, .. }) => ErrorKind::of_io("open", source),
            Self::Changed(_) | Self::Memory | Self::Writing(_) => ErrorKind::Machine,
            Self::NotAFile { .. } | Self::Weights(WeightsError::Memory { .. } | WeightsError::Write { .. }) => {
                ErrorKind::Machine
            }
            Self::File(error) => match &**error {
                any_file::TensorFileError::Io { source, .. } => ErrorKind::of_io("open", source),
                error if error.is_about_content() => ErrorKind::InvalidInput,
                _ => ErrorKind::Machine,
            },
            Self::Ztensor(error) if matches!(**error, ZTensorError::Memory { .. }) => ErrorKind::Machine,
            Self::Ztensor2(error) if matches!(**error, ZTensor2Error::Memory { .. }) => ErrorKind::Machine,
            Self::Safetensors(_) | Self::Ztensor(_) | Self::Ztensor2(_) | Self::Npy(_) | Self::Gguf(_)
                if self.io_causes().next().is_some() =>
            {
                ErrorKind::Machine
            }
            _ => ErrorKind::InvalidInput,
        }
    }

    /// What the user can do about the error, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        if let Some(error) = self.carton() {
            return error.hint();
        }
        if self.io_causes().any(|io| io.kind() == io::ErrorKind::StorageFull) {
            return Some("make room".to_owned());
        }
        let text = |text: &str| Some(text.to_owned());
        match self {
            Self::NoSuchTensor { present, .. } if present.is_empty() => text("it has none"),
            Self::NoSuchTensor { present, .. } => {
                const SHOWN: usize = 5;
                // Names come from a file, so control characters are not printed.
                let shown: Vec<String> = present.iter().take(SHOWN).map(|name| shown_name(name)).collect();
                let more = present.len().saturating_sub(SHOWN);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                Some(format!("it has `{}`{more}", shown.join("`, `")))
            }
            Self::NothingToQuantize { schemes, .. } if !schemes.is_empty() => Some(format!(
                "what it has is quantized already ({}), and would only lose precision",
                schemes.join("; ")
            )),
            Self::TwoOfOneName { .. } => text("rename one of them, or leave it out"),
            Self::OtherMetadata { .. } => text("set the value, or leave the metadata out"),
            Self::Beyond { .. } => {
                text("choose a type with a larger range, or have such numbers become the largest one")
            }
            Self::NanInBlocks { .. } => text("leave the tensor out, or write it without quantizing it"),
            Self::OtherBlocks { .. } => {
                text("have the float32 numbers of quantized tensors written, which are then quantized again")
            }
            Self::NoBlocks { .. } => text("name a file .gguf"),
            Self::Gguf(error) if matches!(**error, gguf::WriteError::Metadata { .. }) => {
                text("set the value, or leave the metadata out")
            }
            Self::Changed(_) => text("try again"),
            Self::NoShards { .. } => text("name a file .safetensors"),
            Self::EmptyShards | Self::TooManyShards { .. } => text("choose a larger size of a file"),
            Self::ScaleNameTaken { .. } => text("a quantized tensor has its scale beside it; leave one as it is"),
            Self::NotInGroups { .. } => text("leave it as it is, or make no groups"),
            Self::Packed(_) => text("leave it out, or convert without dequantizing, which keeps it as it is"),
            Self::OneFits { .. } => text("choose one, or write an .npz file"),
            Self::Folder { found, .. } if found == "no tensor file" => None,
            Self::Folder { .. } => text("name one of its files"),
            Self::Incomplete { .. } => text("name the file itself to read what it has alone"),
            Self::File(error) if error.content() == Some(Content::Carton) => {
                text("name it FILE.carton, or read its tensors as FILE#tensor_data")
            }
            Self::File(error) if error.hint().is_some() => {
                // That library reads tensor files only.
                let more = match **error {
                    any_file::TensorFileError::Unknown { .. } => ", and cartons (.carton)",
                    _ => "",
                };
                error.hint().map(|hint| format!("{hint}{more}"))
            }
            Self::UnknownOutput { .. } => text("name a file .safetensors, .zt, .gguf, .npz or .npy"),
            Self::OutputIsSource { .. } => text("write to another file, and rename it afterwards"),
            Self::CannotHold { remedy, .. } => Some(remedy.to_string()),
            Self::NoDescription { .. } => {
                let names = carton_tensor::weights::Description::BUILT_IN.join("` or `");
                Some(format!("name `{names}`, or a TOML file"))
            }
            error => match error.as_ztensor()? {
                ZTensorError::Sparse(SparseError::DenseSize { .. }) => {
                    text("allow a larger one, if it should be that large")
                }
                ZTensorError::OtherVersion { version: "2.x" } => {
                    text("a file of version 2 is read as a file of tensors, and can be converted to one of version 1.2")
                }
                ZTensorError::OtherVersion { version } => Some(format!(
                    "read it with a release {version} of the ztensor library, and save its tensors as safetensors, which can be converted"
                )),
                _ => None,
            },
        }
    }

    fn io_causes(&self) -> impl Iterator<Item = &io::Error> {
        std::iter::successors(Some(self as &(dyn Error + 'static)), |error: &&(dyn Error + 'static)| (*error).source())
            .filter_map(|error| error.downcast_ref::<io::Error>())
    }

    /// Returns the operating system's error, if that is why writing failed, whatever the format.
    pub(crate) fn io_cause(&self) -> Option<io::Error> {
        self.io_causes().next().map(|io| match io.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(io.kind(), io.to_string()),
        })
    }
}
