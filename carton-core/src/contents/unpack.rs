//! Writing a carton's files to a folder.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use carton_format::context::{Context, Meter};
use carton_format::digest::Hasher;
use carton_format::manifest;
use carton_format::progress::Stage;
use carton_tensor::parallel::par_for_each;

use super::tree::{Item, ItemPlace};
use super::{Contents, ContentsError};
use crate::cache::{Cache, CacheError};
use crate::held_folder::{self, HeldFolder};

impl Contents {
    /// Writes all files and MANIFEST to a new folder. They are verified while they are written, and the folder gets its name
    /// when all are there. LINKS is not written: nothing is missing any more.
    ///
    /// # Errors
    /// The destination exists and is not an empty folder, a file is not what MANIFEST lists or cannot be fetched, or the
    /// folder cannot be written. Nothing is left then.
    pub(crate) fn unpack(&self, destination: &Path, context: &Context) -> Result<(), ContentsError> {
        check_destination(destination)?;
        let parent = match destination.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = destination.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let temporary = TemporaryFolder::create_in(parent, &format!(".{name}.partial"))?;
        let root = temporary.path().join("unpacked");
        create_folder(&root)?;
        let items: Vec<&Item> = self.tree().items().iter().collect();
        let meter = context.meter(Stage::Extract, self.locator.total(&items));
        self.fetch_items(&items, context)?;
        write_tree(self, &items, &root, &meter)?;
        if let Some(manifest) = self.manifest() {
            write_file(&root.join(manifest::NAME), manifest.to_bytes())?;
        }
        // This replaces an empty folder, and nothing else.
        std::fs::rename(&root, destination).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                ContentsError::DestinationExists { path: destination.to_path_buf() }
            }
            _ => ContentsError::io("move into place", destination)(error),
        })
    }
}

fn check_destination(destination: &Path) -> Result<(), ContentsError> {
    let exists = || ContentsError::DestinationExists { path: destination.to_path_buf() };
    match std::fs::symlink_metadata(destination) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ContentsError::io("inspect", destination)(error)),
        Ok(metadata) if metadata.is_dir() => {
            let mut entries = std::fs::read_dir(destination).map_err(ContentsError::io("list", destination))?;
            if entries.next().is_some() { Err(exists()) } else { Ok(()) }
        }
        Ok(_) => Err(exists()),
    }
}

/// Writes the given items below `root`, verified, on all cores.
pub(super) fn write_tree(
    contents: &Contents,
    items: &[&Item],
    root: &Path,
    meter: &Meter<'_>,
) -> Result<(), ContentsError> {
    let mut folders = BTreeSet::new();
    for item in items {
        let mut path = item.path.as_str();
        while let Some((parent, _)) = path.rsplit_once('/') {
            if !folders.insert(parent) {
                break;
            }
            path = parent;
        }
    }
    // Sorted, so that each comes after the one it is in.
    for folder in folders {
        create_folder(&root.join(folder))?;
    }
    let order = contents.locator.largest_first(items.iter().copied());
    par_for_each(order.len(), |at| {
        let item = order[at];
        let path = root.join(&item.path);
        if let ItemPlace::Symlink { target, .. } = &item.place {
            return std::os::unix::fs::symlink(target, &path).map_err(ContentsError::io("create link", &path));
        }
        let mut file = create_file(&path)?;
        let mut hasher = Hasher::new();
        contents.feed(item, meter.context(), &mut |chunk| {
            hasher.update(chunk);
            file.write_all(chunk).map_err(ContentsError::io("write", &path))?;
            Ok(meter.advance(chunk.len() as u64)?)
        })?;
        item.compare(hasher)
    })
}

fn create_folder(path: &Path) -> Result<(), ContentsError> {
    std::fs::create_dir(path).map_err(ContentsError::io("create folder", path))
}

pub(super) fn create_file(path: &Path) -> Result<File, ContentsError> {
    let options = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
    options.map_err(ContentsError::io("create", path))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), ContentsError> {
    create_file(path)?.write_all(bytes).map_err(ContentsError::io("write", path))
}

/// A folder that is deleted with its contents.
#[derive(Debug)]
pub(super) enum TemporaryFolder {
    /// In the cache, which sweeps it if this process dies.
    InCache(crate::cache::TemporaryFolder),
    /// Anywhere else.
    Elsewhere(HeldFolder),
}

impl TemporaryFolder {
    /// In the cache, unless there is none or nothing can be written to it.
    pub(super) fn create(cache: Option<&Cache>) -> Result<TemporaryFolder, ContentsError> {
        match cache.map(Cache::temporary_folder) {
            Some(Ok(folder)) => Ok(TemporaryFolder::InCache(folder)),
            Some(Err(CacheError::Io { source, .. })) if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                Self::create_in(&std::env::temp_dir(), "carton-model")
            }
            Some(Err(error)) => Err(error.into()),
            None => Self::create_in(&std::env::temp_dir(), "carton-model"),
        }
    }

    pub(super) fn create_in(parent: &Path, name: &str) -> Result<TemporaryFolder, ContentsError> {
        let prefix = format!("{name}-");
        held_folder::sweep(parent, &prefix, |path| std::fs::remove_dir_all(path));
        let folder = HeldFolder::create(parent, &prefix);
        Ok(TemporaryFolder::Elsewhere(folder.map_err(ContentsError::io("create a folder in", parent))?))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::InCache(folder) => folder.path(),
            Self::Elsewhere(folder) => folder.path(),
        }
    }
}
