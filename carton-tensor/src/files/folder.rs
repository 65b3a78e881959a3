//! Opens files beside another one, and decides which symbolic links are followed (spec/safetensors.md §7.3).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::FileBytes;

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
    pub(crate) named: PathBuf,
    /// The canonical form of the same folder.
    real: PathBuf,
    /// The folder that holds the file itself, if that is a link which is followed.
    of_target: Option<PathBuf>,
    links: FollowLinks,
    /// Whether links of the user to files elsewhere are followed, if `links` is [`FollowLinks::Own`].
    own_lead_out: bool,
}

impl Folder {
    /// The folder of a file that lists the names of its parts, such as an index.
    ///
    /// # Errors
    /// IO.
    pub(crate) fn of(file: &Path, links: FollowLinks) -> io::Result<Self> {
        Self::new(file, links, true)
    }

    /// The folder of a file that says in which files its data is, by any paths. Its author could name what a link of the user leads to, so that links
    /// lead elsewhere only with [`FollowLinks::All`].
    ///
    /// # Errors
    /// IO.
    #[cfg(feature = "onnx")]
    pub(crate) fn of_model(file: &Path, links: FollowLinks) -> io::Result<Self> {
        Self::new(file, links, false)
    }

    fn new(file: &Path, links: FollowLinks, own_lead_out: bool) -> io::Result<Self> {
        let named = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let real = fs::canonicalize(&named)?;
        let mut target = fs::canonicalize(file)?;
        target.pop();
        // What a stranger's link leads to need not belong to the stranger, and neither need the files beside it.
        let is_followed = match (links, file.file_name().and_then(|name| name.to_str())) {
            (FollowLinks::All, _) => true,
            (FollowLinks::Own, Some(name)) => cfg!(unix) && foreign_link(&real, name)?.is_none(),
            (FollowLinks::Inside, _) | (FollowLinks::Own, None) => false,
        };
        let of_target = Some(target).filter(|target| is_followed && *target != real);
        Ok(Self { named, real, of_target, links, own_lead_out })
    }

    /// Returns the canonical path of the file of a name in the folder.
    ///
    /// # Errors
    /// IO; [`UnusableFile`] as an [`io::Error`].
    pub(crate) fn resolve(&self, name: &str) -> io::Result<PathBuf> {
        let target = fs::canonicalize(self.named.join(name))?;
        let folders = [Some(&self.real), self.of_target.as_ref()];
        let is_inside = folders.into_iter().flatten().any(|folder| target.starts_with(folder));
        if !is_inside && self.links != FollowLinks::All {
            let owner = foreign_link(&self.real, name)?;
            // Links of other systems have no owners that say who made them.
            let is_own = self.links == FollowLinks::Own && self.own_lead_out && cfg!(unix);
            if owner.is_some() || !is_own {
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

/// The path of a file that was chosen by its name in a folder, if `links` says that it may be a link to where it leads.
///
/// # Errors
/// IO; [`UnusableFile`] as an [`io::Error`].
pub fn path_in(folder: &Path, name: &str, links: FollowLinks) -> io::Result<PathBuf> {
    let (named, real) = (folder.to_owned(), fs::canonicalize(folder)?);
    Folder { named, real, of_target: None, links, own_lead_out: true }.resolve(name)?;
    Ok(folder.join(name))
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
