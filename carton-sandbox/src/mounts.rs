//! A private `/dev/shm`, in a mount namespace.
//!
//! POSIX semaphores and shared memory have the fixed path `/dev/shm`. The system's own one is shared by all processes of the user, so that a
//! confined process must not get it.

use std::fs;
use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Where the private file system is mounted.
pub(crate) const PLACE: &str = "/dev/shm";

/// Where Ubuntu says that user namespaces of users have no rights.
const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

/// Gives this process a mount namespace with a private, empty [`PLACE`] of at most `max_bytes`. Must be called while it has one thread.
pub(crate) fn make_private_shared_memory(max_bytes: Option<u64>) -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    // SAFETY: neither flag changes descriptors.
    let unshare = |flags| unsafe { unshare_unsafe(flags) };
    if unshare(UnshareFlags::NEWNS).is_err() {
        if fs::read_to_string(APPARMOR).is_ok_and(|value| value.trim() == "1") {
            // Such a namespace could be made, but nothing could be done in it, not even naming the user.
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        // Without privileges this takes a user namespace. In it, the user is still itself.
        unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))?;
    }
    // No mount made here may appear outside.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let options = match max_bytes {
        Some(max_bytes) => format!("mode=1777,size={max_bytes}\0"),
        None => "mode=1777\0".to_owned(),
    };
    let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).map_err(io::Error::other)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", PLACE, "tmpfs", flags, options)?;
    Ok(())
}
