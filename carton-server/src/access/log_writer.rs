//! Writes the lines of the access log to its file. A disk that is full for a while costs lines, and leaves no half of one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The file, or standard output. A log that cannot be written is no reason to stop serving.
pub(super) struct LogWriter {
    /// `None` for standard output.
    path: Option<PathBuf>,
    output: Box<dyn Write + Send>,
    /// The rest of a line whose beginning was written. It comes before anything else.
    rest: Vec<u8>,
    is_failing: bool,
}

impl LogWriter {
    /// Writes to the end of a file, which is made if it does not exist; `-` is standard output.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = Some(path).filter(|path| *path != Path::new("-")).map(Path::to_path_buf);
        let output = match &path {
            // Without the buffer of `io::stdout`, which hides how much was written.
            None => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            Some(path) => append(path)?,
        };
        let rest = missing_end(&output);
        Ok(Self { path, output: Box::new(output), rest, is_failing: false })
    }

    /// Opens the file again by its path. If that fails, the old one stays.
    pub(super) fn reopen(&mut self) {
        let Some(path) = &self.path else { return };
        match append(path) {
            Ok(file) => {
                self.rest = missing_end(&file);
                self.output = Box::new(file);
            }
            Err(error) => {
                let path = path.display();
                tracing::warn!(target: "carton::serve", "cannot open the access log `{path}` again: {error}");
            }
        }
    }

    /// Writes whole lines. Returns the number of those that are lost.
    pub(super) fn write(&mut self, lines: &[u8]) -> u64 {
        let (n_written, mut failure) = write_some(&mut *self.output, &self.rest);
        self.rest.drain(..n_written);
        let mut lost = lines;
        if failure.is_none() {
            let (n_written, error) = write_some(&mut *self.output, lines);
            let (written, unwritten) = lines.split_at(n_written);
            let n_cut = match written.last() {
                None | Some(b'\n') => 0,
                Some(_) => unwritten.iter().position(|byte| *byte == b'\n').map_or(unwritten.len(), |end| end + 1),
            };
            let (rest, behind) = unwritten.split_at(n_cut);
            self.rest.extend_from_slice(rest);
            (lost, failure) = (behind, error);
        }
        if let (Some(error), false) = (&failure, self.is_failing) {
            tracing::warn!(target: "carton::serve", "cannot write the access log: {error}");
        }
        self.is_failing = failure.is_some();
        lost.iter().filter(|byte| **byte == b'\n').count() as u64
    }
}

fn append(path: &Path) -> io::Result<File> {
    // A pipe that nobody reads is an error at once, and does not keep the server from starting.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)?;
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file)
}

/// The end of the last line, if the file does not have it: a server that ended while the disk was full may have left the beginning of one.
fn missing_end(file: &File) -> Vec<u8> {
    let last = || {
        let length = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
        // The file is open for writing alone.
        let readable = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        let mut last = [0];
        readable.read_exact_at(&mut last, length.checked_sub(1)?).ok()?;
        Some(last)
    };
    match last() {
        Some(last) if last != *b"\n" => b"\n".to_vec(),
        _ => Vec::new(),
    }
}

/// Writes until it fails. Returns the number of bytes that were written.
fn write_some(output: &mut dyn Write, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut n_written = 0;
    while let Some(rest) = bytes.get(n_written..).filter(|rest| !rest.is_empty()) {
        match output.write(rest) {
            Ok(0) => return (n_written, Some(io::ErrorKind::WriteZero.into())),
            Ok(n_bytes) => n_written += n_bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (n_written, Some(error)),
        }
    }
    (n_written, None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// A disk with room for some bytes.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Disk {
        fn free(&self, n_bytes: usize) {
            self.0.lock().1 = n_bytes;
        }

        fn text(&self) -> String {
            String::from_utf8_lossy(&self.0.lock().0).into_owned()
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock();
            let n_bytes = bytes.len().min(disk.1);
            if n_bytes == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.0.extend_from_slice(&bytes[..n_bytes]);
            disk.1 -= n_bytes;
            Ok(n_bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_beginning_of_a_line_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        for (found, expected) in [("", "new\n"), ("{}\n", "{}\nnew\n"), ("{}\n{\"ti", "{}\n{\"ti\nnew\n")] {
            fs::write(&path, found).unwrap();
            let mut writer = LogWriter::open(&path).unwrap();
            writer.write(b"new\n");
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        }
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(LogWriter::open(&path).is_err());
    }

    #[test]
    fn a_full_disk_leaves_whole_lines() {
        for n_free in 0..12 {
            let disk = Disk::default();
            let mut writer =
                LogWriter { path: None, output: Box::new(disk.clone()), rest: Vec::new(), is_failing: false };
            disk.free(n_free);
            let n_lost = writer.write(b"one\ntwo\nsix\n");
            assert_eq!(writer.write(b"none\n"), 1, "{n_free}");
            disk.free(1000);
            assert_eq!(writer.write(b"last\n"), 0);
            let text = disk.text();
            let expected: Vec<&str> = ["one", "two", "six"]
                .into_iter()
                .take(3 - usize::try_from(n_lost).unwrap_or(3))
                .chain(["last"])
                .collect();
            assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{n_free}");
        }
    }
}
