//! Confines the processes that run models (spec/sandbox.md).
//!
//! A [`Policy`] is data: what one process, and all that it starts, may read, write, reach and use. A host does not apply it to itself. It
//! starts a *launcher* ([`Policy::launch`]): a program that calls [`launcher_main`] first in its `main`. The launcher stays as the parent of
//! the confined program. It forks a process that confines itself and becomes the program, mirrors how the program ends, and kills all that is
//! left when the host is gone.
//!
//! ```text
//! host ──starts──> launcher ──forks──> child, confined, becomes the program (a runner) ──> whatever the model starts
//!                  waits, not confined                  all confined; in one process group that they cannot leave, or in
//!                                                     namespaces that end with process 1
//! ```
//!
//! ```no_run
//! use carton_sandbox::Policy;
//!
//! let mut policy = Policy::new();
//! policy.execute.push("/opt/runner".into());
//! policy.read.push("/srv/model".into());
//! // `/usr/bin/carton` calls `launcher_main`.
//! let child = policy.launch("/usr/bin/carton".as_ref(), "/opt/runner/bin/run".as_ref(), &[])?.spawn()?;
//! # let _ = child;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! On systems other than Linux there is no sandbox: [`launcher_main`] refuses every policy.
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `descriptors`, `gap`, `limits`, `policy`: descriptors of a process; what a system cannot enforce; the resource limits; what a
//!   process may do. All of it is data.
//! - `system`: the files of the system that every program needs.
//! - `grants`: the files that a policy lets a program use.
//! - `privileges`, `root`: rights that are given up; a root folder that has only what is granted.
//! - `files`: Landlock: files, TCP, signals, abstract sockets.
//! - `namespaces`, `syscalls`, `scratch`: a network, processes and a root of the program's own; seccomp: the system calls that are
//!   refused, and what each of them would give; the deletion of scratch folders.
//! - `limiting`, `variables`: limits applied; the environment variables of the program, which are not the launcher's.
//! - `launcher`: starts one program, waits for it, and leaves nothing of it behind. It forks a process that confines itself and becomes
//!   the program.
//! - `probe`: what this system can enforce, found out by starting a launcher.

mod gap;
mod limits;
mod policy;
mod probe;
mod system;

#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod grants;
#[cfg(target_os = "linux")]
mod launcher;
#[cfg(target_os = "linux")]
mod limiting;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod privileges;
#[cfg(target_os = "linux")]
mod root;
#[cfg(unix)]
mod scratch;
#[cfg(target_os = "linux")]
mod syscalls;
mod variables;

pub use gap::Gap;
pub use limits::{Limits, UnknownLimit};
pub use policy::{LAUNCHER_ARGUMENT, Policy};
pub use probe::{ProbeError, landlock_version, probe};
#[cfg(unix)]
pub use scratch::delete_scratch_folder;
pub use variables::{VARIABLES, encode_variables};

/// The exit status of a launcher that refuses a policy because the system cannot enforce it. The reason is on standard error.
pub const EXIT_REFUSED: i32 = 121;
/// The exit status of a launcher that cannot start the program. The reason is on standard error.
pub const EXIT_CANNOT_START: i32 = 122;
/// What each line begins with that a launcher writes to standard error.
pub const MESSAGE_PREFIX: &str = "carton-sandbox: ";
/// What a line begins with that a launcher writes in explanation of another one.
const NOTE_PREFIX: &str = "carton-sandbox: note: ";
/// The last line that a launcher writes to standard error, right before it starts the program, which writes there too. Lines like those of a
/// launcher that follow are the program's.
pub const STARTED: &str = "carton-sandbox: started";

/// Runs this process as a launcher if it was started as one, and does not return then. Otherwise does nothing.
///
/// Call it first in `main`, before other threads are started.
#[cfg(target_os = "linux")]
pub fn launcher_main() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() == Some(std::ffi::OsStr::new(LAUNCHER_ARGUMENT)) {
        launcher::run(arguments);
    }
}

/// Refuses to be a launcher: this system has no sandbox.
#[cfg(not(target_os = "linux"))]
pub fn launcher_main() {
    if std::env::args_os().nth(1).as_deref() == Some(std::ffi::OsStr::new(LAUNCHER_ARGUMENT)) {
        eprintln!("{MESSAGE_PREFIX}refused: this system has no sandbox");
        std::process::exit(EXIT_REFUSED);
    }
}
