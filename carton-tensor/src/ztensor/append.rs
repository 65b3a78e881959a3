//! Goes on with a file that is there (spec/ztensor.md §6.3).

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::cbor::Walker;
use super::writer::Writer;
use super::{Reader, Version, ZTensorError};
use crate::files::FileBytes;

/// A file that is being appended to. Unless [`Writer::finish`] succeeds, dropping it puts the manifest back that the file
/// had.
pub struct AppendFile {
    file: File,
    /// The manifest and what follows it, and where they were; `None` once there is another.
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
    /// Lets go of the manifest that was there, now that there is another.
    fn commit(&mut self) -> io::Result<()> {
        // The new one may be shorter, and nothing may follow it.
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
            // Nobody is left to be told, and nothing else can be done.
            drop(restored);
        }
    }
}

impl Writer<AppendFile> {
    /// Opens the file at `path` to add objects to it, as version 1.2 has them. What is there stays as it is, unknown fields
    /// included. Until [`finish`](Self::finish) has succeeded the file has no manifest; a writer that is dropped before puts
    /// back the one that was there.
    ///
    /// # Errors
    /// [`Open`](ZTensorError::Open), [`Locked`](ZTensorError::Locked), and everything that opening it to read can fail with.
    pub fn append(path: impl AsRef<Path>) -> Result<Self, ZTensorError> {
        Self::append_as(path, Version::V1_2)
    }

    /// Opens the file at `path` to add objects to it as a version of the format has them.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn append_as(path: impl AsRef<Path>, version: Version) -> Result<Self, ZTensorError> {
        let path = path.as_ref();
        let failed = |source| ZTensorError::Open { path: path.to_owned(), source };
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ZTensorError::Locked { path: path.to_owned() }),
            // Where there are no locks, there is no protection.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Only now: whoever had the lock may have written another manifest. And of the file that is locked: the path may
        // lead to another one by now.
        let reader = Reader::new(file.try_clone().and_then(FileBytes::from_file).map_err(failed)?)?;
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

    /// Takes over what a manifest says, to the byte. It was parsed before, and found to be right.
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
