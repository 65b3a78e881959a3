//! The output of `carton tensor`: a file in the format that its extension names, written under a temporary name and renamed when it is
//! complete. All tensors are planned before the first one is read, so that tensors that the format cannot hold are refused at once.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use carton_core::CancelToken;
use carton_tensor::files::{ElementType, PendingFile, RawTensor};
use carton_tensor::npy::{Array, NpzWriter, write_array};
use carton_tensor::safetensors::{self, Layout, Metadata, SafetensorsError};
use carton_tensor::ztensor::{self, Attribute, Object, QuantizedGroup, Version};

use super::error::{TensorFileError, io_cause, shown_name};
use super::source::Value;
use super::ztensor_output::ZtensorOutput;
use crate::args::SinkArgs;
use crate::interrupt::Leftover;

/// The longest name of a tensor in an .npz file: an entry's name has at most 65,535 bytes, `.npy` included.
const LONGEST_NPZ_NAME: usize = 65_535 - ".npy".len();

/// The hint for a tensor that version 1.1 of zTensor cannot hold.
const TOO_NEW: &str = "write version 1.2, or leave such tensors out with --only";

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    Safetensors,
    Ztensor,
    Npz,
    Npy,
}

impl OutputFormat {
    /// Returns the format that the extension of a file names.
    pub(crate) fn of(path: &Path) -> Result<Self, TensorFileError> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("safetensors") => Ok(Self::Safetensors),
            Some("zt") => Ok(Self::Ztensor),
            Some("npz") => Ok(Self::Npz),
            Some("npy") => Ok(Self::Npy),
            _ => Err(TensorFileError::UnknownOutput { path: path.to_path_buf() }),
        }
    }

    /// Returns an error if an option for zTensor files is used with another format.
    pub(crate) fn expect_ztensor(self, option: &'static str, path: &Path) -> Result<(), TensorFileError> {
        if self == Self::Ztensor {
            return Ok(());
        }
        Err(TensorFileError::NotForFormat { option, path: path.to_path_buf(), format: self.name() })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "a safetensors file",
            Self::Ztensor => "a zTensor file",
            Self::Npz => "an .npz file",
            Self::Npy => "an .npy file",
        }
    }
}

/// A tensor that is to be written.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) kind: PlannedKind,
}

/// The representation of a planned tensor.
#[derive(Clone, Debug)]
pub(crate) enum PlannedKind {
    Numbers(ElementType, Vec<usize>),
    Strings,
    /// Integers and their scales, as one object of a zTensor file.
    Group,
    /// An object of several components, or one that is more than its numbers. Only a zTensor file can hold it unchanged.
    Object {
        what: String,
        /// Describes what version 1.1 of the format cannot represent, if anything.
        not_in_1_1: Option<String>,
    },
    Nested,
    /// A tensor that cannot be read, and the reason.
    Unusable(String),
}

/// The contents of one planned tensor.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    Value(Value),
    Group(Box<QuantizedGroup>),
    /// An object of a zTensor file, to be copied.
    Object(&'a ztensor::Reader, Object<'a>),
}

/// A file that is being written.
pub(crate) struct Sink {
    path: PathBuf,
    file: PendingFile,
    /// Dropped after the file has its name or has been removed.
    _leftover: Option<Leftover>,
    writer: Writer,
    ztensor: ZtensorOutput,
    order: Vec<usize>,
    cancel_token: CancelToken,
}

enum Writer {
    Safetensors(Box<safetensors::Writer<BufWriter<Stoppable>>>),
    Ztensor(Box<ztensor::Writer<BufWriter<Stoppable>>>),
    Npz(Box<NpzWriter<Stoppable>>),
    Npy(BufWriter<Stoppable>),
}

/// A file whose writes fail once the cancel token is cancelled: compressing a large tensor takes long.
struct Stoppable {
    file: File,
    cancel_token: CancelToken,
}

impl Write for Stoppable {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.cancel_token.is_cancelled() {
            return Err(io::Error::other("interrupted"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Stoppable {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        self.file.seek(target)
    }
}

impl Sink {
    /// Checks that the file can hold all planned tensors, and begins it.
    pub(crate) fn create(
        arguments: &SinkArgs,
        planned: &[Planned],
        metadata: &[(String, Attribute)],
        cancel_token: &CancelToken,
    ) -> Result<Self, TensorFileError> {
        let path = arguments.output.clone();
        let format = OutputFormat::of(&path)?;
        if let Some(option) = ZtensorOutput::option_of(arguments) {
            format.expect_ztensor(option, &path)?;
        }
        check_names(planned)?;
        let ztensor = ZtensorOutput::new(arguments);
        planned.iter().try_for_each(|planned| check(planned, format, ztensor.version))?;
        if format == OutputFormat::Npy && planned.len() != 1 {
            return Err(TensorFileError::OneFits { path, found: planned.len() });
        }
        let unwritable = |source| TensorFileError::Io { action: "write", path: path.clone(), source };
        let file = PendingFile::new(&path).map_err(unwritable)?;
        let leftover = file.temporary_name().map(|name| Leftover::new(name.to_path_buf()));
        let output =
            Stoppable { file: file.file().try_clone().map_err(unwritable)?, cancel_token: cancel_token.clone() };
        let mut order: Vec<usize> = (0..planned.len()).collect();
        let writer = match format {
            OutputFormat::Safetensors => {
                let text = metadata.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_text()?)));
                let metadata = if metadata.is_empty() {
                    Metadata::default()
                } else {
                    Metadata::new(text).map_err(SafetensorsError::from)?
                };
                let described = planned.iter().filter_map(|planned| match &planned.kind {
                    PlannedKind::Numbers(dtype, shape) => Some((planned.name.as_str(), *dtype, shape.as_slice())),
                    _ => None,
                });
                let layout = Layout::new(described, &metadata).map_err(SafetensorsError::from)?;
                order = layout.order().to_vec();
                Writer::Safetensors(Box::new(safetensors::Writer::new(BufWriter::new(output), layout)?))
            }
            OutputFormat::Ztensor => {
                let output = BufWriter::with_capacity(1 << 20, output);
                let mut writer = ztensor::Writer::with_version(output, ztensor.version)?;
                writer.set_attributes(&metadata.iter().cloned().collect())?;
                Writer::Ztensor(Box::new(writer))
            }
            OutputFormat::Npz => Writer::Npz(Box::new(NpzWriter::new(output))),
            OutputFormat::Npy => Writer::Npy(BufWriter::new(output)),
        };
        let cancel_token = cancel_token.clone();
        Ok(Self { path, file, _leftover: leftover, writer, ztensor, order, cancel_token })
    }

    /// Returns the order in which the tensors have to be written, by their positions among the planned ones.
    pub(crate) fn order(&self) -> Vec<usize> {
        self.order.clone()
    }

    /// Writes the next tensor in the order.
    pub(crate) fn write(&mut self, name: &str, piece: Piece<'_>) -> Result<(), TensorFileError> {
        let path = self.path.clone();
        self.write_piece(name, piece).map_err(|error| unwritable(&path, error))
    }

    /// Reserves space for the next tensor, a numeric one, to be [filled](Self::fill) later. Returns `false` if the format can only be
    /// written in order.
    pub(crate) fn reserve(&mut self, name: &str) -> Result<bool, TensorFileError> {
        let Writer::Safetensors(writer) = &mut self.writer else { return Ok(false) };
        writer.reserve(name).map(|()| true).map_err(|error| unwritable(&self.path, error.into()))
    }

    /// Writes a tensor for which space was reserved.
    pub(crate) fn fill(&mut self, name: &str, tensor: &RawTensor) -> Result<(), TensorFileError> {
        let Writer::Safetensors(writer) = &mut self.writer else {
            let source = io::Error::other("no space was reserved in it");
            return Err(TensorFileError::Io { action: "write", path: self.path.clone(), source });
        };
        writer.fill(name, tensor.bytes()).map_err(|error| unwritable(&self.path, error.into()))
    }

    fn write_piece(&mut self, name: &str, piece: Piece<'_>) -> Result<(), TensorFileError> {
        let refused = |what: &str| TensorFileError::CannotHold {
            format: "this file",
            name: name.to_owned(),
            what: what.to_owned(),
            hint: "the file that is read changed meanwhile; try again",
        };
        match (&mut self.writer, piece) {
            (Writer::Safetensors(writer), Piece::Value(Value::Numbers(tensor))) => {
                writer.write(name, tensor.bytes())?;
            }
            (Writer::Ztensor(writer), Piece::Value(Value::Numbers(tensor))) => {
                self.ztensor.numbers(writer, name, &tensor)?;
            }
            (Writer::Ztensor(writer), Piece::Group(group)) => self.ztensor.group(writer, name, &group)?,
            (Writer::Ztensor(writer), Piece::Object(reader, object)) => {
                self.ztensor.object(writer, reader, &object)?;
            }
            (Writer::Npz(writer), Piece::Value(value)) => {
                writer.add_array(name, &array(value).ok_or_else(|| refused("a list of tensors"))?)?;
            }
            (Writer::Npy(writer), Piece::Value(value)) => {
                write_array(writer, &array(value).ok_or_else(|| refused("a list of tensors"))?)?;
            }
            _ => return Err(refused("which is something else than was planned")),
        }
        Ok(())
    }

    /// Completes the file and gives it its name. Returns its size in bytes.
    pub(crate) fn finish(self) -> Result<u64, TensorFileError> {
        let Self { path, file, writer, cancel_token, _leftover, .. } = self;
        let failed = |source| TensorFileError::Io { action: "write", path: path.clone(), source };
        writer.finish().map_err(|error| unwritable(&path, error))?;
        let length = file.file().metadata().map_err(failed)?.len();
        cancel_token.begin_publishing()?;
        file.publish().map_err(failed)?;
        Ok(length)
    }
}

impl Writer {
    fn finish(self) -> Result<(), TensorFileError> {
        match self {
            Self::Safetensors(writer) => drop(writer.finish()?),
            Self::Ztensor(writer) => drop(writer.finish()?),
            Self::Npz(writer) => writer.finish()?,
            Self::Npy(mut writer) => writer.flush().map_err(|source| {
                // The caller fills in the path.
                TensorFileError::Io { action: "write", path: PathBuf::new(), source }
            })?,
        }
        Ok(())
    }
}

/// Converts an IO error to one that names the user's file: the errors of the formats name a temporary file, or none.
fn unwritable(path: &Path, error: TensorFileError) -> TensorFileError {
    match io_cause(&error) {
        Some(source) => TensorFileError::Io { action: "write", path: path.to_path_buf(), source },
        None => error,
    }
}

fn array(value: Value) -> Option<Array> {
    match value {
        Value::Numbers(tensor) => Some(Array::Numbers(tensor)),
        Value::Strings(tensor) => Some(Array::Strings(tensor)),
        Value::Nested(_) => None,
    }
}

fn check_names(planned: &[Planned]) -> Result<(), TensorFileError> {
    let mut names = BTreeSet::new();
    match planned.iter().find(|planned| !names.insert(planned.name.as_str())) {
        Some(twice) => Err(TensorFileError::TwoOfOneName { name: twice.name.clone() }),
        None => Ok(()),
    }
}

/// Checks that a file of this format can hold a tensor.
fn check(planned: &Planned, format: OutputFormat, version: Version) -> Result<(), TensorFileError> {
    let refused = |what: String, hint| {
        Err(TensorFileError::CannotHold { format: format.name(), name: shown_name(&planned.name), what, hint })
    };
    if format == OutputFormat::Npz && planned.name.len() > LONGEST_NPZ_NAME {
        return refused("whose name is too long for the entry of a zip".to_owned(), "write a .safetensors or .zt file");
    }
    match (&planned.kind, format) {
        (PlannedKind::Nested, _) => refused(
            "a list of tensors".to_owned(),
            "the tensors in the list have names of their own: convert them instead",
        ),
        (PlannedKind::Unusable(reason), _) => {
            refused(format!("which cannot be read: {reason}"), "choose the others with --only")
        }
        (PlannedKind::Strings, OutputFormat::Safetensors | OutputFormat::Ztensor) => {
            refused("strings".to_owned(), "write strings to an .npz or .npy file, or leave them out with --only")
        }
        (PlannedKind::Group, OutputFormat::Safetensors | OutputFormat::Npz | OutputFormat::Npy) => {
            refused("a quantized group".to_owned(), "write a .zt file")
        }
        (PlannedKind::Numbers(dtype, _), OutputFormat::Ztensor) if !version.has(*dtype) => {
            refused(format!("numbers of {dtype}, in version 1.1"), TOO_NEW)
        }
        (PlannedKind::Object { not_in_1_1: Some(what), .. }, OutputFormat::Ztensor) if version == Version::V1_1 => {
            refused(format!("{what}, in version 1.1"), TOO_NEW)
        }
        (PlannedKind::Object { what, .. }, OutputFormat::Safetensors | OutputFormat::Npz | OutputFormat::Npy) => {
            refused(
                what.clone(),
                "write a .zt file, which keeps it as it is; `carton tensor convert --dequantize` makes float32 numbers of quantized \
             groups",
            )
        }
        (PlannedKind::Numbers(dtype, _), OutputFormat::Npz | OutputFormat::Npy) if !is_in_numpy(*dtype) => {
            refused(format!("numbers of {dtype}"), "write a .safetensors or .zt file")
        }
        (PlannedKind::Numbers(ElementType::Complex128, _), OutputFormat::Safetensors) => {
            refused("numbers of complex128".to_owned(), "write a .zt or .npz file")
        }
        (PlannedKind::Numbers(..), OutputFormat::Safetensors) if planned.name == "__metadata__" => {
            refused("whose name is reserved there".to_owned(), "write a .zt or .npz file")
        }
        _ => Ok(()),
    }
}

/// Whether NumPy's file formats have a name for this type.
pub(crate) fn is_in_numpy(dtype: ElementType) -> bool {
    dtype.data_type().is_some()
        || matches!(dtype, ElementType::Bool | ElementType::Float16 | ElementType::Complex64 | ElementType::Complex128)
}
