//! The file that is written, in the format that its extension names, written under a temporary name and renamed when it is
//! complete. All tensors are planned before the first one is read, so that tensors that the format cannot hold are refused at once.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use carton_tensor::StringTensor;
use carton_tensor::context::CancelToken;
use carton_tensor::files::{PendingFile, RawTensor};
use carton_tensor::gguf::{self, GgmlType};
use carton_tensor::npy::{Array, NpzWriter, write_array, write_array_with};
use carton_tensor::safetensors::{self, Layout, Metadata, SafetensorsError};
use carton_tensor::ztensor::{self, Attributes, Object, QuantizedGroup};
use carton_tensor::ztensor2;

use crate::blocks::Blocks;
use crate::error::TensorFilesError;
use crate::numbers::{Numbers, copy_to};
use crate::planned::{Planned, PlannedKind, check, check_names};
use crate::text::shown_name;
use crate::write_options::{OutputFormat, Temporary, WriteOptions};
use crate::written_metadata::WrittenMetadata;
use crate::ztensor_output::ZtensorOutput;

/// The contents of one planned tensor.
pub(crate) enum Piece<'a> {
    Numbers(Box<dyn Numbers + 'a>),
    Blocks(Blocks<'a>),
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
    Gguf(Box<gguf::Writer<BufWriter<Stoppable>>>),
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
        metadata: &WrittenMetadata,
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
        let no_file = |source| TensorFilesError::Io { action: "write", path: path.clone(), source };
        let file = PendingFile::new(&path).map_err(no_file)?;
        let temporary = file.temporary_name().and_then(|name| Some((options.on_temporary.as_ref()?)(name)));
        let output = Stoppable { file: file.file().try_clone().map_err(no_file)?, cancel_token: cancel_token.clone() };
        let mut order: Vec<usize> = (0..planned.len()).collect();
        let (encoded, metadata) = (metadata.encoded(), metadata.attributes());
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
            OutputFormat::Gguf => {
                let described = planned.iter().filter_map(|planned| match &planned.kind {
                    PlannedKind::Numbers(dtype, shape) => {
                        Some((planned.name.as_str(), GgmlType::of_elements(*dtype)?, shape.as_slice()))
                    }
                    PlannedKind::Blocks(of, shape) => Some((planned.name.as_str(), *of, shape.as_slice())),
                    _ => None,
                });
                let layout = gguf::Layout::new(encoded, described)?;
                let begun = gguf::Writer::new(BufWriter::with_capacity(1 << 20, output), layout);
                Writer::Gguf(Box::new(begun.map_err(|error| unwritable(&path, cancel_token, error.into()))?))
            }
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
        if let (PlannedKind::Blocks(of, shape), Piece::Blocks(blocks)) = (&planned.kind, piece)
            && (*of, shape.as_slice()) != (blocks.ggml_type(), blocks.shape())
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
            (Writer::Gguf(writer), Piece::Numbers(numbers)) => {
                numbers.visit(&mut |piece| Ok(writer.write(name, piece)?))?;
            }
            (Writer::Gguf(writer), Piece::Blocks(blocks)) => {
                blocks.visit(&mut |piece| Ok(writer.write(name, piece)?))?;
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
            Self::Gguf(writer) => drop(writer.finish()?),
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
    let is_of_source = match &error {
        TensorFilesError::File(_) => true,
        TensorFilesError::Gguf(error) => matches!(**error, gguf::WriteError::Value { .. }),
        error => error.carton().is_some(),
    };
    match error.io_cause().filter(|_| !is_of_source) {
        Some(source) => TensorFilesError::Io { action: "write", path: path.to_path_buf(), source },
        None => error,
    }
}

fn changed(name: &str) -> TensorFilesError {
    TensorFilesError::Changed(format!("tensor `{}` is something else than it was", shown_name(name)))
}
