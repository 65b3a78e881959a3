//! A remote file, or a range of it, into a local file: by several ranges at once, and resumable.
//!
//! A download lives in a folder of its own:
//!
//! ```text
//! folder/data      the bytes, each at its place; sparse until complete
//! folder/journal   whose bytes they are, and which of them are there
//! ```
//!
//! The folder can be left at any moment, by a process that is killed too; the next [`Download::start`] goes on where the journal
//! ends, if the server still has the same version. Nothing is verified here: who wants the bytes hashes them while they arrive,
//! with [`Download::reader`].
//!
//! A server without ranges is read in one stream, which a later attempt cannot continue. If a range was asked for, such a server
//! is an error: reading everything before the range may take arbitrarily long, and who needs it asks for the whole file.

mod error;
mod fetch;
mod journal;
mod ledger;
mod pace;
mod reader;
mod store;

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::digest::Sha256Digest;
use crate::network::{self, Activity, Extent, Network, NetworkError, Reply, Url, Version, address};
use crate::source::Source;

pub use error::DownloadError;
pub use reader::DownloadReader;

use fetch::{FIRST_REQUEST, Fetch, Wanted, has_stable_ranges, is_provable};
use journal::{Earlier, Header, Journal, MAX_LENGTH, chunk_size};
use ledger::Ledger;
use reader::DownloadSource;
use store::{Data, Store, TaskGuard};

/// The name of the file with the bytes.
const DATA: &str = "data";
/// How long dropping a download waits for tasks that are in the middle of a write.
const LONGEST_GOODBYE: Duration = Duration::from_secs(1);

/// What is downloaded, and into which folder.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The file.
    pub url: &'a Url,
    /// The version it must be of. Otherwise it is the one that the server has at the first request.
    pub version: Option<&'a Version>,
    /// The part of the file; all of it if there is none.
    pub range: Option<Range<u64>>,
    /// A folder that exists and that nobody else uses meanwhile. It may hold an earlier attempt, at this or at anything else.
    pub folder: &'a Path,
    /// Whether the bytes may come compressed. They are then kept as they come.
    pub accept_encoded: bool,
    /// The most bytes that are accepted, compressed ones if they are.
    pub limit: u64,
}

/// A download that is under way. Dropping it ends its tasks and leaves the folder to a later attempt.
#[derive(Debug)]
pub struct Download {
    store: Arc<Store>,
    version: Version,
    encodings: Vec<String>,
    is_resumed: bool,
    offset: u64,
    path: PathBuf,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Download {
    /// Begins a download, or goes on with an earlier one. Blocks until the server has answered once; what an earlier attempt had
    /// completed needs no request.
    ///
    /// # Errors
    /// [`NetworkError`]: the server does not answer, has another version, more than the limit, or no ranges where a range is
    /// wanted; the activity stops. [`DownloadError::Io`]: the folder cannot be used, or has too little space.
    pub fn start(network: &Network, target: &Target<'_>, activity: &Arc<Activity>) -> Result<Download, DownloadError> {
        if activity.is_stopped() {
            return Err(NetworkError::Interrupted.into());
        }
        let starter = Starter { network, target, activity, path: target.folder.join(DATA) };
        if let Some(range) = &target.range
            && range.start >= range.end
        {
            return starter.empty();
        }
        match starter.earlier()? {
            Some((earlier, data)) => match starter.resume(earlier, data)? {
                Some(download) => Ok(download),
                None => starter.fresh(),
            },
            None => starter.fresh(),
        }
    }

    /// How many bytes there will be, where the server told.
    pub fn length(&self) -> Option<u64> {
        self.store.length()
    }

    /// The content encodings of the bytes, in the order they were applied.
    pub fn encodings(&self) -> &[String] {
        &self.encodings
    }

    /// The version of the remote file that the bytes are of.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Whether some of the bytes are from an earlier attempt. If what was downloaded then turns out to be wrong, it may be these:
    /// [`forget`](Self::forget) them and try once more.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// The file with the bytes; of a range it holds the range alone. Complete when a reader has come to its end.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The bytes from the start on, in order, as they arrive.
    pub fn reader(&self) -> DownloadReader {
        DownloadReader::new(self.store.clone())
    }

    /// The bytes at the positions that they have in the remote file. Its length is the end of the range.
    pub fn source(&self) -> Arc<dyn Source> {
        Arc::new(DownloadSource { store: self.store.clone(), start: self.offset })
    }

    /// Whether a folder holds a part of a download, though perhaps not one that can be continued.
    pub fn has_begun(folder: &Path) -> bool {
        Journal::exists(folder)
    }

    /// Deletes what a folder holds of a download, to start over.
    ///
    /// # Errors
    /// The files are there and cannot be deleted.
    pub fn forget(folder: &Path) -> io::Result<()> {
        // First what claims the bytes, then the bytes.
        Journal::remove(folder)?;
        journal::remove(&folder.join(DATA))
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.store.fail(NetworkError::Interrupted.into());
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
        // Who is told that the folder is free may delete or reuse it.
        self.store.wait_for_tasks(LONGEST_GOODBYE);
    }
}

/// What the beginning of a download needs.
struct Starter<'a> {
    network: &'a Network,
    target: &'a Target<'a>,
    activity: &'a Arc<Activity>,
    path: PathBuf,
}

impl Starter<'_> {
    /// An attempt in the folder that has bytes of the same thing.
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
        if header.url != Sha256Digest::of(target.url.as_str().as_bytes())
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

    /// Goes on with an earlier attempt; none when the server has another version now and that is fine.
    fn resume(&self, earlier: Earlier, data: File) -> Result<Option<Download>, DownloadError> {
        let Earlier { header, journal, done } = earlier;
        let mut ledger = Ledger::new(header.length, header.chunk_size, &done);
        let kept = header.length - ledger.missing();
        let first = ledger.take(FIRST_REQUEST);
        let (store, version, encodings) = match first {
            None => {
                let store = self.ranged(data, Some(journal), ledger);
                (store, header.version, header.encodings)
            }
            Some(span) => {
                let wanted = Wanted { version: Some(header.version.clone()), ..self.wanted() };
                let (position, size) = (span.next, span.end - span.next);
                let sent =
                    self.block_on(move |network| async move { wanted.first_reply(&network, position, size).await });
                let reply = match sent {
                    Err(NetworkError::Changed { .. }) if self.target.version.is_none() => return Ok(None),
                    sent => sent?,
                };
                if *reply.extent() == Extent::Whole || reply.encodings() != header.encodings {
                    return Ok(None);
                }
                self.check_space(ledger.missing())?;
                let store = self.ranged(data, Some(journal), ledger);
                let fetch = self.fetch(&store, header.version, header.encodings);
                self.activity.add_kept(kept);
                let tasks = self.spawn_ranges(&fetch, Some((span, reply)))?;
                return Ok(Some(self.download(store, &fetch.version, &fetch.encodings, kept > 0, tasks)));
            }
        };
        self.activity.add_kept(kept);
        Ok(Some(self.download(store, &version, &encodings, kept > 0, Vec::new())))
    }

    /// Starts from nothing.
    fn fresh(&self) -> Result<Download, DownloadError> {
        Download::forget(self.target.folder).map_err(self.io("delete"))?;
        let wanted = self.wanted();
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
        let length = match (reply.extent(), &self.target.range) {
            (Extent::Part { .. }, Some(range)) => Some(range.end - range.start),
            (Extent::Part { total, .. }, None) => Some(*total),
            (_, None) => return self.stream(reply),
            (_, Some(_)) => {
                let (url, length) = (address(self.target.url), reply.version().length);
                return Err(NetworkError::NoRanges { url, length }.into());
            }
        };
        let length = self.check_length(length)?.unwrap_or(0);
        let data = self.create(length)?;
        let header = Header {
            url: Sha256Digest::of(self.target.url.as_str().as_bytes()),
            version: reply.version().clone(),
            range: self.target.range.clone(),
            accept_encoded: self.target.accept_encoded,
            encodings: reply.encodings().to_vec(),
            length,
            chunk_size: chunk_size(length),
        };
        let journal = if self.target.version.is_some() || is_provable(&header.version) {
            Some(Journal::create(self.target.folder, &header).map_err(self.io("write the journal of"))?)
        } else {
            None
        };
        let mut ledger = Ledger::new(length, header.chunk_size, &[]);
        let first = ledger.take(FIRST_REQUEST).map(|span| (span, reply));
        let store = self.ranged(data, journal, ledger);
        let fetch = self.fetch(&store, header.version, header.encodings);
        let tasks = self.spawn_ranges(&fetch, first)?;
        Ok(self.download(store, &fetch.version, &fetch.encodings, false, tasks))
    }

    /// Takes everything from one answer.
    fn stream(&self, reply: Reply) -> Result<Download, DownloadError> {
        let length = self.check_length(reply.remaining())?;
        let data = self.create(length.unwrap_or(0))?;
        let store = Arc::new(Store::stream(self.data(data), length));
        let fetch = self.fetch(&store, reply.version().clone(), reply.encodings().to_vec());
        let task = fetch.clone().stream(TaskGuard::new(&store), reply, self.target.limit);
        let tasks = vec![network::runtime()?.spawn(task).abort_handle()];
        Ok(self.download(store, &fetch.version, &fetch.encodings, false, tasks))
    }

    /// A range without bytes.
    fn empty(&self) -> Result<Download, DownloadError> {
        Download::forget(self.target.folder).map_err(self.io("delete"))?;
        let data = self.create(0)?;
        let version = Version { etag: None, last_modified: None, length: None };
        let version = self.target.version.cloned().unwrap_or(version);
        let store = self.ranged(data, None, Ledger::new(0, chunk_size(0), &[]));
        Ok(self.download(store, &version, &[], false, Vec::new()))
    }

    fn check_length(&self, length: Option<u64>) -> Result<Option<u64>, DownloadError> {
        let limit = self.target.limit.min(MAX_LENGTH);
        if length.is_some_and(|length| length > limit) {
            return Err(NetworkError::TooLarge { url: address(self.target.url), limit }.into());
        }
        self.check_space(length.unwrap_or(0))?;
        Ok(length)
    }

    /// Fails before a download that will not fit rather than in the middle of it.
    fn check_space(&self, n_bytes: u64) -> Result<(), DownloadError> {
        let system =
            rustix::fs::statvfs(self.target.folder).map_err(|error| self.io("find space for")(error.into()))?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        // Some file systems do not tell.
        if system.f_blocks == 0 || free >= n_bytes {
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

    fn wanted(&self) -> Wanted {
        Wanted {
            url: self.target.url.clone(),
            version: self.target.version.cloned(),
            range: self.target.range.clone(),
            accept_encoded: self.target.accept_encoded,
        }
    }

    fn ranged(&self, data: File, journal: Option<Journal>, ledger: Ledger) -> Arc<Store> {
        Arc::new(Store::ranged(self.data(data), journal, ledger))
    }

    fn data(&self, file: File) -> Data {
        let (path, location) = (self.path.clone(), address(self.target.url));
        Data { file, path, location, activity: self.activity.clone() }
    }

    fn fetch(&self, store: &Arc<Store>, version: Version, encodings: Vec<String>) -> Arc<Fetch> {
        Arc::new(Fetch {
            network: self.network.clone(),
            url: self.target.url.clone(),
            version,
            encodings,
            accept_encoded: self.target.accept_encoded,
            offset: self.offset(),
            store: store.clone(),
            pace: pace::Pace::default(),
        })
    }

    fn spawn_ranges(
        &self,
        fetch: &Arc<Fetch>,
        mut first: Option<(ledger::Span, Reply)>,
    ) -> Result<Vec<tokio::task::AbortHandle>, DownloadError> {
        let runtime = network::runtime()?;
        let n_tasks = self.network.options().n_ranges.max(1);
        let spawn = |_| {
            let task = fetch.clone().ranges(TaskGuard::new(&fetch.store), first.take());
            runtime.spawn(task).abort_handle()
        };
        Ok((0..n_tasks).map(spawn).collect())
    }

    fn download(
        &self,
        store: Arc<Store>,
        version: &Version,
        encodings: &[String],
        is_resumed: bool,
        tasks: Vec<tokio::task::AbortHandle>,
    ) -> Download {
        Download {
            store,
            version: version.clone(),
            encodings: encodings.to_vec(),
            is_resumed,
            offset: self.offset(),
            path: self.path.clone(),
            tasks,
        }
    }

    fn offset(&self) -> u64 {
        self.target.range.as_ref().map_or(0, |range| range.start)
    }

    fn io(&self, action: &'static str) -> impl FnOnce(io::Error) -> DownloadError {
        DownloadError::io(action, &self.path)
    }

    /// Runs a future on the network's threads and waits for it.
    fn block_on<F: Future<Output = Result<Reply, NetworkError>> + Send + 'static>(
        &self,
        work: impl FnOnce(Network) -> F,
    ) -> Result<Reply, NetworkError> {
        self.network.wait(&|| self.activity.control(), work(self.network.clone()))
    }
}

/// A link in place of a file is not followed.
fn no_follow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0)
}
