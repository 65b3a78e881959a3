//! Descriptors that the launcher inherited.

use std::io;

/// Makes every descriptor but the three standard ones close when a program is executed. A descriptor that a careless host leaves open would
/// be a way out: rules about paths do not hold for what is open already.
pub(crate) fn close_on_exec() -> io::Result<()> {
    // SAFETY: the system call takes numbers alone, and closes nothing in this process.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
