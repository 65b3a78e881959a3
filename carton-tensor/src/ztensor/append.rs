//! Appends objects to an existing file (spec/ztensor.md §6.3).

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::cbor::Walker;
use super::name::Name;
use super::version::minor;
use super::writer::Writer;
use super::{Reader, Version, ZTensorError};
use crate::files::FileBytes;

/// A file that is being appended to. Dropping it restores the file's previous manifest, unless [`Writer::finish`] has succeeded.
pub struct AppendFile {
    file: File,
    /// The previous manifest and footer, and their position; `None` once there is a new manifest.
    tail: Option<(u64, Vec<u8>)>,
}

impl Write for AppendFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl AppendFile {
    /// Discards the previous manifest after the new one was written.
    fn commit(&mut self) -> io::Result<()> {
        // The new manifest may be shorter than the old one, and nothing may follow it.
        let end = self.file.stream_position()?;
        self.file.set_len(end)?;
        self.tail = None;
        Ok(())
    }
}

impl Drop for AppendFile {
    fn drop(&mut self) {
        if let Some((offset, tail)) = self.tail.take() {
            let file = &mut self.file;
            let restored = file
                .seek(SeekFrom::Start(offset))
                .and_then(|_| file.write_all(&tail))
                .and_then(|()| file.set_len(offset + tail.len() as u64));
            // `drop` cannot return the error, and nothing else can be done.
            drop(restored);
        }
    }
}

impl Writer<AppendFile> {
    /// Opens the file at `path` to append objects in version 1.2 of the format. Existing objects stay unchanged, including unknown
    /// fields. The file has no manifest until [`finish`](Self::finish) has succeeded. A writer that is dropped before that restores the
    /// previous manifest.
    ///
    /// # Errors
    /// [`Open`](ZTensorError::Open), [`Locked`](ZTensorError::Locked), and all errors of opening the file for reading.
    pub fn append(path: impl AsRef<Path>) -> Result<Self, ZTensorError> {
        Self::append_as(path, Version::V1_2)
    }

    /// Opens the file at `path` to append objects in the given version of the format. If something is appended that only version 1.2
    /// has, the file states version 1.2 from then on, and [`Reader::findings`] may have findings about the objects that it had before.
    ///
    /// # Errors
    /// As [`append`](Self::append); [`StatedVersion`](ZTensorError::StatedVersion) for version 1.1 and a file that states a later one.
    pub fn append_as(path: impl AsRef<Path>, version: Version) -> Result<Self, ZTensorError> {
        let path = path.as_ref();
        let failed = |source| ZTensorError::Open { path: path.to_owned(), source };
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ZTensorError::Locked { path: path.to_owned() }),
            // If the file system has no locks, there is no protection.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Reads the manifest only after locking, because the previous owner of the lock may have written a new one. Reads it from the
        // locked file, because the path may lead to another file by now.
        let reader = Reader::new(file.try_clone().and_then(FileBytes::from_file).map_err(failed)?)?;
        let stated = reader.manifest().version();
        if version < Version::V1_2 && minor(stated).is_some_and(|minor| minor >= 2) {
            return Err(ZTensorError::StatedVersion { found: Name::new(stated), version: version.name() });
        }
        let length = reader.bytes().len();
        let blobs_end = reader.blobs_end();
        let tail = reader.bytes().read(blobs_end..length)?.to_vec();
        let manifest = tail.get(..tail.len().saturating_sub(super::Footer::LENGTH)).unwrap_or_default();
        file.seek(SeekFrom::Start(blobs_end))?;
        let out = AppendFile { file, tail: None };
        let mut writer = Self::resume(out, blobs_end, version, AppendFile::commit);
        writer.keep(manifest, blobs_end)?;
        writer.inner_mut().tail = Some((blobs_end, tail));
        Ok(writer)
    }

    /// Copies the content of a manifest byte by byte. The manifest has been parsed and validated before.
    fn keep(&mut self, manifest: &[u8], offset: u64) -> Result<(), ZTensorError> {
        let mut walker = Walker::new(manifest, offset);
        walker.take_self_described();
        let mut items = walker.map()?;
        while walker.more(&mut items)? {
            let start = walker.position();
            let key = walker.text()?;
            match &*key {
                "version" => self.head.version = Some(walker.text()?.into_owned()),
                "attributes" => {
                    let start = walker.position();
                    if !walker.take_null() {
                        walker.skip(0, None)?;
                        self.head.attributes = walker.since(start).to_vec();
                    }
                }
                "objects" => {
                    let mut objects = walker.map()?;
                    while walker.more(&mut objects)? {
                        let name = walker.text()?.into_owned();
                        let start = walker.position();
                        walker.skip(0, None)?;
                        self.objects.insert(name, walker.since(start).to_vec());
                    }
                }
                _ => {
                    walker.skip(0, None)?;
                    self.head.others.push(walker.since(start).to_vec());
                }
            }
        }
        Ok(())
    }
}
