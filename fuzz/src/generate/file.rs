//! A file in memory, for parsers that take a path.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};

/// A file that is gone when this is dropped.
pub struct MemoryFile(File);

impl MemoryFile {
    /// A file of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let descriptor: OwnedFd = memfd_create("input", MemfdFlags::CLOEXEC).expect("there is memory");
        let mut file = File::from(descriptor);
        file.write_all(bytes).expect("there is memory");
        Self(file)
    }

    /// Where it is, for this process alone.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}
