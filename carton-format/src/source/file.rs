//! A local file, read with positioned reads only.
//!
//! The file is never mapped: if another process truncates it while we read, that is an error and not a SIGBUS.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{FileIdentity, Source};

/// The bytes of a local file.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    identity: FileIdentity,
    location: String,
}

impl FileSource {
    /// Opens a regular file.
    ///
    /// # Errors
    /// The operating system's error if the file cannot be opened; [`io::ErrorKind::InvalidInput`] for anything but a regular file,
    /// because the length of a device or a pipe cannot be known in advance.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Without NONBLOCK, opening a named pipe waits for a writer, perhaps forever.
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?);
        Self::from_file(file, path)
    }

    /// Uses a file that is already open; `path` is only for error messages.
    ///
    /// # Errors
    /// As [`FileSource::open`].
    pub fn from_file(file: File, path: &Path) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let location = path.to_string_lossy().into_owned();
        Ok(Self { file, identity: FileIdentity::of(&metadata), location })
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.identity.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.identity.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_exact_at(buffer, offset)
    }

    fn identity(&self) -> Option<FileIdentity> {
        Some(self.identity)
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn location(&self) -> &str {
        &self.location
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_file_behaves_as_a_source() {
        let folder = tempfile::tempdir().unwrap();
        for contents in [&b""[..], b"0123456789"] {
            let path = folder.path().join("file");
            std::fs::write(&path, contents).unwrap();
            crate::source::behaviour::check(&FileSource::open(&path).unwrap(), contents);
        }
    }

    #[test]
    fn a_file_cut_short_after_opening_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 100]).unwrap();
        let source = FileSource::open(&path).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(50).unwrap();
        assert_eq!(source.len(), 100);
        source.read_at(0, &mut [0; 50]).unwrap();
        assert_eq!(source.read_at(0, &mut [0; 51]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn folders_and_pipes_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(FileSource::open(folder.path()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let pipe = folder.path().join("pipe");
        std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert_eq!(FileSource::open(&pipe).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(FileSource::open(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
