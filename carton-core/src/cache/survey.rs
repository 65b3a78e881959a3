//! What is in the cache, who holds it, and how much room it takes.
//!
//! The same bytes can be at several places: a file of the cache is linked into the folders of the models that use it. They
//! are counted once, and are gone when the last that holds them is.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::downloads::last_change;
use super::files::digest_of_name;
use super::lock::{self, Lock, Mode};
use super::registry::read_uses;
use super::remote::read_headers;
use super::{About, CARTONS, Cache, CacheError, CachedCarton, DOWNLOADS, FILES, LEASES, MODELS, Made};
use crate::digest::Sha256Digest;

/// All that could be deleted, and what would go with it.
pub(super) struct Survey {
    pub(super) holders: Vec<Holder>,
    pub(super) files: Vec<StoredFile>,
    /// By device and inode.
    pub(super) bytes: HashMap<(u64, u64), Bytes>,
}

/// Something that keeps bytes in the cache.
pub(super) struct Holder {
    pub(super) what: What,
    pub(super) last_used: SystemTime,
    pub(super) in_use: bool,
}

pub(super) enum What {
    Carton(KnownCarton),
    /// A file that no carton uses.
    File,
    Download {
        path: PathBuf,
    },
}

/// What is known of a carton that uses the cache.
pub(super) struct KnownCarton {
    pub(super) manifest: Sha256Digest,
    about: About,
    /// Where it was found, the newest first: the digests of URLs, and what may be shown of them.
    pub(super) addresses: Vec<(Sha256Digest, String)>,
    /// Whether it has a model folder or a file in the cache. One that is loaded from its own file has nothing here but the record that
    /// it is used.
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
    /// Looks at everything. Whoever calls holds the lock that keeps others from choosing what to delete.
    pub(super) fn survey(&self, _no_prune: &Lock) -> Result<Survey, CacheError> {
        let mut survey = Survey { holders: Vec::new(), files: Vec::new(), bytes: HashMap::new() };
        let users = survey.add_cartons(self)?;
        survey.add_files(&self.bucket(FILES), &users)?;
        survey.add_downloads(self, &users)?;
        survey.note_files();
        Ok(survey)
    }

    fn is_leased(&self, manifest: &Sha256Digest) -> Result<bool, CacheError> {
        let path = self.lease_path(manifest);
        if !path.exists() || lock::try_acquire(&path, Mode::Exclusive)?.is_some() {
            return Ok(false);
        }
        // It may have been somebody else who just looked.
        std::thread::sleep(Duration::from_millis(1));
        Ok(lock::try_acquire(&path, Mode::Exclusive)?.is_none())
    }
}

/// Which cartons use a file.
#[derive(Default)]
struct Users {
    by_digest: HashMap<Sha256Digest, Vec<usize>>,
    /// Loaded cartons of which it is not known what they use: they are taken to use everything.
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
        let mut hashes = digests_in(&cache.bucket(CARTONS))?;
        hashes.extend(digests_in(&cache.bucket(MODELS))?);
        hashes.extend(digests_in(&cache.bucket(LEASES))?);
        hashes.sort_unstable();
        hashes.dedup();
        for hash in hashes {
            let (root, model) = (cache.carton_root(&hash), cache.model_root(&hash));
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
            let (about, has_files) = (cache.about(&hash).unwrap_or_default(), is_there(&model));
            let carton = KnownCarton { manifest: hash, about, addresses, has_files };
            self.holders.push(Holder { what: What::Carton(carton), last_used, in_use });
            self.add_tree(&root, &[holder], Metadata::len)?;
            self.add_tree(&model, &[holder], Metadata::len)?;
        }
        Ok(users)
    }

    fn add_files(&mut self, bucket: &Path, users: &Users) -> Result<(), CacheError> {
        for shard in entries(bucket)? {
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
                    self.holders.push(Holder { what: What::File, last_used, in_use: false });
                }
                self.add(&metadata, &holders, metadata.len());
                self.files.push(StoredFile { path: entry.path(), holders });
            }
        }
        Ok(())
    }

    fn add_downloads(&mut self, cache: &Cache, users: &Users) -> Result<(), CacheError> {
        for entry in entries(&cache.bucket(DOWNLOADS))? {
            let path = entry.path();
            let mut in_use = false;
            if let Some(digest) = digest_of_name(&entry.file_name(), "") {
                let is_wanted = users.of(&digest).iter().any(|user| self.holders[*user].in_use);
                let lock = cache.lock_path(Made::File, &digest);
                in_use = is_wanted || (lock.exists() && lock::try_acquire(&lock, Mode::Exclusive)?.is_none());
            }
            let last_used = last_change(&path).unwrap_or(SystemTime::UNIX_EPOCH);
            let holder = self.holders.len();
            self.holders.push(Holder { what: What::Download { path: path.clone() }, last_used, in_use });
            // What has not come yet is a hole.
            self.add_tree(&path, &[holder], |metadata| metadata.len().min(metadata.blocks().saturating_mul(512)))?;
        }
        Ok(())
    }

    /// Adds all files below a path; nothing there is fine.
    fn add_tree(&mut self, path: &Path, holders: &[usize], length: fn(&Metadata) -> u64) -> Result<(), CacheError> {
        let mut paths = vec![path.to_path_buf()];
        while let Some(path) = paths.pop() {
            // What goes while we look is not counted.
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
            if let Some(Holder { what: What::Carton(carton), .. }) = self.holders.get_mut(*holder) {
                carton.has_files = true;
            }
        }
    }

    /// What is told of a holder if it is a carton that has something in the cache; `held` is what [`held`](Self::held) says.
    pub(super) fn carton(&self, index: usize, held: &[u64]) -> Option<CachedCarton> {
        let Holder { what: What::Carton(carton), last_used, in_use } = &self.holders[index] else { return None };
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

    /// All bytes, each counted once.
    pub(super) fn total(&self) -> u64 {
        self.bytes.values().map(|bytes| bytes.length).sum()
    }

    /// For each holder the bytes that it holds, alone or with others.
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

/// A folder's entries; none if it is gone, or is no folder.
pub(super) fn entries(folder: &Path) -> Result<Vec<std::fs::DirEntry>, CacheError> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>().map_err(CacheError::io("list", folder)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(CacheError::io("list", folder)(error)),
    }
}

fn digests_in(folder: &Path) -> Result<Vec<Sha256Digest>, CacheError> {
    let digest = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        digest_of_name(&name, "").or_else(|| digest_of_name(&name, ".lock"))
    };
    Ok(entries(folder)?.iter().filter_map(digest).collect())
}
