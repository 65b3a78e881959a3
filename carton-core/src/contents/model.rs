//! The model's files as a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_format::context::{Context, Meter};
use carton_format::progress::Stage;
use parking_lot::Mutex;

use super::locate::Locator;
use super::origin::Origin;
use super::tree::{Item, ItemPlace};
use super::unpack::{TemporaryFolder, write_tree};
use super::{Contents, ContentsError};
use crate::cache::{Lease, ModelFile, ModelFiles, ModelFolder, Sink};

/// A folder with the model's verified files. It exists while this value lives. Its files must not be written to.
#[derive(Debug)]
pub struct ModelDirectory {
    path: PathBuf,
    /// Where links in it lead that leave it.
    targets: Vec<PathBuf>,
    _keeps: Keeps,
}

/// Keeps the folder from being deleted.
#[derive(Debug)]
enum Keeps {
    Nothing,
    Cached { _folder: ModelFolder, _lease: Option<Arc<Lease>> },
    Temporary { _folder: TemporaryFolder },
    InPlace { _lease: Option<Arc<Lease>> },
}

impl ModelDirectory {
    /// The folder. What is `model/x` in the carton is `x` in it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where links in the folder lead that leave it. Only a bare model has such links.
    pub(crate) fn targets(&self) -> &[PathBuf] {
        &self.targets
    }

    fn new(path: PathBuf, keeps: Keeps) -> Self {
        Self { path, targets: Vec::new(), _keeps: keeps }
    }
}

impl Contents {
    /// The model as a folder of verified files: in the cache, where it is made once, or the unpacked carton's own. Without
    /// a cache it is made anew each time, and deleted when the result is dropped.
    ///
    /// # Errors
    /// A file of the model is not what MANIFEST lists or cannot be fetched, or the folder cannot be written.
    pub(crate) fn model_directory(&self, context: &Context) -> Result<ModelDirectory, ContentsError> {
        let items = self.tree().model_items();
        let meter = context.meter(Stage::Extract, self.locator.total(&items));
        let is_complete = !items.iter().any(|item| self.locator.is_elsewhere(item));
        match (self.locator.origin(), self.locator.cache(), self.manifest()) {
            (Origin::BareFolder { path, targets }, ..) => {
                Ok(ModelDirectory { targets: targets.clone(), ..ModelDirectory::new(path.clone(), Keeps::Nothing) })
            }
            (Origin::Folder(root), _, Some(_)) if is_complete => {
                let lease = Keeps::InPlace { _lease: self.fetcher.lease(&self.locator, context)? };
                self.verify_in_folder(root, &items, &meter)?;
                Ok(ModelDirectory::new(root.join("model"), lease))
            }
            (_, Some(cache), Some(manifest)) => {
                let lease = self.fetcher.lease(&self.locator, context)?;
                if let Origin::Folder(root) = self.locator.origin() {
                    // The cache may have the files that MANIFEST lists, although the folder has others.
                    self.verify_in_folder(root, &items, &meter)?;
                }
                let files = Files { contents: self, items: &items, meter: &meter, read: Mutex::default() };
                let folder = cache.model_folder(&manifest.hash(), &files, &meter)?;
                let path = folder.path().to_path_buf();
                self.checksums.note_proven(&self.locator, files.read.into_inner());
                let file = |item: &Item| Some(path.join(item.path_in_model()?));
                self.check_stated(&items, &file, context)?;
                self.check_recorded(context)?;
                self.checksums.remember(&self.locator);
                Ok(ModelDirectory::new(path, Keeps::Cached { _folder: folder, _lease: lease }))
            }
            _ => {
                let folder = TemporaryFolder::create(self.locator.cache())?;
                let path = folder.path().join("model");
                if !link_bare_file(&self.locator, &path)? {
                    self.fetch_items(&items, context)?;
                    write_tree(self, &items, folder.path(), &meter)?;
                }
                Ok(ModelDirectory::new(path, Keeps::Temporary { _folder: folder }))
            }
        }
    }
}

/// The model's files for the cache.
struct Files<'a> {
    contents: &'a Contents,
    items: &'a [&'a Item],
    meter: &'a Meter<'a>,
    /// The items that were read from the archive to their ends, where it checks their CRC-32 and size.
    read: Mutex<Vec<&'a Item>>,
}

impl<'a> ModelFiles for Files<'a> {
    type Error = ContentsError;

    fn prepare(&self, indices: &[usize]) -> Result<(), ContentsError> {
        let items: Vec<&Item> = indices.iter().map(|index| self.items[*index]).collect();
        self.contents.fetch_items(&items, self.meter.context())
    }

    fn files(&self) -> Vec<ModelFile<'_>> {
        let file = |item: &&'a Item| {
            let (path, digest) = (item.path_in_model()?, item.digest()?);
            let (symlink, size) = match &item.place {
                // The target of the link is counted instead.
                ItemPlace::Symlink { target, .. } => (Some(target.as_str()), Some(0)),
                _ => (None, self.contents.locator.size(item)),
            };
            Some(ModelFile { path, digest, size, symlink })
        };
        self.items.iter().filter_map(file).collect()
    }

    fn feed(&self, index: usize, sink: &mut Sink<'_, ContentsError>) -> Result<(), ContentsError> {
        let item = self.items[index];
        self.contents.feed_locked(item, self.meter.context(), &mut |chunk| {
            sink(chunk)?;
            Ok(self.meter.advance(chunk.len() as u64)?)
        })?;
        if !self.contents.locator.is_elsewhere(item) {
            self.read.lock().push(item);
        }
        Ok(())
    }
}

/// Makes a folder with nothing but the file of a bare model, so that the runner does not see its neighbours. Returns `false` for
/// other models, or across file systems.
fn link_bare_file(locator: &Locator, folder: &Path) -> Result<bool, ContentsError> {
    let (Origin::BareFile(file), [item]) = (locator.origin(), locator.tree().items()) else { return Ok(false) };
    std::fs::create_dir(folder).map_err(ContentsError::io("create folder", folder))?;
    let name = item.path_in_model().unwrap_or_default();
    if std::fs::hard_link(file, folder.join(name)).is_ok() {
        return Ok(true);
    }
    std::fs::remove_dir(folder).map_err(ContentsError::io("delete", folder))?;
    Ok(false)
}
