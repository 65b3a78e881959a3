//! Deletes scratch folders, whose contents a hostile program has made.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Deletes a folder with all that it contains. Links are deleted, not followed.
///
/// Needs the same memory and the same number of descriptors for any depth: folders in folders are moved to the top before they are deleted. All
/// processes that can write to the folder must have ended.
///
/// # Errors
/// Something cannot be deleted. The folder may be deleted in part then.
pub fn delete_scratch_folder(path: &Path) -> io::Result<()> {
    let top = open(CWD, path)?;
    let mut moved = 0_u64;
    loop {
        let mut is_empty = true;
        for (name, kind) in entries(&top)? {
            is_empty = false;
            if kind == FileType::Directory {
                empty_folder(&top, &name, &mut moved)?;
            } else {
                unlinkat(&top, &name, AtFlags::empty())?;
            }
        }
        if is_empty {
            break;
        }
    }
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Deletes the files of a folder in `top`, moves its folders to `top`, and deletes it.
fn empty_folder(top: &OwnedFd, name: &CString, moved: &mut u64) -> io::Result<()> {
    // A folder can be made that its owner may not list.
    let _ = chmodat(top, name, Mode::RWXU, AtFlags::empty());
    let folder = open(top, name)?;
    let found = entries(&folder)?;
    let is_complete = found.len() < MAX_ENTRIES;
    for (inner, kind) in found {
        if kind != FileType::Directory {
            unlinkat(&folder, &inner, AtFlags::empty())?;
            continue;
        }
        // Moving a folder changes its entry for the parent.
        let _ = chmodat(&folder, &inner, Mode::RWXU, AtFlags::empty());
        loop {
            *moved += 1;
            match renameat(&folder, &inner, top, format!(".moved-{moved}")) {
                // A name that the program has taken.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::ISDIR) => {}
                result => break result?,
            }
        }
    }
    // What was not read yet is read in the next round.
    if is_complete { Ok(unlinkat(top, name, AtFlags::REMOVEDIR)?) } else { Ok(()) }
}

fn open(folder: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    Ok(openat(folder, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// The largest number of entries that are read before they are deleted.
const MAX_ENTRIES: usize = 10_000;

fn entries(folder: &OwnedFd) -> io::Result<Vec<(CString, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    FileType::from_raw_mode(rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
                }
                kind => kind,
            };
            found.push((name.to_owned(), kind));
        }
        if found.len() == MAX_ENTRIES {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::os::unix::fs::{DirBuilderExt, symlink};

    use super::*;

    #[test]
    fn anything_is_deleted_and_no_link_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), "").unwrap();
        let root = tempfile::tempdir().unwrap();
        let scratch = root.path().join("scratch");
        fs::create_dir_all(scratch.join("a/b/c")).unwrap();
        symlink(outside.path(), scratch.join("a/link")).unwrap();
        symlink("/nothing", scratch.join("dangling")).unwrap();
        fs::create_dir(scratch.join(".moved-1")).unwrap();
        fs::write(scratch.join(".moved-2"), "").unwrap();
        fs::create_dir_all(scratch.join(".moved-3/full")).unwrap();
        fs::DirBuilder::new().mode(0o0).create(scratch.join("a/locked")).unwrap();
        for number in 0..MAX_ENTRIES + 10 {
            fs::write(scratch.join("a/b/c").join(number.to_string()), "").unwrap();
        }
        delete_scratch_folder(&scratch).unwrap();
        assert!(!scratch.exists() && outside.path().join("kept").exists());
        assert!(delete_scratch_folder(&scratch).is_err());
    }
}
