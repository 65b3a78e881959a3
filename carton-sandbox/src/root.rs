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
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{chdir, getegid, geteuid, pivot_root};

use crate::grants::{Access, Grants};
use crate::{Policy, privileges, system};

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

/// A root folder that was made.
pub(crate) struct Root {
    /// Whether `/proc` shows the processes of this namespace alone.
    pub(crate) has_processes: bool,
    /// Where the scratch folder is.
    pub(crate) scratch: Option<PathBuf>,
    /// What the program may do in this root folder.
    pub(crate) grants: Grants,
}

/// Gives this process the root folder of `policy`, and a working folder in it.
///
/// This process must be in mount and process namespaces of its own, with all rights there.
///
/// # Errors
/// Something cannot be mounted, or the path of the scratch folder has links or `..` in it.
pub(crate) fn enter(policy: &Policy) -> io::Result<Root> {
    let working = env::current_dir().ok();
    let layout = Layout::new(policy);
    // A path that means another folder in the new root folder would become a permission to write there.
    if let Some(scratch) = &policy.scratch
        && fs::canonicalize(scratch).map_err(|error| in_place(scratch, error))? != *scratch
    {
        return Err(in_place(scratch, io::Error::other("it is not the canonical path of the scratch folder")));
    }
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

    // What is mounted later may lie in what was mounted before. Nothing is written once the system's folders are there.
    let is_free = layout.is_free(Path::new(TEMPORARY));
    let scratch = policy.scratch.as_ref().map(|scratch| if is_free { Path::new(TEMPORARY) } else { scratch.as_path() });
    write_files(scratch, &layout)?;
    fs::create_dir_all(SHARED_MEMORY)?;
    // A file takes memory even if it is empty.
    let size = policy.limits.memory.map(|bytes| format!(",size={bytes},nr_inodes={}", (bytes >> 12).max(1024)));
    let options = CString::new(format!("mode=1777{}", size.unwrap_or_default()))?;
    mount("tmpfs", SHARED_MEMORY, "tmpfs", inert, options.as_c_str())?;
    for (link, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        symlink(target, Path::new("/dev").join(link))?;
    }
    layout.mount()?;
    if let (Some(source), Some(place)) = (&policy.scratch, scratch) {
        mount_at(&in_system(source), place, true)?;
    }
    fs::create_dir_all("/proc")?;
    // Refused where parts of the system's are covered, as in containers.
    let has_processes = mount("proc", "/proc", "proc", inert, None).is_ok();
    if !has_processes {
        mount_bind_recursive(format!("{SYSTEM}/proc"), "/proc")?;
    }
    unmount(SYSTEM, UnmountFlags::DETACH)?;
    if has_processes {
        // `SYSTEM` is an empty folder now. It covers others after it is removed, and nothing can be made in a removed folder.
        restrict_proc(policy.gpus, Path::new(SYSTEM))?;
    }
    fs::remove_dir(SYSTEM)?;
    mount_remount("/", MountFlags::BIND | MountFlags::RDONLY | plain, c"")?;
    // Otherwise the working folder would stay that of the system, with all that is above it.
    let folders = working.as_deref().into_iter().chain(scratch).chain([Path::new("/")]);
    chdir(folders.into_iter().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")))?;
    let of_proc: &[Access] = match (has_processes, policy.gpus) {
        (false, _) => &[],
        (true, false) => &[Access::Read],
        (true, true) if policy.network && privileges::administers_network() => &[Access::Read],
        // NVIDIA's driver names its threads by writing to `/proc/self/task/*/comm`.
        (true, true) => &[Access::Read, Access::Change],
    };
    let grants = layout.into_grants(scratch, of_proc);
    Ok(Root { has_processes, scratch: scratch.map(Path::to_path_buf), grants })
}

/// What of the system is in the root folder.
#[derive(Debug, Default)]
struct Layout {
    /// Files and folders, with all that is in them, by their paths without links.
    places: Grants,
    /// What is granted of that which [`is_made_anew`].
    made_anew: Grants,
    /// Links on the way to the places.
    links: BTreeMap<PathBuf, PathBuf>,
    /// Paths that are known not to be links.
    not_links: BTreeSet<PathBuf>,
}

impl Layout {
    /// What `policy` allows, and what every program needs.
    fn new(policy: &Policy) -> Self {
        let mut layout = Self::default();
        for (path, access) in Grants::new(policy).iter() {
            for &access in access {
                layout.add(path, access);
            }
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
    fn add(&mut self, path: &Path, access: Access) {
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
                // Above what is no folder there is nothing, as for the kernel.
                if !fs::symlink_metadata(&place).is_ok_and(|metadata| metadata.is_dir()) {
                    return;
                }
                place.pop();
                continue;
            }
            let next = place.join(name);
            if self.not_links.contains(&next) {
                place = next;
                continue;
            }
            let Ok(target) = fs::read_link(&next) else {
                self.not_links.insert(next.clone());
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
            // All of the system: its parts, because the root folder itself is the new one, which may be listed.
            self.made_anew.add(&place, Access::Read);
            for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
                self.add(&entry.path(), access);
            }
        } else if is_made_anew(&place) {
            self.made_anew.add_canonical(&place, access);
        } else if fs::symlink_metadata(&place).is_ok_and(|metadata| !metadata.file_type().is_socket()) {
            self.places.add_canonical(&place, access);
        }
    }

    /// Whether nothing is at `path` or below it, and no link on the way there.
    fn is_free(&self, path: &Path) -> bool {
        let is_below = |other: &Path| other.starts_with(path);
        let is_linked = path.ancestors().any(|folder| self.links.contains_key(folder));
        let mut taken = self.places.iter().map(|(place, _)| place).chain(self.links.keys().map(PathBuf::as_path));
        !self.places.has(path) && !is_linked && !taken.any(is_below)
    }

    /// Mounts all of it. Folders come before what is in them.
    fn mount(&self) -> io::Result<()> {
        let outermost = |path: &Path| path.parent().is_none_or(|folder| !self.places.has(folder));
        for (place, access) in self.places.iter() {
            let is_writable = access.contains(&Access::Write);
            if !is_writable && !outermost(place) {
                continue;
            }
            let source = in_system(place);
            let is_folder = fs::symlink_metadata(&source).map_err(|error| in_place(place, error))?.is_dir();
            mount_at(&source, place, is_folder)?;
            if !is_writable {
                make_read_only(place).map_err(|error| in_place(place, error))?;
            }
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

    /// What a program may do in the root folder, and in its own `/proc`.
    fn into_grants(self, scratch: Option<&Path>, of_proc: &[Access]) -> Grants {
        let mut grants = self.places;
        scratch.into_iter().for_each(|scratch| grants.add(scratch, Access::Write));
        grants.add(Path::new(SHARED_MEMORY), Access::Write);
        WRITTEN.iter().for_each(|path| grants.add_canonical(Path::new(path), Access::Read));
        of_proc.iter().for_each(|&access| grants.add(Path::new("/proc"), access));
        for (path, access) in self.made_anew.iter() {
            access.iter().for_each(|&access| grants.add_canonical(path, access));
        }
        grants
    }
}

/// Whether the root folder has its own `path`.
fn is_made_anew(path: &Path) -> bool {
    path.starts_with("/proc")
        || ["/dev", SHARED_MEMORY, "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"]
            .iter()
            .any(|own| path == Path::new(own))
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

/// Makes what is mounted at `place`, and below it, read-only. Landlock refuses to write there as well.
fn make_read_only(place: &Path) -> io::Result<()> {
    let place = CString::new(place.as_os_str().as_encoded_bytes())?;
    let attributes = libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the kernel reads a path that ends with NUL, and a structure of the size that is passed, which both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            place.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes [`WRITTEN`], but for what `layout` has.
fn write_files(scratch: Option<&Path>, layout: &Layout) -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let home = scratch.unwrap_or(Path::new("/")).display();
    let texts = [
        format!("model:x:{group}:\n"),
        "127.0.0.1 localhost\n::1 localhost\n".to_owned(),
        "passwd: files\ngroup: files\nhosts: files dns\n".to_owned(),
        format!("model:x:{user}:{group}:model:{home}:/bin/sh\n"),
    ];
    for (path, text) in WRITTEN.into_iter().zip(texts) {
        if layout.is_free(Path::new(path)) {
            fs::create_dir_all("/etc")?;
            fs::write(path, text)?;
        }
    }
    Ok(())
}

/// Covers what in `/proc` is neither about processes nor needed, and makes the needed folders read-only. `empty` is an empty folder.
fn restrict_proc(gpus: bool, empty: &Path) -> io::Result<()> {
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_process = name.bytes().all(|byte| byte.is_ascii_digit());
        let is_needed = system::PROC.contains(&&*name) || gpus && system::GPU_PROC.contains(&&*name);
        let kind = entry.file_type()?;
        if is_process || kind.is_symlink() {
            continue;
        }
        if is_needed {
            if kind.is_dir() {
                // A program whose user is root could change the system's settings there.
                mount_bind_recursive(entry.path(), entry.path())?;
                make_read_only(&entry.path())?;
            }
            continue;
        }
        let cover = if kind.is_dir() { empty } else { Path::new("/dev/null") };
        mount_bind(cover, entry.path())?;
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
        fs::write(top.join("other"), "").unwrap();
        fs::write(top.join("real/other"), "").unwrap();
        symlink("real", top.join("relative")).unwrap();
        symlink(top.join("relative/inner"), top.join("absolute")).unwrap();
        symlink("loop", top.join("loop")).unwrap();
        let mut layout = Layout::default();
        for path in
            ["absolute/file", "relative/../missing", "missing/../other", "real/inner/file/../../other", "loop/file"]
        {
            layout.add(&top.join(path), Access::Read);
        }
        assert_eq!(layout.places.iter().map(|(place, _)| place).collect::<Vec<_>>(), [top.join("real/inner/file")]);
        assert_eq!(layout.links[&top.join("relative")], Path::new("real"));
        assert_eq!(layout.links[&top.join("absolute")], top.join("relative/inner"));
        assert!(!layout.is_free(&top.join("real")) && layout.is_free(&top.join("free")));
        layout.add(&top.join("real"), Access::Read);
        assert!(layout.places.has(&top.join("real/other")) && !layout.places.has(&top));
    }

    #[test]
    fn all_of_the_system_is_each_of_its_parts() {
        let mut layout = Layout::default();
        layout.add(Path::new("/"), Access::Read);
        let has = |path: &str| layout.places.has(path.as_ref());
        assert!(has("/usr/bin") && has("/etc/passwd") && !has("/proc/1") && !has("/dev/shm"));
    }
}
