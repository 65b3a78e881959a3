//! A descriptor that becomes readable when a process has died, before it is reaped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::Pid;

/// On Linux a pidfd; elsewhere the reading end of a pipe that a waiting thread closes.
pub(super) struct ExitNotice(OwnedFd);

impl ExitNotice {
    #[cfg(target_os = "linux")]
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        Ok(Self(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};

        let (read, write) = rustix::pipe::pipe()?;
        std::thread::Builder::new().name("carton-wait".to_owned()).spawn(move || {
            let write = write;
            // NOWAIT leaves the process to be reaped by its owner, so that its number stays reserved until then.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
            drop(write);
        })?;
        Ok(Self(read))
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
