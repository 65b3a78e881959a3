//! Uploads one blob, with retries.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use carton_format::context::Meter;
use carton_format::digest::Sha256Digest;
use carton_network::oci::{Client, UploadStart};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::Error;

/// The length of the pieces that a file is sent in, and how many of them wait, in bytes and pieces.
const PIECE: usize = 256 << 10;
const N_WAITING: usize = 8;

/// How a blob got into a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The registry had the blob already.
    Present,
    /// The registry took it over from another repository.
    Mounted,
    /// The blob was sent.
    Sent,
}

/// A blob that a repository needs.
pub(super) struct Blob<'a> {
    pub(super) digest: Sha256Digest,
    pub(super) size: u64,
    /// Opens it; called again for each attempt. The reader fails at its end if the bytes have another digest.
    pub(super) open: &'a (dyn Fn() -> Result<Box<dyn Read + Send + 'a>, Error> + Sync),
    /// Makes the error of a failed read.
    pub(super) read_error: &'a (dyn Fn(std::io::Error) -> Error + Sync),
}

/// Sends a blob that the repository does not have, unless the registry can take it over from one of the repositories `sources`.
pub(super) fn upload(client: &Client, blob: &Blob<'_>, sources: &[&str], meter: &Meter<'_>) -> Result<Outcome, Error> {
    let mut retries = client.retries();
    let mut sources = sources;
    // Bytes that are sent once more are not counted once more.
    let counted = AtomicU64::new(0);
    loop {
        let location = match begin(client, blob, sources)? {
            UploadStart::Mounted => {
                meter.advance(blob.size)?;
                return Ok(Outcome::Mounted);
            }
            UploadStart::Upload(location) => location,
        };
        let failure = Mutex::new(None);
        let (sender, pieces) = mpsc::channel(N_WAITING);
        let sent = std::thread::scope(|scope| {
            let (failure, counted) = (&failure, &counted);
            // The sender ends with the thread: a file that is too short must not keep the request waiting for more.
            scope.spawn(move || {
                if let Err(error) = send(blob, &sender, counted, meter) {
                    *failure.lock() = Some(error);
                    let _ = sender.blocking_send(Err(std::io::ErrorKind::InvalidData.into()));
                }
            });
            client.put_blob(&location, &blob.digest, blob.size, pieces)
        });
        match (sent, failure.into_inner()) {
            // The file could not be read: whatever the registry says of the upload follows from that.
            (_, Some(error)) => return Err(error),
            (Ok(()), None) => {
                meter.advance(blob.size.saturating_sub(counted.load(Ordering::Relaxed)))?;
                return Ok(Outcome::Sent);
            }
            (Err(error), None) => {
                retries = client.pause(retries, error)?;
                // The registry may have stored the blob before the connection broke.
                if client.has_blob(&blob.digest)? {
                    meter.advance(blob.size.saturating_sub(counted.load(Ordering::Relaxed)))?;
                    return Ok(Outcome::Sent);
                }
                sources = &[];
            }
        }
    }
}

/// Asks the registry to take the blob over from each of the repositories `sources`; begins an upload if it does so from none.
fn begin(client: &Client, blob: &Blob<'_>, sources: &[&str]) -> Result<UploadStart, Error> {
    let mut last = None;
    for source in sources {
        match client.begin(Some((&blob.digest, source)))? {
            UploadStart::Mounted => return Ok(UploadStart::Mounted),
            upload => last = Some(upload),
        }
    }
    match last {
        Some(upload) => Ok(upload),
        None => Ok(client.begin(None)?),
    }
}

/// Passes the bytes of a blob on, until the receiver takes no more.
fn send(
    blob: &Blob<'_>,
    sender: &mpsc::Sender<std::io::Result<Bytes>>,
    counted: &AtomicU64,
    meter: &Meter<'_>,
) -> Result<(), Error> {
    let mut reader = (blob.open)()?;
    let mut position = 0;
    loop {
        let mut piece = vec![0; PIECE];
        let mut length = 0;
        while length < piece.len() {
            match reader.read(&mut piece[length..]) {
                Ok(0) => break,
                Ok(n_bytes) => length += n_bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err((blob.read_error)(error)),
            }
        }
        if length == 0 {
            return Ok(());
        }
        piece.truncate(length);
        position += length as u64;
        if sender.blocking_send(Ok(Bytes::from(piece))).is_err() {
            // The request ended, and its result says why.
            return Ok(());
        }
        let before = counted.fetch_max(position, Ordering::Relaxed);
        meter.advance(position.saturating_sub(before))?;
    }
}
