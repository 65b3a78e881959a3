//! The memory of this machine.

use std::fs;
use std::path::Path;

/// The memory of this machine in bytes, or the least that a cgroup (version 2) of this process allows. `None` if the system does not say it.
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    let whole = memory_of_meminfo(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // A line of version 2 names no controllers.
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let folders = group.map(|group| Path::new("/sys/fs/cgroup").join(group));
    let folders =
        folders.iter().flat_map(|folder| folder.ancestors().take_while(|folder| folder.starts_with("/sys/fs/cgroup")));
    let limits = folders.filter_map(|folder| fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok());
    limits.chain([whole]).min()
}

fn memory_of_meminfo(text: &str) -> Option<u64> {
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_memory_of_this_machine_is_found() {
        assert_eq!(memory_of_meminfo("MemTotal:       24737812 kB\nMemFree: 1 kB\n"), Some(24_737_812 << 10));
        assert_eq!(memory_of_meminfo("MemFree: 1 kB\n"), None);
        assert_eq!(memory_of_meminfo("MemTotal: 18446744073709551615 kB"), None);
        if cfg!(target_os = "linux") {
            assert!(memory_bytes().unwrap() > 1 << 20);
        }
    }
}
