//! Opening a model that is not in a carton: a folder, or a single file. Nothing verifies it.
//!
//! Model hubs keep files elsewhere, and put links to them into a model's folder. A folder from a stranger can have links to any file of
//! the user, so that the caller says which links are followed ([`OutsideLinks`]).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::open::checked_name;
use super::origin::Origin;
use super::tree::{Item, ItemPlace, Tree};
use super::{Contents, ContentsError, LinkProblem};

/// Which symbolic links that leave the folder of a bare model are followed.
#[derive(Clone, Debug)]
pub(crate) enum OutsideLinks {
    /// All.
    Followed,
    /// Those that lead to one of these paths or below it. The paths have no links themselves.
    Within(Vec<PathBuf>),
}

impl Contents {
    /// A model that is not in a carton: a folder, or a single file. There is no MANIFEST to verify it against. Its files
    /// have paths that begin with `model/`, as in a carton.
    ///
    /// # Errors
    /// Nothing is there, or something that cannot be in a carton; a link that `links` does not allow.
    pub(crate) fn bare(path: &Path, links: &OutsideLinks) -> Result<Contents, ContentsError> {
        let path = &std::path::absolute(path).map_err(ContentsError::io("resolve", path))?;
        let metadata = std::fs::metadata(path).map_err(ContentsError::io("open", path))?;
        let (origin, items) = if metadata.is_dir() {
            let mut walk = Walk { root: resolved(path)?, links, items: Vec::new(), targets: Vec::new() };
            walk.run(path)?;
            let Walk { mut items, targets, .. } = walk;
            items.sort_by(|one, other| one.path.cmp(&other.path));
            (Origin::BareFolder { path: path.to_path_buf(), targets }, items)
        } else if metadata.is_file() {
            let name = path.file_name().ok_or_else(|| ContentsError::Kind { path: path.to_path_buf() })?;
            let name = checked_name("model/", name.as_bytes(), path)?;
            // The user named this link, so that it is followed wherever it leads.
            let path = std::fs::canonicalize(path).map_err(ContentsError::io("open", path))?;
            let place = ItemPlace::Bare { path: path.clone(), size: metadata.len() };
            (Origin::BareFile(path), vec![Item { path: name, place }])
        } else {
            return Err(ContentsError::Kind { path: path.to_path_buf() });
        };
        Ok(Contents::new(Tree::bare(items), origin))
    }
}

/// Finds the files of a bare model.
struct Walk<'a> {
    /// The model's folder without links.
    root: PathBuf,
    links: &'a OutsideLinks,
    items: Vec<Item>,
    /// Where the followed links lead that leave the folder.
    targets: Vec<PathBuf>,
}

impl Walk<'_> {
    fn run(&mut self, root: &Path) -> Result<(), ContentsError> {
        let mut folders = vec![(root.to_path_buf(), "model/".to_owned())];
        while let Some((folder, prefix)) = folders.pop() {
            for entry in std::fs::read_dir(&folder).map_err(ContentsError::io("list", &folder))? {
                let entry = entry.map_err(ContentsError::io("list", &folder))?;
                let mut path = entry.path();
                let name = checked_name(&prefix, entry.file_name().as_bytes(), &path)?;
                if entry.file_type().map_err(ContentsError::io("inspect", &path))?.is_symlink() {
                    // What was checked is opened later, not what the link leads to then.
                    path = self.follow(&path)?;
                }
                let metadata = std::fs::metadata(&path).map_err(ContentsError::io("inspect", &path))?;
                if metadata.is_file() {
                    self.items.push(Item { path: name, place: ItemPlace::Bare { path, size: metadata.len() } });
                } else if metadata.is_dir() {
                    // A link to a folder above itself would be walked through again and again.
                    if resolved(&folder)?.starts_with(resolved(&path)?) {
                        let (path, target) = (name, path.display().to_string());
                        return Err(ContentsError::Link { path, target, reason: LinkProblem::Circle });
                    }
                    folders.push((path, format!("{name}/")));
                } else {
                    return Err(ContentsError::Kind { path });
                }
            }
        }
        Ok(())
    }

    /// Returns where a link leads.
    fn follow(&mut self, link: &Path) -> Result<PathBuf, ContentsError> {
        let target = std::fs::canonicalize(link).map_err(ContentsError::io("follow", link))?;
        if target.starts_with(&self.root) {
            return Ok(target);
        }
        match self.links {
            OutsideLinks::Within(allowed) if !allowed.iter().any(|allowed| target.starts_with(allowed)) => {
                Err(ContentsError::OutsideLink { path: link.to_path_buf(), target })
            }
            OutsideLinks::Followed | OutsideLinks::Within(_) => {
                self.targets.push(target.clone());
                Ok(target)
            }
        }
    }
}

/// Returns a path without links.
fn resolved(path: &Path) -> Result<PathBuf, ContentsError> {
    std::fs::canonicalize(path).map_err(ContentsError::io("resolve", path))
}
