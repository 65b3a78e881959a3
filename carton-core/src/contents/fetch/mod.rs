//! Fetches files that are elsewhere into the cache. A file is *elsewhere* if its carton is on a server, or if the carton only links
//! to it (spec/carton-format.md, "LINKS"), or a registry has it as a blob of its own (spec/registries.md).
//!
//! Nothing gets its name in the cache before its SHA-256 matched MANIFEST. If several processes want a file, one fetches it and the
//! others wait. Large files continue where an interrupted attempt ended.

mod access;
mod ahead;
mod archived;
mod lease;
mod linked;
mod plan;
mod settle;
mod whole;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use carton_format::context::Context;
use carton_format::digest::Sha256Digest;
use carton_format::error_kind::ErrorKind;
use carton_format::progress::fetched;
use carton_network::http::Activity;
use carton_network::remote_source::RemoteSource;
use parking_lot::{Condvar, Mutex};

pub(crate) use self::access::Access;
pub(super) use self::ahead::read_ahead;

use self::plan::{Candidate, Planned};
use super::known_checksums::KnownChecksums;
use super::locate::{Archived, Located, Locator};
use super::tree::Item;
use super::{Contents, ContentsError};
use crate::cache::{Cache, Lease};
use crate::error::Failure as _;

/// Gets files that are elsewhere into the cache, and keeps what the carton has there from being deleted.
#[derive(Default)]
pub(super) struct Fetcher {
    /// How files that are elsewhere may be fetched; without it, they are taken from the cache only.
    access: Option<Access>,
    /// Taken when a file that is elsewhere is first needed, and then held, so that fetched files are not deleted.
    lease: OnceLock<Arc<Lease>>,
    /// For listings of the cache.
    model_name: Option<String>,
}

/// How many files, or groups of small ones, are fetched at once.
const N_WORKERS: usize = 4;
/// Interval at which progress is reported and cancellation is checked.
const TICK: Duration = Duration::from_millis(50);

/// Counts a worker as ended when dropped, also after a panic. Otherwise the thread that waits for the workers would wait for ever.
struct Leaving<'a> {
    running: &'a Mutex<usize>,
    ended: &'a Condvar,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        *self.running.lock() -= 1;
        self.ended.notify_one();
    }
}

/// What one worker does at a time.
enum Job<'a> {
    /// Fetches a file that is not in the carton's archive.
    Link { item: &'a Item, digest: Sha256Digest },
    /// Makes one download from the carton's archive.
    Archived { remote: &'a RemoteSource, planned: Planned<Archived<'a>> },
}

/// An item that could not be fetched, and why.
type Failure<'a> = (&'a Item, ContentsError);

/// What the workers of one call share.
struct Fetch<'a> {
    locator: &'a Locator,
    checksums: &'a KnownChecksums,
    cache: &'a Cache,
    access: &'a Access,
    /// Cancelled when the caller cancels, or when one worker fails and the others are to end.
    context: Context,
    /// Counts what the workers fetch.
    activity: Arc<Activity>,
}

impl<'a> Fetch<'a> {
    fn new(
        locator: &'a Locator,
        checksums: &'a KnownChecksums,
        cache: &'a Cache,
        access: &'a Access,
        context: Context,
    ) -> Self {
        let activity = Activity::new(context.cancel_token());
        Self { locator, checksums, cache, access, context, activity }
    }
}

impl Contents {
    /// Fetches the selected files that are elsewhere and not yet in the cache. Reading a file later fetches it too, but one at a time.
    ///
    /// # Errors
    /// A file that cannot be fetched, or is not what MANIFEST lists; a cache that cannot be written to. Files that were fetched before stay.
    pub(crate) fn fetch(&self, is_wanted: impl Fn(&str) -> bool, context: &Context) -> Result<(), ContentsError> {
        let items: Vec<&Item> = self.tree().items().iter().filter(|item| is_wanted(&item.path)).collect();
        self.fetch_items(&items, context)
    }

    /// Whether all selected files are local, in the carton itself or in the cache. Cached files are not verified.
    pub(crate) fn has_locally(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        let has_file = |digest| self.locator.cache().is_some_and(|cache| cache.files().has(&digest));
        let mut wanted = self.tree().items().iter().filter(|item| is_wanted(&item.path));
        wanted.all(|item| self.locator.locate(item).elsewhere().is_none_or(has_file))
    }

    /// Fetches those of these items that are elsewhere and not yet in the cache. Stops at the first failure.
    pub(super) fn fetch_items(&self, items: &[&Item], context: &Context) -> Result<(), ContentsError> {
        match self.fetch_each(items, context, false)?.pop() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// As [`fetch_items`](Self::fetch_items). With `keep_going`, continues after a failure and returns all failures.
    pub(super) fn fetch_each<'a>(
        &'a self,
        items: &[&'a Item],
        context: &Context,
        keep_going: bool,
    ) -> Result<Vec<Failure<'a>>, ContentsError> {
        self.fetcher.fetch(&self.locator, &self.checksums, items, context, keep_going)
    }
}

impl Fetcher {
    pub(super) fn set_access(&mut self, access: Option<Access>) {
        self.access = access;
    }

    pub(super) fn set_model_name(&mut self, model_name: Option<String>) {
        self.model_name = model_name;
    }

    /// Whether files that are elsewhere are taken from the cache only.
    pub(super) fn may_not_fetch(&self) -> bool {
        self.access.as_ref().is_none_or(|access| access.network.is_offline())
    }

    /// Fetches those of these items that are elsewhere and not yet in the cache. With `keep_going`, continues after a failure and
    /// returns all failures.
    fn fetch<'a>(
        &'a self,
        locator: &'a Locator,
        checksums: &'a KnownChecksums,
        items: &[&'a Item],
        context: &Context,
        keep_going: bool,
    ) -> Result<Vec<Failure<'a>>, ContentsError> {
        // Each digest once.
        let mut seen = HashSet::new();
        let elsewhere = |item: &&'a Item| Some((locator.tree().follow(item), locator.locate(item).elsewhere()?));
        let items: Vec<(&Item, Sha256Digest)> =
            items.iter().filter_map(elsewhere).filter(|(_, digest)| seen.insert(*digest)).collect();
        if items.is_empty() {
            return Ok(Vec::new());
        }
        self.hold_while(locator, context)?;
        let mut missing = HashSet::new();
        for (item, digest) in &items {
            if !is_in_cache(locator, item, digest, context)? {
                missing.insert(*digest);
            }
        }
        let Some((item, digest)) = items.iter().find(|(_, digest)| missing.contains(digest)) else {
            return Ok(Vec::new());
        };
        let (Some(cache), Some(access)) = (locator.cache(), self.access.as_ref()) else {
            let path = item.path.clone();
            return Err(match &self.access {
                Some(_) => ContentsError::NoCache { path },
                None => ContentsError::NotFetched { path, digest: *digest },
            });
        };
        let (jobs, total) = jobs(locator, &items, &missing);
        let fetch = Fetch::new(locator, checksums, cache, access, Context::default());
        fetch.run(&jobs, total, context, keep_going)
    }
}

/// Whether the cache has an item. Large files are checked; small ones will be when they are read.
fn is_in_cache(
    locator: &Locator,
    item: &Item,
    digest: &Sha256Digest,
    context: &Context,
) -> Result<bool, ContentsError> {
    let Some(cache) = locator.cache() else { return Ok(false) };
    if locator.is_small(item) {
        return Ok(cache.files().has(digest));
    }
    Ok(cache.files().checked(digest, context.cancel_token())?.is_some())
}

/// Returns the requests that fetch the missing items, and their total size as far as it is known.
///
/// The plan is made from all items, so that an attempt that continues an interrupted one makes the same requests.
fn jobs<'a>(
    locator: &'a Locator,
    items: &[(&'a Item, Sha256Digest)],
    missing: &HashSet<Sha256Digest>,
) -> (Vec<Job<'a>>, u64) {
    let mut candidates = Vec::new();
    let mut server = None;
    let mut jobs = Vec::new();
    let mut total = 0_u64;
    for (item, digest) in items {
        let is_missing = missing.contains(digest);
        match locator.locate(item) {
            Located::Remote { file, remote } => {
                candidates.push(Candidate { file, window: file.archive.window(file.entry) });
                server = Some(remote);
                total = total.saturating_add(if is_missing { file.entry.compressed_size() } else { 0 });
            }
            Located::Linked { digest } if is_missing => {
                jobs.push(Job::Link { item, digest });
                total = total.saturating_add(locator.tree().size_elsewhere(&digest).unwrap_or(0));
            }
            // There is nothing to do.
            Located::Linked { .. } | Located::Local(_) | Located::Folder { .. } | Located::Bare { .. } => {}
        }
    }
    let is_needed = |planned: &Planned<Archived<'_>>| match planned {
        Planned::Span { files, .. } => files.iter().any(|candidate| missing.contains(&candidate.file.digest)),
        Planned::Large(candidate) => missing.contains(&candidate.file.digest),
    };
    // Links first, because their sizes are unknown until the server answers.
    if let Some(remote) = server {
        let planned = plan::plan(candidates).into_iter().filter(is_needed);
        jobs.extend(planned.map(|planned| Job::Archived { remote, planned }));
    }
    (jobs, total)
}

impl<'a> Fetch<'a> {
    /// Does all jobs, while this thread reports progress and checks for cancellation.
    fn run(
        &self,
        jobs: &[Job<'a>],
        total: u64,
        context: &Context,
        keep_going: bool,
    ) -> Result<Vec<Failure<'a>>, ContentsError> {
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        let (running, ended) = (Mutex::new(N_WORKERS.min(jobs.len())), Condvar::new());
        let work = || {
            let _leaving = Leaving { running: &running, ended: &ended };
            while !self.context.cancel_token().is_cancelled() {
                let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                for (item, error) in self.perform(job) {
                    // Every other file would fail in the same way: the user stopped it, or the disk is full.
                    if !keep_going || matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Machine) {
                        self.context.cancel_token().cancel();
                    }
                    failures.lock().push((item, error));
                }
            }
        };
        let watched = std::thread::scope(|scope| {
            for _ in 0..N_WORKERS.min(jobs.len()) {
                scope.spawn(work);
            }
            let mut result = Ok(());
            let mut left = running.lock();
            while *left > 0 {
                ended.wait_for(&mut left, TICK);
                if result.is_ok() {
                    let (received, kept) = (self.activity.received(), self.activity.kept());
                    context.report(&fetched(received, kept, Some(total.max(received + kept))));
                    result = context.check();
                    if result.is_err() {
                        self.context.cancel_token().cancel();
                    }
                }
            }
            result
        });
        watched?;
        let mut failures = failures.into_inner();
        // One failure interrupts the other workers; their interruption is not the cause.
        failures.sort_by_key(|(_, error)| error.kind() == ErrorKind::Interrupted);
        if !keep_going || failures.iter().any(|(_, error)| error.kind() == ErrorKind::Machine) {
            failures.truncate(1);
        }
        Ok(failures)
    }

    /// Does one job and returns the items that failed.
    fn perform(&self, job: &Job<'a>) -> Vec<Failure<'a>> {
        let one = |item: &'a Item, result: Result<(), ContentsError>| {
            result.err().map(|error| (item, error)).into_iter().collect()
        };
        match job {
            Job::Link { item, digest } => one(item, self.link(item, *digest)),
            Job::Archived { remote, planned: Planned::Large(candidate) } => {
                one(candidate.file.item, self.large(remote, candidate))
            }
            Job::Archived { remote, planned: Planned::Span { window, files } } => self.span(remote, window, files),
        }
    }
}
