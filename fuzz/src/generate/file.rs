//! A file in memory, for parsers that need a path.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};

/// A file in memory. Dropping it deletes it.
pub struct MemoryFile(File);

impl MemoryFile {
    /// Makes a file of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let descriptor: OwnedFd = memfd_create("input", MemfdFlags::CLOEXEC).expect("there is memory");
        let mut file = File::from(descriptor);
        file.write_all(bytes).expect("there is memory");
        Self(file)
    }

    /// The path of the file, valid only in this process.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}
