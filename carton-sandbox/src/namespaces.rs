//! Namespaces of its own for a program: a root folder that has nothing but what it may use ([`crate::root`]), its own processes, and a network
//! that no other process of the system is in.
//!
//! ```text
//! launcher ──forks──> child ──unshares, forks──> init, the process 1 of the namespaces ──forks──> confined child, becomes the program
//!                     ends                       waits, not confined
//! ```
//!
//! The child is there so that a failure leaves the launcher as it was. When init ends, the kernel kills everything in its namespaces.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, WaitOptions, WaitStatus, getegid, geteuid, set_dumpable_behavior, setsid, wait, waitpid,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::root::{self, Root};
use crate::{NOTE_PREFIX, Policy};

/// Where Ubuntu says that user namespaces of users have no rights.
const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

/// On which side of the namespaces this process is.
pub(crate) enum Side {
    /// It is the launcher.
    Outside(Init),
    /// It is process 1 of the namespaces.
    Inside(Inside),
}

/// The process 1 of the namespaces, as the launcher sees it.
pub(crate) struct Init {
    pub(crate) pid: Pid,
    reports: OwnedFd,
}

impl Init {
    /// Returns how the program has ended, once init has ended; `None` if init has started no program.
    pub(crate) fn end_of_program(&self) -> Option<End> {
        match receive(&self.reports) {
            Ok(Some(Report::Ended(end))) => Some(end),
            _ => None,
        }
    }
}

/// What process 1 of the namespaces has.
pub(crate) struct Inside {
    reports: OwnedFd,
    pub(crate) root: Root,
}

impl Inside {
    /// Tells the launcher how the program has ended.
    pub(crate) fn report(&self, end: End) {
        // A launcher that is gone needs no report.
        let _ = send(&self.reports, Report::Ended(end));
    }

    /// A descriptor whose other end is closed when the launcher is gone.
    pub(crate) fn launcher(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }
}

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Status(i32),
    Signal(i32),
}

impl End {
    /// `None` for a program that has not ended.
    pub(crate) fn of(status: WaitStatus) -> Option<Self> {
        status.exit_status().map(Self::Status).or_else(|| status.terminating_signal().map(Self::Signal))
    }
}

/// What the launcher is told by those that it forks. All of a report is written and read at once.
enum Report {
    /// Init has this number.
    Made(i32),
    /// Init has all that it needs.
    Ready,
    /// The program has ended.
    Ended(End),
}

/// The length of a report in bytes: a kind and a number.
const REPORT_BYTES: usize = 5;

fn send(to: &OwnedFd, report: Report) -> io::Result<()> {
    let (kind, number) = match report {
        Report::Made(pid) => (0, pid),
        Report::Ready => (1, 0),
        Report::Ended(End::Status(status)) => (2, status),
        Report::Ended(End::Signal(signal)) => (3, signal),
    };
    let mut bytes = [kind; REPORT_BYTES];
    bytes[1..].copy_from_slice(&number.to_ne_bytes());
    retry_on_intr(|| rustix::io::write(to, &bytes))?;
    Ok(())
}

/// Returns the next report; `None` if all who could send one are gone.
fn receive(from: &OwnedFd) -> io::Result<Option<Report>> {
    let mut bytes = [0; REPORT_BYTES];
    if retry_on_intr(|| rustix::io::read(from, &mut bytes))? != REPORT_BYTES {
        return Ok(None);
    }
    let [kind, number @ ..] = bytes;
    let number = i32::from_ne_bytes(number);
    Ok(Some(match kind {
        0 => Report::Made(number),
        1 => Report::Ready,
        2 => Report::Ended(End::Status(number)),
        _ => Report::Ended(End::Signal(number)),
    }))
}

/// Makes namespaces for the program of `policy`. Returns twice: in the launcher, and in process 1 of the namespaces.
///
/// Must be called while this process has one thread. This process must be the one that orphans below it are left to.
///
/// # Errors
/// This system does not give this user such namespaces, or the root folder cannot be made. Nothing of the attempt is left.
pub(crate) fn enter(policy: &Policy) -> io::Result<Side> {
    let (reports, sender) = pipe_with(PipeFlags::CLOEXEC)?;
    match fork()? {
        Some(child) => {
            drop(sender);
            wait_for_init(child, reports).map(Side::Outside)
        }
        None => {
            drop(reports);
            // The launcher sees the end of the reports, and goes on without namespaces.
            become_init(policy, sender).map(Side::Inside).or_else(|error| {
                eprintln!("{NOTE_PREFIX}{error}");
                std::process::exit(1)
            })
        }
    }
}

/// Returns the number of the new process; `None` in it.
fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this process has one thread, so that no lock of another one is held in the new process, which may do all that this one may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(Pid::from_raw(number)),
    }
}

/// Returns init as soon as it has all that it needs.
fn wait_for_init(child: Pid, reports: OwnedFd) -> io::Result<Init> {
    let made = retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
    if made.is_none_or(|(_, status)| status.exit_status() != Some(0)) {
        // If init is there, it ends when nobody takes its reports.
        drop(reports);
        while matches!(wait(WaitOptions::empty()), Ok(_) | Err(Errno::INTR)) {}
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut init = None;
    let mut is_ready = false;
    // The child and init do not wait for each other.
    while init.is_none() || !is_ready {
        match receive(&reports)? {
            Some(Report::Made(number)) => init = Pid::from_raw(number),
            Some(Report::Ready) => is_ready = true,
            Some(Report::Ended(_)) | None => break,
        }
    }
    match init {
        Some(pid) if is_ready => Ok(Init { pid, reports }),
        Some(pid) => {
            retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()))?;
            Err(io::ErrorKind::Unsupported.into())
        }
        None => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Makes the namespaces, and returns as process 1 in them. The process that this was called in ends.
fn become_init(policy: &Policy, reports: OwnedFd) -> io::Result<Inside> {
    let network = if policy.network { UnshareFlags::empty() } else { UnshareFlags::NEWNET };
    unshare(UnshareFlags::NEWNS | UnshareFlags::NEWPID | network)?;
    if let Some(init) = fork()? {
        let sent = send(&reports, Report::Made(init.as_raw_pid()));
        std::process::exit(i32::from(sent.is_err()));
    }
    if policy.gpus {
        // The scheduler shares the processor among sessions, and a program that may write to its files in `/proc` can change its session's share
        // (`autogroup`), so that must not be the host's session. Without GPUs it is, because calls between sessions take longer.
        setsid()?;
    }
    if !policy.network {
        start_loopback()?;
    }
    let root = root::enter(policy)?;
    // Neither the memory nor the descriptors of this process are in the reach of what it starts, whatever else allows it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    send(&reports, Report::Ready)?;
    Ok(Inside { reports, root })
}

/// Leaves the namespaces of `flags`. Without privileges this takes a user namespace. In it, the user is still itself.
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    // SAFETY: none of the flags changes descriptors.
    let unshare = |flags| unsafe { unshare_unsafe(flags) };
    match unshare(flags) {
        Err(Errno::PERM) => {}
        result => return Ok(result?),
    }
    if fs::read_to_string(APPARMOR).is_ok_and(|value| value.trim() == "1") {
        // Such a namespace could be made, but nothing could be done in it, not even naming the user.
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    unshare(flags | UnshareFlags::NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
    fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))
}

/// Starts the interface of a new network, over which its processes reach each other and nobody else.
fn start_loopback() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    use std::os::fd::AsRawFd;

    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: all bits zero are a valid value of this structure of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = (*from).cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the kernel reads a structure of this type, which outlives the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn reports_arrive_as_they_were_sent() {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        for end in [End::Status(0), End::Status(255), End::Signal(9)] {
            send(&to, Report::Ended(end)).unwrap();
            assert!(matches!(receive(&from).unwrap(), Some(Report::Ended(received)) if received == end));
        }
        drop(to);
        assert!(receive(&from).unwrap().is_none());
    }
}
