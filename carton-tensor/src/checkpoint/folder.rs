//! Opens files beside another one, and decides which symbolic links are followed (spec/safetensors.md §7.3).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::FileBytes;

/// Which symbolic links beside an index are followed if they lead to a file elsewhere than in its folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FollowLinks {
    /// None. This is for programs that open what others uploaded, because a program that unpacks an archive with links in it becomes their
    /// owner.
    Inside,
    /// Those that the user of this process or the superuser made, as the owners of the links show. A link that somebody else made could
    /// lead to a file that only the user of this process may read. Systems without such owners follow none.
    #[default]
    Own,
    /// All.
    All,
}

/// Why a file beside another one is not opened, though the name is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnusableFile {
    /// It is not a regular file: a folder cannot be read, and opening a pipe would wait for a writer.
    #[error("it is {0}, expected a regular file")]
    NotAFile(&'static str),
    /// It is a link that is not followed.
    #[error("it is a link to `{}`, outside of its folder, that is not followed", target.display())]
    Link {
        /// Where it leads.
        target: PathBuf,
        /// The number of the user who made a link on the way, and is not the one who runs this process, if that is the reason.
        owner: Option<u32>,
    },
}

impl From<UnusableFile> for io::Error {
    fn from(unusable: UnusableFile) -> Self {
        Self::other(unusable)
    }
}

/// The folder of an index, or of another file that says what is beside it.
pub(crate) struct Folder {
    /// The folder, as the caller named it.
    pub(super) named: PathBuf,
    /// The canonical form of the same folder, and the folder that holds the file itself if that is a link.
    real: [PathBuf; 2],
    links: FollowLinks,
}

impl Folder {
    /// The folder of a file.
    ///
    /// # Errors
    /// IO.
    pub(crate) fn of(file: &Path, links: FollowLinks) -> io::Result<Self> {
        let named = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let folder = fs::canonicalize(&named)?;
        let mut target = fs::canonicalize(file)?;
        target.pop();
        Ok(Self { named, real: [folder, target], links })
    }

    /// Returns the canonical path of the file of a name in the folder.
    ///
    /// # Errors
    /// IO; [`UnusableFile`] as an [`io::Error`].
    pub(crate) fn resolve(&self, name: &str) -> io::Result<PathBuf> {
        let target = fs::canonicalize(self.named.join(name))?;
        let is_inside = self.real.iter().any(|folder| target.starts_with(folder));
        if !is_inside && self.links != FollowLinks::All {
            let owner = foreign_link(&self.real[0], name)?;
            // Links of other systems have no owners that say who made them.
            if owner.is_some() || self.links == FollowLinks::Inside || cfg!(not(unix)) {
                return Err(UnusableFile::Link { target, owner }.into());
            }
        }
        let metadata = fs::metadata(&target)?;
        if metadata.is_file() {
            return Ok(target);
        }
        let found = if metadata.is_dir() { "a folder" } else { "a device, a pipe or a socket" };
        Err(UnusableFile::NotAFile(found).into())
    }

    /// Opens the file of a name in the folder by `open`, which is given its canonical path.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub(crate) fn open(&self, name: &str, open: impl Fn(&Path) -> io::Result<FileBytes>) -> io::Result<FileBytes> {
        open(&self.resolve(name)?)
    }
}

/// Opens the file of a name beside another one on this machine, following the links that `links` says.
///
/// # Errors
/// IO; [`UnusableFile`] as an [`io::Error`].
pub fn open_beside(file: &Path, name: &str, links: FollowLinks) -> io::Result<FileBytes> {
    Folder::of(file, links)?.open(name, |path| FileBytes::open(path))
}

/// Follows the links from a name in a canonical folder to the file. Returns the owner of the first link that neither this process's user nor
/// the superuser made. All links are looked at, because one of the user's may lead into a folder of somebody else who has another one there.
#[cfg(unix)]
fn foreign_link(folder: &Path, name: &str) -> io::Result<Option<u32>> {
    use std::os::unix::fs::MetadataExt;
    use std::path::Component;
    /// As many as Linux follows.
    const MAX_LINKS: usize = 40;
    let user = rustix::process::geteuid().as_raw();
    let mut at = folder.to_owned();
    let mut rest = vec![PathBuf::from(name)];
    let mut n_links = 0;
    while let Some(path) = rest.pop() {
        let mut components = path.components();
        let Some(first) = components.next() else { continue };
        rest.push(components.as_path().to_owned());
        match first {
            Component::RootDir => at = PathBuf::from("/"),
            Component::ParentDir => drop(at.pop()),
            Component::CurDir | Component::Prefix(_) => {}
            Component::Normal(part) => {
                at.push(part);
                let metadata = fs::symlink_metadata(&at)?;
                if metadata.is_symlink() {
                    n_links += 1;
                    if n_links > MAX_LINKS {
                        return Err(io::Error::other("too many symbolic links"));
                    }
                    if metadata.uid() != user && metadata.uid() != 0 {
                        return Ok(Some(metadata.uid()));
                    }
                    rest.push(fs::read_link(&at)?);
                    at.pop();
                }
            }
        }
    }
    Ok(None)
}

#[cfg(not(unix))]
fn foreign_link(_: &Path, _: &str) -> io::Result<Option<u32>> {
    Ok(None)
}
