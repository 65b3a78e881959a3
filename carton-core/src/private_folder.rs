//! Folders whose content is executed or believed without being verified again: the cache, the runners, the runners' data.
//!
//! Another user who can write to such a folder, or move it or one of the folders above it, can have this user execute what he likes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// A folder, or one above it, that another user can write to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not safe to use: expected {expected}, found {found}", path.display())]
pub(crate) struct UnsafeFolder {
    /// The folder that the other user can write to.
    pub path: PathBuf,
    /// What its owner and mode should be.
    pub expected: String,
    /// What they are.
    pub found: String,
}

impl UnsafeFolder {
    /// What the user can do about it. `variable` is the environment variable that names the folder.
    pub(crate) fn hint(&self, variable: &str) -> String {
        format!(
            "take the right to write from others (`chmod go-w '{}'`), or set {variable} to a folder of yours alone",
            self.path.display()
        )
    }

    fn new(path: &Path, expected: &str, metadata: &Metadata) -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self {
            path: path.to_path_buf(),
            expected: format!("a folder of user {user} or root, {expected}"),
            found: format!("user {}, group {}, mode {:o}", metadata.uid(), metadata.gid(), metadata.mode() & 0o7777),
        }
    }
}

/// As many links as Linux follows in one path.
const MAX_LINKS: usize = 40;

/// Checks the whole path of `folder`, links included, as far as it exists: no other user but root can write to it or move it. Above the last
/// part, others may write to folders that have the sticky bit, as `/tmp` has.
///
/// # Errors
/// The first folder on the way, from the root on, that another user could change.
pub(crate) fn check(folder: &Path) -> Result<(), UnsafeFolder> {
    let mut rest: VecDeque<OsString> = parts(&std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf()));
    let mut place = PathBuf::new();
    let mut n_links = 0_usize;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            place.pop();
            continue;
        }
        let next = place.join(&part);
        // The folder does not exist yet, or this process cannot enter it. Using it then fails with an error that says so.
        let Ok(metadata) = fs::symlink_metadata(&next) else { return Ok(()) };
        if metadata.is_symlink() {
            // Its mode says nothing: in a folder that is safe, only its owner can replace it.
            n_links = n_links.saturating_add(1);
            let target = fs::read_link(&next);
            let (Ok(target), true, true) = (target, is_trusted(metadata.uid()), n_links <= MAX_LINKS) else {
                return Err(UnsafeFolder::new(&next, "or a link of theirs", &metadata));
            };
            for part in parts(&target).into_iter().rev() {
                rest.push_front(part);
            }
            continue;
        }
        place = next;
        let is_sticky = metadata.mode() & 0o1000 != 0 && !rest.is_empty();
        if !is_trusted(metadata.uid()) || (can_others_write(&place, &metadata) && !is_sticky) {
            return Err(UnsafeFolder::new(&place, "not writable by others", &metadata));
        }
    }
    Ok(())
}

/// The parts of a path: its root, names and `..`.
fn parts(path: &Path) -> VecDeque<OsString> {
    path.components().filter(|part| *part != Component::CurDir).map(|part| part.as_os_str().to_owned()).collect()
}

/// Whether this is a user who can do anything that this process can do in any case.
fn is_trusted(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw() || uid == 0 || Some(uid) == root_outside()
}

/// The number that the root of the system has in a user namespace that does not have it: that of all users without a number.
fn root_outside() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let has_everyone = map.split_whitespace().eq(["0", "0", "4294967295"]);
    let unknown = fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()?;
    (!has_everyone).then_some(unknown)
}

/// Whether users other than the owner can write to a file or folder. With an access control list, the bits of the group are the most that
/// anybody gets by it.
fn can_others_write(path: &Path, metadata: &Metadata) -> bool {
    let mode = metadata.mode();
    mode & 0o002 != 0 || (mode & 0o020 != 0 && (has_access_list(path) || !is_own_group(metadata.gid())))
}

#[cfg(target_os = "linux")]
fn has_access_list(path: &Path) -> bool {
    // Only a file system without such lists says that it has none.
    let found = rustix::fs::getxattr(path, "system.posix_acl_access", &mut [0_u8; 1]);
    !matches!(found, Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP))
}

#[cfg(not(target_os = "linux"))]
fn has_access_list(_: &Path) -> bool {
    true
}

/// Whether a group is this user's alone, by the files that say so: it has the user's name, and no other member. Many distributions give each
/// user such a group, and let it write to what the user makes.
fn is_own_group(gid: u32) -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let uid = rustix::process::geteuid().as_raw();
    is_only_member(uid, gid, &read("/etc/passwd"), &read("/etc/group"))
}

fn is_only_member(uid: u32, gid: u32, users: &str, groups: &str) -> bool {
    fn entries(text: &str) -> impl Iterator<Item = Vec<&str>> {
        text.lines().map(|line| line.split(':').collect())
    }
    fn number(fields: &[&str], index: usize) -> Option<u32> {
        fields.get(index)?.parse().ok()
    }
    let Some(own) = entries(users).find(|user| number(user, 2) == Some(uid)).and_then(|user| user.first().copied())
    else {
        return false;
    };
    let is_first_group_of_another =
        entries(users).any(|user| number(&user, 3) == Some(gid) && user.first() != Some(&own));
    let mut groups = entries(groups).filter(|group| number(group, 2) == Some(gid));
    let is_own = groups.next().is_some_and(|group| {
        let members = group.get(3).copied().unwrap_or_default();
        group.first() == Some(&own) && members.split(',').all(|member| member.is_empty() || member == own)
    });
    is_own && groups.next().is_none() && !is_first_group_of_another
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn folders_that_others_can_write_to_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (shared, inner) = (root.join("shared"), root.join("shared/inner"));
        fs::create_dir_all(&inner).unwrap();
        let refused = |path: &Path| check(path).map_err(|error| error.path);
        let check_modes = |outer: u32, own: u32, expected: Result<(), PathBuf>| {
            set_mode(&shared, outer);
            set_mode(&inner, own);
            assert_eq!(refused(&inner), expected, "{outer:o} {own:o}");
        };
        check_modes(0o755, 0o755, Ok(()));
        check_modes(0o777, 0o755, Err(shared.clone()));
        // The sticky bit keeps others from moving what is in a folder, and not from adding to it.
        check_modes(0o1777, 0o755, Ok(()));
        check_modes(0o1777, 0o1777, Err(inner.clone()));
        check_modes(0o755, 0o757, Err(inner.clone()));
        // The user will make the folders that do not exist yet. Those above them are checked.
        set_mode(&inner, 0o700);
        assert_eq!(refused(&inner.join("new/folder")), Ok(()));
        set_mode(&shared, 0o757);
        assert_eq!(refused(&inner.join("new/folder")), Err(shared.clone()));

        // A link is as safe as its own folder and that which it leads to.
        let link = root.join("link");
        symlink("shared/../shared/inner", &link).unwrap();
        assert_eq!(refused(&link), Err(shared.clone()));
        set_mode(&shared, 0o755);
        assert_eq!(refused(&link), Ok(()));
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(refused(&root.join("loop")), Err(root.join("loop")));
    }

    #[test]
    fn a_group_of_the_user_alone_may_write() {
        let users =
            "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:100::/home/bob:/bin/sh\n";
        let check = |uid: u32, gid: u32, groups: &str, expected: bool| {
            assert_eq!(is_only_member(uid, gid, users, groups), expected, "{uid} {gid} {groups}");
        };
        check(1000, 1000, "root:x:0:\nann:x:1000:", true);
        check(1000, 1000, "ann:x:1000:ann", true);
        check(1000, 1000, "ann:x:1000:ann,bob", false);
        check(1000, 1000, "ann:x:1000:\nalias:x:1000:bob", false);
        check(1000, 1000, "staff:x:1000:", false);
        check(1000, 1000, "", false);
        check(1001, 1000, "ann:x:1000:", false);
        // The first group of another user, who is no member by name.
        check(1000, 100, "ann:x:100:", false);
        check(0, 0, "root:x:0:", true);
        check(1002, 1002, "eve:x:1002:", false);
    }
}
