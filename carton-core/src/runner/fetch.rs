//! Brings an index or an archive to this machine.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{InstallError, MAX_INDEX_BYTES, Part, Place};
use crate::digest::{Hasher, Sha256Digest};
use crate::network::{Activity, Network, NetworkError, Part as RequestPart, Request, Url, Wanted};

/// The largest archive.
const MAX_ARCHIVE_BYTES: u64 = 64 << 30;
/// How often whoever waits is asked whether that is still so, and told how far it is.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
const BUFFER_LENGTH: usize = 1 << 20;

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
            let fetched = waiter.watch(|activity| network.read(what, activity));
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

/// An archive whose hash was compared, as a file here: the one that `place` names, or one in `folder`.
pub(super) fn archive(
    part: &Part,
    folder: &Path,
    network: &Network,
    waiter: &Waiter<'_>,
) -> Result<PathBuf, InstallError> {
    let (path, found) = match &part.place {
        Place::File(path) => (path.clone(), hash_file(path, waiter)?),
        Place::Url(url) => {
            let path = folder.join("part");
            (path.clone(), download(url, &path, network, waiter)?)
        }
    };
    if found != part.sha256 {
        return Err(InstallError::Digest { place: part.place.clone(), expected: part.sha256, found });
    }
    Ok(path)
}

fn hash_file(path: &Path, waiter: &Waiter<'_>) -> Result<Sha256Digest, InstallError> {
    let mut file = File::open(path).map_err(InstallError::io("open", path))?;
    let total = file.metadata().ok().map(|metadata| metadata.len());
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; BUFFER_LENGTH];
    let mut done = 0;
    loop {
        let length = file.read(&mut buffer).map_err(InstallError::io("read", path))?;
        if length == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..length]);
        done += length as u64;
        (waiter.on_bytes)(done, total);
        if (waiter.wanted)().is_break() {
            return Err(InstallError::Interrupted);
        }
    }
}

/// What keeps a file from being downloaded.
enum DownloadError {
    Network(NetworkError),
    Io(std::io::Error),
}

impl From<NetworkError> for DownloadError {
    fn from(error: NetworkError) -> Self {
        Self::Network(error)
    }
}

impl From<std::io::Error> for DownloadError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Downloads a file to `path` and hashes it on the way.
fn download(url: &Url, path: &Path, network: &Network, waiter: &Waiter<'_>) -> Result<Sha256Digest, InstallError> {
    let what = format!("`{}`", crate::network::address(url));
    let (url, to, sender) = (url.clone(), path.to_path_buf(), network.clone());
    let result = waiter.watch(|activity| {
        let shared = activity.clone();
        network.wait(&|| activity.control(), async move {
            let mut retries = sender.retries();
            loop {
                match download_once(&sender, &url, &to, &shared).await {
                    Ok(digest) => return Ok(digest),
                    Err(DownloadError::Network(error)) => retries.pause(error).await?,
                    Err(error) => return Err(error),
                }
            }
        })
    });
    result.map_err(|error| match error {
        DownloadError::Network(error) => InstallError::network(what)(error),
        DownloadError::Io(source) => InstallError::Io { action: "write", path: path.to_path_buf(), source },
    })
}

async fn download_once(
    network: &Network,
    url: &Url,
    path: &Path,
    activity: &Activity,
) -> Result<Sha256Digest, DownloadError> {
    let mut reply = network.send(&Request::new(url, RequestPart::Whole)).await?;
    let too_large = || NetworkError::TooLarge { url: crate::network::address(url), limit: MAX_ARCHIVE_BYTES };
    if reply.remaining().is_some_and(|length| length > MAX_ARCHIVE_BYTES) {
        return Err(too_large().into());
    }
    let mut file = File::create(path)?;
    let mut hasher = Hasher::new();
    let mut length = 0;
    while let Some(chunk) = reply.chunk().await? {
        length += chunk.len() as u64;
        if length > MAX_ARCHIVE_BYTES {
            return Err(too_large().into());
        }
        activity.add_received(chunk.len() as u64);
        hasher.update(&chunk);
        file.write_all(&chunk)?;
    }
    Ok(hasher.finish())
}

impl Waiter<'_> {
    /// Runs `work` on another thread, and stops it when nobody waits for it any more.
    fn watch<T: Send>(&self, work: impl FnOnce(&Arc<Activity>) -> T + Send) -> T {
        let activity = Arc::new(Activity::default());
        std::thread::scope(|scope| {
            let waiting = std::thread::current();
            let worker = scope.spawn({
                let activity = &activity;
                move || {
                    let result = work(activity);
                    waiting.unpark();
                    result
                }
            });
            while !worker.is_finished() {
                std::thread::park_timeout(CHECK_INTERVAL);
                if (self.wanted)().is_break() {
                    activity.stop();
                }
                (self.on_bytes)(activity.received(), None);
            }
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
