//! Starts a download: reads what is in the folder, sends the first request, and spawns the tasks that fetch the rest.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use carton_format::digest::Sha256Digest;
use tokio::task::AbortHandle;

use super::fetch::{FIRST_REQUEST, Fetch, Selection, has_stable_ranges, is_provable};
use super::handle::DATA;
use super::journal::{Earlier, Header, Journal, MAX_LENGTH, chunk_size};
use super::ledger::{Ledger, Span};
use super::pace::Pace;
use super::store::{Data, Store, TaskGuard};
use super::{Download, DownloadError, Target};
use crate::http::{self, Activity, Extent, Network, NetworkError, Reply, Version};

impl Download {
    /// Starts a download, or continues an earlier one. Blocks until the server has answered once; if an earlier attempt completed the
    /// download, no request is sent.
    ///
    /// # Errors
    /// [`NetworkError`]: the server does not answer, has another version, more than the limit, or no ranges although one was requested;
    /// or the activity is cancelled. [`DownloadError::Io`]: the folder cannot be used, or has too little space.
    pub fn start(network: &Network, target: &Target<'_>, activity: &Arc<Activity>) -> Result<Download, DownloadError> {
        if activity.is_cancelled() {
            return Err(NetworkError::Interrupted.into());
        }
        Starter::new(network, target, activity).start()
    }
}

/// Starts a download.
struct Starter<'a> {
    network: &'a Network,
    target: &'a Target<'a>,
    activity: &'a Arc<Activity>,
    path: PathBuf,
}

impl<'a> Starter<'a> {
    fn new(network: &'a Network, target: &'a Target<'a>, activity: &'a Arc<Activity>) -> Starter<'a> {
        Starter { network, target, activity, path: target.folder.join(DATA) }
    }

    /// Starts a download, or continues the one in the folder.
    fn start(&self) -> Result<Download, DownloadError> {
        if self.target.range.as_ref().is_some_and(|range| range.start >= range.end) {
            return self.empty();
        }
        if let Some((earlier, data)) = self.earlier()?
            && let Some(download) = self.resume(earlier, data)?
        {
            return Ok(download);
        }
        self.fresh()
    }

    /// The earlier attempt in the folder, if it is at the same bytes and can be continued.
    fn earlier(&self) -> Result<Option<(Earlier, File)>, DownloadError> {
        let target = self.target;
        let Some(earlier) = Journal::open(target.folder).map_err(self.io("read the journal of"))? else {
            return Ok(None);
        };
        let header = &earlier.header;
        let is_same_version = match target.version {
            Some(version) => !version.differs(&header.version),
            None => is_provable(&header.version),
        };
        let length_fits = target.range.as_ref().is_none_or(|range| range.end - range.start == header.length);
        if header.url != Sha256Digest::of(target.url.identity().as_bytes())
            || header.range != target.range
            || header.accept_encoded != target.accept_encoded
            || header.length > target.limit
            || !is_same_version
            || !length_fits
        {
            return Ok(None);
        }
        let opened = OpenOptions::new().read(true).write(true).custom_flags(no_follow()).open(&self.path);
        let data = match opened {
            Ok(data) => data,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.io("open")(error)),
        };
        let metadata = data.metadata().map_err(self.io("open"))?;
        Ok((metadata.is_file() && metadata.len() == header.length).then_some((earlier, data)))
    }

    /// Continues an earlier attempt. `None` if the server has another version now and the target accepts any version: the download then
    /// starts over.
    fn resume(&self, earlier: Earlier, data: File) -> Result<Option<Download>, DownloadError> {
        let Earlier { header, journal, done } = earlier;
        let mut ledger = Ledger::new(header.length, header.chunk_size, &done);
        let missing = ledger.missing();
        let mut first = None;
        if let Some(span) = ledger.take(FIRST_REQUEST) {
            let wanted = Selection { version: Some(header.version.clone()), ..self.selection() };
            let (position, size) = (span.next, span.end - span.next);
            let sent = self.block_on(move |network| async move { wanted.first_reply(&network, position, size).await });
            let reply = match sent {
                Err(NetworkError::Changed { .. }) if self.target.version.is_none() => return Ok(None),
                sent => sent?,
            };
            if *reply.extent() == Extent::Whole || reply.encodings() != header.encodings {
                return Ok(None);
            }
            self.check_space(missing)?;
            first = Some((span, reply));
        }
        let kept = header.length - missing;
        self.activity.add_kept(kept);
        let store = Store::ranged(self.data(data), Some(journal), ledger);
        let fetch = self.fetch(store, header.version, header.encodings);
        let tasks = if missing > 0 { self.spawn_ranges(&fetch, first)? } else { Vec::new() };
        Ok(Some(self.download(fetch, tasks, kept > 0)))
    }

    /// Starts without an earlier attempt.
    fn fresh(&self) -> Result<Download, DownloadError> {
        Download::forget(self.target.folder).map_err(self.io("delete"))?;
        let wanted = self.selection();
        let reply = self.block_on(move |network| async move {
            let reply = wanted.first_reply(&network, 0, FIRST_REQUEST).await?;
            match reply.extent() {
                Extent::Part { .. } if !has_stable_ranges(&reply) => {
                    drop(reply);
                    wanted.whole_reply(&network).await
                }
                _ => Ok(reply),
            }
        })?;
        let url = || self.target.url.shown();
        let length = match (reply.extent(), &self.target.range) {
            (Extent::Part { total, .. }, Some(range)) if range.end > *total => {
                let (expected, found) = (format!("a file of at least {} bytes", range.end), format!("{total} bytes"));
                return Err(NetworkError::Answer { url: url(), expected, found }.into());
            }
            (Extent::Part { .. }, Some(range)) => range.end - range.start,
            (Extent::Part { total, .. }, None) => *total,
            (_, None) => return self.stream(reply),
            (_, Some(_)) => return Err(NetworkError::NoRanges { url: url(), length: reply.version().length }.into()),
        };
        self.check_length(length)?;
        let data = self.create(length)?;
        let header = Header {
            url: Sha256Digest::of(self.target.url.identity().as_bytes()),
            version: reply.version().clone(),
            range: self.target.range.clone(),
            accept_encoded: self.target.accept_encoded,
            encodings: reply.encodings().to_vec(),
            length,
            chunk_size: chunk_size(length),
        };
        let journal = if self.target.version.is_some() || is_provable(&header.version) {
            Journal::create(self.target.folder, &header).map_err(self.io("write the journal of"))?
        } else {
            None
        };
        let mut ledger = Ledger::new(length, header.chunk_size, &[]);
        let first = ledger.take(FIRST_REQUEST).map(|span| (span.at_most(FIRST_REQUEST), reply));
        let store = Store::ranged(self.data(data), journal, ledger);
        let fetch = self.fetch(store, header.version, header.encodings);
        let tasks = self.spawn_ranges(&fetch, first)?;
        Ok(self.download(fetch, tasks, false))
    }

    /// Reads everything from one answer.
    fn stream(&self, reply: Reply) -> Result<Download, DownloadError> {
        let length = reply.remaining();
        self.check_length(length.unwrap_or(0))?;
        let data = self.create(length.unwrap_or(0))?;
        let store = Store::stream(self.data(data), length);
        let fetch = self.fetch(store, reply.version().clone(), reply.encodings().to_vec());
        let limit = match length {
            Some(_) => self.target.limit,
            // A body of unknown length may be endless, and must not fill the disk.
            None => self.target.limit.min(self.free_space()?.map_or(u64::MAX, |free| free / 2)),
        };
        let task = fetch.clone().stream(TaskGuard::new(&fetch.store), reply, limit);
        let tasks = vec![http::runtime()?.spawn(task).abort_handle()];
        Ok(self.download(fetch, tasks, false))
    }

    /// A range without bytes needs no request.
    fn empty(&self) -> Result<Download, DownloadError> {
        Download::forget(self.target.folder).map_err(self.io("delete"))?;
        let store = Store::stream(self.data(self.create(0)?), Some(0));
        let unknown = Version { etag: None, last_modified: None, length: None };
        let version = self.target.version.cloned().unwrap_or(unknown);
        Ok(self.download(self.fetch(store, version, Vec::new()), Vec::new(), false))
    }

    fn check_length(&self, length: u64) -> Result<(), DownloadError> {
        let limit = self.target.limit.min(MAX_LENGTH);
        if length > limit {
            return Err(NetworkError::TooLarge { url: self.target.url.shown(), limit }.into());
        }
        self.check_space(length)
    }

    /// The number of bytes that may still be written; `None` if the file system does not state it.
    fn free_space(&self) -> Result<Option<u64>, DownloadError> {
        let system =
            rustix::fs::statvfs(self.target.folder).map_err(|error| self.io("find space for")(error.into()))?;
        Ok((system.f_blocks != 0).then(|| system.f_bavail.saturating_mul(system.f_frsize)))
    }

    /// Fails before a download that does not fit on the disk, rather than in the middle of it.
    fn check_space(&self, n_bytes: u64) -> Result<(), DownloadError> {
        let free = self.free_space()?.unwrap_or(u64::MAX);
        if free >= n_bytes {
            return Ok(());
        }
        let text = format!("{n_bytes} bytes are needed, {free} are free");
        Err(self.io("find space for")(io::Error::new(io::ErrorKind::StorageFull, text)))
    }

    fn create(&self, length: u64) -> Result<File, DownloadError> {
        let mut options = OpenOptions::new();
        let data = options.read(true).write(true).create_new(true).mode(0o600).open(&self.path);
        let data = data.map_err(self.io("create"))?;
        data.set_len(length).map_err(self.io("make room in"))?;
        Ok(data)
    }

    fn selection(&self) -> Selection {
        Selection {
            url: self.target.url.clone(),
            version: self.target.version.cloned(),
            range: self.target.range.clone(),
            accept_encoded: self.target.accept_encoded,
        }
    }

    fn data(&self, file: File) -> Data {
        let (path, location) = (self.path.clone(), self.target.url.shown());
        Data { file, path, location, activity: self.activity.clone() }
    }

    fn fetch(&self, store: Store, version: Version, encodings: Vec<String>) -> Arc<Fetch> {
        Arc::new(Fetch {
            network: self.network.clone(),
            url: self.target.url.clone(),
            version,
            encodings,
            accept_encoded: self.target.accept_encoded,
            offset: self.target.range.as_ref().map_or(0, |range| range.start),
            store: Arc::new(store),
            pace: Pace::default(),
        })
    }

    fn spawn_ranges(
        &self,
        fetch: &Arc<Fetch>,
        mut first: Option<(Span, Reply)>,
    ) -> Result<Vec<AbortHandle>, DownloadError> {
        let runtime = http::runtime()?;
        let n_tasks = self.network.options().n_ranges.max(1);
        let spawn = |_| {
            let task = fetch.clone().ranges(TaskGuard::new(&fetch.store), first.take());
            runtime.spawn(task).abort_handle()
        };
        Ok((0..n_tasks).map(spawn).collect())
    }

    fn download(&self, fetch: Arc<Fetch>, tasks: Vec<AbortHandle>, is_resumed: bool) -> Download {
        Download { fetch, is_resumed, path: self.path.clone(), tasks }
    }

    fn io(&self, action: &'static str) -> impl FnOnce(io::Error) -> DownloadError {
        DownloadError::io(action, &self.path)
    }

    /// Runs a future on the network's threads and waits for it.
    fn block_on<F: Future<Output = Result<Reply, NetworkError>> + Send + 'static>(
        &self,
        work: impl FnOnce(Network) -> F,
    ) -> Result<Reply, NetworkError> {
        self.network.wait(self.activity, work(self.network.clone()))
    }
}

/// A symbolic link in place of a file is not followed.
fn no_follow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0)
}
