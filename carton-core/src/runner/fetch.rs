//! Brings an index or an archive to this machine.

use std::fs::{self, File};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::workspace::{DOWNLOAD_PREFIX, Lock, download_lock};
use super::{InstallError, MAX_INDEX_BYTES, Part, Place};
use crate::digest::{Sha256Digest, hash_all};
use crate::download::{Download, DownloadError, Target};
use crate::network::{Activity, Network, Part as RequestPart, Url, Wanted, address};

/// The largest archive.
const MAX_ARCHIVE_BYTES: u64 = 64 << 30;
/// How often whoever waits is asked whether that is still so, and told how far it is.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Who waits for something that is fetched.
pub(super) struct Waiter<'a> {
    pub(super) wanted: &'a (dyn Fn() -> ControlFlow<()> + Sync),
    /// Told how many bytes came, and of how many.
    pub(super) on_bytes: &'a (dyn Fn(u64, Option<u64>) + Sync),
}

/// The bytes of an index.
pub(super) fn index(place: &Place, network: &Network, waiter: &Waiter<'_>) -> Result<Vec<u8>, InstallError> {
    match place {
        Place::Url(url) => {
            let what = Wanted {
                url: url.clone(),
                part: RequestPart::Whole,
                version: None,
                known: None,
                limit: MAX_INDEX_BYTES,
            };
            let fetched = waiter.watch(|activity, _| network.read(what, activity));
            Ok(fetched.map_err(InstallError::network("the runner index"))?.bytes)
        }
        Place::File(path) => {
            let mut bytes = Vec::new();
            let file = File::open(path).map_err(InstallError::io("open", path))?;
            // One byte more shows that it is too large.
            file.take(MAX_INDEX_BYTES + 1).read_to_end(&mut bytes).map_err(InstallError::io("read", path))?;
            Ok(bytes)
        }
    }
}

/// An archive whose hash was compared.
#[derive(Debug)]
pub(super) struct Fetched {
    /// Where it is.
    pub(super) path: PathBuf,
    /// The folder that it was downloaded to; ours until this is dropped.
    downloaded: Option<(PathBuf, Lock)>,
}

impl Fetched {
    /// Deletes what was downloaded.
    pub(super) fn discard(self) -> Result<(), InstallError> {
        match &self.downloaded {
            Some((folder, _lock)) => fs::remove_dir_all(folder).map_err(InstallError::io("delete", folder)),
            None => Ok(()),
        }
    }
}

/// An archive whose hash was compared: the file that its place names, or one that is downloaded into `runner_dir`. A download
/// that ends early is continued by the next one.
pub(super) fn archive(
    part: &Part,
    runner_dir: &Path,
    network: &Network,
    waiter: &Waiter<'_>,
) -> Result<Fetched, InstallError> {
    let (fetched, found) = match &part.place {
        Place::File(path) => (Fetched { path: path.clone(), downloaded: None }, hash_file(path, waiter)?),
        Place::Url(url) => {
            let (folder, lock) = download_folder(runner_dir, &part.sha256, waiter)?;
            let downloaded = download(url, &folder, &part.sha256, network, waiter);
            let is_worth_keeping = match &downloaded {
                Ok((_, found)) => *found == part.sha256,
                Err(_) => Download::has_begun(&folder),
            };
            if !is_worth_keeping {
                let _ = fs::remove_dir_all(&folder);
            }
            let (path, found) = downloaded?;
            (Fetched { path, downloaded: Some((folder, lock)) }, found)
        }
    };
    if found != part.sha256 {
        return Err(InstallError::Digest { place: part.place.to_string(), expected: part.sha256, found });
    }
    Ok(fetched)
}

fn hash_file(path: &Path, waiter: &Waiter<'_>) -> Result<Sha256Digest, InstallError> {
    let mut file = File::open(path).map_err(InstallError::io("open", path))?;
    let total = file.metadata().ok().map(|metadata| metadata.len());
    let mut done = 0;
    let read_error = |error| InstallError::io("read", path)(error);
    hash_all(&mut file, read_error, |chunk| {
        done += chunk.len() as u64;
        (waiter.on_bytes)(done, total);
        if (waiter.wanted)().is_break() { Err(InstallError::Interrupted) } else { Ok(()) }
    })
}

/// The folder for the archive with this hash, for us alone.
fn download_folder(
    runner_dir: &Path,
    sha256: &Sha256Digest,
    waiter: &Waiter<'_>,
) -> Result<(PathBuf, Lock), InstallError> {
    let folder = runner_dir.join(format!("{DOWNLOAD_PREFIX}{sha256}"));
    let lock_path = download_lock(&folder);
    let lock = Lock::acquire(&lock_path, waiter.wanted).map_err(InstallError::io("lock", &lock_path))?;
    let (lock, _) = lock.ok_or(InstallError::Interrupted)?;
    fs::create_dir_all(&folder).map_err(InstallError::io("create", &folder))?;
    Ok((folder, lock))
}

/// Downloads a file into `folder` and hashes it while it comes.
fn download(
    url: &Url,
    folder: &Path,
    expected: &Sha256Digest,
    network: &Network,
    waiter: &Waiter<'_>,
) -> Result<(PathBuf, Sha256Digest), InstallError> {
    let once = || waiter.watch(|activity, counted| download_once(url, folder, network, activity, counted));
    let failed = |error| match error {
        DownloadError::Network(error) => InstallError::network(format!("`{}`", address(url)))(error),
        DownloadError::Io { action, path, source } => InstallError::Io { action, path, source },
    };
    let (path, found, is_resumed) = once().map_err(failed)?;
    if found == *expected || !is_resumed {
        return Ok((path, found));
    }
    // What an earlier attempt left may be what is wrong.
    Download::forget(folder).map_err(InstallError::io("delete", folder))?;
    let (path, found, _) = once().map_err(failed)?;
    Ok((path, found))
}

fn download_once(
    url: &Url,
    folder: &Path,
    network: &Network,
    activity: &Arc<Activity>,
    counted: &Counted,
) -> Result<(PathBuf, Sha256Digest, bool), DownloadError> {
    let target = Target { url, version: None, range: None, folder, accept_encoded: false, limit: MAX_ARCHIVE_BYTES };
    let download = Download::start(network, &target, activity)?;
    counted.total.store(download.length().unwrap_or(0), Ordering::Relaxed);
    let path = download.path();
    let read_error = |error| {
        let read = |source| DownloadError::Io { action: "read", path: path.clone(), source };
        DownloadError::from_read(error).unwrap_or_else(read)
    };
    let found = hash_all(&mut download.reader(), read_error, |chunk| {
        counted.done.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        Ok(())
    })?;
    Ok((path, found, download.is_resumed()))
}

/// How far a download is, as whoever waits for it is told.
#[derive(Debug, Default)]
struct Counted {
    done: AtomicU64,
    /// 0 while it is not known.
    total: AtomicU64,
}

impl Waiter<'_> {
    /// Runs `work` on another thread, and stops it when nobody waits for it any more.
    fn watch<T: Send>(&self, work: impl FnOnce(&Arc<Activity>, &Counted) -> T + Send) -> T {
        let activity = Arc::new(Activity::default());
        let counted = Counted::default();
        std::thread::scope(|scope| {
            let waiting = std::thread::current();
            let worker = scope.spawn({
                let (activity, counted) = (&activity, &counted);
                move || {
                    let result = work(activity, counted);
                    waiting.unpark();
                    result
                }
            });
            let report = || {
                let total = counted.total.load(Ordering::Relaxed);
                (self.on_bytes)(counted.done.load(Ordering::Relaxed), (total > 0).then_some(total));
            };
            while !worker.is_finished() {
                std::thread::park_timeout(CHECK_INTERVAL);
                if (self.wanted)().is_break() {
                    activity.stop();
                }
                report();
            }
            // What came between the last look and the end.
            report();
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
