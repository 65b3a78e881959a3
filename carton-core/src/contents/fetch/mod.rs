//! Fetches files that are elsewhere into the cache. A file is *elsewhere* if its carton is on a server, or if the carton only links
//! to it (spec/carton-format.md, "LINKS").
//!
//! Nothing gets its name in the cache before its SHA-256 matched MANIFEST. If several processes want a file, one fetches it and the
//! others wait. Large files continue where an interrupted attempt ended.

mod ahead;
mod archived;
mod linked;
mod plan;
mod settle;
mod whole;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

pub(super) use self::ahead::read_ahead;
use self::plan::{Candidate, Job};
use super::origin::Origin;
use super::progress::{Meter, OnProgress};
use super::{Contents, ContentsError, ErrorKind, Place};
use crate::archive::Archive;
use crate::cache::{Cache, SHARED_FROM};
use crate::digest::Sha256Digest;
use crate::network::{Activity, Network};

/// How many files, or groups of small ones, are fetched at once.
const N_WORKERS: usize = 4;
/// How often progress is reported, and it is looked whether the work is still wanted.
const TICK: Duration = Duration::from_millis(50);

/// How files that are elsewhere may be fetched.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// The network to fetch them over.
    pub network: Network,
    /// The network to fetch linked files over. For a carton from a server it refuses private addresses
    /// ([`Network::public_only`]): whoever made the carton could otherwise have this machine ask servers in its network.
    pub link_network: Network,
    /// Whether LINKS may name local files. To be allowed only for a carton that is itself local: one that somebody else can change
    /// could otherwise find out which files there are.
    pub file_links: bool,
}

/// Counts a worker out when it ends, also by a panic: otherwise whoever waits for the workers would wait for ever.
struct Leaving<'a> {
    running: &'a Mutex<usize>,
    ended: &'a Condvar,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.ended.notify_one();
    }
}

/// What the workers of one call share.
struct Fetch<'a> {
    contents: &'a Contents,
    cache: &'a Cache,
    access: &'a Access,
    activity: Arc<Activity>,
}

impl Contents {
    /// Fetches the files whose path is wanted into the cache, those of them that are elsewhere and not there yet. Reading them
    /// later does so too, but one by one.
    ///
    /// # Errors
    /// A file that cannot be fetched, or is not what MANIFEST lists; a cache that cannot be written to. What was fetched before stays.
    pub(crate) fn fetch(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        on_progress: OnProgress<'_>,
    ) -> Result<(), ContentsError> {
        let indices: Vec<usize> = (0..self.items.len()).filter(|index| is_wanted(&self.items[*index].path)).collect();
        self.fetch_items(&indices, &Meter::new(0, on_progress))
    }

    /// Whether no wanted file would have to be fetched: each is in the carton itself, or in the cache, where its bytes were not
    /// looked at.
    pub(crate) fn is_at_hand(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        let has_file = |digest: &Sha256Digest| self.cache.as_ref().is_some_and(|cache| cache.has_file(digest));
        let mut wanted = (0..self.items.len()).filter(|index| is_wanted(&self.items[*index].path));
        wanted.all(|index| {
            !self.is_elsewhere(self.follow(index)) || self.items[index].digest.is_some_and(|digest| has_file(&digest))
        })
    }

    /// Whether an item's bytes must be fetched unless the cache has them.
    pub(super) fn is_elsewhere(&self, index: usize) -> bool {
        match (&self.items[index].place, &self.origin) {
            (Place::Linked, _) => true,
            (Place::Here { .. }, Origin::Archive { archive, .. }) => archive.source().remote().is_some(),
            _ => false,
        }
    }

    /// Fetches those of these items that are elsewhere and not in the cache yet. The first one that fails ends it.
    pub(super) fn fetch_items(&self, indices: &[usize], meter: &Meter<'_>) -> Result<(), ContentsError> {
        match self.fetch_each(indices, meter, false)?.pop() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// As [`fetch_items`](Self::fetch_items). With `keep_going`, a failure does not end it, and all of them are returned.
    pub(super) fn fetch_each(
        &self,
        indices: &[usize],
        meter: &Meter<'_>,
        keep_going: bool,
    ) -> Result<Vec<(usize, ContentsError)>, ContentsError> {
        if indices.iter().any(|index| self.is_elsewhere(self.follow(*index))) {
            self.hold_while(meter)?;
        }
        let missing = self.missing(indices, meter)?;
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let (Some(cache), Some(access)) = (self.cache.as_deref(), self.access.as_ref()) else {
            let Some((path, digest)) = missing.first().and_then(|index| self.listed(*index)) else {
                return Ok(Vec::new());
            };
            return Err(ContentsError::NotFetched { path: path.to_owned(), digest });
        };
        let (jobs, total) = self.jobs(indices, &missing)?;
        let fetch = Fetch { contents: self, cache, access, activity: Arc::default() };
        fetch.run(&jobs, total, meter, keep_going)
    }

    /// The items that have bytes elsewhere and not in the cache, each digest once.
    fn missing(&self, indices: &[usize], meter: &Meter<'_>) -> Result<Vec<usize>, ContentsError> {
        let mut seen = HashSet::new();
        let mut missing = Vec::new();
        for index in indices.iter().map(|index| self.follow(*index)) {
            let Some((_, digest)) = self.listed(index) else { continue };
            if self.is_elsewhere(index) && seen.insert(digest) && !self.is_in_cache(index, &digest, meter)? {
                missing.push(index);
            }
        }
        Ok(missing)
    }

    /// Whether the cache has an item. Large files are checked; small ones will be when they are read.
    fn is_in_cache(&self, index: usize, digest: &Sha256Digest, meter: &Meter<'_>) -> Result<bool, ContentsError> {
        let Some(cache) = &self.cache else { return Ok(false) };
        if self.is_small(index) {
            return Ok(cache.has_file(digest));
        }
        Ok(cache.checked_file::<ContentsError>(digest, &|_| meter.advance(0))?.is_some())
    }

    /// Whether an item is so small that it is read as a whole, and hashed each time.
    pub(super) fn is_small(&self, index: usize) -> bool {
        self.size(index).is_some_and(|size| size < SHARED_FROM)
    }

    fn listed(&self, index: usize) -> Option<(&str, Sha256Digest)> {
        let item = &self.items[index];
        Some((item.path.as_str(), item.digest?))
    }

    /// What is to be done to have the missing ones of these items, and how many bytes have to come, as far as that is known.
    ///
    /// All of them take part in the plan, so that an attempt that goes on with an interrupted one makes the same requests.
    fn jobs(&self, indices: &[usize], missing: &[usize]) -> Result<(Vec<Job>, u64), ContentsError> {
        let missing: HashSet<usize> = missing.iter().copied().collect();
        let mut seen = HashSet::new();
        let mut candidates = Vec::new();
        let mut jobs = Vec::new();
        let mut total = 0_u64;
        for index in indices.iter().map(|index| self.follow(*index)) {
            let digest = self.items[index].digest;
            let is_missing = missing.contains(&index);
            if !self.is_elsewhere(index) || !seen.insert(digest) {
                continue;
            }
            match (&self.items[index].place, &self.origin) {
                (Place::Here { entry, .. }, Origin::Archive { archive, .. }) => {
                    let Some(entry) = archive.entries().get(*entry) else { continue };
                    candidates.push(Candidate { item: index, window: archive.window(entry) });
                    total = total.saturating_add(if is_missing { entry.compressed_size() } else { 0 });
                }
                _ if is_missing => {
                    jobs.push(Job::Link { item: index });
                    total = total.saturating_add(self.declared_size(index).unwrap_or(0));
                }
                _ => {}
            }
        }
        let is_needed = |job: &Job| match job {
            Job::Span { files, .. } => files.iter().any(|file| missing.contains(&file.item)),
            Job::Large(file) => missing.contains(&file.item),
            Job::Link { item } => missing.contains(item),
        };
        // Links first: how large they are is not known before they are asked for.
        jobs.extend(plan::plan(candidates).into_iter().filter(is_needed));
        Ok((jobs, total))
    }

    /// What LINKS says about the size of a file.
    fn declared_size(&self, index: usize) -> Option<u64> {
        self.links.size(&self.items[index].digest?)
    }
}

impl Fetch<'_> {
    /// Does all jobs, while this thread reports progress and watches whether they are still wanted.
    fn run(
        &self,
        jobs: &[Job],
        total: u64,
        meter: &Meter<'_>,
        keep_going: bool,
    ) -> Result<Vec<(usize, ContentsError)>, ContentsError> {
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        let (running, ended) = (Mutex::new(N_WORKERS.min(jobs.len())), Condvar::new());
        let work = || {
            let _leaving = Leaving { running: &running, ended: &ended };
            while !self.activity.is_stopped() {
                let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                for (item, error) in self.perform(job) {
                    // Every other file would fail in the same way: the user stopped it, or the disk is full.
                    if !keep_going || matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Io) {
                        self.activity.stop();
                    }
                    failures.lock().unwrap_or_else(PoisonError::into_inner).push((item, error));
                }
            }
        };
        let watched = std::thread::scope(|scope| {
            for _ in 0..N_WORKERS.min(jobs.len()) {
                scope.spawn(work);
            }
            let mut result = Ok(());
            let mut left = running.lock().unwrap_or_else(PoisonError::into_inner);
            while *left > 0 {
                left = ended.wait_timeout(left, TICK).unwrap_or_else(PoisonError::into_inner).0;
                if result.is_ok() {
                    result = meter.fetched(self.activity.received(), self.activity.kept(), total);
                    if result.is_err() {
                        self.activity.stop();
                    }
                }
            }
            result
        });
        watched?;
        let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        // One failure interrupts the other workers: that is not what went wrong.
        failures.sort_by_key(|(_, error)| error.kind() == ErrorKind::Interrupted);
        if !keep_going || failures.iter().any(|(_, error)| error.kind() == ErrorKind::Io) {
            failures.truncate(1);
        }
        Ok(failures)
    }

    /// Does one job and returns the items that failed.
    fn perform(&self, job: &Job) -> Vec<(usize, ContentsError)> {
        let one = |item: usize, result: Result<(), ContentsError>| result.err().map(|error| (item, error)).into_iter();
        match job {
            Job::Link { item } => one(*item, self.link(*item)).collect(),
            Job::Large(file) => one(file.item, self.large(file)).collect(),
            Job::Span { window, files } => self.span(window, files),
        }
    }

    fn archive(&self) -> Result<&Archive, ContentsError> {
        match &self.contents.origin {
            Origin::Archive { archive, .. } => Ok(archive),
            _ => Err(ContentsError::NoSuchFile { path: self.contents.location() }),
        }
    }

    /// Ends a wait for another process when the work is no longer wanted.
    fn checkpoint(&self) -> Result<(), ContentsError> {
        if self.activity.is_stopped() { Err(ContentsError::Interrupted) } else { Ok(()) }
    }
}
