//! Judges a carton with everything that the public API can do except running it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::error::Error as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use carton_core::config::Config;
use carton_core::internals::model;
use carton_core::metadata::Oddity;
use carton_core::{Carton, Error, ErrorKind, Package, Sha256Digest, VerifyReport};
use carton_tensor::Tensor;

/// The time limit. It is longer than any operation here takes, so an operation that exceeds it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The largest file that is read as a whole.
const CAP: u64 = 64 << 20;

/// The result of judging a carton.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The carton opened and everything in it could be read.
    Good(Box<Everything>),
    /// The first operation that failed.
    Bad(Failure),
}

/// Everything that was read from a carton, with each file read in every possible way.
#[derive(Debug)]
pub(crate) struct Everything {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) tensors: BTreeMap<String, Tensor>,
    pub(crate) manifest_hash: String,
    pub(crate) model_name: Option<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) oddities: Vec<Oddity>,
}

/// An error as the API gives it.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The operation that failed.
    pub(crate) stage: &'static str,
    pub(crate) kind: ErrorKind,
    /// The error and its causes.
    pub(crate) text: String,
}

impl Failure {
    fn new(stage: &'static str, error: &Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        // A panic on one of the library's threads is reported as `Internal`.
        assert!(!error.to_string().starts_with("internal error"), "{stage}: {text}");
        Self { stage, kind: error.kind(), text }
    }
}

/// A folder for the judged carton, its cache and its unpacked files.
pub(crate) struct Court {
    folder: tempfile::TempDir,
    /// Whether a carton has put anything into the cache.
    cached: Cell<bool>,
}

impl Court {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), cached: Cell::new(false) }
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = Config::in_folder(self.folder.path());
        // Some cartons have URLs, which must not be fetched.
        config.offline = true;
        config
    }

    /// Judges the carton of these bytes on a thread with a time limit.
    pub(crate) fn judge(&self, bytes: &[u8]) -> Verdict {
        let path = self.folder.path().join("judged.carton");
        std::fs::write(&path, bytes).unwrap();
        self.judge_path(path)
    }

    /// Judges the carton, or the unpacked carton, at `path`.
    pub(crate) fn judge_path(&self, path: PathBuf) -> Verdict {
        let (send, receive) = mpsc::channel();
        let (config, unpacked) = (self.config(), self.folder.path().join("unpacked"));
        // Removed, because an earlier good model would be found in the cache.
        if self.cached.take() {
            std::fs::remove_dir_all(&config.cache_dir).unwrap();
        }
        let thread = std::thread::spawn(move || {
            let _ = send.send(judge(path, config, &unpacked));
        });
        match receive.recv_timeout(PATIENCE) {
            Ok(verdict) => {
                self.cached.set(!matches!(&verdict, Verdict::Bad(failure) if failure.stage == "open"));
                verdict
            }
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("not finished after {PATIENCE:?}"),
            Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
                Ok(()) => panic!("no verdict"),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}

fn judge(path: PathBuf, config: Config, unpacked: &Path) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(judge_everything(path, config, unpacked))
}

async fn judge_everything(path: PathBuf, config: Config, unpacked: &Path) -> Verdict {
    let package = match Carton::open(path).config(config).await {
        Ok(package) => package,
        Err(error) => return Verdict::Bad(Failure::new("open", &error)),
    };
    let verified = package.verify().await;
    let n_bad = verified.as_ref().map_or(1, |report| report.bad.len() + report.not_fetched.len());
    let read = read_everything(&package, unpacked, verified).await;
    // `verify` and reading must find the same files bad.
    match (&read, n_bad) {
        (Ok(_), 0) | (Err(_), 1..) => {}
        // A tensor's file can match MANIFEST and yet not be a tensor.
        (Err(failure), 0) if failure.stage == "read tensor" => {}
        (read, n_bad) => panic!("verify found {n_bad} bad files, and reading ends with {read:?}"),
    }
    match read {
        Ok(everything) => Verdict::Good(Box::new(everything)),
        Err(failure) => Verdict::Bad(failure),
    }
}

/// Reads everything in all ways, and then returns the first error.
async fn read_everything(
    package: &Package,
    unpacked: &Path,
    verified: Result<VerifyReport, Error>,
) -> Result<Everything, Failure> {
    let mut failures = Vec::new();
    let mut fail = |stage, error: Error| failures.push(Failure::new(stage, &error));

    let mut warnings = Vec::new();
    match verified {
        Ok(report) => {
            warnings = report.warnings;
            report.bad.into_iter().for_each(|bad| fail("verify", bad.error));
        }
        Err(error) => fail("verify", error),
    }
    let mut files = BTreeMap::new();
    for info in package.files() {
        match package.read_file(&info.path, CAP) {
            Ok(bytes) => {
                let digest = Sha256Digest::of(&bytes);
                assert_eq!(Some(digest), info.sha256, "{} was read without an error and is wrong", info.path);
                assert_eq!(info.size, Some(bytes.len() as u64), "size of {}", info.path);
                files.insert(info.path, bytes);
            }
            Err(error) => fail("read", error),
        }
    }
    let mut tensors = BTreeMap::new();
    for name in package.tensors().names() {
        match package.tensor(name) {
            Ok(tensor) => drop(tensors.insert(name.to_owned(), tensor)),
            Err(error) => fail("read tensor", error),
        }
    }
    match model::ranges(package) {
        Ok(ranges) => {
            for range in ranges.files() {
                let mut bytes = vec![0; range.length as usize];
                range.file.read_exact_at(&mut bytes, range.offset).unwrap();
                assert_eq!(files.get(&format!("model/{}", range.path)), Some(&bytes), "range of {}", range.path);
            }
            let n_model_files = files.keys().filter(|path| path.starts_with("model/")).count();
            assert_eq!(ranges.files().len(), n_model_files, "{:?}", ranges.files());
        }
        Err(error) => fail("model ranges", error),
    }
    match model::directory(package) {
        Ok(directory) => compare_folder(directory.path(), &files, "model/"),
        Err(error) => fail("model directory", error),
    }
    match package.unpack(unpacked).await {
        Ok(()) => {
            compare_folder(unpacked, &files, "");
            std::fs::remove_dir_all(unpacked).unwrap();
        }
        Err(error) => {
            fail("unpack", error);
            assert!(!unpacked.exists(), "a failed unpack left its folder");
        }
    }
    let leftover: Vec<_> = std::fs::read_dir(unpacked.parent().unwrap()).unwrap().flatten().map(|e| e.path()).collect();
    let is_partial = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().contains("partial");
    assert!(!leftover.iter().any(is_partial), "a failed unpack left something: {leftover:?}");
    match failures.into_iter().next() {
        Some(failure) => Err(failure),
        None => Ok(Everything {
            files,
            tensors,
            manifest_hash: package.manifest_sha256().unwrap().to_string(),
            model_name: package.metadata().model_name().map(str::to_owned),
            warnings,
            oddities: package.oddities(),
        }),
    }
}

/// Checks that a folder has the files below `prefix` and nothing else, except the files that describe an unpacked carton.
fn compare_folder(root: &Path, files: &BTreeMap<String, Vec<u8>>, prefix: &str) {
    let mut found = BTreeMap::new();
    let mut folders = vec![(root.to_path_buf(), prefix.to_owned())];
    while let Some((folder, prefix)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            // Links are followed only here: their targets are in the folder too.
            match std::fs::metadata(entry.path()).unwrap().is_dir() {
                true => folders.push((entry.path(), format!("{name}/"))),
                false => drop(found.insert(name, std::fs::read(entry.path()).unwrap())),
            }
        }
    }
    found.retain(|name, _| name != "MANIFEST" && name != "LINKS");
    let expected = files.iter().filter(|(path, _)| path.starts_with(prefix));
    assert!(expected.eq(found.iter()), "{} has {:?}", root.display(), found.keys());
}
