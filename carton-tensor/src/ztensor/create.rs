//! Makes a file (spec/ztensor.md §6.1) that nobody sees before it is whole.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::{Version, Writer, ZTensorError};
use crate::files::PendingFile;

/// A file that is being made. [`Writer::finish`] gives it its name; dropped before, it is gone.
pub struct NewFile {
    /// `None` once it has its name.
    file: Option<BufWriter<Pending>>,
}

/// As what can be written to.
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
    /// Begins a file of version 1.2 at `path`. It is there, in place of the one that was, when [`finish`](Self::finish) has
    /// succeeded.
    ///
    /// # Errors
    /// [`Open`](ZTensorError::Open), [`Io`](ZTensorError::Io).
    pub fn create(path: impl AsRef<Path>) -> Result<Self, ZTensorError> {
        let path = path.as_ref();
        let file = NewFile::new(path).map_err(|source| ZTensorError::Open { path: path.to_owned(), source })?;
        Self::begin(file, Version::V1_2, NewFile::commit)
    }
}
