//! A root folder of its own for a program: nothing is there but what its policy names, at the same paths, beside a few files that say
//! nothing about this system.
//!
//! Landlock decides what may be opened, here as without such a folder. What is not there has no name, no size and no time, and no socket to
//! connect to, which Landlock does not govern.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, mount_remount, unmount,
};
use rustix::process::{chdir, getegid, geteuid, pivot_root};

use crate::files::numbered_devices;
use crate::{Policy, system};

/// Where programs expect shared memory of their own. The system's is shared by all processes of the user.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// What process 1 writes, so that programs find their user and `localhost`.
pub(crate) const WRITTEN: [&str; 4] = ["/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd"];

/// A folder that every system has. The root folder is made there, and `pivot_root` moves it away.
const STAGE: &str = "/proc";
/// Where the system's root is until everything is in place.
const SYSTEM: &str = "/.system";

/// Where programs look for temporary files that do not ask `TMPDIR`.
const TEMPORARY: &str = "/tmp";

/// The most links that are followed in one path, as the kernel does.
const MAX_LINKS: usize = 40;

/// Gives this process the root folder of `policy`, and a working folder in it. Returns whether `/proc` shows the processes of this namespace alone.
///
/// This process must be in mount and process namespaces of its own, with all rights there.
pub(crate) fn enter(policy: &Policy) -> io::Result<bool> {
    let working = env::current_dir().ok();
    let layout = Layout::new(policy);
    // No mount made here may appear outside.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    let inert = plain | MountFlags::NOEXEC;
    mount("tmpfs", STAGE, "tmpfs", plain, c"mode=755")?;
    chdir(STAGE)?;
    let below = |path: &str| path.trim_start_matches('/').to_owned();
    fs::create_dir(below(SYSTEM))?;
    pivot_root(".", below(SYSTEM))?;
    chdir("/")?;

    layout.mount()?;
    mount_temporary(policy, &layout)?;
    fs::create_dir_all(SHARED_MEMORY)?;
    let size = policy.limits.memory.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
    mount("tmpfs", SHARED_MEMORY, "tmpfs", inert, CString::new(format!("mode=1777{size}"))?.as_c_str())?;
    for (link, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        symlink(target, Path::new("/dev").join(link))?;
    }
    write_files(policy, &layout)?;
    fs::create_dir_all("/proc")?;
    // Refused where parts of the system's are covered, as in containers.
    let has_processes = mount("proc", "/proc", "proc", inert, None).is_ok();
    if has_processes {
        cover_rest_of_proc(policy.gpus)?;
    } else {
        mount_bind_recursive(format!("{SYSTEM}/proc"), "/proc")?;
    }

    unmount(SYSTEM, UnmountFlags::DETACH)?;
    fs::remove_dir(SYSTEM)?;
    mount_remount("/", MountFlags::BIND | MountFlags::RDONLY | plain, c"")?;
    // Otherwise the working folder would stay that of the system, with all that is above it.
    let folders = working.iter().chain(&policy.scratch).map(PathBuf::as_path);
    let folder = folders.chain([Path::new("/")]).find(|folder| folder.is_dir());
    chdir(folder.unwrap_or(Path::new("/")))?;
    Ok(has_processes)
}

/// What of the system is in the root folder.
#[derive(Debug, Default)]
struct Layout {
    /// Files and folders, with all that is in them, by their paths without links.
    places: BTreeSet<PathBuf>,
    /// Links on the way to them.
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Layout {
    /// What `policy` allows, and what every program needs.
    fn new(policy: &Policy) -> Self {
        let mut layout = Self::default();
        let mut add = |paths: &[&str]| paths.iter().for_each(|path| layout.add(Path::new(path)));
        add(system::PROGRAMS);
        add(system::FILES);
        add(system::DEVICES);
        if policy.network {
            add(system::NETWORK);
        }
        if policy.gpus {
            add(system::GPU_FILES);
            add(system::GPU_DEVICES);
            numbered_devices().iter().for_each(|path| layout.add(path));
        }
        // The scratch folder is not here, because it is mounted in two places.
        for path in policy.execute.iter().chain(&policy.read).chain(&policy.write) {
            layout.add(path);
        }
        // A system may have moved its folders, and leave links where they were.
        for entry in fs::read_dir("/").into_iter().flatten().flatten() {
            if let Ok(target) = fs::read_link(entry.path()) {
                layout.links.insert(entry.path(), target);
            }
        }
        layout
    }

    /// Adds what is at `path`, and the links on the way there. Nothing if nothing is there.
    fn add(&mut self, path: &Path) {
        let Ok(path) = std::path::absolute(path) else { return };
        let names = |path: &Path| -> Vec<OsString> {
            let parts = path.components().rev();
            parts
                .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
                .map(|part| part.as_os_str().to_owned())
                .collect()
        };
        // The names that are left, the next one last.
        let mut left = names(&path);
        let mut place = PathBuf::from("/");
        let mut n_links = 0;
        while let Some(name) = left.pop() {
            if name == ".." {
                place.pop();
                continue;
            }
            let next = place.join(name);
            let Ok(target) = fs::read_link(&next) else {
                place = next;
                continue;
            };
            n_links += 1;
            if n_links > MAX_LINKS {
                return;
            }
            if target.is_absolute() {
                place = PathBuf::from("/");
            }
            left.extend(names(&target));
            self.links.insert(next, target);
        }
        if place.parent().is_none() {
            // All of the system: its parts, because the root folder itself is the new one.
            for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
                self.add(&entry.path());
            }
        } else if !is_made_anew(&place)
            && fs::symlink_metadata(&place).is_ok_and(|metadata| !metadata.file_type().is_socket())
        {
            self.places.insert(place);
        }
    }

    /// Whether `path` is a place, or in one.
    fn has(&self, path: &Path) -> bool {
        path.ancestors().any(|folder| self.places.contains(folder))
    }

    /// Whether nothing is at `path` or below it.
    fn is_free(&self, path: &Path) -> bool {
        !self.has(path) && !self.places.iter().any(|place| place.starts_with(path)) && !self.links.contains_key(path)
    }

    /// Mounts all of it. Folders come before what is in them.
    fn mount(&self) -> io::Result<()> {
        let outermost = |path: &Path| path.parent().is_none_or(|folder| !self.has(folder));
        for place in self.places.iter().filter(|place| outermost(place)) {
            let source = in_system(place);
            let is_folder = fs::symlink_metadata(&source)?.is_dir();
            mount_at(&source, place, is_folder)?;
        }
        for (link, target) in self.links.iter().filter(|(link, _)| outermost(link)) {
            if let Some(folder) = link.parent() {
                fs::create_dir_all(folder)?;
            }
            match symlink(target, link) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether the root folder has its own `path`.
fn is_made_anew(path: &Path) -> bool {
    path.starts_with("/proc") || path.starts_with(SHARED_MEMORY) || path == Path::new("/dev")
}

fn in_place(place: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot mount `{}`: {error}", place.display()))
}

/// Where a path of the system is while the root folder is made.
fn in_system(path: &Path) -> PathBuf {
    Path::new(SYSTEM).join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts `source` at `place`, which is made.
fn mount_at(source: &Path, place: &Path, is_folder: bool) -> io::Result<()> {
    if is_folder {
        fs::create_dir_all(place)?;
    } else {
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::File::create(place)?;
    }
    mount_bind_recursive(source, place).map_err(|error| in_place(place, error.into()))
}

/// Mounts the scratch folder at its own path, and as `/tmp` where that is not in the way of something else.
fn mount_temporary(policy: &Policy, layout: &Layout) -> io::Result<()> {
    let Some(scratch) = &policy.scratch else { return Ok(()) };
    let source = in_system(scratch);
    let is_free = layout.is_free(Path::new(TEMPORARY));
    if is_free {
        mount_at(&source, Path::new(TEMPORARY), true)?;
    }
    match scratch.strip_prefix(TEMPORARY) {
        // It is in the folder that it stands for: a link leads back.
        Ok(below) if is_free => {
            let depth = below.components().count().saturating_sub(1);
            if let Some(folder) = scratch.parent() {
                fs::create_dir_all(folder)?;
            }
            let up: PathBuf = std::iter::repeat_n("..", depth).collect();
            symlink(if depth == 0 { Path::new(".") } else { &up }, scratch)
        }
        _ => mount_at(&source, scratch, true),
    }
}

/// Writes [`WRITTEN`], but for what `layout` has.
fn write_files(policy: &Policy, layout: &Layout) -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let home = policy.scratch.as_deref().unwrap_or(Path::new("/")).display();
    let texts = [
        format!("model:x:{group}:\n"),
        "127.0.0.1 localhost\n::1 localhost\n".to_owned(),
        "passwd: files\ngroup: files\nhosts: files dns\n".to_owned(),
        format!("model:x:{user}:{group}:model:{home}:/bin/sh\n"),
    ];
    fs::create_dir_all("/etc")?;
    for (path, text) in WRITTEN.into_iter().zip(texts) {
        if layout.is_free(Path::new(path)) {
            fs::write(path, text)?;
        }
    }
    Ok(())
}

/// Covers all in `/proc` that is not about the processes, and that no program needs.
fn cover_rest_of_proc(gpus: bool) -> io::Result<()> {
    let inert = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_process = name.bytes().all(|byte| byte.is_ascii_digit());
        let is_needed = system::PROC.contains(&&*name) || gpus && system::GPU_PROC.contains(&&*name);
        let kind = entry.file_type()?;
        if is_process || is_needed || kind.is_symlink() {
            continue;
        }
        if kind.is_dir() {
            mount("tmpfs", entry.path(), "tmpfs", inert, c"mode=555")?;
        } else {
            mount_bind_recursive("/dev/null", entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_path_is_there_with_all_links_that_lead_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("real/inner")).unwrap();
        fs::write(top.join("real/inner/file"), "").unwrap();
        symlink("real", top.join("relative")).unwrap();
        symlink(top.join("relative/inner"), top.join("absolute")).unwrap();
        symlink("loop", top.join("loop")).unwrap();
        let mut layout = Layout::default();
        for path in ["absolute/file", "relative/../missing", "loop/file"] {
            layout.add(&top.join(path));
        }
        assert_eq!(layout.places.iter().collect::<Vec<_>>(), [&top.join("real/inner/file")]);
        assert_eq!(layout.links[&top.join("relative")], Path::new("real"));
        assert_eq!(layout.links[&top.join("absolute")], top.join("relative/inner"));
        assert!(!layout.is_free(&top.join("real")) && layout.is_free(&top.join("other")));
        layout.add(&top.join("real"));
        assert!(layout.has(&top.join("real/other")) && !layout.has(&top));
    }

    #[test]
    fn all_of_the_system_is_each_of_its_parts() {
        let mut layout = Layout::default();
        layout.add(Path::new("/"));
        assert!(layout.has(Path::new("/usr/bin")) && layout.has(Path::new("/etc/passwd")));
        assert!(!layout.has(Path::new("/proc/1")) && !layout.has(Path::new("/dev/shm")));
    }
}
