//! Counts the resources of this process: descriptors, shared-memory maps, children. Linux only.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

/// The resources that a process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// Open descriptors, by what they point to.
    pub descriptors: Vec<String>,
    /// Maps of shared memory.
    pub maps: Vec<String>,
    /// Command lines of all living descendants.
    pub descendants: Vec<String>,
}

impl Census {
    /// Returns the resources that this process holds now.
    ///
    /// # Panics
    /// If there is no `/proc`.
    #[must_use]
    pub fn take() -> Self {
        let mut descriptors: Vec<String> = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .map(|target| target.to_string_lossy().into_owned())
            .filter(|target| !target.contains("/proc/"))
            .map(|target| target.split(':').next().unwrap_or_default().to_owned())
            .collect();
        descriptors.sort();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let maps = maps.lines().filter(|line| line.contains("memfd:")).map(str::to_owned).collect();
        Self { descriptors, maps, descendants: descendants(std::process::id()) }
    }

    /// Returns the resources that this process holds once it has no descendants and releases nothing more.
    ///
    /// # Panics
    /// If it does not come to rest within twenty seconds.
    #[must_use]
    pub fn at_rest() -> Self {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut last = Self::take();
        loop {
            std::thread::sleep(Duration::from_millis(300));
            let census = Self::take();
            if census.descendants.is_empty() && census == last {
                return census;
            }
            assert!(Instant::now() < deadline, "not at rest: {census:#?}");
            last = census;
        }
    }

    /// Waits up to two seconds until this process holds the same as at this census. For a busy machine,
    /// `CARTON_TEST_PATIENCE` sets the number of seconds.
    ///
    /// # Panics
    /// If it still holds something else then.
    pub fn assert_restored(&self) {
        let patience = std::env::var("CARTON_TEST_PATIENCE").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(2);
        let deadline = Instant::now() + Duration::from_secs(patience);
        loop {
            let now = Self::take();
            if now == *self {
                return;
            }
            assert!(Instant::now() < deadline, "held before: {self:#?}\nheld now: {now:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn descendants(process: u32) -> Vec<String> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The command's name, in parentheses, may contain spaces; the fields after it do not.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (Some(_state), Some(parent)) = (fields.next(), fields.next()) else { continue };
        parents.push((id, parent.parse::<u32>().unwrap_or(0)));
    }
    let mut family = vec![process];
    let mut found = Vec::new();
    while let Some(parent) = family.pop() {
        for &(id, _) in parents.iter().filter(|(_, of)| *of == parent) {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
            family.push(id);
        }
    }
    found.sort();
    found
}
