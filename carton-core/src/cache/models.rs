//! Model folders by manifest hash. A folder is made once; later uses find it complete by a stat of each file, or repair it.

use std::collections::{BTreeSet, HashSet};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use carton_format::context::Meter;
use carton_format::digest::Sha256Digest;
use carton_format::manifest::ManifestHash;
use carton_format::source::FileIdentity;
use carton_tensor::parallel::par_for_each;
use parking_lot::Mutex;

use super::files::{Checked, SHARED_FROM, check_bytes, open_regular, write_hashed};
use super::index::LARGEST_INDEX;
use super::layout::Made;
use super::partial::{Partial, remove_tree};
use super::record::{Verified, read_own_file};
use super::strays::{folders_of, strays};
use super::{Cache, CacheError, FolderIndex, Lease, Line, Sink};

pub(super) const INDEX_NAME: &str = "index";
pub(super) const FOLDER_NAME: &str = "model";

/// A file of a model folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelFile<'a> {
    /// Its path inside the folder.
    pub path: &'a str,
    /// The digest of its bytes; for a symbolic link, of the bytes of its target.
    pub digest: Sha256Digest,
    /// Its length, if it is known.
    pub size: Option<u64>,
    /// For a symbolic link, its target, which is another file of the folder.
    pub symlink: Option<&'a str>,
}

/// Knows the files of a model, and can read or fetch their bytes.
pub(crate) trait ModelFiles: Sync {
    /// The error of reading or fetching.
    type Error: From<CacheError> + Send;

    /// The files, sorted by path.
    fn files(&self) -> Vec<ModelFile<'_>>;

    /// Called before bytes are requested, with the files that may need them, so that they can be fetched together. None of them is a
    /// symbolic link. The cache may have some of them already, so the implementation must check before it fetches. Called at most once
    /// for a model folder, while its lock is held.
    ///
    /// # Errors
    /// The bytes cannot be fetched.
    fn prepare(&self, indices: &[usize]) -> Result<(), Self::Error> {
        let _ = indices;
        Ok(())
    }

    /// Passes the bytes of the file at this index of the list to `sink`, in order. They need not be verified: the cache does that. The
    /// cache holds the lock of the file with this digest meanwhile, so the implementation must not wait for that lock.
    ///
    /// # Errors
    /// Those of `sink`, and those of reading the bytes.
    fn feed(&self, index: usize, sink: &mut Sink<'_, Self::Error>) -> Result<(), Self::Error>;
}

/// A model folder in the cache. It is not deleted while this value lives.
#[derive(Debug)]
pub(crate) struct ModelFolder {
    path: PathBuf,
    _lease: Lease,
}

impl ModelFolder {
    /// The folder that holds the model's files. Its files must not be written to.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Cache {
    /// Returns the folder with the model files of this manifest hash. Uses the existing folder if its files are unchanged; otherwise
    /// makes or repairs it from `source`. All bytes in it were verified. `meter` counts the bytes that `source` need not feed, because the
    /// cache has them.
    ///
    /// # Errors
    /// Those of `source`, wrong bytes from it, and errors of the operating system. Nothing half-made is left.
    pub(crate) fn model_folder<S: ModelFiles>(
        &self,
        manifest: &ManifestHash,
        source: &S,
        meter: &Meter<'_>,
    ) -> Result<ModelFolder, S::Error> {
        let cancel_token = meter.context().cancel_token();
        // Take the lease before looking: without it, what we find may be deleted.
        let lease = self.lease(manifest, cancel_token)?;
        let work =
            Work { cache: self, manifest, source, meter, files: source.files(), root: self.layout.model(manifest) };
        let folder = ModelFolder { path: work.root.join(FOLDER_NAME), _lease: lease };
        for file in &work.files {
            check_path(file.path)?;
        }
        if work.is_whole(&work.look()?) {
            work.count_all()?;
            return Ok(folder);
        }
        let _lock = self.lock(Made::Model(manifest), cancel_token)?;
        // Another process may have made it while we waited for the lock.
        let found = work.look()?;
        if work.is_whole(&found) {
            work.count_all()?;
        } else if found.exists {
            work.repair(&found)?;
        } else {
            work.make()?;
        }
        Ok(folder)
    }
}

/// One call of `model_folder`.
struct Work<'a, S> {
    cache: &'a Cache,
    manifest: &'a ManifestHash,
    source: &'a S,
    meter: &'a Meter<'a>,
    files: Vec<ModelFile<'a>>,
    root: PathBuf,
}

/// The state of a model folder in the cache.
struct FolderState {
    exists: bool,
    /// For each file, the identity recorded in the index, if the file still has it.
    files: Vec<Option<FileIdentity>>,
    /// Whether no folder gained or lost an entry.
    folders_unchanged: bool,
}

impl<S: ModelFiles> Work<'_, S> {
    /// The folders of the model, each after its parent; the model folder itself is the empty path.
    fn folders(&self) -> BTreeSet<&str> {
        folders_of(&self.paths())
    }

    fn paths(&self) -> HashSet<&str> {
        self.files.iter().map(|file| file.path).collect()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(FOLDER_NAME).join(path)
    }

    fn look(&self) -> Result<FolderState, CacheError> {
        let nothing = |exists| FolderState { exists, files: vec![None; self.files.len()], folders_unchanged: false };
        if std::fs::symlink_metadata(&self.root).is_err() {
            return Ok(nothing(false));
        }
        let index = read_own_file(&self.root.join(INDEX_NAME), LARGEST_INDEX).and_then(|b| FolderIndex::parse(&b));
        let Some(index) = index.filter(|index| index.manifest == *self.manifest) else { return Ok(nothing(true)) };
        // In the order of `write_index`: folders before files, both sorted by path.
        let (folders, files) = index.lines.split_at(index.lines.partition_point(|line| line.digest.is_none()));
        let is_unchanged = |path: &str, digest: Option<Sha256Digest>| {
            let lines = if digest.is_some() { files } else { folders };
            let line = &lines[lines.binary_search_by(|line| line.path.as_str().cmp(path)).ok()?];
            let metadata = std::fs::symlink_metadata(self.path(path)).ok()?;
            (line.digest == digest && FileIdentity::of(&metadata) == line.identity).then_some(line.identity)
        };
        let found = Mutex::new(vec![None; self.files.len()]);
        // A single stat is too short for a job, so a job checks many files.
        const BATCH: usize = 1024;
        let all = self.files.len();
        par_for_each(all.div_ceil(BATCH), |batch| {
            let range = batch * BATCH..all.min((batch + 1) * BATCH);
            let batch: Vec<_> =
                self.files[range.clone()].iter().map(|file| is_unchanged(file.path, Some(file.digest))).collect();
            found.lock()[range].copy_from_slice(&batch);
            Ok::<(), CacheError>(())
        })?;
        let folders_unchanged = self.folders().into_iter().all(|folder| is_unchanged(folder, None).is_some());
        Ok(FolderState { exists: true, files: found.into_inner(), folders_unchanged })
    }

    fn is_whole(&self, found: &FolderState) -> bool {
        found.exists && found.folders_unchanged && found.files.iter().all(Option::is_some)
    }

    fn count_all(&self) -> Result<(), CacheError> {
        self.advance(self.files.iter().filter_map(|file| file.size).sum())
    }

    /// Counts bytes that are done without being fed.
    fn advance(&self, n_bytes: u64) -> Result<(), CacheError> {
        Ok(self.meter.advance(n_bytes)?)
    }

    /// The order of the jobs: large files first, so that none is started last and keeps one core busy alone.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.files.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(self.files[*index].size.unwrap_or(u64::MAX) / (1024 * 1024)));
        order
    }

    fn prepare(&self, order: &[usize]) -> Result<(), S::Error> {
        let has_bytes = |index: &usize| self.files[*index].symlink.is_none();
        let wanted: Vec<usize> = order.iter().copied().filter(has_bytes).collect();
        if wanted.is_empty() { Ok(()) } else { self.source.prepare(&wanted) }
    }

    fn make(&self) -> Result<(), S::Error> {
        let partial = self.cache.partial()?;
        let root = partial.fresh_path();
        let made = Work { root: root.clone(), files: self.files.clone(), ..*self };
        create_shared_folder(&root)?;
        for folder in self.folders() {
            create_shared_folder(&made.path(folder))?;
        }
        let order = self.order();
        self.prepare(&order)?;
        par_for_each(order.len(), |at| made.produce(&partial, order[at], &made.path(self.files[order[at]].path)))?;
        made.write_index(&partial, |_| true)?;
        std::fs::rename(&root, &self.root).map_err(CacheError::io("move into place", &self.root))?;
        Ok(())
    }

    /// Repairs a folder that was changed, or whose index was lost. Works file by file, because other processes may be using the folder.
    fn repair(&self, found: &FolderState) -> Result<(), S::Error> {
        let partial = self.cache.partial()?;
        for folder in self.folders() {
            let path = self.path(folder);
            if !std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
                remove_tree(&path).map_err(CacheError::io("delete", &path))?;
                create_shared_folder(&path)?;
            }
        }
        self.remove_strays()?;
        // Files whose bytes are right, but whose identity does not prove that they stay so. They are hashed again at the next use.
        let unproven = Mutex::new(HashSet::new());
        let damaged = Mutex::new(HashSet::new());
        let insert = |set: &Mutex<HashSet<usize>>, index| {
            set.lock().insert(index);
        };
        let mut order = self.order();
        par_for_each(order.len(), |at| {
            let index = order[at];
            if found.files[index].is_some() {
                return Ok(self.advance(self.files[index].size.unwrap_or(0))?);
            }
            match self.is_right(&partial, index)? {
                Some(true) => {}
                Some(false) => insert(&unproven, index),
                None => insert(&damaged, index),
            }
            Ok::<(), S::Error>(())
        })?;
        let damaged = damaged.into_inner();
        order.retain(|index| damaged.contains(index));
        self.prepare(&order)?;
        par_for_each(order.len(), |at| {
            let (index, path) = (order[at], self.path(self.files[order[at]].path));
            tracing::warn!(path = %path.display(), "a model file in the cache was damaged; it is made again");
            let fresh = partial.fresh_path();
            self.produce(&partial, index, &fresh)?;
            if std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
                remove_tree(&path).map_err(CacheError::io("delete", &path))?;
            }
            std::fs::rename(&fresh, &path).map_err(CacheError::io("move into place", &path))?;
            // A rename onto another name of the same inode does nothing, and keeps both names.
            remove_tree(&fresh).map_err(CacheError::io("delete", &fresh))?;
            Ok::<(), S::Error>(())
        })?;
        let unproven = unproven.into_inner();
        self.write_index(&partial, |index| !unproven.contains(&index))?;
        Ok(())
    }

    /// Checks a file that does not match the index. Returns `None` if its bytes are wrong. Otherwise returns whether its identity proves
    /// that they stay right. The usual reason for a mismatch is a hard link made or deleted for another model.
    fn is_right(&self, partial: &Partial, index: usize) -> Result<Option<bool>, CacheError> {
        let file = &self.files[index];
        let path = self.path(file.path);
        if let Some(target) = file.symlink {
            return Ok(std::fs::read_link(&path).is_ok_and(|found| found.as_os_str() == target).then_some(true));
        }
        let Some((open, identity)) = open_regular(&path)? else { return Ok(None) };
        if self.cache.verifications().of(&identity) == Some(Verified::File { sha256: file.digest }) {
            self.advance(identity.size)?;
            return Ok(Some(true));
        }
        match check_bytes(&path, &open, &file.digest, &|n_bytes| self.meter.advance(n_bytes))? {
            Checked::Wrong(_) => Ok(None),
            Checked::Right(identity) => {
                if let Some(identity) = identity.filter(|identity| identity.size >= SHARED_FROM) {
                    self.cache.verifications().remember_quietly(partial, &identity, &file.digest);
                }
                Ok(Some(identity.is_some()))
            }
        }
    }

    /// Deletes everything that does not belong in the folder, because only the model's files were verified.
    fn remove_strays(&self) -> Result<(), CacheError> {
        for path in strays(&self.path(""), &self.folders(), &self.paths())? {
            tracing::warn!(path = %path.display(), "deleting a stray file from a model folder");
            remove_tree(&path).map_err(CacheError::io("delete", &path))?;
        }
        Ok(())
    }

    /// Creates a file with the right bytes at `destination`, where nothing exists yet.
    fn produce(&self, partial: &Partial, index: usize, destination: &Path) -> Result<(), S::Error> {
        let file = &self.files[index];
        if let Some(target) = file.symlink {
            std::os::unix::fs::symlink(target, destination).map_err(CacheError::io("create link", destination))?;
            return Ok(());
        }
        if file.size.is_some_and(|size| size < SHARED_FROM) {
            self.write(index, destination)?;
            return Ok(());
        }
        // One process writes a shared file; the others wait and link it.
        let cancel_token = self.meter.context().cancel_token();
        let _lock = self.cache.lock(Made::File(&file.digest), cancel_token)?;
        if self.cache.files().link(partial, &file.digest, destination, cancel_token)? {
            return Ok(self.advance(file.size.unwrap_or(0))?);
        }
        let written = self.write(index, destination)?;
        self.cache.files().share(partial, &file.digest, destination, &written)?;
        Ok(())
    }

    fn write(&self, index: usize, destination: &Path) -> Result<File, S::Error> {
        let file = &self.files[index];
        let (found, output) = write_hashed(destination, &mut |sink| self.source.feed(index, sink))?;
        if found != file.digest {
            let name = format!("{FOLDER_NAME}/{}", file.path);
            return Err(CacheError::Digest { name, expected: file.digest, found }.into());
        }
        Ok(output)
    }

    /// Records the current identities of the files. Unproven ones are left out, and hashed at the next use.
    fn write_index(&self, partial: &Partial, is_proven: impl Fn(usize) -> bool) -> Result<(), CacheError> {
        let identify = |path: &str| -> Result<FileIdentity, CacheError> {
            let path = self.path(path);
            let metadata = std::fs::symlink_metadata(&path).map_err(CacheError::io("inspect", &path))?;
            Ok(FileIdentity::of(&metadata))
        };
        let folders = self.folders().into_iter().map(|path| (path, None));
        let files = self.files.iter().enumerate().filter(|(index, _)| is_proven(*index));
        let files = files.map(|(_, file)| (file.path, Some(file.digest)));
        let lines = folders
            .chain(files)
            .map(|(path, digest)| Ok(Line { path: path.to_owned(), digest, identity: identify(path)? }))
            .collect::<Result<Vec<Line>, CacheError>>()?;
        let index = FolderIndex { manifest: *self.manifest, lines };
        partial.publish(&index.to_bytes(), &self.root.join(INDEX_NAME))
    }
}

/// Creates a folder that runners can read; the permissions of the cache's own folders keep other users out.
fn create_shared_folder(path: &Path) -> Result<(), CacheError> {
    DirBuilder::new().mode(0o755).create(path).map_err(CacheError::io("create folder", path))
}

/// The last line of defence, because the names come from an untrusted file.
fn check_path(path: &str) -> Result<(), CacheError> {
    match carton_format::name::check_read(format!("model/{path}").as_bytes()) {
        Ok(_) => Ok(()),
        Err(_) => Err(CacheError::Path { name: path.to_owned() }),
    }
}
