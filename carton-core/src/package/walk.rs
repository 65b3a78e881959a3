//! Finds the files of a model that is to be packed.
//!
//! A symbolic link to a file inside the model becomes a link in the carton, straight to the file at the end of the chain of
//! links. A link that leaves the model becomes the file that it leads to. A link to a folder is followed, and the files in that
//! folder are treated one by one in the same way.

use std::collections::BTreeSet;
use std::fs::{DirEntry, FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use carton_format::archive::MAX_ENTRIES;
use carton_format::context::Context;
use carton_format::name;

use super::PackageError;
use super::selection::{NotPacked, Selection, measure};

/// The folder of the carton that the model goes to.
const MODEL: &str = "model";

/// A file of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its path in the carton, such as `model/weights.bin`.
    pub(super) name: String,
    /// Where it is, with all links resolved.
    pub(super) path: PathBuf,
    /// For a link, the path in the carton of the file it leads to.
    pub(super) leads_to: Option<String>,
}

/// The files of a model, and what of its folder is not packed.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// Sorted by their names in the carton.
    pub(super) files: Vec<Found>,
    /// The paths in the model, each with its place on the disk.
    pub(super) left_out: Vec<(String, PathBuf)>,
}

/// Finds the files of the model at `path`, a folder or a single file, that `selection` does not leave out.
pub(crate) fn walk(path: &Path, selection: &Selection) -> Result<Walked, PackageError> {
    let root = std::fs::canonicalize(path).map_err(PackageError::io("open", path))?;
    let metadata = std::fs::metadata(&root).map_err(PackageError::io("open", path))?;
    if metadata.is_file() {
        // The name is the one that the user gave, even if it is that of a link.
        let name = path.file_name().or(root.file_name()).unwrap_or_default();
        let name = checked_name(MODEL, name.as_encoded_bytes(), path)?;
        return Ok(Walked { files: vec![Found { name, path: root, leads_to: None }], left_out: Vec::new() });
    }
    check_kind(path, metadata.file_type())?;
    let mut walk = Walk {
        root: root.clone(),
        given: path.to_path_buf(),
        selection,
        found: Vec::new(),
        left_out: Vec::new(),
        levels: Vec::new(),
    };
    walk.enter(&root, MODEL.to_owned(), &metadata, false)?;
    walk.run()?;
    let Walk { found: mut files, mut left_out, .. } = walk;
    if files.is_empty() {
        return Err(PackageError::EmptyModel { path: path.to_path_buf() });
    }
    files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    left_out.sort_unstable();
    // A link to a file that is left out becomes the file that it leads to.
    let names: BTreeSet<String> = files.iter().map(|file| file.name.clone()).collect();
    for file in &mut files {
        file.leads_to = file.leads_to.take().filter(|target| names.contains(target));
    }
    Ok(Walked { files, left_out })
}

impl Walked {
    /// The files of the model by their paths in it, each with the place where it is, without links to files of the model.
    pub(crate) fn model_files(self) -> Vec<(String, PathBuf)> {
        let files = self.files.into_iter().filter(|found| found.leads_to.is_none());
        files.map(|found| (in_model(&found.name).to_owned(), found.path)).collect()
    }

    /// What of the folder is not packed, with its size.
    pub(crate) fn not_packed(&self, context: &Context) -> Result<Vec<NotPacked>, PackageError> {
        self.left_out.iter().map(|(name, path)| measure(name.clone(), path, context)).collect()
    }
}

/// Returns the path in the model of the file that is called `name` in the carton.
fn in_model(name: &str) -> &str {
    name.strip_prefix(MODEL).map_or(name, |name| name.trim_start_matches('/'))
}

/// Returns the target to write for a link called `link` that leads to `target`, both paths in the carton.
pub(super) fn relative_target(link: &str, target: &str) -> String {
    let folder: Vec<&str> = link.split('/').collect();
    let folder = &folder[..folder.len().saturating_sub(1)];
    let target: Vec<&str> = target.split('/').collect();
    let shared = folder.iter().zip(&target).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", folder.len() - shared);
    up.chain(target[shared..].iter().copied()).collect::<Vec<_>>().join("/")
}

struct Walk<'a> {
    /// The model's folder with all links resolved.
    root: PathBuf,
    /// The same folder as the caller wrote it, for messages.
    given: PathBuf,
    selection: &'a Selection,
    found: Vec<Found>,
    left_out: Vec<(String, PathBuf)>,
    /// A stack of the folders being listed, each in the one before. The call stack is not used for this, because names in a
    /// carton allow 1536 nested folders.
    levels: Vec<Level>,
}

/// A folder that is being listed.
struct Level {
    /// Its name in the carton.
    name: String,
    /// Device and inode, to detect cycles.
    identity: (u64, u64),
    /// Whether a symbolic link was followed on the way to this folder.
    behind_link: bool,
    /// The entries that remain to be visited. The folder is listed at once, so that no more than one folder is open.
    entries: std::vec::IntoIter<DirEntry>,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), PackageError> {
        while let Some(level) = self.levels.last_mut() {
            let Some(entry) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let behind_link = level.behind_link;
            let path = entry.path();
            let kind = entry.file_type().map_err(PackageError::io("inspect", &path))?;
            let is_folder = kind.is_dir() || (kind.is_symlink() && path.is_dir());
            // What is left out may have a name that no file in a carton can have.
            let given = Path::new(in_model(&level.name)).join(entry.file_name());
            if self.selection.leaves_out(&given, is_folder) {
                self.left_out.push((format!("{}{}", given.display(), if is_folder { "/" } else { "" }), path));
                continue;
            }
            let name = checked_name(&level.name, entry.file_name().as_encoded_bytes(), &path)?;
            if kind.is_dir() {
                let metadata = entry.metadata().map_err(PackageError::io("inspect", &path))?;
                self.enter(&path, name, &metadata, behind_link)?;
            } else if kind.is_symlink() {
                self.link(&path, &name)?;
            } else {
                check_kind(&path, kind)?;
                // Behind a link, this path need not be where the file really is.
                let leads_to = if behind_link { self.name_inside(&path)? } else { None };
                self.add(name, path, leads_to)?;
            }
        }
        Ok(())
    }

    /// Continues with the entries of a folder.
    fn enter(&mut self, path: &Path, name: String, metadata: &Metadata, behind_link: bool) -> Result<(), PackageError> {
        let identity = (metadata.dev(), metadata.ino());
        if self.levels.iter().any(|level| level.identity == identity) {
            let reason = "it leads to a folder that it is in";
            return Err(PackageError::Link { path: path.to_path_buf(), reason });
        }
        let entries = std::fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(PackageError::io("list", path))?.into_iter();
        self.levels.push(Level { name, identity, behind_link, entries });
        Ok(())
    }

    fn link(&mut self, path: &Path, name: &str) -> Result<(), PackageError> {
        let resolved = std::fs::canonicalize(path).and_then(|resolved| Ok((std::fs::metadata(&resolved)?, resolved)));
        let (metadata, resolved) = resolved.map_err(|source| {
            let reason = match rustix::io::Errno::from_io_error(&source) {
                Some(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => "nothing is where it leads to",
                Some(rustix::io::Errno::LOOP) => "it leads in a circle",
                _ => return PackageError::io("follow", path)(source),
            };
            PackageError::Link { path: path.to_path_buf(), reason }
        })?;
        if metadata.is_dir() {
            return self.enter(&resolved, name.to_owned(), &metadata, true);
        }
        check_kind(path, metadata.file_type())?;
        let leads_to = self.name_inside(&resolved)?;
        self.add(name.to_owned(), resolved, leads_to)
    }

    /// Returns the name in the carton of a file inside the model; `None` for a file outside it.
    fn name_inside(&self, path: &Path) -> Result<Option<String>, PackageError> {
        let resolved = std::fs::canonicalize(path).map_err(PackageError::io("follow", path))?;
        match resolved.strip_prefix(&self.root) {
            Ok(inside) => checked_name(MODEL, inside.as_os_str().as_encoded_bytes(), path).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn add(&mut self, name: String, path: PathBuf, leads_to: Option<String>) -> Result<(), PackageError> {
        // Links to folders can make a tree practically endless without any cycle.
        if self.found.len() as u64 >= MAX_ENTRIES {
            return Err(PackageError::TooManyFiles { path: self.given.clone(), limit: MAX_ENTRIES });
        }
        // A file behind a link to one of its parent folders would lead to itself when that folder is reached under its own name.
        let leads_to = leads_to.filter(|target| *target != name);
        self.found.push(Found { name, path, leads_to });
        Ok(())
    }
}

fn checked_name(folder: &str, file_name: &[u8], path: &Path) -> Result<String, PackageError> {
    let name = [folder.as_bytes(), b"/", file_name].concat();
    let checked = name::check(&name).map(str::to_owned);
    checked.map_err(|source| PackageError::Name { path: path.to_path_buf(), source })
}

/// Refuses anything but files and folders. Reading a pipe would block forever, and a device has no end.
fn check_kind(path: &Path, kind: FileType) -> Result<(), PackageError> {
    let found = match kind {
        kind if kind.is_file() || kind.is_dir() => return Ok(()),
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_block_device() || kind.is_char_device() => "a device",
        _ => "something else",
    };
    Err(PackageError::SpecialFile { path: path.to_path_buf(), found })
}
