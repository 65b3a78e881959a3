//! What a runner has prepared for a model: it is remembered on disk, so that the process that prepares is started once for each model, and
//! kept from being deleted while the model is loaded.
//!
//! ```text
//! <runner data>/prepared-v1/
//!   <key>.json      what the runner answered; the key is a hash of the runner and of the model
//! ```
//!
//! A record that is wrong does no harm: the runner finds that it cannot read what the model needs, and prepares again.

use std::fs::{File, FileTimes, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use carton_format::digest::Sha256Digest;
use carton_runner_interface::runner::Prepared;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use crate::package::Package;
use crate::runner::Descriptor;

/// The folder of the records in the runners' data folder. A change in their format gets a new folder.
const FOLDER: &str = "prepared-v1";
/// The largest record that is read, in bytes: all paths that an answer may have.
const MAX_BYTES: u64 = 1 << 20;

/// What the process that runs a model reads besides the model's files.
#[derive(Debug, Default)]
pub(super) struct Preparation {
    pub(super) read: Vec<PathBuf>,
}

/// The preparations for one model and one runner.
pub(super) struct Preparations {
    record: PathBuf,
    /// The folders in which the runner prepares.
    folders: Vec<PathBuf>,
    /// Open files whose locks keep what is in use from being deleted.
    held: Mutex<Vec<File>>,
}

impl Preparations {
    pub(super) fn new(package: &Package, descriptor: &Descriptor, data_dir: &Path) -> Self {
        // A bare model has no hash. It is known by its place, and what it needs may change.
        let model = match package.manifest_sha256() {
            Some(hash) => hash.to_string(),
            None => {
                std::path::absolute(package.contents().location()).unwrap_or_default().to_string_lossy().into_owned()
            }
        };
        let identity = serde_json::json!([descriptor.runner_path.to_string_lossy(), descriptor.to_string(), model]);
        let key = Sha256Digest::of(identity.to_string().as_bytes());
        let prepare = descriptor.prepare.iter().flat_map(|prepare| &prepare.data);
        let folders = prepare.map(|name| data_dir.join(name)).collect();
        Self { record: data_dir.join(FOLDER).join(format!("{key}.json")), folders, held: Mutex::default() }
    }

    /// Returns what was prepared earlier, if it is still there.
    pub(super) fn remembered(&self) -> Option<Preparation> {
        let mut text = Vec::new();
        File::open(&self.record).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
        let prepared: Prepared = serde_json::from_slice(&text).ok()?;
        // The locks come first: what is there without a lock may be deleted at any time.
        let is_held = self.hold(&prepared);
        let read = self.inside(&prepared.read);
        (is_held && read.len() == prepared.read.len()).then_some(Preparation { read })
    }

    /// Keeps an answer of the runner.
    pub(super) fn remember(&self, prepared: Prepared) -> Preparation {
        if !self.hold(&prepared) {
            tracing::debug!("what was prepared for a model may be deleted while it is used");
        }
        if let Err(error) = self.write(&prepared) {
            // The next load prepares again, which is only slower.
            tracing::debug!("cannot write `{}`: {error}", self.record.display());
        }
        let read = self.inside(&prepared.read);
        for path in prepared.read.iter().filter(|_| read.len() < prepared.read.len()) {
            tracing::warn!(target: "carton::sandbox", "the runner prepared `{}`, and only what is in its own folder is used", path.display());
        }
        Preparation { read }
    }

    /// Returns those of `paths` that are there and lie in the folders in which the runner prepares, without links. The answer and the record
    /// of it decide what a model can read, and are those of a program that is not trusted with all files.
    fn inside(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        let folders: Vec<PathBuf> = self.folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        let found = paths.iter().filter_map(|path| path.canonicalize().ok());
        found.filter(|path| folders.iter().any(|folder| path.starts_with(folder))).collect()
    }

    fn write(&self, prepared: &Prepared) -> io::Result<()> {
        let folder = self.record.parent().unwrap_or(Path::new(""));
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, prepared)?;
        file.persist(&self.record)?;
        Ok(())
    }

    /// Takes the locks of what is in use, and sets the time of its last use. Returns `false` if another process is about to delete it.
    fn hold(&self, prepared: &Prepared) -> bool {
        let mut held = Vec::new();
        for path in self.inside(&prepared.in_use) {
            // A file that is not a regular one could make this wait for ever.
            let options = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(file) = rustix::fs::open(&path, options, Mode::empty()).map(File::from) else { return false };
            if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                return false;
            }
            let is_locked = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
            // A process that deletes an environment holds the lock meanwhile, and deletes the lock file last.
            let inode = |metadata: io::Result<Metadata>| metadata.ok().map(|metadata| metadata.ino());
            if !is_locked || inode(file.metadata()) != inode(std::fs::metadata(path)) {
                return false;
            }
            // The file may belong to another user, who lets others use it.
            let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
            held.push(file);
        }
        let is_complete = held.len() == prepared.in_use.len();
        *self.held.lock() = held;
        is_complete
    }
}
