//! The model's files as a folder.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_format::context::{Context, Meter};
use carton_format::digest::Sha256Digest;
use carton_format::progress::Stage;
use carton_format::source::FileIdentity;
use carton_tensor::parallel::par_for_each;
use parking_lot::Mutex;

use super::locate::Located;
use super::origin::Origin;
use super::raw_reader::open_in_folder;
use super::tree::{Item, ItemPlace};
use super::unpack::{TemporaryFolder, write_tree};
use super::{Contents, ContentsError};
use crate::cache::{Checked, FolderIndex, Lease, Line, ModelFile, ModelFiles, ModelFolder, Sink, check_bytes};

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
        let items = self.model_items();
        let meter = context.meter(Stage::Extract, self.total(&items));
        let is_complete = !items.iter().any(|item| self.is_elsewhere(item));
        match (&self.origin, &self.cache, self.manifest()) {
            (Origin::BareFolder { path, targets }, ..) => {
                Ok(ModelDirectory { targets: targets.clone(), ..ModelDirectory::new(path.clone(), Keeps::Nothing) })
            }
            (Origin::Folder(root), _, Some(_)) if is_complete => {
                let lease = Keeps::InPlace { _lease: self.lease(context)? };
                self.verify_in_folder(root, &items, &meter)?;
                Ok(ModelDirectory::new(root.join("model"), lease))
            }
            (_, Some(cache), Some(manifest)) => {
                let lease = self.lease(context)?;
                if let Origin::Folder(root) = &self.origin {
                    // The cache may have the files that MANIFEST lists, although the folder has others.
                    self.verify_in_folder(root, &items, &meter)?;
                }
                let files = Files { contents: self, items: &items, meter: &meter, read: Mutex::default() };
                let folder = cache.model_folder(&manifest.hash(), &files, &meter)?;
                let path = folder.path().to_path_buf();
                self.note_proven(files.read.into_inner());
                let file = |item: &Item| Some(path.join(item.path_in_model()?));
                self.check_stated(&items, &file, context)?;
                self.check_recorded(context)?;
                self.remember_stated();
                Ok(ModelDirectory::new(path, Keeps::Cached { _folder: folder, _lease: lease }))
            }
            _ => {
                let folder = TemporaryFolder::create(self.cache.as_deref())?;
                let path = folder.path().join("model");
                if !self.link_bare_file(&path)? {
                    self.fetch_items(&items, context)?;
                    write_tree(self, &items, folder.path(), &meter)?;
                }
                Ok(ModelDirectory::new(path, Keeps::Temporary { _folder: folder }))
            }
        }
    }

    /// Makes a folder with nothing but the file of a bare model, so that the runner does not see its neighbours. Returns `false` for
    /// other models, or across file systems.
    fn link_bare_file(&self, folder: &Path) -> Result<bool, ContentsError> {
        let (Origin::BareFile(file), [item]) = (&self.origin, self.items.as_slice()) else { return Ok(false) };
        std::fs::create_dir(folder).map_err(ContentsError::io("create folder", folder))?;
        let name = item.path_in_model().unwrap_or_default();
        if std::fs::hard_link(file, folder.join(name)).is_ok() {
            return Ok(true);
        }
        std::fs::remove_dir(folder).map_err(ContentsError::io("delete", folder))?;
        Ok(false)
    }

    /// Verifies files of an unpacked carton where they are, unless the cache remembers them.
    pub(super) fn verify_in_folder(
        &self,
        root: &Path,
        items: &[&Item],
        meter: &Meter<'_>,
    ) -> Result<(), ContentsError> {
        let (folder, known) = self.known_of_folder(root)?;
        let lines = Mutex::new(Vec::new());
        let order = self.largest_first(items.iter().copied().filter(|item| !item.is_symlink()));
        par_for_each(order.len(), |at| {
            if let Located::Folder { digest, .. } = self.locate(order[at])
                && let (_, Some(line)) = self.verified_in_folder(root, order[at], digest, &known, meter)?
            {
                lines.lock().push(line);
            }
            Ok::<(), ContentsError>(())
        })?;
        self.remember_in_folder(&folder, known, items, lines.into_inner());
        Ok(())
    }

    /// Opens and verifies a file of an unpacked carton, unless `known` has its identity. Also returns the line to store.
    pub(super) fn verified_in_folder(
        &self,
        root: &Path,
        item: &Item,
        digest: Sha256Digest,
        known: &[Line],
        meter: &Meter<'_>,
    ) -> Result<((File, FileIdentity), Option<Line>), ContentsError> {
        let (file, path, identity) = open_in_folder(root, item)?;
        let line = Line { path: item.path.clone(), digest: Some(digest), identity };
        let remembered = known.binary_search_by(|known| known.path.cmp(&line.path)).ok().map(|at| &known[at]);
        if remembered == Some(&line) {
            meter.advance(identity.size)?;
            return Ok(((file, identity), Some(line)));
        }
        match check_bytes(&path, &file, &digest, &|n_bytes| meter.advance(n_bytes))? {
            Checked::Wrong(found) => Err(ContentsError::Digest { path: item.path.clone(), expected: digest, found }),
            Checked::Right(proven) => Ok(((file, identity), (proven == Some(identity)).then_some(line))),
        }
    }

    /// The identity of the folder of an unpacked carton, and the stored lines about its files, sorted by path.
    pub(super) fn known_of_folder(&self, root: &Path) -> Result<(FileIdentity, Vec<Line>), ContentsError> {
        let metadata = std::fs::metadata(root).map_err(ContentsError::io("inspect", root))?;
        let folder = FileIdentity::of(&metadata);
        let known = self.cache.as_ref().and_then(|cache| cache.folder_index(&folder));
        Ok((folder, known.map(|index| index.lines).unwrap_or_default()))
    }

    /// Stores `lines` as the records of these items. The records of other items stay.
    pub(super) fn remember_in_folder(
        &self,
        folder: &FileIdentity,
        known: Vec<Line>,
        items: &[&Item],
        mut lines: Vec<Line>,
    ) {
        let (Some(cache), Some(manifest)) = (&self.cache, self.manifest_hash()) else { return };
        let replaced: HashSet<&str> = items.iter().map(|item| item.path.as_str()).collect();
        let is_other = |line: &&Line| {
            let is_listed = self.find(&line.path).is_ok_and(|item| item.digest() == line.digest);
            is_listed && !replaced.contains(line.path.as_str())
        };
        lines.extend(known.iter().filter(is_other).cloned());
        lines.sort_by(|one, other| one.path.cmp(&other.path));
        if lines != known
            && let Err(error) = cache.remember_folder(folder, &FolderIndex { manifest, lines })
        {
            tracing::debug!(%error, "cannot record a verification");
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
                _ => (None, self.contents.size(item)),
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
        if !self.contents.is_elsewhere(item) {
            self.read.lock().push(item);
        }
        Ok(())
    }
}
