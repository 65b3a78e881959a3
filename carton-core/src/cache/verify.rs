//! Hashes everything again, whatever the records say: a bad disk changes bytes without changing the times of their file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use carton_format::context::{Cancelled, Meter};
use carton_format::digest::{Hasher, Sha256Digest};
use carton_format::progress::Stage;
use carton_format::source::FileIdentity;
use carton_tensor::parallel::par_for_each;
use parking_lot::Mutex;

use super::checksums::{CHECKSUMS_NAME, read_checksums};
use super::files::{CHUNK_LENGTH, delete_if_same, digest_of_name, open_regular};
use super::index::LARGEST_INDEX;
use super::layout::{CARTONS, FILES, MODELS};
use super::models::{FOLDER_NAME, INDEX_NAME};
use super::partial::remove_tree;
use super::record::read_own_file;
use super::registrations::{MANIFEST_NAME, read_uses};
use super::remote::{read_remote, remotes};
use super::strays::{folders_of, strays};
use super::survey::entries;
use super::{Cache, CacheError, FolderIndex};
use crate::error::Error;

/// The result of hashing the whole cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheReport {
    /// The number of files that were hashed. A file with several hard links counts once.
    pub n_files: usize,
    /// The number of bytes in them.
    pub n_bytes: u64,
    /// The damaged files, sorted by path. [`Cache::verify`] has deleted them; they are made or fetched again when they are next needed.
    pub damaged: Vec<DamagedFile>,
}

/// A damaged file of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedFile {
    /// Where it was.
    pub path: PathBuf,
    /// A description of the damage.
    pub problem: String,
}

/// A file that is hashed once, and all its paths with the digest that each of them demands.
struct Job {
    length: u64,
    places: Vec<(PathBuf, Sha256Digest)>,
}

/// What happens to damaged files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Damaged {
    Deleted,
    Kept,
}

struct Findings {
    then: Damaged,
    jobs: HashMap<(u64, u64), Job>,
    damaged: Vec<DamagedFile>,
}

impl Cache {
    /// Hashes every file of the store and of the model folders again, and checks the records about cartons. Damaged files are deleted,
    /// even while a model that uses them is loaded: they were of no use, and are made again.
    ///
    /// # Errors
    /// Something cannot be listed or deleted, or the work was cancelled.
    pub fn verify(&self) -> Result<CacheReport, Error> {
        let findings = self.findings(Damaged::Deleted)?;
        Ok(self.hash_all(findings)?)
    }

    /// As [`verify`](Self::verify), but deletes nothing. Without `hash` only the records are checked, not the bytes of the files, which
    /// takes no time; the report then counts the files, and has no bytes.
    ///
    /// # Errors
    /// Something cannot be listed, or the work was cancelled.
    pub fn examine(&self, hash: bool) -> Result<CacheReport, Error> {
        let mut findings = self.findings(Damaged::Kept)?;
        if hash {
            return Ok(self.hash_all(findings)?);
        }
        findings.damaged.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(CacheReport { n_files: findings.jobs.len(), n_bytes: 0, damaged: findings.damaged })
    }

    fn findings(&self, then: Damaged) -> Result<Findings, CacheError> {
        let mut findings = Findings { then, jobs: HashMap::new(), damaged: Vec::new() };
        self.find_files(&mut findings)?;
        self.find_model_files(&mut findings)?;
        self.check_cartons(&mut findings)?;
        Ok(findings)
    }

    fn hash_all(&self, findings: Findings) -> Result<CacheReport, CacheError> {
        let then = findings.then;
        let mut jobs: Vec<Job> = findings.jobs.into_values().collect();
        jobs.sort_by_key(|job| std::cmp::Reverse(job.length));
        let total = jobs.iter().map(|job| job.length).sum();
        let meter = self.context.meter(Stage::Verify, total);
        let damaged = Mutex::new(findings.damaged);
        par_for_each(jobs.len(), |at| {
            damaged.lock().extend(check(&jobs[at], then, &meter)?);
            Ok::<(), CacheError>(())
        })?;
        let mut damaged = damaged.into_inner();
        damaged.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(CacheReport { n_files: jobs.len(), n_bytes: total, damaged })
    }

    fn find_files(&self, findings: &mut Findings) -> Result<(), CacheError> {
        for shard in entries(&self.layout.bucket(FILES))? {
            for entry in entries(&shard.path())? {
                if let Some(digest) = digest_of_name(&entry.file_name(), "") {
                    findings.add(entry.path(), digest, None)?;
                }
            }
        }
        Ok(())
    }

    fn find_model_files(&self, findings: &mut Findings) -> Result<(), CacheError> {
        for entry in entries(&self.layout.bucket(MODELS))? {
            let root = entry.path();
            let Some(hash) = digest_of_name(&entry.file_name(), "") else { continue };
            let path = root.join(INDEX_NAME);
            let index = read_own_file(&path, LARGEST_INDEX).and_then(|bytes| FolderIndex::parse(&bytes));
            match index.filter(|index| index.manifest == hash) {
                Some(index) => {
                    // The index lists only files that were hashed. MANIFEST lists all.
                    if let Some(manifest) = read_uses(&self.layout.carton(&hash), &hash).manifest {
                        let files = manifest.iter().filter_map(|(path, _)| path.strip_prefix("model/")).collect();
                        for path in strays(&root.join(FOLDER_NAME), &folders_of(&files), &files)? {
                            findings.is_damaged(path, "the model has no such file")?;
                        }
                    }
                    for line in &index.lines {
                        if let Some(digest) = line.digest {
                            findings.add(root.join(FOLDER_NAME).join(&line.path), digest, Some(line.identity))?;
                        }
                    }
                }
                // A folder without an index is hashed completely at its next use.
                None if std::fs::symlink_metadata(&path).is_ok() => {
                    findings.is_damaged(path, "it is not an index of this folder")?;
                }
                None => {}
            }
        }
        Ok(())
    }

    fn check_cartons(&self, findings: &mut Findings) -> Result<(), CacheError> {
        for entry in entries(&self.layout.bucket(CARTONS))? {
            let root = entry.path();
            let Some(hash) = digest_of_name(&entry.file_name(), "") else { continue };
            let path = root.join(MANIFEST_NAME);
            if std::fs::symlink_metadata(&path).is_ok() && read_uses(&root, &hash).manifest.is_none() {
                findings.is_damaged(path, "it is not the MANIFEST of this carton")?;
            }
            let path = root.join(CHECKSUMS_NAME);
            if std::fs::symlink_metadata(&path).is_ok() && read_checksums(&path).is_none() {
                findings.is_damaged(path, "it is not a record of checksums")?;
            }
            for path in remotes(&root) {
                if read_remote(&path).is_none() {
                    findings.is_damaged(path, "it is not a record of a remote carton")?;
                }
            }
        }
        Ok(())
    }
}

impl Findings {
    /// Adds a file that should have this digest. A file that was deleted meanwhile is skipped.
    fn add(&mut self, path: PathBuf, digest: Sha256Digest, recorded: Option<FileIdentity>) -> Result<(), CacheError> {
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { return Ok(()) };
        if metadata.is_file() {
            let job = self.jobs.entry((metadata.dev(), metadata.ino()));
            job.or_insert_with(|| Job { length: metadata.len(), places: Vec::new() }).places.push((path, digest));
            return Ok(());
        }
        // The symbolic links of a model folder have no bytes of their own.
        if metadata.is_symlink() && recorded == Some(FileIdentity::of(&metadata)) {
            return Ok(());
        }
        self.is_damaged(path, "it is not a regular file")
    }

    fn is_damaged(&mut self, path: PathBuf, problem: &str) -> Result<(), CacheError> {
        if self.then == Damaged::Deleted {
            remove_tree(&path).map_err(CacheError::io("delete", &path))?;
        }
        self.damaged.push(DamagedFile { path, problem: problem.to_owned() });
        Ok(())
    }
}

/// Hashes a file, and deletes it from the places where it should have other bytes.
fn check(job: &Job, then: Damaged, meter: &Meter<'_>) -> Result<Vec<DamagedFile>, CacheError> {
    let mut damaged = Vec::new();
    let Some((first, _)) = job.places.first() else { return Ok(damaged) };
    let Some((file, identity)) = open_regular(first)? else { return Ok(damaged) };
    let found = hash(file, meter)?;
    for (path, expected) in &job.places {
        let problem = match &found {
            Ok(found) if found == expected => continue,
            Ok(found) => format!("expected {expected}, found {found}"),
            // A sector that cannot be read will not recover, so the file is deleted.
            Err(error) => format!("it cannot be read: {error}"),
        };
        if then == Damaged::Deleted {
            delete_if_same(path, &identity)?;
        }
        damaged.push(DamagedFile { path: path.clone(), problem });
    }
    Ok(damaged)
}

fn hash(mut file: File, meter: &Meter<'_>) -> Result<io::Result<Sha256Digest>, Cancelled> {
    let mut chunk = vec![0; CHUNK_LENGTH];
    let mut hasher = Hasher::new();
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(Ok(hasher.finish())),
            Ok(n_bytes) => {
                hasher.update(&chunk[..n_bytes]);
                meter.advance(n_bytes as u64)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Err(error)),
        }
    }
}
