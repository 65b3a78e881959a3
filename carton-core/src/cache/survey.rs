//! Surveys the cache: which bytes are in it, what holds them, and how much room they take.
//!
//! The same bytes can have several names: a file of the cache is linked into the folders of the models that use it. They are counted
//! once, and become free when their last holder is deleted.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use carton_format::digest::Sha256Digest;
use carton_format::manifest::ManifestHash;
use carton_format::url::ShownUrl;

use super::files::digest_of_name;
use super::folder::last_change;
use super::layout::{CARTONS, DOWNLOADS, FILES, LEASES, MODELS, Made};
use super::lock::{self, Lock, Mode};
use super::registrations::read_uses;
use super::remote::{UrlKey, read_headers};
use super::{About, Cache, CacheError, CachedCarton};

/// Everything that can be deleted, and the bytes that each deletion would free.
pub(super) struct Survey {
    pub(super) holders: Vec<Holder>,
    pub(super) files: Vec<StoredFile>,
    /// By device and inode.
    pub(super) bytes: HashMap<(u64, u64), Bytes>,
}

/// Something that keeps bytes in the cache.
pub(super) struct Holder {
    pub(super) kind: HolderKind,
    pub(super) last_used: SystemTime,
    pub(super) in_use: bool,
}

pub(super) enum HolderKind {
    Carton(KnownCarton),
    /// A file that no carton uses.
    File,
    Download {
        path: PathBuf,
    },
}

/// What is known about a carton that uses the cache.
pub(super) struct KnownCarton {
    pub(super) manifest: ManifestHash,
    about: About,
    /// The URLs where it was found, the newest first: their digests, and the parts that may be shown.
    pub(super) addresses: Vec<(UrlKey, ShownUrl)>,
    /// Whether it has a model folder or a file in the cache. A carton that is loaded from its own file has only the record of its use
    /// here.
    has_files: bool,
}

/// A file of `files-v1`.
pub(super) struct StoredFile {
    pub(super) path: PathBuf,
    pub(super) holders: Vec<usize>,
}

/// The bytes of one inode.
pub(super) struct Bytes {
    pub(super) length: u64,
    pub(super) holders: Vec<usize>,
}

impl Cache {
    /// Surveys the whole cache. The lock proves that no process chooses what to delete meanwhile.
    pub(super) fn survey(&self, _no_prune: &Lock) -> Result<Survey, CacheError> {
        let mut survey = Survey { holders: Vec::new(), files: Vec::new(), bytes: HashMap::new() };
        let users = survey.add_cartons(self)?;
        survey.add_files(self, &users)?;
        survey.add_downloads(self, &users)?;
        survey.note_files();
        Ok(survey)
    }

    fn is_leased(&self, manifest: &ManifestHash) -> Result<bool, CacheError> {
        let path = self.layout.lease(manifest);
        if !path.exists() || lock::try_acquire(&path, Mode::Exclusive)?.is_some() {
            return Ok(false);
        }
        // Another process may have held the lock briefly for the same check.
        std::thread::sleep(Duration::from_millis(1));
        Ok(lock::try_acquire(&path, Mode::Exclusive)?.is_none())
    }
}

/// The cartons that use each file.
#[derive(Default)]
struct Users {
    by_digest: HashMap<Sha256Digest, Vec<usize>>,
    /// Loaded cartons whose files are unknown. They are assumed to use every file.
    of_everything: Vec<usize>,
}

impl Users {
    fn of(&self, digest: &Sha256Digest) -> Vec<usize> {
        let mut users = self.by_digest.get(digest).cloned().unwrap_or_default();
        users.extend(&self.of_everything);
        users.sort_unstable();
        users.dedup();
        users
    }
}

impl Survey {
    fn add_cartons(&mut self, cache: &Cache) -> Result<Users, CacheError> {
        let mut users = Users::default();
        let mut hashes: Vec<ManifestHash> = digests_in(&cache.layout.bucket(CARTONS))?;
        hashes.extend(digests_in::<ManifestHash>(&cache.layout.bucket(MODELS))?);
        hashes.extend(digests_in::<ManifestHash>(&cache.layout.bucket(LEASES))?);
        hashes.sort_unstable();
        hashes.dedup();
        for hash in hashes {
            cache.context.check()?;
            let (root, model) = (cache.layout.carton(&hash), cache.layout.model(&hash));
            let is_there = |path: &Path| std::fs::symlink_metadata(path).is_ok();
            let in_use = cache.is_leased(&hash)?;
            if !in_use && !is_there(&root) && !is_there(&model) {
                continue;
            }
            let holder = self.holders.len();
            let uses = read_uses(&root, &hash);
            let headers = read_headers(&root);
            match &uses.manifest {
                Some(manifest) => {
                    for (_, digest) in manifest.iter() {
                        users.by_digest.entry(digest).or_default().push(holder);
                    }
                }
                None if in_use => users.of_everything.push(holder),
                None => {}
            }
            for digest in uses.extra.iter().copied().chain(headers.iter().filter_map(|header| header.whole)) {
                users.by_digest.entry(digest).or_default().push(holder);
            }
            let modified = |path: &Path| std::fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok();
            let last_used = modified(&root).max(modified(&model)).unwrap_or(SystemTime::UNIX_EPOCH);
            let addresses = headers.into_iter().map(|header| (header.url_key, header.address)).collect();
            let (about, has_files) = (cache.carton(&hash).about().unwrap_or_default(), is_there(&model));
            let carton = KnownCarton { manifest: hash, about, addresses, has_files };
            self.holders.push(Holder { kind: HolderKind::Carton(carton), last_used, in_use });
            self.add_tree(&root, &[holder], Metadata::len)?;
            self.add_tree(&model, &[holder], Metadata::len)?;
        }
        Ok(users)
    }

    fn add_files(&mut self, cache: &Cache, users: &Users) -> Result<(), CacheError> {
        for shard in entries(&cache.layout.bucket(FILES))? {
            cache.context.check()?;
            if !shard.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            for entry in entries(&shard.path())? {
                let Some(digest) = digest_of_name(&entry.file_name(), "") else { continue };
                let Ok(metadata) = entry.metadata() else { continue };
                let mut holders = users.of(&digest);
                if holders.is_empty() {
                    holders.push(self.holders.len());
                    let changed = u64::try_from(metadata.ctime()).unwrap_or(0);
                    let last_used = SystemTime::UNIX_EPOCH + Duration::from_secs(changed);
                    self.holders.push(Holder { kind: HolderKind::File, last_used, in_use: false });
                }
                self.add(&metadata, &holders, metadata.len());
                self.files.push(StoredFile { path: entry.path(), holders });
            }
        }
        Ok(())
    }

    fn add_downloads(&mut self, cache: &Cache, users: &Users) -> Result<(), CacheError> {
        for entry in entries(&cache.layout.bucket(DOWNLOADS))? {
            let path = entry.path();
            let mut in_use = false;
            if let Some(digest) = digest_of_name(&entry.file_name(), "") {
                let is_wanted = users.of(&digest).iter().any(|user| self.holders[*user].in_use);
                let lock = cache.layout.lock(Made::File(&digest));
                in_use = is_wanted || (lock.exists() && lock::try_acquire(&lock, Mode::Exclusive)?.is_none());
            }
            let last_used = last_change(&path).unwrap_or(SystemTime::UNIX_EPOCH);
            let holder = self.holders.len();
            self.holders.push(Holder { kind: HolderKind::Download { path: path.clone() }, last_used, in_use });
            // The parts that have not been downloaded are holes, which take no room.
            self.add_tree(&path, &[holder], |metadata| metadata.len().min(metadata.blocks().saturating_mul(512)))?;
        }
        Ok(())
    }

    /// Adds all files below a path. A missing path is not an error.
    fn add_tree(&mut self, path: &Path, holders: &[usize], length: fn(&Metadata) -> u64) -> Result<(), CacheError> {
        let mut paths = vec![path.to_path_buf()];
        while let Some(path) = paths.pop() {
            // A file that is deleted during the survey is not counted.
            let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                paths.extend(entries(&path)?.iter().map(std::fs::DirEntry::path));
            } else {
                self.add(&metadata, holders, length(&metadata));
            }
        }
        Ok(())
    }

    fn add(&mut self, metadata: &Metadata, holders: &[usize], length: u64) {
        let inode = (metadata.dev(), metadata.ino());
        let bytes = self.bytes.entry(inode).or_insert_with(|| Bytes { length, holders: Vec::new() });
        for holder in holders {
            if !bytes.holders.contains(holder) {
                bytes.holders.push(*holder);
            }
        }
    }

    fn note_files(&mut self) {
        for holder in self.files.iter().flat_map(|file| &file.holders) {
            if let Some(Holder { kind: HolderKind::Carton(carton), .. }) = self.holders.get_mut(*holder) {
                carton.has_files = true;
            }
        }
    }

    /// Describes a holder if it is a carton that has data in the cache; `held` is the result of [`held`](Self::held).
    pub(super) fn carton(&self, index: usize, held: &[u64]) -> Option<CachedCarton> {
        let Holder { kind: HolderKind::Carton(carton), last_used, in_use } = &self.holders[index] else { return None };
        let address = carton.addresses.first().map(|(_, address)| address.clone());
        (*in_use || carton.has_files || address.is_some()).then(|| CachedCarton {
            manifest: carton.manifest,
            model_name: carton.about.model_name.clone(),
            path: carton.about.path.clone(),
            address,
            bytes: held[index],
            last_used: *last_used,
            in_use: *in_use,
        })
    }

    /// The total size, each inode counted once.
    pub(super) fn total(&self) -> u64 {
        self.bytes.values().map(|bytes| bytes.length).sum()
    }

    /// For each holder, the bytes that it holds, alone or with others.
    pub(super) fn held(&self) -> Vec<u64> {
        let mut held = vec![0_u64; self.holders.len()];
        for bytes in self.bytes.values() {
            for holder in &bytes.holders {
                held[*holder] += bytes.length;
            }
        }
        held
    }
}

/// The entries of a folder; none if it is missing or not a folder.
pub(super) fn entries(folder: &Path) -> Result<Vec<std::fs::DirEntry>, CacheError> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>().map_err(CacheError::io("list", folder)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(CacheError::io("list", folder)(error)),
    }
}

fn digests_in<D: FromStr>(folder: &Path) -> Result<Vec<D>, CacheError> {
    let digest = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        digest_of_name(&name, "").or_else(|| digest_of_name(&name, ".lock"))
    };
    Ok(entries(folder)?.iter().filter_map(digest).collect())
}
