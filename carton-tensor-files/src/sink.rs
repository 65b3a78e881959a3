//! The file that is written, in the format that its extension names, written under a temporary name and renamed when it is
//! complete. All tensors are planned before the first one is read, so that tensors that the format cannot hold are refused at once.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use carton_tensor::context::CancelToken;
use carton_tensor::files::{ElementType, PendingFile, RawTensor};
use carton_tensor::npy::{Array, NpzWriter, leads_out, write_array, write_array_with};
use carton_tensor::safetensors::{self, Layout, Metadata, SafetensorsError};
use carton_tensor::ztensor::{self, Attribute, Attributes, Object, QuantizedGroup, Version};
use carton_tensor::ztensor2;
use carton_tensor::{DataType, StringTensor};

use crate::error::{Remedy, TensorFilesError};
use crate::numbers::{Numbers, copy_to};
use crate::text::shown_name;
use crate::write_options::{OutputFormat, Temporary, WriteOptions};
use crate::ztensor_output::ZtensorOutput;

/// The longest name of a tensor in an .npz file: an entry's name has at most 65,535 bytes, `.npy` included.
const LONGEST_NPZ_NAME: usize = 65_535 - ".npy".len();

/// The remedy for a tensor that version 1.1 of zTensor cannot hold.
const TOO_NEW: Remedy = Remedy::OrLeaveOut("write version 1.2");

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
    /// Blocks of a quantized type of ggml.
    Blocks(String),
    /// A tensor that cannot be read, and the reason.
    Unusable(String),
}

/// The contents of one planned tensor.
pub(crate) enum Piece<'a> {
    Numbers(Box<dyn Numbers + 'a>),
    Strings(StringTensor),
    Group(Box<QuantizedGroup>),
    /// An object of a zTensor file, to be copied.
    Object(&'a ztensor::Reader, Object<'a>),
}

impl From<RawTensor> for Piece<'_> {
    fn from(tensor: RawTensor) -> Self {
        Self::Numbers(Box::new(tensor))
    }
}

/// A file that is being written.
pub(crate) struct Sink {
    path: PathBuf,
    file: PendingFile,
    temporary: Option<Temporary>,
    writer: Writer,
    ztensor: ZtensorOutput,
    order: Vec<usize>,
    cancel_token: CancelToken,
}

enum Writer {
    Safetensors(Box<safetensors::Writer<BufWriter<Stoppable>>>),
    Ztensor(Box<ztensor::Writer<BufWriter<Stoppable>>>),
    /// With the attributes of the file, which come last.
    Ztensor2(Box<ztensor2::Writer<Stoppable>>, Attributes),
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

impl Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
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
        path: &Path,
        options: &WriteOptions,
        planned: &[Planned],
        metadata: &[(String, Attribute)],
    ) -> Result<Self, TensorFilesError> {
        let (path, cancel_token) = (path.to_path_buf(), options.context.cancel_token());
        let format = options.format(&path)?;
        if let Some(option) = options.for_ztensor() {
            format.expect_ztensor(option, &path)?;
        }
        check_names(planned)?;
        let ztensor = ZtensorOutput::new(options);
        planned.iter().try_for_each(|planned| check(planned, format, ztensor.version))?;
        if format == OutputFormat::Npy && planned.len() != 1 {
            return Err(TensorFilesError::OneFits { path, found: planned.len() });
        }
        let unwritable = |source| TensorFilesError::Io { action: "write", path: path.clone(), source };
        let file = PendingFile::new(&path).map_err(unwritable)?;
        let temporary = file.temporary_name().and_then(|name| Some((options.on_temporary.as_ref()?)(name)));
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
            OutputFormat::Ztensor2 => {
                order.sort_by_key(|&position| planned.get(position).map(|planned| planned.name.as_str()));
                let attributes = metadata.iter().cloned().collect();
                Writer::Ztensor2(Box::new(ztensor2::Writer::new(output)?), attributes)
            }
            OutputFormat::Npz => Writer::Npz(Box::new(NpzWriter::new(output))),
            OutputFormat::Npy => Writer::Npy(BufWriter::new(output)),
        };
        let cancel_token = cancel_token.clone();
        Ok(Self { path, file, temporary, writer, ztensor, order, cancel_token })
    }

    /// Returns the order in which the tensors have to be written, by their positions among the planned ones.
    pub(crate) fn order(&self) -> Vec<usize> {
        self.order.clone()
    }

    /// Writes the next tensor in the order.
    pub(crate) fn write(&mut self, planned: &Planned, piece: &Piece<'_>) -> Result<(), TensorFilesError> {
        let result = self.write_piece(planned, piece);
        result.map_err(|error| unwritable(&self.path, &self.cancel_token, error))
    }

    fn write_piece(&mut self, planned: &Planned, piece: &Piece<'_>) -> Result<(), TensorFilesError> {
        let name = planned.name.as_str();
        if let (PlannedKind::Numbers(dtype, shape), Piece::Numbers(numbers)) = (&planned.kind, piece)
            && (*dtype, shape.as_slice()) != (numbers.dtype(), numbers.shape())
        {
            return Err(changed(name));
        }
        match (&mut self.writer, piece) {
            (Writer::Safetensors(writer), Piece::Numbers(numbers)) => {
                numbers.visit(&mut |piece| Ok(writer.write(name, piece)?))?;
            }
            (Writer::Ztensor(writer), Piece::Numbers(numbers)) => {
                self.ztensor.numbers(writer, name, numbers.as_ref())?;
            }
            (Writer::Ztensor2(writer, _), Piece::Numbers(numbers)) => {
                copy_to(numbers.as_ref(), |copy| {
                    writer.add_with(name, numbers.dtype(), numbers.shape(), &Attributes::new(), |out| copy(out))
                })?;
            }
            (Writer::Npz(writer), Piece::Numbers(numbers)) => {
                copy_to(numbers.as_ref(), |copy| writer.add_array_with(name, numbers.dtype(), numbers.shape(), copy))?;
            }
            (Writer::Npy(writer), Piece::Numbers(numbers)) => {
                copy_to(numbers.as_ref(), |copy| write_array_with(writer, numbers.dtype(), numbers.shape(), copy))?;
            }
            (Writer::Npz(writer), Piece::Strings(strings)) => {
                writer.add_array(name, &Array::Strings(strings.clone()))?;
            }
            (Writer::Npy(writer), Piece::Strings(strings)) => write_array(writer, &Array::Strings(strings.clone()))?,
            (Writer::Ztensor(writer), Piece::Group(group)) => self.ztensor.group(writer, name, group)?,
            (Writer::Ztensor(writer), Piece::Object(reader, object)) => {
                self.ztensor.object(writer, name, reader, object)?;
            }
            _ => return Err(changed(name)),
        }
        Ok(())
    }

    /// Completes the file, and gives it its name. Returns its size in bytes.
    pub(crate) fn finish(self) -> Result<u64, TensorFilesError> {
        let complete = self.complete()?;
        complete.cancel_token.begin_publishing()?;
        complete.publish()
    }

    /// Completes the file, which has no name yet.
    pub(crate) fn complete(self) -> Result<Complete, TensorFilesError> {
        let Self { path, file, writer, cancel_token, temporary, .. } = self;
        writer.finish().map_err(|error| unwritable(&path, &cancel_token, error))?;
        Ok(Complete { path, file, cancel_token, _temporary: temporary })
    }
}

/// A file that is complete, and has no name yet.
pub(crate) struct Complete {
    path: PathBuf,
    file: PendingFile,
    cancel_token: CancelToken,
    /// Dropped after the file has its name or has been removed.
    _temporary: Option<Temporary>,
}

impl Complete {
    /// Gives the file its name. Returns its size in bytes.
    pub(crate) fn publish(self) -> Result<u64, TensorFilesError> {
        let failed = |source| TensorFilesError::Io { action: "write", path: self.path.clone(), source };
        let length = self.file.file().metadata().map_err(failed)?.len();
        self.file.publish().map_err(failed)?;
        Ok(length)
    }
}

impl Writer {
    fn finish(self) -> Result<(), TensorFilesError> {
        match self {
            Self::Safetensors(writer) => drop(writer.finish()?),
            Self::Ztensor(writer) => drop(writer.finish()?),
            Self::Ztensor2(writer, attributes) => {
                let (output, length) = writer.finish(&attributes)?;
                // A tensor that is the same as an earlier one was written, and its bytes are used again or cut off.
                output.file.set_len(length).map_err(ztensor2::ZTensor2Error::from)?;
            }
            Self::Npz(writer) => writer.finish()?,
            Self::Npy(mut writer) => writer.flush().map_err(|source| {
                // The caller fills in the path.
                TensorFilesError::Io { action: "write", path: PathBuf::new(), source }
            })?,
        }
        Ok(())
    }
}

/// Converts an IO error to one that names the user's file: the errors of the formats name a temporary file, or none. Others stay as they are:
/// that of a source which is read while it is copied, and that of the cancel token.
fn unwritable(path: &Path, cancel_token: &CancelToken, error: TensorFilesError) -> TensorFilesError {
    if cancel_token.is_cancelled() {
        return TensorFilesError::Interrupted;
    }
    let is_of_source = error.carton().is_some() || matches!(error, TensorFilesError::File(_));
    match error.io_cause().filter(|_| !is_of_source) {
        Some(source) => TensorFilesError::Io { action: "write", path: path.to_path_buf(), source },
        None => error,
    }
}

fn changed(name: &str) -> TensorFilesError {
    TensorFilesError::Changed(format!("tensor `{}` is something else than it was", shown_name(name)))
}

fn check_names(planned: &[Planned]) -> Result<(), TensorFilesError> {
    let mut names = BTreeSet::new();
    match planned.iter().find(|planned| !names.insert(planned.name.as_str())) {
        Some(twice) => Err(TensorFilesError::ScaleNameTaken { name: shown_name(&twice.name) }),
        None => Ok(()),
    }
}

/// Checks that a file of this format can hold a tensor.
fn check(planned: &Planned, format: OutputFormat, version: Version) -> Result<(), TensorFilesError> {
    let refused = |what: String, remedy| {
        Err(TensorFilesError::CannotHold { format: format.name(), name: shown_name(&planned.name), what, remedy })
    };
    if format == OutputFormat::Npz && planned.name.len() > LONGEST_NPZ_NAME {
        return refused(
            "whose name is too long for the entry of a zip".to_owned(),
            Remedy::Text("write a .safetensors or .zt file"),
        );
    }
    if format == OutputFormat::Npz && leads_out(&planned.name) {
        return refused(
            "whose name leads out of the folder in which the file is unpacked".to_owned(),
            Remedy::OrLeaveOut("rename it, write a .safetensors or .zt file"),
        );
    }
    match (&planned.kind, format) {
        (PlannedKind::Nested, _) => refused(
            "a list of tensors".to_owned(),
            Remedy::Text("the tensors in the list have names of their own: convert them instead"),
        ),
        (PlannedKind::Blocks(of), _) => refused(format!("blocks of {}", shown_name(of)), Remedy::Dequantize),
        (PlannedKind::Unusable(reason), _) => refused(format!("which cannot be read: {reason}"), Remedy::ChooseOthers),
        (PlannedKind::Strings, OutputFormat::Safetensors | OutputFormat::Ztensor | OutputFormat::Ztensor2) => {
            refused("strings".to_owned(), Remedy::OrLeaveOut("write strings to an .npz or .npy file"))
        }
        (PlannedKind::Group, OutputFormat::Safetensors | OutputFormat::Npz | OutputFormat::Npy) => {
            refused("a quantized group".to_owned(), Remedy::Text("write a .zt file"))
        }
        (PlannedKind::Numbers(dtype, _), OutputFormat::Ztensor) if !version.has(*dtype) => {
            refused(format!("numbers of {dtype}, in version 1.1"), TOO_NEW)
        }
        (PlannedKind::Object { not_in_1_1: Some(what), .. }, OutputFormat::Ztensor) if version == Version::V1_1 => {
            refused(format!("{what}, in version 1.1"), TOO_NEW)
        }
        (PlannedKind::Group | PlannedKind::Object { .. }, OutputFormat::Ztensor2) => {
            let what = match &planned.kind {
                PlannedKind::Object { what, .. } => what.clone(),
                _ => "a quantized group".to_owned(),
            };
            refused(what, Remedy::OrDequantize)
        }
        (PlannedKind::Numbers(dtype, _), OutputFormat::Ztensor2) if !ztensor2::has(*dtype) => {
            refused(format!("numbers of {dtype}"), Remedy::OrLeaveOut("write version 1.2"))
        }
        (PlannedKind::Object { what, .. }, OutputFormat::Safetensors | OutputFormat::Npz | OutputFormat::Npy) => {
            refused(what.clone(), Remedy::OrDequantize)
        }
        (PlannedKind::Numbers(dtype, _), OutputFormat::Npz | OutputFormat::Npy) if !is_in_numpy(*dtype) => {
            refused(format!("numbers of {dtype}"), Remedy::Text("write a .safetensors or .zt file"))
        }
        (PlannedKind::Numbers(ElementType::Complex128, _), OutputFormat::Safetensors) => {
            refused("numbers of complex128".to_owned(), Remedy::Text("write a .zt or .npz file"))
        }
        (PlannedKind::Numbers(..), OutputFormat::Safetensors) if planned.name == "__metadata__" => {
            refused("whose name is reserved there".to_owned(), Remedy::Text("write a .zt or .npz file"))
        }
        _ => Ok(()),
    }
}

/// Whether NumPy's file formats have a name for this type.
#[must_use]
pub fn is_in_numpy(dtype: ElementType) -> bool {
    let is_short = |dtype: DataType| dtype.is_float() && dtype.size() == Some(1);
    dtype.data_type().is_some_and(|dtype| dtype != DataType::BFloat16 && !is_short(dtype))
}
