//! The model's files as ranges of open files, for runners that map them in place.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use carton_tensor::parallel::par_for_each;

use super::origin::{Origin, open_item};
use super::progress::{Meter, OnProgress};
use super::tree::model_path;
use super::unpack::TemporaryFolder;
use super::{Contents, ContentsError, Place};
use crate::archive::{Archive, Entry};
use crate::cache::{Lease, SHARED_FROM, Scope};
use crate::digest::Hasher;

/// Small files share a file, each at a multiple of this: a tensor in one is then as aligned as in a file of its own.
const ALIGNMENT: u64 = 64;

/// Where the bytes of one model file are.
#[derive(Clone, Debug)]
pub struct ModelRange {
    /// Its path inside the model: `x` for `model/x`.
    pub path: String,
    /// An open file that has its bytes; several ranges may be in the same one. Opened for reading only.
    pub file: Arc<File>,
    /// Where its bytes begin there.
    pub offset: u64,
    /// How many there are.
    pub length: u64,
}

/// All files of a model, verified.
#[derive(Debug)]
pub struct ModelRanges {
    files: Vec<ModelRange>,
    _lease: Option<Arc<Lease>>,
}

impl ModelRanges {
    /// The files, sorted by path.
    pub fn files(&self) -> &[ModelRange] {
        &self.files
    }
}

/// Where the bytes of an item will be read from.
enum Way {
    /// They are stored in the carton as they are.
    InPlace { offset: u64, length: u64 },
    /// In a file of an unpacked carton or bare model.
    OwnFile,
    /// From the cache, into which they are fetched or copied first.
    Cached,
    /// They are copied to the file that small ones share, at this offset.
    Bundled { offset: u64, length: u64 },
}

impl Contents {
    /// The model's files as ranges of open files. What is stored in the carton without compression is verified where it is,
    /// once while the file stays the same; the rest is copied to the cache, small files to a temporary file. What is elsewhere is
    /// fetched into the cache first.
    ///
    /// # Errors
    /// As for [`Contents::model_directory`].
    pub(crate) fn model_ranges(&self, on_progress: OnProgress<'_>) -> Result<ModelRanges, ContentsError> {
        let indices = self.model_items();
        let meter = Meter::new(self.total(&indices), on_progress);
        let lease = self.lease(&meter)?;
        self.fetch_items(&indices, &meter)?;
        let (ways, bundle_length) = self.ways(&indices)?;
        self.verify_in_place(&ways, &meter)?;
        if let Origin::Folder(root) = &self.origin {
            self.verify_in_folder(root, &indices, &meter)?;
        }
        let bundle = match bundle_length {
            0 => None,
            length => Some(self.bundle(&ways, length, &meter)?),
        };
        let files = self.open_ranges(&indices, &ways, bundle, &meter)?;
        self.check_recorded(&meter)?;
        self.remember_stated();
        Ok(ModelRanges { files, _lease: lease })
    }

    /// Decides for each item that has bytes where they will be read from, and how long the file of small ones becomes.
    fn ways(&self, indices: &[usize]) -> Result<(BTreeMap<usize, Way>, u64), ContentsError> {
        let mut ways = BTreeMap::new();
        let mut bundle_length = 0_u64;
        for index in indices {
            let item = &self.items[*index];
            let Place::Here { size, entry } = item.place else {
                if item.place == Place::Linked {
                    ways.insert(*index, Way::Cached);
                }
                continue;
            };
            if let Origin::Archive { archive, .. } = &self.origin
                && let Some(range) = stored_range(archive, entry, &item.path)?
            {
                ways.insert(*index, Way::InPlace { offset: range.start, length: range.end - range.start });
                continue;
            }
            let is_archive = matches!(self.origin, Origin::Archive { .. });
            let way = match (size < SHARED_FROM, is_archive) {
                // Descriptors are few; a model can have a hundred thousand small files.
                (true, _) => Way::Bundled { offset: bundle_length, length: size },
                (false, false) => Way::OwnFile,
                (false, true) if self.cache.is_some() => Way::Cached,
                (false, true) => Way::Bundled { offset: bundle_length, length: size },
            };
            if let Way::Bundled { length, .. } = way {
                let end = bundle_length.checked_add(length).and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
                bundle_length = end.ok_or_else(|| ContentsError::Size {
                    path: item.path.clone(),
                    expected: "less than a file can have".to_owned(),
                    found: length,
                })?;
            }
            ways.insert(*index, way);
        }
        Ok((ways, bundle_length))
    }

    /// Verifies what is read in place, unless that is remembered for the file as it is now.
    fn verify_in_place(&self, ways: &BTreeMap<usize, Way>, meter: &Meter<'_>) -> Result<(), ContentsError> {
        let in_place = |(index, way): (&usize, &Way)| matches!(way, Way::InPlace { .. }).then_some(*index);
        self.verify_stored(ways.iter().filter_map(in_place).collect(), Scope::StoredModelFiles, meter)
    }

    /// Verifies files that the archive has stored, which are all that `scope` means, unless that is remembered for the archive
    /// as it is now.
    pub(super) fn verify_stored(
        &self,
        indices: Vec<usize>,
        scope: Scope,
        meter: &Meter<'_>,
    ) -> Result<(), ContentsError> {
        let order = self.largest_first(indices);
        let identity = self.unchanged_identity()?;
        if let (Some(cache), Some(hash), Some(identity)) = (&self.cache, self.manifest_hash(), identity)
            && cache.is_carton_verified(&identity, &hash, scope)
        {
            return meter.advance(order.iter().filter_map(|index| self.size(*index)).sum());
        }
        par_for_each(order.len(), |at| {
            let mut hasher = Hasher::new();
            self.feed(order[at], &mut |chunk| {
                hasher.update(chunk);
                meter.advance(chunk.len() as u64)
            })?;
            self.compare(order[at], hasher)
        })?;
        self.remember_archive(scope)
    }

    /// Copies small files to one temporary file, verified.
    fn bundle(&self, ways: &BTreeMap<usize, Way>, length: u64, meter: &Meter<'_>) -> Result<Arc<File>, ContentsError> {
        let folder = TemporaryFolder::create(self.cache.as_deref())?;
        let path = folder.path().join("small-files");
        let output = super::unpack::create_file(&path)?;
        output.set_len(length).map_err(ContentsError::io("resize", &path))?;
        let jobs: Vec<(usize, u64, u64)> = ways
            .iter()
            .filter_map(|(index, way)| match way {
                Way::Bundled { offset, length } => Some((*index, *offset, *length)),
                _ => None,
            })
            .collect();
        par_for_each(jobs.len(), |at| {
            let (index, mut offset, length) = jobs[at];
            let end = offset.saturating_add(length);
            let mut hasher = Hasher::new();
            self.feed(index, &mut |chunk| {
                if offset.saturating_add(chunk.len() as u64) > end {
                    return Err(ContentsError::Changed { location: self.items[index].path.clone() });
                }
                hasher.update(chunk);
                output.write_all_at(chunk, offset).map_err(ContentsError::io("write", &path))?;
                offset += chunk.len() as u64;
                meter.advance(chunk.len() as u64)
            })?;
            if offset != end {
                return Err(ContentsError::Changed { location: self.items[index].path.clone() });
            }
            self.compare(index, hasher)
        })?;
        // Opened anew, without the right to write; the folder goes, and the open file keeps the bytes.
        Ok(Arc::new(File::open(&path).map_err(ContentsError::io("open", &path))?))
    }

    fn open_ranges(
        &self,
        indices: &[usize],
        ways: &BTreeMap<usize, Way>,
        bundle: Option<Arc<File>>,
        meter: &Meter<'_>,
    ) -> Result<Vec<ModelRange>, ContentsError> {
        let carton = match &self.origin {
            Origin::Archive { archive, .. } => match archive.source().file() {
                Some(file) => {
                    let location = PathBuf::from(archive.source().location());
                    Some(Arc::new(file.try_clone().map_err(ContentsError::io("open", &location))?))
                }
                None => None,
            },
            _ => None,
        };
        let opened = Mutex::new(BTreeMap::new());
        let jobs: Vec<usize> = ways.keys().copied().collect();
        let missing = |index: usize| ContentsError::NoSuchFile { path: self.items[index].path.clone() };
        par_for_each(jobs.len(), |at| {
            let index = jobs[at];
            let found = match &ways[&index] {
                Way::InPlace { offset, length } => {
                    (Arc::clone(carton.as_ref().ok_or_else(|| missing(index))?), *offset, *length)
                }
                Way::Bundled { offset, length } => match &bundle {
                    Some(bundle) => (Arc::clone(bundle), *offset, *length),
                    // All of them are empty, and any file has their bytes.
                    None => (Arc::new(empty_file()?), 0, 0),
                },
                Way::OwnFile => {
                    let (file, _, identity) = open_item(&self.origin, &self.items[index])?;
                    (Arc::new(file), 0, identity.size)
                }
                Way::Cached => {
                    let file = self.cached(index, meter)?;
                    let metadata = file
                        .metadata()
                        .map_err(ContentsError::io("inspect", &PathBuf::from(&self.items[index].path)))?;
                    (Arc::new(file), 0, metadata.len())
                }
            };
            opened.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(index, found);
            Ok::<(), ContentsError>(())
        })?;
        let opened = opened.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        indices
            .iter()
            .map(|index| {
                let (file, offset, length) = opened.get(&self.follow(*index)).ok_or_else(|| missing(*index))?;
                let path = model_path(&self.items[*index].path).unwrap_or_default().to_owned();
                Ok(ModelRange { path, file: Arc::clone(file), offset: *offset, length: *length })
            })
            .collect()
    }

    /// A file of the cache. If it is not there, it is copied there now.
    pub(super) fn cached(&self, index: usize, meter: &Meter<'_>) -> Result<File, ContentsError> {
        let item = &self.items[index];
        let (Some(cache), Some(digest)) = (&self.cache, item.digest) else {
            return Err(ContentsError::NoSuchFile { path: item.path.clone() });
        };
        let mut was_read = false;
        let file = cache.obtain_file(
            &digest,
            &item.path,
            &mut |sink| {
                was_read = !self.is_elsewhere(index);
                self.feed_locked(index, &mut |chunk| {
                    sink(chunk)?;
                    meter.advance(chunk.len() as u64)
                })
            },
            &|n_bytes| meter.advance(n_bytes),
        )?;
        self.note_proven(was_read.then_some(index));
        self.check_stated(&[index], &|_| Some(cache.file_path(&digest)), meter)?;
        Ok(file)
    }
}

/// Where an entry is stored as it is in a file that can be mapped.
pub(super) fn stored_range(
    archive: &Archive,
    entry: usize,
    path: &str,
) -> Result<Option<std::ops::Range<u64>>, ContentsError> {
    let entry: Option<&Entry> = archive.entries().get(entry);
    match (entry, archive.source().file()) {
        (Some(entry), Some(_)) => archive.stored_range(entry).map_err(ContentsError::archive(path)),
        _ => Ok(None),
    }
}

fn empty_file() -> Result<File, ContentsError> {
    let path = PathBuf::from("/dev/null");
    File::open(&path).map_err(ContentsError::io("open", &path))
}
