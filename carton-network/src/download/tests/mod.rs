#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod failure;
mod journal;
mod resume;
mod whole;

use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use carton_format::context::CancelToken;
use carton_format::url::Url;
use carton_test_server::{Answer, File, Request, Server};

use super::fetch::FIRST_REQUEST;
use super::{Download, DownloadError, Target};
use crate::http::{Activity, Network, NetworkError, NetworkOptions, Version};

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

/// The path of the one file of a [`FileServer`].
const PATH: &str = "/a/file";

/// A server of one file, which a test may change meanwhile.
struct FileServer {
    server: Server,
    file: Arc<Mutex<File>>,
    url: Url,
}

impl FileServer {
    /// Serves `content` under a strong `ETag`.
    fn start(content: Vec<u8>) -> Self {
        let file = File { last_modified: None, ..File::new(content).with_etag("\"1\"") };
        let server = Server::start();
        let url = server.url(PATH).parse().unwrap();
        let server = Self { server, file: Arc::new(Mutex::new(file)), url };
        server.serve();
        server
    }

    fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap()
    }

    /// Gives right answers from now on, and counts requests anew.
    fn serve(&self) {
        self.rule(|_, right| right);
    }

    /// Gives what the rule makes of the right answers from now on, and counts requests anew.
    fn rule(&self, rule: impl Fn(&Request, Answer) -> Answer + Send + Sync + 'static) {
        let file = self.file.clone();
        self.server.route(PATH, move |request| {
            let right = file.lock().unwrap().answer(request);
            rule(request, right)
        });
        self.server.forget();
    }

    /// Gives right answers to the first requests, and stops sending after so many bytes of the body at each later one.
    fn stall_from(&self, number: usize, n_bytes: usize) {
        self.rule(
            move |request, right| {
                if request.number < number { right } else { right.stall_after(n_bytes as u64) }
            },
        );
    }

    /// Puts another file in the place of this one at one request, and closes that connection.
    fn change_at(&self, number: usize, new: File) {
        let file = self.file.clone();
        self.rule(move |request, right| {
            if request.number != number {
                return right;
            }
            *file.lock().unwrap() = new.clone();
            Answer::raw("")
        });
    }

    /// The requests since the rule was set.
    fn requests(&self) -> Vec<Request> {
        self.server.requests()
    }
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
