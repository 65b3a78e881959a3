//! Deletes what is no longer needed.
//!
//! While no lease can be taken, `prune` decides what to delete and moves it to the trash. The slow deletion follows afterwards. A process
//! that is killed in between leaves files that no carton uses, which the next call deletes, and its trash, which is swept when the cache
//! is next opened.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::layout::{LEASES, LOCKS, URLS, VERIFIED};
use super::listing::CachedDownload;
use super::lock::{self, Lock, Mode};
use super::partial::{Partial, delete_by};
use super::survey::{Holder, HolderKind, Survey, entries};
use super::{Cache, CacheError, CachedCarton};
use crate::error::Error;

/// What to delete. Without limits, everything that no loaded model uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneOptions {
    /// Deletes only what was not used for this long.
    pub older_than: Option<Duration>,
    /// Deletes the least recently used data until the rest takes at most this many bytes.
    pub max_size: Option<u64>,
    /// Only reports what would be deleted.
    pub dry_run: bool,
}

/// What was deleted, or would be deleted in a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The deleted cartons. Files that others use stay, although they count in a carton's bytes.
    pub cartons: Vec<CachedCarton>,
    /// The deleted downloads, which were interrupted.
    pub downloads: Vec<CachedDownload>,
    /// The number of deleted files of the store.
    pub n_files: usize,
    /// The number of bytes that were freed.
    pub freed: u64,
    /// The number of bytes that remain.
    pub remaining: u64,
    /// The number of cartons that stayed only because they are loaded.
    pub n_in_use: usize,
}

impl Cache {
    /// Deletes what is no longer needed. Cartons that any process has loaded stay, with their files, and so do downloads in progress.
    /// With both limits, everything that either of them selects is deleted.
    ///
    /// # Errors
    /// Something cannot be read or deleted, or the work was cancelled. The cache remains consistent.
    pub fn prune(&self, options: &PruneOptions) -> Result<Pruned, Error> {
        // Dropped last, so that the trash is deleted after the lock is released.
        let trash = self.partial().ok();
        let mode = if options.dry_run { Mode::Shared } else { Mode::Exclusive };
        let lock = self.prune_lock(mode)?;
        let survey = self.survey(&lock)?;
        let now = SystemTime::now();
        let goes = choose(&survey, options, now);
        let mut pruned = survey.report(&goes);
        let would_go = |last_used| options.older_than.is_none_or(|_| is_older(last_used, options, now));
        let holders = survey.holders.iter().zip(&goes).filter(|(_, goes)| !**goes);
        let is_kept = |holder: &Holder| matches!(holder.kind, HolderKind::Carton(_)) && holder.in_use;
        pruned.n_in_use = holders.filter(|(holder, _)| is_kept(holder) && would_go(holder.last_used)).count();
        if !options.dry_run {
            let everything = options.older_than.is_none() && options.max_size.is_none();
            self.carry_out(&survey, &goes, lock, trash, &|modified| everything || is_older(modified, options, now))?;
        }
        Ok(pruned)
    }

    /// Deletes what was chosen under the lock, together with the records about it. `forgets` decides by modification time which records
    /// about cartons elsewhere are deleted.
    pub(super) fn carry_out(
        &self,
        survey: &Survey,
        goes: &[bool],
        lock: Lock,
        trash: Option<Partial>,
        forgets: &dyn Fn(SystemTime) -> bool,
    ) -> Result<(), CacheError> {
        self.delete(survey, goes, trash.as_ref())?;
        self.forget_verified(survey, goes, forgets)?;
        self.forget_urls()?;
        delete_locks(&self.layout.bucket(LEASES))?;
        drop(lock);
        delete_locks(&self.layout.bucket(LOCKS))?;
        drop(trash);
        Ok(())
    }

    /// Deletes the cartons first: a file that is then left behind has no holder, and the next call deletes it.
    fn delete(&self, survey: &Survey, goes: &[bool], trash: Option<&Partial>) -> Result<(), CacheError> {
        for (holder, _) in survey.holders.iter().zip(goes).filter(|(_, goes)| **goes) {
            self.context.check()?;
            match &holder.kind {
                HolderKind::Carton(carton) => {
                    delete_by(trash, &self.layout.carton(&carton.manifest))?;
                    delete_by(trash, &self.layout.model(&carton.manifest))?;
                }
                HolderKind::Download { path } => self.delete_download(path, trash)?,
                HolderKind::File => {}
            }
        }
        for file in survey.files.iter().filter(|file| file.holders.iter().all(|holder| goes[*holder])) {
            self.context.check()?;
            delete_by(trash, &file.path)?;
        }
        Ok(())
    }

    /// Deletes records about files that are deleted, and those that `forgets` selects.
    fn forget_verified(
        &self,
        survey: &Survey,
        goes: &[bool],
        forgets: &dyn Fn(SystemTime) -> bool,
    ) -> Result<(), CacheError> {
        let freed = |inode| survey.bytes.get(&inode).map(|bytes| bytes.holders.iter().all(|holder| goes[*holder]));
        for entry in entries(&self.layout.bucket(VERIFIED))? {
            // A record whose time cannot be read stays.
            let is_outdated = || entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(forgets);
            let goes = match entry.file_name().to_str().and_then(inode_of_record).and_then(freed) {
                Some(is_freed) => is_freed,
                // A record about a carton elsewhere.
                None => is_outdated(),
            };
            if goes {
                delete_by(None, &entry.path())?;
            }
        }
        Ok(())
    }

    /// Deletes records of URLs whose carton is no longer in the cache.
    fn forget_urls(&self) -> Result<(), CacheError> {
        for entry in entries(&self.layout.bucket(URLS))? {
            if !self.remotes().leads_to_carton(&entry.path()) {
                delete_by(None, &entry.path())?;
            }
        }
        Ok(())
    }
}

/// Decides which holders to delete. Pure.
fn choose(survey: &Survey, options: &PruneOptions, now: SystemTime) -> Vec<bool> {
    let has_limits = options.older_than.is_some() || options.max_size.is_some();
    let mut goes: Vec<bool> = survey
        .holders
        .iter()
        .map(|holder| !holder.in_use && (!has_limits || is_older(holder.last_used, options, now)))
        .collect();
    let Some(max_size) = options.max_size else { return goes };
    // The number of remaining holders of each piece of data, and the pieces of each holder.
    let mut left: HashMap<(u64, u64), usize> = HashMap::new();
    let mut pieces: Vec<Vec<(u64, u64)>> = vec![Vec::new(); survey.holders.len()];
    let mut total = 0_u64;
    for (inode, bytes) in &survey.bytes {
        let n_left = bytes.holders.iter().filter(|holder| !goes[**holder]).count();
        if n_left > 0 {
            total += bytes.length;
        }
        left.insert(*inode, n_left);
        bytes.holders.iter().for_each(|holder| pieces[*holder].push(*inode));
    }
    let mut order: Vec<usize> =
        (0..goes.len()).filter(|index| !goes[*index] && !survey.holders[*index].in_use).collect();
    order.sort_by_key(|index| survey.holders[*index].last_used);
    for index in order {
        if total <= max_size {
            break;
        }
        goes[index] = true;
        for inode in &pieces[index] {
            if let (Some(n_left), Some(bytes)) = (left.get_mut(inode), survey.bytes.get(inode)) {
                *n_left -= 1;
                if *n_left == 0 {
                    total -= bytes.length;
                }
            }
        }
    }
    goes
}

fn is_older(time: SystemTime, options: &PruneOptions, now: SystemTime) -> bool {
    // If the limit lies before the earliest representable time, nothing is older.
    let limit = |age| now.checked_sub(age);
    options.older_than.is_some_and(|age| limit(age).is_some_and(|limit| time < limit))
}

impl Survey {
    /// Reports the holders that go. Leaves out a carton of which the cache has only the record of its use, as [`Cache::list`] does. Sets
    /// `n_in_use` to 0, because only the caller knows which cartons the options selected.
    pub(super) fn report(&self, goes: &[bool]) -> Pruned {
        let held = self.held();
        let (mut cartons, mut downloads) = (BTreeMap::new(), BTreeMap::new());
        for (index, holder) in self.holders.iter().enumerate().filter(|(index, _)| goes[*index]) {
            if let Some(carton) = self.carton(index, &held) {
                cartons.insert((carton.last_used, carton.manifest), carton);
            } else if let HolderKind::Download { path } = &holder.kind {
                let (path, last_change, in_use) = (path.clone(), holder.last_used, holder.in_use);
                downloads.insert(path.clone(), CachedDownload { path, bytes: held[index], last_change, in_use });
            }
        }
        let is_freed = |holders: &[usize]| holders.iter().all(|holder| goes[*holder]);
        let freed = self.bytes.values().filter(|bytes| is_freed(&bytes.holders)).map(|bytes| bytes.length).sum();
        Pruned {
            cartons: cartons.into_values().collect(),
            downloads: downloads.into_values().collect(),
            n_files: self.files.iter().filter(|file| is_freed(&file.holders)).count(),
            freed,
            remaining: self.total() - freed,
            n_in_use: 0,
        }
    }
}

/// The device and inode in the name of a record.
fn inode_of_record(name: &str) -> Option<(u64, u64)> {
    let (device, inode) = name.strip_suffix(".json")?.split_once('-')?;
    Some((u64::from_str_radix(device, 16).ok()?, u64::from_str_radix(inode, 16).ok()?))
}

/// Deletes the lock files that are not held: an exclusive lock deletes its file when it is dropped.
fn delete_locks(folder: &Path) -> Result<(), CacheError> {
    for entry in entries(folder)? {
        if entry.path().extension().is_some_and(|extension| extension == "lock") {
            drop(lock::try_acquire(&entry.path(), Mode::Exclusive)?);
        }
    }
    Ok(())
}
