//! Notices a standard output that is closed (`carton … >&-`). The standard library opens `/dev/null` in its place before `main` runs, so
//! that no write to it would fail.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    if rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err() {
        IS_CLOSED.store(true, Ordering::Relaxed);
    }
}

// SAFETY: the loader calls each function in this section once, before `main`. This one makes one system call and writes to a static.
#[used]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
static LOOK: extern "C" fn() = look;

/// Checks that standard output was open when the program started.
///
/// # Errors
/// It was not: the error that a write to it would have had.
pub(crate) fn check() -> io::Result<()> {
    match IS_CLOSED.load(Ordering::Relaxed) {
        true => Err(rustix::io::Errno::BADF.into()),
        false => Ok(()),
    }
}
