//! Makes a file (spec/ztensor.md §6.1) that nobody sees before it is whole.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{Version, Writer, ZTensorError};

/// A file that is being made, under another name beside its own. [`Writer::finish`] gives it its name; dropped before, it is
/// deleted.
pub struct NewFile {
    /// `None` once it has its name.
    file: Option<BufWriter<NamedTempFile>>,
    path: PathBuf,
}

impl NewFile {
    fn new(path: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        // As any new file: what others may do is the process's umask.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = builder.tempfile_in(folder)?;
        Ok(Self { file: Some(BufWriter::new(file)), path: path.to_owned() })
    }

    fn commit(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.persist(&self.path).map(drop).map_err(|error| error.error)
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
