//! Deletes what is not needed any more.
//!
//! What goes is decided, and moved out of sight, while no lease can be taken; deleting it afterwards takes its time. A process
//! that is killed in between leaves files that no carton uses, which the next call deletes, and what it moved, which is swept
//! when the cache is next opened.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::listing::{CachedCarton, CachedDownload};
use super::lock::{self, Lock, Mode};
use super::partial::{Partial, delete_by};
use super::survey::{Holder, Survey, What, entries};
use super::{Cache, CacheError, LEASES, LOCKS, URLS, VERIFIED};

/// What to delete. Without limits that is everything no loaded model uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneOptions {
    /// Only what was not used for so long.
    pub older_than: Option<Duration>,
    /// What was not used for the longest time, until the rest takes no more than so many bytes.
    pub max_size: Option<u64>,
    /// Only say what would be deleted.
    pub dry_run: bool,
}

/// What was deleted, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The cartons; files that others use stay, although they count in a carton's bytes.
    pub cartons: Vec<CachedCarton>,
    /// Interrupted downloads.
    pub downloads: Vec<CachedDownload>,
    /// How many files of the store.
    pub n_files: usize,
    /// Bytes that are free now.
    pub freed: u64,
    /// Bytes that are left.
    pub remaining: u64,
    /// How many cartons stayed only because they are loaded.
    pub n_in_use: usize,
}

impl Cache {
    /// Deletes what is not needed any more. Cartons that any process has loaded stay, with their files, and so do downloads
    /// that are going on. With both limits, what either of them rules out goes.
    ///
    /// # Errors
    /// Something cannot be read or deleted. The cache is consistent all the same.
    pub fn prune(&self, options: &PruneOptions) -> Result<Pruned, CacheError> {
        // Dropped last: what was moved there is deleted when the lock is free again.
        let trash = self.partial().ok();
        let mode = if options.dry_run { Mode::Shared } else { Mode::Exclusive };
        let lock = lock::acquire::<CacheError>(&self.prune_lock_path(), mode, self.longest_wait, &|| None, &|| Ok(()))?;
        let survey = self.survey(&lock)?;
        let now = SystemTime::now();
        let goes = choose(&survey, options, now);
        let mut pruned = survey.report(&goes);
        let would_go = |last_used| options.older_than.is_none_or(|_| is_older(last_used, options, now));
        let holders = survey.holders.iter().zip(&goes).filter(|(_, goes)| !**goes);
        let is_kept = |holder: &Holder| matches!(holder.what, What::Carton(_)) && holder.in_use;
        pruned.n_in_use = holders.filter(|(holder, _)| is_kept(holder) && would_go(holder.last_used)).count();
        if !options.dry_run {
            let everything = options.older_than.is_none() && options.max_size.is_none();
            self.carry_out(&survey, &goes, lock, trash, &|modified| everything || is_older(modified, options, now))?;
        }
        Ok(pruned)
    }

    /// Deletes what was chosen under the lock, and what is recorded of it. `forgets` says which records about cartons elsewhere go, by
    /// when they were made.
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
        delete_locks(&self.bucket(LEASES))?;
        drop(lock);
        delete_locks(&self.bucket(LOCKS))?;
        drop(trash);
        Ok(())
    }

    /// The cartons first: a file that is left behind then belongs to nobody, which the next call sees.
    fn delete(&self, survey: &Survey, goes: &[bool], trash: Option<&Partial>) -> Result<(), CacheError> {
        for (holder, _) in survey.holders.iter().zip(goes).filter(|(_, goes)| **goes) {
            match &holder.what {
                What::Carton(carton) => {
                    delete_by(trash, &self.carton_root(&carton.manifest))?;
                    delete_by(trash, &self.model_root(&carton.manifest))?;
                }
                What::Download { path } => self.delete_download(path, trash)?,
                What::File => {}
            }
        }
        for file in survey.files.iter().filter(|file| file.holders.iter().all(|holder| goes[*holder])) {
            delete_by(trash, &file.path)?;
        }
        Ok(())
    }

    /// Deletes records about files that are gone, and those that are to be forgotten.
    fn forget_verified(
        &self,
        survey: &Survey,
        goes: &[bool],
        forgets: &dyn Fn(SystemTime) -> bool,
    ) -> Result<(), CacheError> {
        let freed = |inode| survey.bytes.get(&inode).map(|bytes| bytes.holders.iter().all(|holder| goes[*holder]));
        for entry in entries(&self.bucket(VERIFIED))? {
            // A record whose time cannot be read stays.
            let is_outdated = || entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(forgets);
            let goes = match entry.file_name().to_str().and_then(inode_of_record).and_then(freed) {
                Some(is_freed) => is_freed,
                // About a carton elsewhere.
                None => is_outdated(),
            };
            if goes {
                delete_by(None, &entry.path())?;
            }
        }
        Ok(())
    }

    /// Deletes what is known of URLs that led to cartons which are gone.
    fn forget_urls(&self) -> Result<(), CacheError> {
        for entry in entries(&self.bucket(URLS))? {
            if !self.leads_to_carton(&entry.path()) {
                delete_by(None, &entry.path())?;
            }
        }
        Ok(())
    }
}

/// Decides which holders go. Pure.
fn choose(survey: &Survey, options: &PruneOptions, now: SystemTime) -> Vec<bool> {
    let has_limits = options.older_than.is_some() || options.max_size.is_some();
    let mut goes: Vec<bool> = survey
        .holders
        .iter()
        .map(|holder| !holder.in_use && (!has_limits || is_older(holder.last_used, options, now)))
        .collect();
    let Some(max_size) = options.max_size else { return goes };
    // How many hold each piece of data still, and the pieces of each holder.
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
    // Longer ago than time itself: nothing is.
    let limit = |age| now.checked_sub(age);
    options.older_than.is_some_and(|age| limit(age).is_some_and(|limit| time < limit))
}

impl Survey {
    /// What is told of those that go. A carton of which the cache has only the record of its use is left out here, as
    /// [`Cache::list`] leaves it out. `n_in_use` is 0: the caller knows which cartons were meant to go.
    pub(super) fn report(&self, goes: &[bool]) -> Pruned {
        let held = self.held();
        let (mut cartons, mut downloads) = (BTreeMap::new(), BTreeMap::new());
        for (index, holder) in self.holders.iter().enumerate().filter(|(index, _)| goes[*index]) {
            if let Some(carton) = self.carton(index, &held) {
                cartons.insert((carton.last_used, carton.manifest), carton);
            } else if let What::Download { path } = &holder.what {
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

/// The device and inode that the record of this name is about.
fn inode_of_record(name: &str) -> Option<(u64, u64)> {
    let (device, inode) = name.strip_suffix(".json")?.split_once('-')?;
    Some((u64::from_str_radix(device, 16).ok()?, u64::from_str_radix(inode, 16).ok()?))
}

/// Deletes the lock files that nobody holds. That is all an exclusive lock does when it is dropped.
fn delete_locks(folder: &Path) -> Result<(), CacheError> {
    for entry in entries(folder)? {
        if entry.path().extension().is_some_and(|extension| extension == "lock") {
            drop(lock::try_acquire(&entry.path(), Mode::Exclusive)?);
        }
    }
    Ok(())
}
