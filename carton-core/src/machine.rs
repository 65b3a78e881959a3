//! What this machine has and lacks, for programs that examine it. Looks, and changes nothing.
//!
//! Runners and the cache are examined by [`try_runner`], [`runner::AvailableRunners`] and
//! [`Cache::examine`](crate::cache::Cache::examine).

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

pub use carton_sandbox::{Gap as SandboxGap, ProbeError};

use crate::config::Config;
pub use crate::memory::memory_bytes;
pub use crate::model::try_runner;
use crate::runner;

/// What this machine has for confining runners (spec/sandbox.md).
#[derive(Debug)]
#[non_exhaustive]
pub struct SandboxSupport {
    /// The program that confines runners.
    pub launcher: PathBuf,
    /// The version of Landlock's interface that the kernel has; `None` without Landlock.
    pub landlock_version: Option<u32>,
    /// What the launcher cannot enforce here.
    pub gaps: Vec<SandboxGap>,
}

/// Finds out what this machine can enforce, by starting the launcher that runners are started by. `None` if there is no launcher.
///
/// # Errors
/// The launcher cannot be started, or refuses.
pub fn sandbox_support(config: &Config) -> Result<Option<SandboxSupport>, ProbeError> {
    let Some(launcher) = runner::launcher(config) else { return Ok(None) };
    let gaps = carton_sandbox::probe(&launcher)?;
    Ok(Some(SandboxSupport { launcher, landlock_version: carton_sandbox::landlock_version(), gaps }))
}

/// The NVIDIA GPUs that this process sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gpus {
    /// The devices, one for each GPU.
    pub devices: Vec<PathBuf>,
    /// The version of the kernel's driver.
    pub driver: Option<String>,
    /// The driver's library, which frameworks load.
    pub library: Option<PathBuf>,
}

/// Where the driver says its version.
const DRIVER_VERSION: &str = "/proc/driver/nvidia/version";
/// The driver's library.
const DRIVER_LIBRARY: &str = "libcuda.so.1";
/// Where the linker looks for libraries, on the distributions that we know, and where WSL has that of the driver.
const LIBRARY_FOLDERS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda/compat",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
];

impl Gpus {
    /// Looks for devices, driver and library. Asks no driver, so that a broken one cannot hang the caller.
    #[must_use]
    pub fn find() -> Self {
        let devices = fs::read_dir("/dev").into_iter().flatten().flatten();
        let mut devices: Vec<PathBuf> = devices
            .filter(|entry| entry.file_name().to_str().is_some_and(is_gpu))
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_char_device()))
            .map(|entry| entry.path())
            .collect();
        devices.sort();
        let driver = fs::read_to_string(DRIVER_VERSION).ok().and_then(|text| driver_version(&text));
        let named = env::var_os("LD_LIBRARY_PATH").map(|value| env::split_paths(&value).collect::<Vec<_>>());
        let folders = named.into_iter().flatten().chain(LIBRARY_FOLDERS.iter().map(PathBuf::from));
        let library = folders.map(|folder| folder.join(DRIVER_LIBRARY)).find(|path| path.exists());
        Self { devices, driver, library }
    }
}

/// Whether a file of `/dev` is a GPU: `nvidia0`, but not `nvidiactl`.
fn is_gpu(name: &str) -> bool {
    name.strip_prefix("nvidia").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the version in the first line of the driver's text: the first word that is made of numbers and dots.
fn driver_version(text: &str) -> Option<String> {
    let is_version = |word: &&str| {
        word.contains('.') && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    text.lines().next()?.split_whitespace().find(is_version).map(str::to_owned)
}

/// Returns the path of a program, in `PATH` or where its own installer puts it in the user's home.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    // Each place comes twice: what a link leads to, then the place itself.
    runner::places_of_program(name).into_iter().nth(1)
}

/// Returns the bytes that this user can still write to the file system of `path`, or of its closest ancestor that exists.
///
/// # Errors
/// The file system cannot be asked.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let system = rustix::fs::statvfs(closest_ancestor(path)?)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Whether this user may make files in `path` or, if that does not exist, in its closest ancestor that does.
///
/// # Errors
/// The path cannot be resolved.
pub fn is_writable(path: &Path) -> io::Result<bool> {
    use rustix::fs::{Access, access};
    let existing = closest_ancestor(path)?;
    let may_write = existing.is_dir() && access(&existing, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    // Permissions do not tell everything: in /proc, no user can make a folder. So this makes one.
    Ok(may_write && tempfile::Builder::new().prefix(".carton-").tempdir_in(&existing).is_ok())
}

/// The closest ancestor that exists, or the path itself.
fn closest_ancestor(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let found = path.ancestors().find(|ancestor| fs::symlink_metadata(ancestor).is_ok());
    found.map(Path::to_path_buf).ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn gpus_are_told_from_other_devices() {
        for (name, expected) in
            [("nvidia0", true), ("nvidia12", true), ("nvidiactl", false), ("nvidia", false), ("nvidia-uvm", false)]
        {
            assert_eq!(is_gpu(name), expected, "{name}");
        }
    }

    #[test]
    fn the_version_of_a_driver_is_found() {
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(driver_version(text).as_deref(), expected, "{text}");
        check(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\nGCC",
            Some("535.129.03"),
        );
        check("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release", Some("580.65.06"));
        check("something else", None);
        check("", None);
    }

    #[test]
    fn space_and_rights_are_those_of_the_closest_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("not/there");
        assert!(free_bytes(&inner).unwrap() > 0);
        assert!(is_writable(&inner).unwrap());
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(!is_writable(&folder.path().join("file/inner")).unwrap());
    }

    #[test]
    fn programs_are_found_in_path() {
        assert!(find_program("sh").is_some());
        assert_eq!(find_program("carton-has-no-such-program"), None);
    }
}
