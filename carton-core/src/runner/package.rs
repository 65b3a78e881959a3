//! Makes an archive of a runner's folder, byte-identical on every machine, and the index entry that offers it.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use carton_format::context::{CancelToken, Context};
use carton_format::digest::{Hasher, Sha256Digest};
use carton_format::progress::Stage;
use carton_format::url::Url;
use carton_tensor::files::PendingFile;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use tar::{Builder, EntryType, Header};

use super::folder::{self, Found, FoundKind};
use super::install::{check_executable, folder_name};
use super::unpack::names::Names;
use super::unpack::{UnpackError, UnpackLimits};
use super::workspace::Lock;
use super::{Descriptor, ExecutablePaths, InstallError, MAX_INDEX_BYTES, available};
use crate::error::Error;

/// 1980-01-01 in seconds since 1970, the date that entries of cartons also have.
const DATE: u64 = 315_532_800;
const BUFFER_LENGTH: usize = 256 << 10;

/// The result of packaging a runner's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packaged {
    /// The archive.
    pub path: PathBuf,
    /// Its hash.
    pub sha256: Sha256Digest,
    /// Its length in bytes.
    pub size: u64,
    /// The runners in it, with paths relative to its top.
    pub runners: Vec<Descriptor>,
}

/// An entry of an index, in its JSON form (spec/runner-descriptor.md, "Installation from an index").
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfferedRunner {
    #[serde(flatten)]
    descriptor: Descriptor,
    id: String,
    download_info: [OfferedPart; 1],
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct OfferedPart {
    url: String,
    sha256: Sha256Digest,
    relative_path: &'static str,
}

/// Returns the usual name of the archive of a runner's folder.
///
/// # Errors
/// The folder has no usable `runner.toml`.
pub fn archive_name(folder: &Path) -> Result<String, Error> {
    let runners = describe(folder)?;
    let runner = runners.first().ok_or_else(|| no_descriptor(folder))?;
    Ok(format!("{}-{}.tar.gz", folder_name(runner), runner.platform))
}

/// Writes the archive of a runner's `folder` to `output`. An existing file of that name is replaced once the archive is complete. Reports the bytes of the packed files to `context`, as
/// [`Stage::Pack`](crate::Stage::Pack).
///
/// # Errors
/// The folder could not be installed again: it has no usable `runner.toml`, no usable executable, or links that leave it.
/// [`ErrorKind::Interrupted`](crate::ErrorKind) if `context` is cancelled.
pub fn package(folder: &Path, output: &Path, context: &Context) -> Result<Packaged, Error> {
    let place = folder.display().to_string();
    let unpack_error = |source| InstallError::Unpack { place: place.clone(), source: Box::new(source) };
    let mut runners = describe(folder)?;
    if runners.is_empty() {
        return Err(no_descriptor(folder).into());
    }
    for runner in &mut runners {
        check_executable(runner, folder)?;
        runner.runner_path = runner.runner_path.strip_prefix(folder).unwrap_or(&runner.runner_path).to_path_buf();
    }
    let found = folder::list(folder).map_err(unpack_error)?;
    check_names(&found).map_err(unpack_error)?;

    let write_error = || InstallError::io("write", output);
    let pending = PendingFile::new(output).map_err(write_error())?;
    let hashing = Hashing { file: pending.file(), hasher: Hasher::new(), size: 0 };
    let mut archive = Builder::new(GzEncoder::new(hashing, Compression::default()));
    let total =
        found.iter().map(|found| if let FoundKind::File { length, .. } = found.kind { length } else { 0 }).sum();
    let meter = context.meter(Stage::Pack, total);
    for found in &found {
        context.check()?;
        append(&mut archive, found)?;
        if let FoundKind::File { length, .. } = found.kind {
            meter.advance(length)?;
        }
    }
    let finished = archive.into_inner().and_then(GzEncoder::finish);
    let Hashing { hasher, size, .. } = finished.map_err(write_error())?;
    pending.publish().map_err(write_error())?;
    Ok(Packaged { path: output.to_path_buf(), sha256: hasher.finish(), size, runners })
}

impl Packaged {
    /// Makes the index entries that offer the runners of this archive, to be downloaded from `url`.
    #[must_use]
    pub fn offered(&self, url: &str) -> Vec<OfferedRunner> {
        let offered = self.runners.iter().map(|runner| {
            let part = OfferedPart { url: url.to_owned(), sha256: self.sha256, relative_path: "" };
            let id = format!("{} {}", self.sha256, serde_json::to_string(runner).unwrap_or_default());
            OfferedRunner {
                descriptor: runner.clone(),
                id: Sha256Digest::of(id.as_bytes()).to_string(),
                download_info: [part],
            }
        });
        offered.collect()
    }

    /// Returns the URL of the archive relative to an index at `index`.
    ///
    /// # Errors
    /// The current folder cannot be determined.
    pub fn relative_url(&self, index: &Path) -> Result<String, Error> {
        let url = |path: &Path| -> Result<Option<Url>, InstallError> {
            let absolute = std::path::absolute(path).map_err(InstallError::io("locate", path))?;
            Ok(Url::from_file_path(absolute))
        };
        let (index, archive) = (url(index)?, url(&self.path)?);
        let relative = index.zip(archive.as_ref()).and_then(|(index, archive)| index.make_relative(archive));
        Ok(relative.unwrap_or_else(|| archive.map(|archive| archive.expose_str().to_owned()).unwrap_or_default()))
    }
}

/// Adds entries to the index at `path`, replacing those of the same releases, and those whose archive was replaced by another. Other entries stay.
/// A missing index is created.
///
/// # Errors
/// The file is not an index, or cannot be written; [`ErrorKind::Interrupted`](crate::ErrorKind) if `cancel_token` is cancelled while another
/// process writes the index.
pub fn add_to_index(path: &Path, offered: &[OfferedRunner], cancel_token: &CancelToken) -> Result<(), Error> {
    let write_error = || InstallError::io("write", path);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The lock keeps two processes from losing each other's entries.
    let locked = Lock::acquire(&parent.join(format!(".lock-{name}")), cancel_token).map_err(write_error())?;
    let (_lock, _) = locked.ok_or(InstallError::Interrupted)?;
    let index_error = |source| InstallError::Index { index: path.display().to_string(), source };
    let json_error = |error: serde_json::Error| index_error(super::RunnerIndexError::Json(error.into()));
    let mut entries: Vec<serde_json::Value> = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(InstallError::io("open", path)(error).into()),
        Ok(file) => {
            let found = file.metadata().map_err(InstallError::io("inspect", path))?.len();
            if found > MAX_INDEX_BYTES {
                return Err(index_error(super::RunnerIndexError::TooLarge { found }).into());
            }
            serde_json::from_reader(BufReader::new(file.take(MAX_INDEX_BYTES))).map_err(json_error)?
        }
    };
    for offered in offered {
        let offered = serde_json::to_value(offered).map_err(json_error)?;
        entries.retain(|entry| !is_same_release(entry, &offered) && !names_replaced_archive(entry, &offered));
        entries.push(offered);
    }
    let pending = PendingFile::new(path).map_err(write_error())?;
    let mut output = BufWriter::new(pending.file());
    serde_json::to_writer_pretty(&mut output, &entries).map_err(|error| write_error()(error.into()))?;
    output.write_all(b"\n").and_then(|()| output.flush()).map_err(write_error())?;
    drop(output);
    Ok(pending.publish().map_err(write_error())?)
}

fn is_same_release(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    let fields = [
        "runner_name",
        "framework_version",
        "runner_compat_version",
        "runner_interface_version",
        "runner_release_date",
        "platform",
    ];
    fields.iter().all(|field| a.get(field) == b.get(field))
}

/// Whether `offered` has a URL of this entry with another hash. The archive there was replaced, so the entry could not be installed.
fn names_replaced_archive(entry: &serde_json::Value, offered: &serde_json::Value) -> bool {
    let parts = |entry: &serde_json::Value| entry["download_info"].as_array().cloned().unwrap_or_default();
    let new = parts(offered);
    parts(entry).iter().any(|part| new.iter().any(|new| part["url"] == new["url"] && part["sha256"] != new["sha256"]))
}

fn describe(folder: &Path) -> Result<Vec<Descriptor>, InstallError> {
    let path = folder.join(available::DESCRIPTOR);
    if folder.is_dir() && !path.exists() {
        return Err(no_descriptor(folder));
    }
    Ok(available::read_descriptor(&path, folder, ExecutablePaths::InFolder)?)
}

fn no_descriptor(folder: &Path) -> InstallError {
    InstallError::NoDescriptor { place: folder.display().to_string(), inside: None }
}

/// Refuses names and links that could not be unpacked again.
fn check_names(found: &[Found]) -> Result<(), UnpackError> {
    let mut names = Names::new(UnpackLimits::default());
    for found in found {
        match &found.kind {
            FoundKind::Folder => names.folder(&found.name, &mut |_| Ok(()))?,
            FoundKind::File { .. } => names.file(&found.name, &mut |_| Ok(()))?,
            FoundKind::Link { target } => names.link(&found.name, target, &mut |_| Ok(()))?,
        }
    }
    names.check_links().map(drop)
}

fn append(archive: &mut Builder<impl Write>, found: &Found) -> Result<(), InstallError> {
    let mut header = Header::new_gnu();
    header.set_mtime(DATE);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header.set_mode(0o755);
    let appended = match &found.kind {
        FoundKind::Folder => {
            header.set_entry_type(EntryType::Directory);
            archive.append_data(&mut header, format!("{}/", found.name), io::empty())
        }
        FoundKind::Link { target } => {
            header.set_entry_type(EntryType::Symlink);
            header.set_mode(0o777);
            let target = String::from_utf8_lossy(target).into_owned();
            archive.append_link(&mut header, &found.name, target)
        }
        FoundKind::File { is_executable, length } => {
            header.set_entry_type(EntryType::Regular);
            header.set_mode(if *is_executable { 0o755 } else { 0o644 });
            header.set_size(*length);
            let file = File::open(&found.path).map_err(InstallError::io("open", &found.path))?;
            let data = Exactly { data: BufReader::with_capacity(BUFFER_LENGTH, file), left: *length };
            archive.append_data(&mut header, &found.name, data)
        }
    };
    appended.map_err(InstallError::io("archive", &found.path))
}

/// Reads exactly as many bytes as the file had when it was listed. If its length has changed, reading fails.
struct Exactly<R> {
    data: R,
    left: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.data.read(buffer)?;
        match self.left.checked_sub(length as u64) {
            Some(left) if length > 0 || left == 0 || buffer.is_empty() => self.left = left,
            _ => return Err(io::Error::other("the file changed while it was being read")),
        }
        Ok(length)
    }
}

/// Hashes and counts what is written.
struct Hashing<'f> {
    file: &'f File,
    hasher: Hasher,
    size: u64,
}

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.file.write(bytes)?;
        self.hasher.update(&bytes[..length]);
        self.size += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
