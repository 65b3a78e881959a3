//! The model's files as ranges of open files, for runners that map them in place.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_format::context::{Context, Meter};
use carton_format::digest::{Hasher, Sha256Digest};
use carton_format::progress::Stage;
use carton_format::source::FileIdentity;
use carton_tensor::parallel::par_for_each;
use parking_lot::Mutex;

use super::locate::{Located, Locator};
use super::origin::Origin;
use super::raw_reader::{open_bare, open_in_folder};
use super::tree::Item;
use super::unpack::TemporaryFolder;
use super::{Contents, ContentsError};
use crate::cache::{Cache, Lease, SHARED_FROM, Scope};

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
enum Way<'a> {
    /// They are stored in the carton as they are.
    InPlace { carton: Arc<File>, range: Range<u64> },
    /// In a file of the unpacked carton at `root`.
    InFolder { root: &'a Path },
    /// In a file of a bare model.
    Bare { path: &'a Path },
    /// From the cache, into which they are fetched or copied first.
    Cached { cache: &'a Cache, digest: Sha256Digest },
    /// They are copied to the file that small ones share, at this range. Descriptors are few; a model can have a hundred thousand
    /// small files.
    Bundled(Range<u64>),
}

/// Open files and the ranges of them that have the bytes of items, by their paths.
type Opened<'a> = BTreeMap<&'a str, (Arc<File>, Range<u64>)>;

impl Contents {
    /// The model's files as ranges of open files. Files that are stored without compression are verified in place, once while the
    /// carton stays the same. Others are copied to the cache, small ones to a temporary file. Files that are elsewhere are fetched into
    /// the cache first.
    ///
    /// # Errors
    /// As for [`Contents::model_directory`].
    pub(crate) fn model_ranges(&self, context: &Context) -> Result<ModelRanges, ContentsError> {
        let items = self.tree().model_items();
        let meter = context.meter(Stage::Verify, self.locator.total(&items));
        let lease = self.fetcher.lease(&self.locator, context)?;
        self.fetch_items(&items, context)?;
        let ways = ways(&self.locator, &items)?;
        let in_place = ways.iter().filter(|(_, way)| matches!(way, Way::InPlace { .. })).map(|(item, _)| *item);
        self.verify_stored(in_place, Scope::StoredModelFiles, &meter)?;
        if let Origin::Folder(root) = self.locator.origin() {
            self.verify_in_folder(root, &items, &meter)?;
        }
        let mut opened = self.bundle(&ways, &meter)?;
        opened.extend(self.open_ranges(ways, &meter)?);
        let files = items.iter().map(|item| {
            let missing = || ContentsError::NoSuchFile { path: item.path.clone() };
            let (file, range) = opened.get(self.tree().follow(item).path.as_str()).ok_or_else(missing)?;
            let path = item.path_in_model().unwrap_or_default().to_owned();
            Ok(ModelRange { path, file: Arc::clone(file), offset: range.start, length: range.end - range.start })
        });
        let files = files.collect::<Result<_, ContentsError>>()?;
        self.check_recorded(context)?;
        self.checksums.remember(&self.locator);
        Ok(ModelRanges { files, _lease: lease })
    }

    /// Copies small files to one temporary file, verified.
    fn bundle<'a>(&self, ways: &[(&'a Item, Way<'a>)], meter: &Meter<'_>) -> Result<Opened<'a>, ContentsError> {
        let bundled = |(item, way): &(&'a Item, Way<'a>)| match way {
            Way::Bundled(range) => Some((*item, range.clone())),
            Way::InPlace { .. } | Way::InFolder { .. } | Way::Bare { .. } | Way::Cached { .. } => None,
        };
        let jobs: Vec<(&Item, Range<u64>)> = ways.iter().filter_map(bundled).collect();
        let Some((_, last)) = jobs.last() else { return Ok(Opened::new()) };
        let folder = TemporaryFolder::create(self.locator.cache())?;
        let path = folder.path().join("small-files");
        let output = super::unpack::create_file(&path)?;
        output.set_len(last.end).map_err(ContentsError::io("resize", &path))?;
        par_for_each(jobs.len(), |at| {
            let (item, Range { start: mut offset, end }) = jobs[at].clone();
            let mut hasher = Hasher::new();
            self.feed(item, meter.context(), &mut |chunk| {
                if offset.saturating_add(chunk.len() as u64) > end {
                    return Err(ContentsError::Changed { location: item.path.clone() });
                }
                hasher.update(chunk);
                output.write_all_at(chunk, offset).map_err(ContentsError::io("write", &path))?;
                offset += chunk.len() as u64;
                Ok(meter.advance(chunk.len() as u64)?)
            })?;
            if offset != end {
                return Err(ContentsError::Changed { location: item.path.clone() });
            }
            item.compare(hasher)
        })?;
        // Reopens the file read-only; the bytes stay readable after the folder is deleted.
        let bundle = Arc::new(File::open(&path).map_err(ContentsError::io("open", &path))?);
        Ok(jobs.into_iter().map(|(item, range)| (item.path.as_str(), (Arc::clone(&bundle), range))).collect())
    }

    /// Opens the files that are not in a bundle.
    fn open_ranges<'a>(&self, ways: Vec<(&'a Item, Way<'a>)>, meter: &Meter<'_>) -> Result<Opened<'a>, ContentsError> {
        let opened = Mutex::new(Opened::new());
        par_for_each(ways.len(), |at| {
            let (item, way) = &ways[at];
            let (file, range) = match way {
                Way::InPlace { carton, range } => (Arc::clone(carton), range.clone()),
                Way::Bundled(_) => return Ok(()),
                Way::InFolder { root } => own_file(open_in_folder(root, item)?),
                Way::Bare { path } => own_file(open_bare(path)?),
                Way::Cached { cache, digest } => {
                    let file = self.cached(cache, item, *digest, meter)?;
                    let metadata = file.metadata().map_err(ContentsError::io("inspect", Path::new(&item.path)))?;
                    (Arc::new(file), 0..metadata.len())
                }
            };
            let mut opened = opened.lock();
            opened.insert(item.path.as_str(), (file, range));
            Ok::<(), ContentsError>(())
        })?;
        Ok(opened.into_inner())
    }

    /// The file of the cache for an item. If it is not there, it is copied there now.
    pub(super) fn cached(
        &self,
        cache: &Cache,
        item: &Item,
        digest: Sha256Digest,
        meter: &Meter<'_>,
    ) -> Result<File, ContentsError> {
        let mut was_read = false;
        let file = cache.files().obtain(
            &digest,
            &item.path,
            &mut |sink| {
                was_read = !self.locator.is_elsewhere(item);
                self.feed_locked(item, meter.context(), &mut |chunk| {
                    sink(chunk)?;
                    Ok(meter.advance(chunk.len() as u64)?)
                })
            },
            meter,
        )?;
        self.checksums.note_proven(&self.locator, was_read.then_some(item));
        self.check_stated(&[item], &|_| Some(cache.files().path(&digest)), meter.context())?;
        Ok(file)
    }
}

/// Decides for each item that has bytes where they will be read from.
fn ways<'a>(locator: &'a Locator, items: &[&'a Item]) -> Result<Vec<(&'a Item, Way<'a>)>, ContentsError> {
    let carton = locator.origin().archive_file()?;
    let mut bundle_length = 0_u64;
    let mut bundled = |item: &Item, size: u64| {
        let start = bundle_length;
        let end = start.checked_add(size);
        let too_large = || ContentsError::Size {
            path: item.path.clone(),
            expected: "less than a file can have".to_owned(),
            found: size,
        };
        bundle_length = end.and_then(|end| end.checked_next_multiple_of(ALIGNMENT)).ok_or_else(too_large)?;
        Ok::<_, ContentsError>(Way::Bundled(start..start + size))
    };
    let way = |item: &'a Item| {
        let file = match (locator.locate(item), locator.cache()) {
            (Located::Linked { digest }, Some(cache)) => return Ok((item, Way::Cached { cache, digest })),
            (Located::Linked { digest }, None) => {
                return Err(ContentsError::NotFetched { path: item.path.clone(), digest });
            }
            (Located::Folder { size, .. } | Located::Bare { size, .. }, _) if size < SHARED_FROM => {
                return Ok((item, bundled(item, size)?));
            }
            (Located::Folder { root, .. }, _) => return Ok((item, Way::InFolder { root })),
            (Located::Bare { path, .. }, _) => return Ok((item, Way::Bare { path })),
            (Located::Local(file) | Located::Remote { file, .. }, _) => file,
        };
        let way = match (file.stored_range()?, &carton, locator.cache()) {
            (Some(range), Some(carton), _) => Way::InPlace { carton: Arc::clone(carton), range },
            (_, _, Some(cache)) if file.entry.size() >= SHARED_FROM => Way::Cached { cache, digest: file.digest },
            _ => bundled(item, file.entry.size())?,
        };
        Ok((item, way))
    };
    items.iter().copied().filter(|item| !item.is_symlink()).map(way).collect()
}

/// All of a file.
fn own_file((file, _, identity): (File, PathBuf, FileIdentity)) -> (Arc<File>, Range<u64>) {
    (Arc::new(file), 0..identity.size)
}
