//! Creates a file (spec/ztensor.md §6.1) that gets its name only when it is complete.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::{Version, Writer, ZTensorError};
use crate::files::PendingFile;

/// A new file. [`Writer::finish`] gives it its name; dropping it before that deletes it.
pub struct NewFile {
    /// `None` once the file has its name.
    file: Option<BufWriter<Pending>>,
}

/// Implements [`Write`] for a pending file.
struct Pending(PendingFile);

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Some(BufWriter::new(Pending(PendingFile::new(path)?))) })
    }

    fn commit(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        file.into_inner().map_err(io::IntoInnerError::into_error)?.0.publish()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or_else(|| Err(io::ErrorKind::BrokenPipe.into()), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Writer<NewFile> {
    /// Creates a file of version 1.2 at `path`. The file appears, and replaces an existing one, when [`finish`](Self::finish) succeeds.
    ///
    /// # Errors
    /// [`Open`](ZTensorError::Open), [`Io`](ZTensorError::Io).
    pub fn create(path: impl AsRef<Path>) -> Result<Self, ZTensorError> {
        let path = path.as_ref();
        let file = NewFile::new(path).map_err(|source| ZTensorError::Open { path: path.to_owned(), source })?;
        Self::begin(file, Version::V1_2, NewFile::commit)
    }
}
