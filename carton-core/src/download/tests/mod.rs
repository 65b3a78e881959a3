#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod failure;
mod journal;
mod resume;
mod server;
mod whole;

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fetch::FIRST_REQUEST;
use super::{Download, DownloadError, Target};
use crate::network::{Activity, Network, NetworkError, NetworkOptions, Url, Version};
use server::{Act, Server};

/// The size of a chunk of all the small files here.
const CHUNK: usize = FIRST_REQUEST as usize;

/// Bytes that differ at each place.
fn content(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ length as u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn network() -> Network {
    Network::new(NetworkOptions {
        idle_timeout: Duration::from_secs(20),
        max_retries: 3,
        first_pause: Duration::from_millis(1),
        ..NetworkOptions::default()
    })
}

fn target<'a>(url: &'a Url, folder: &'a Path) -> Target<'a> {
    Target { url, version: None, range: None, folder, accept_encoded: false, limit: 1 << 40 }
}

/// The bytes of a download, read to the end.
struct Brought {
    bytes: Vec<u8>,
    download: Download,
    activity: Arc<Activity>,
}

/// Downloads everything, into a folder that may hold an earlier attempt.
fn fetch(target: &Target<'_>) -> Result<Brought, DownloadError> {
    let activity = Arc::new(Activity::default());
    let download = Download::start(&network(), target, &activity)?;
    let bytes = read(&download)?;
    assert_eq!(std::fs::read(download.path()).unwrap(), bytes);
    Ok(Brought { bytes, download, activity })
}

fn read(download: &Download) -> Result<Vec<u8>, DownloadError> {
    let mut bytes = Vec::new();
    download.reader().read_to_end(&mut bytes).map_err(|error| DownloadError::from_read(error).unwrap())?;
    Ok(bytes)
}

/// The error of a download that must fail.
fn failure(target: &Target<'_>) -> DownloadError {
    match fetch(target) {
        Ok(brought) => panic!("downloaded {} bytes", brought.bytes.len()),
        Err(error) => error,
    }
}

/// Starts a download and drops it when it has received this many bytes.
fn leave_after(target: &Target<'_>, n_bytes: u64) {
    let activity = Arc::new(Activity::default());
    let download = Download::start(&network(), target, &activity).unwrap();
    wait_until(|| activity.received() >= n_bytes);
    drop(download);
}

fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn strong(etag: &str) -> Version {
    Version { etag: Some(format!("\"{etag}\"")), last_modified: None, length: None }
}

fn as_u64(range: Range<usize>) -> Range<u64> {
    range.start as u64..range.end as u64
}
