//! One region of shared memory: created and sealed, or received and checked. All code that is specific to Linux's memfd is here.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags};

/// A mapping of a whole region, or of some of its pages, unmapped when dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    size: usize,
    /// The region, if parts of it may be mapped again.
    descriptor: Option<OwnedFd>,
}

// SAFETY: the mapping is plain memory that belongs to no thread. The pool and the protocol decide which part of it may be read and
// written by which thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(descriptor: impl AsFd, size: usize, protection: ProtFlags) -> io::Result<Self> {
        Self::of_part(descriptor, 0, size, protection, MapFlags::SHARED)
    }

    /// Maps `size` bytes from `offset` on, which is a multiple of the size of a page.
    fn of_part(
        descriptor: impl AsFd,
        offset: u64,
        size: usize,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> io::Result<Self> {
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing of ours.
        let base = unsafe { rustix::mm::mmap(null_mut(), size, protection, flags, descriptor, offset) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { base, size, descriptor: None })
    }

    /// Maps the pages of the received region that hold `length` bytes from `start` on, for reading and writing: a page that is written is
    /// copied first, and the region does not change. Returns the mapping, and where the bytes begin in it.
    pub(crate) fn copy_on_write(&self, start: usize, length: usize) -> io::Result<(Self, usize)> {
        let descriptor = self.descriptor.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let skipped = start % rustix::param::page_size();
        let offset = u64::try_from(start - skipped).map_err(io::Error::other)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let mapping = Self::of_part(descriptor, offset, skipped + length, protection, MapFlags::PRIVATE)?;
        Ok((mapping, skipped))
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The address of the byte at `offset`. The caller must make sure that it lies inside the region.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        self.base.as_ptr().wrapping_add(offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this size, and all borrows of it keep it alive.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.size) };
    }
}

/// Creates a region of `size` zero bytes that this side may write, and a descriptor with which the peer can only read it.
pub(crate) fn create(size: usize) -> io::Result<(Mapping, OwnedFd)> {
    let length = u64::try_from(size).map_err(io::Error::other)?;
    let descriptor = backing::create()?;
    rustix::fs::ftruncate(&descriptor, length)?;
    let mapping = Mapping::new(&descriptor, size, ProtFlags::READ | ProtFlags::WRITE)?;
    backing::seal(&descriptor)?;
    Ok((mapping, descriptor))
}

/// Maps a region that the peer announced with `size` bytes for reading. Checks the seals, the file system and the size first.
pub(crate) fn receive(descriptor: &OwnedFd, size: usize) -> Result<Mapping, ReceiveError> {
    backing::check(descriptor)?;
    let actual = rustix::fs::fstat(descriptor).map_err(io::Error::from)?.st_size;
    if !usize::try_from(actual).is_ok_and(|actual| actual >= size) {
        return Err(ReceiveError::Unfit(format!("announced with {size} bytes, but has {actual}")));
    }
    let mut mapping = Mapping::new(descriptor, size, ProtFlags::READ)?;
    mapping.descriptor = Some(descriptor.try_clone()?);
    Ok(mapping)
}

/// Why a region of the peer is not mapped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// The peer's fault.
    #[error("{0}")]
    Unfit(String),
    /// An error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[cfg(target_os = "linux")]
mod backing {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::fs::{MemfdFlags, SealFlags};
    use rustix::io::Errno;

    use crate::shared_memory::region::ReceiveError;

    /// The seals that a region must have, so that it can never shrink under its reader.
    const REQUIRED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
    /// The file system of a memfd on ordinary pages. One on huge pages can run out of them, and its reader then gets SIGBUS.
    const TMPFS_MAGIC: u64 = 0x0102_1994;

    pub(super) fn create() -> io::Result<OwnedFd> {
        Ok(rustix::fs::memfd_create("carton-pool", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?)
    }

    /// Seals a region after its owner has mapped it, so that no other process can map it for writing and no seal can be added.
    pub(super) fn seal(descriptor: &OwnedFd) -> io::Result<()> {
        match rustix::fs::fcntl_add_seals(descriptor, REQUIRED | SealFlags::FUTURE_WRITE | SealFlags::SEAL) {
            // Linux before 5.1 does not know this seal.
            Err(Errno::INVAL) => Ok(rustix::fs::fcntl_add_seals(descriptor, REQUIRED | SealFlags::SEAL)?),
            result => Ok(result?),
        }
    }

    pub(super) fn check(descriptor: &OwnedFd) -> Result<(), ReceiveError> {
        let seals = match rustix::fs::fcntl_get_seals(descriptor) {
            Ok(seals) => seals,
            Err(Errno::INVAL) => return Err(ReceiveError::Unfit("its descriptor is not a memfd".to_owned())),
            Err(errno) => return Err(ReceiveError::Io(errno.into())),
        };
        if !seals.contains(REQUIRED) {
            return Err(ReceiveError::Unfit("it is not sealed against shrinking and growing".to_owned()));
        }
        #[allow(clippy::unnecessary_cast, reason = "the type of `f_type` differs between architectures")]
        let file_system = rustix::fs::fstatfs(descriptor).map_err(io::Error::from)?.f_type as u64;
        if file_system != TMPFS_MAGIC {
            return Err(ReceiveError::Unfit(format!(
                "it lies on a file system of type {file_system:#x}, not on tmpfs"
            )));
        }
        Ok(())
    }
}

/// Without memfd, a region is an unlinked temporary file. It cannot be sealed, so a peer that truncates it can crash its reader.
/// Do not use runners that are not trusted on such platforms.
#[cfg(not(target_os = "linux"))]
mod backing {
    use std::fs::OpenOptions;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::shared_memory::region::ReceiveError;

    pub(super) fn create() -> io::Result<OwnedFd> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("carton-pool-{}-{number}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file.into())
    }

    pub(super) fn seal(_: &OwnedFd) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn check(_: &OwnedFd) -> Result<(), ReceiveError> {
        Ok(())
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;

    fn memfd(size: u64, flags: MemfdFlags, seals: SealFlags) -> OwnedFd {
        let descriptor = memfd_create("test", flags).unwrap();
        ftruncate(&descriptor, size).unwrap();
        if !seals.is_empty() {
            fcntl_add_seals(&descriptor, seals).unwrap();
        }
        descriptor
    }

    #[test]
    fn a_region_is_read_by_the_peer_and_written_by_nobody_else() {
        let (own, descriptor) = create(8192).unwrap();
        // SAFETY: within the mapping, and nobody else uses it.
        unsafe { own.at(5000).write(7) };
        let theirs = receive(&descriptor, 8192).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { theirs.at(5000).read() }, 7);
        assert!(Mapping::new(&descriptor, 8192, ProtFlags::READ | ProtFlags::WRITE).is_err());
        assert!(ftruncate(&descriptor, 0).is_err());
        assert!(fcntl_add_seals(&descriptor, SealFlags::WRITE).is_err());
    }

    #[test]
    fn unfit_regions_are_refused() {
        fn check(descriptor: &OwnedFd, size: usize, expected: &str) {
            let error = receive(descriptor, size).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let sealing = MemfdFlags::ALLOW_SEALING;
        let required = SealFlags::SHRINK | SealFlags::GROW;
        check(&memfd(4096, sealing, required), 4097, "announced with 4097 bytes, but has 4096");
        check(&memfd(4096, sealing, SealFlags::empty()), 4096, "not sealed");
        check(&memfd(4096, sealing, SealFlags::GROW), 4096, "not sealed");
        check(&memfd(4096, MemfdFlags::empty(), SealFlags::empty()), 4096, "not sealed");
        check(&tempfile::tempfile().unwrap().into(), 4096, "not ");
        check(&std::fs::File::open("/dev/zero").unwrap().into(), 4096, "not a memfd");
    }
}
