//! The NVIDIA GPUs of this machine. Looks at files, and asks no driver.

use std::env;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

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

#[cfg(test)]
mod tests {
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
}
