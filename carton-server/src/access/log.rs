//! The access log: a line of JSON for each request, written by a thread of its own so that a slow disk holds up no request.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::oneshot;

use super::log_writer::LogWriter;

/// The lines that wait to be written, at most. Further ones are dropped, and counted in the log itself.
const MAX_WAITING: usize = 4096;
/// The bytes after which lines are written, although more wait.
const MAX_WRITTEN: usize = 64 << 10;
/// How long the end of the server waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How often it looks for a place in the queue for that.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);

/// Where the requests of a server are recorded.
#[derive(Clone, Debug)]
pub struct AccessLog {
    entries: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

/// What the thread that writes is told.
#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// Open the file again.
    Reopen,
    /// Say when all that came before is written.
    Flush(oneshot::Sender<()>),
}

/// The access log cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the access log `{}`", path.display())]
pub struct AccessLogError {
    path: PathBuf,
    source: io::Error,
}

/// What is recorded of a request.
#[derive(Debug, Serialize)]
pub(crate) struct Record<'a> {
    /// Seconds since 1970.
    pub(crate) time: f64,
    pub(crate) client: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    /// The time to the first byte of the answer, or to the last of a stream, in seconds.
    pub(crate) seconds: f64,
    /// The status code of gRPC. None for HTTP, and for a stream of gRPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grpc_status: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace_id: Option<&'a str>,
}

/// The status code of gRPC, for the access log: an extension of the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrpcStatus(pub(crate) u8);

impl AccessLog {
    /// Writes to the end of a file, which is made if it does not exist; `-` is standard output.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started.
    pub fn open(path: &Path) -> Result<Self, AccessLogError> {
        let failed = |source| AccessLogError { path: path.to_path_buf(), source };
        let writer = LogWriter::open(path).map_err(failed)?;
        let (entries, waiting) = sync_channel(MAX_WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let thread = std::thread::Builder::new().name("carton-access-log".to_owned());
        let counted = Arc::clone(&dropped);
        thread.spawn(move || write_entries(writer, &waiting, &counted)).map_err(failed)?;
        Ok(Self { entries, dropped })
    }

    pub(crate) fn record(&self, record: &Record<'_>) {
        let Ok(mut line) = serde_json::to_vec(record) else { return };
        line.push(b'\n');
        if let Err(TrySendError::Full(_)) = self.entries.try_send(Entry::Line(line)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the file again by its path.
    pub(crate) fn reopen(&self) {
        if self.entries.try_send(Entry::Reopen).is_err() {
            tracing::warn!(target: "carton::serve", "the access log is behind, and was not opened again");
        }
    }

    /// Waits until all lines so far are written, or the disk turns out to be too slow for that.
    pub(crate) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let work = async {
            let mut entry = Entry::Flush(done);
            while let Err(TrySendError::Full(unsent)) = self.entries.try_send(entry) {
                entry = unsent;
                tokio::time::sleep(FLUSH_INTERVAL).await;
            }
            flushed.await.is_ok()
        };
        if !tokio::time::timeout(FLUSH_TIMEOUT, work).await.unwrap_or(false) {
            tracing::warn!(target: "carton::serve", "the last lines of the access log were not written");
        }
    }
}

/// Writes entries until no server has the log any more.
fn write_entries(mut writer: LogWriter, waiting: &Receiver<Entry>, dropped: &AtomicU64) {
    while let Ok(first) = waiting.recv() {
        let (mut lines, mut next, mut last) = (Vec::new(), Some(first), None);
        while let Some(entry) = next {
            match entry {
                Entry::Line(line) => lines.extend(line),
                entry => {
                    last = Some(entry);
                    break;
                }
            }
            next = if lines.len() < MAX_WRITTEN { waiting.try_recv().ok() } else { None };
        }
        let n_dropped = dropped.swap(0, Ordering::Relaxed);
        if n_dropped > 0 {
            lines.extend(format!("{{\"dropped\":{n_dropped}}}\n").into_bytes());
        }
        let n_lost = writer.write(&lines);
        if n_lost > 0 {
            // The last line, which is lost first, is the one with the number.
            let of_number = n_dropped.saturating_sub(1);
            dropped.fetch_add(n_lost + of_number, Ordering::Relaxed);
        }
        match last {
            Some(Entry::Reopen) => writer.reopen(),
            // If this fails, nobody waits any more.
            Some(Entry::Flush(done)) => drop(done.send(())),
            Some(Entry::Line(_)) | None => {}
        }
    }
}

/// Now, in seconds since 1970.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}
