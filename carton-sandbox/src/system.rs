//! The files of the system that every program needs, whatever it runs. None of them holds data of a user.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(target_os = "linux")]
use std::{fs, path::PathBuf};

/// Programs and libraries.
pub(crate) const PROGRAMS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    // Where the distributions Nix and Guix keep all of them.
    "/nix/store",
    "/gnu/store",
];

/// Configuration of the dynamic linker, of time zones and of libraries; what the machine has of processors and memory.
pub(crate) const FILES: &[&str] = &[
    "/etc/alternatives",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/random",
    "/dev/urandom",
];

/// What is left of a `/proc` that shows the process's own processes alone, beside these: the files above and the settings of the kernel.
pub(crate) const PROC: &[&str] = &["cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version"];

/// The same for a process with GPUs.
pub(crate) const GPU_PROC: &[&str] = &["devices", "driver", "modules"];

/// Devices that may be written to.
pub(crate) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];

/// What finding hosts and checking certificates takes, for a process with the network.
pub(crate) const NETWORK: &[&str] = &[
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/var/lib/ca-certificates",
];

/// Descriptions of GPUs and of their drivers.
pub(crate) const GPU_FILES: &[&str] = &[
    "/etc/OpenCL",
    "/etc/nvidia",
    "/etc/vulkan",
    "/proc/devices",
    "/proc/driver/nvidia",
    "/proc/modules",
    "/sys/bus/pci",
    "/sys/class/drm",
    "/sys/class/kfd",
    "/sys/devices",
    "/sys/module/nvidia",
    "/sys/module/nvidia_uvm",
    "/sys/module/amdgpu",
];

/// The devices of GPUs whose names are fixed.
pub(crate) const GPU_DEVICES: &[&str] = &["/dev/kfd", "/dev/nvidia-caps", "/dev/dxg"];

/// Folders with devices of GPUs, and what their names begin with. Of those in `/dev/dri`, the ones that compute, not those that show pictures.
pub(crate) const NUMBERED_GPU_DEVICES: &[(&str, &str)] = &[("/dev", "nvidia"), ("/dev/dri", "renderD")];

/// The devices of GPUs that a system names itself.
#[cfg(target_os = "linux")]
pub(crate) fn numbered_devices() -> Vec<PathBuf> {
    use std::os::unix::fs::FileTypeExt;

    let of = |(folder, prefix): &(&str, &str)| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let found = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
        found
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_char_device()))
            .map(|entry| entry.path())
            .collect()
    };
    NUMBERED_GPU_DEVICES.iter().flat_map(|place| -> Vec<PathBuf> { of(place) }).collect()
}
