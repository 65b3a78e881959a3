//! A descriptor that becomes readable once a process has died, before it is reaped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::Pid;

/// On Linux a pidfd; elsewhere the read end of a pipe that a waiting thread closes.
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
            // With NOWAIT the process stays unreaped, so its ID stays reserved until its owner reaps it.
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
