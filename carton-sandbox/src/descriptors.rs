//! Descriptors that the launcher inherited.

use std::fs;
use std::io;

/// The first descriptor that is not a standard one.
const FIRST: libc::c_int = 3;

/// Makes every descriptor but the three standard ones close when a program is executed. A descriptor that a careless host leaves open would
/// be a way out: rules about paths do not hold for what is open already.
pub(crate) fn close_on_exec() -> io::Result<()> {
    // SAFETY: the system call takes numbers alone, and closes nothing in this process.
    let result = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 {
        return Ok(());
    }
    // Linux before 5.11 does not have it.
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<libc::c_int>().ok());
        if let Some(number) = number.filter(|&number| number >= FIRST) {
            // SAFETY: the call takes numbers alone. Closing on exec changes nothing for other owners of the descriptor in this process.
            let result = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
            if result != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EBADF) {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}
