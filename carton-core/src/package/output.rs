//! The file that a carton is written to before it gets its name.
//!
//! On Linux it has no name at all until it is complete, so that even a killed process leaves nothing behind. Where that
//! cannot be made it has a temporary name, which does not end in `.carton`.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file on its way to becoming `output`. Dropped, it is gone.
pub(super) struct Pending {
    output: PathBuf,
    file: Kind,
}

enum Kind {
    #[cfg(target_os = "linux")]
    Nameless(File),
    Named(NamedTempFile),
}

impl Pending {
    /// An empty file in the folder of `output`, readable by whom files are usually made readable for.
    ///
    /// What is at `output` and is no file, such as a device, is refused: it would be replaced.
    pub(super) fn new(output: &Path) -> io::Result<Self> {
        if std::fs::metadata(output).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "something is there that is not a file"));
        }
        let output = output.to_path_buf();
        #[cfg(target_os = "linux")]
        if let Some(file) = nameless(folder(&output)) {
            return Ok(Self { output, file: Kind::Nameless(file) });
        }
        let file = builder().tempfile_in(folder(&output))?;
        Ok(Self { output, file: Kind::Named(file) })
    }

    pub(super) fn file(&mut self) -> &mut File {
        match &mut self.file {
            #[cfg(target_os = "linux")]
            Kind::Nameless(file) => file,
            Kind::Named(file) => file.as_file_mut(),
        }
    }

    /// The name that the file will have.
    pub(super) fn output(&self) -> &Path {
        &self.output
    }

    /// The file once more, for reading only.
    pub(super) fn open(&self) -> io::Result<File> {
        match &self.file {
            #[cfg(target_os = "linux")]
            Kind::Nameless(file) => File::open(descriptor_path(file)),
            Kind::Named(file) => File::open(file.path()),
        }
    }

    /// Whether the file has no name until it is published.
    pub(super) fn is_nameless(&self) -> bool {
        !matches!(self.file, Kind::Named(_))
    }

    /// Gives the file its name, replacing a file that has it.
    pub(super) fn publish(self) -> io::Result<()> {
        match self.file {
            Kind::Named(file) => file.persist(&self.output).map(|_| ()).map_err(|error| error.error),
            #[cfg(target_os = "linux")]
            Kind::Nameless(file) => {
                // A link cannot replace a file, but a rename can.
                match link(&file, &self.output) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    result => return result,
                }
                let named = builder().make_in(folder(&self.output), |path| link(&file, path))?;
                named.persist(&self.output).map(|_| ()).map_err(|error| error.error)
            }
        }
    }
}

fn folder(output: &Path) -> &Path {
    match output.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes temporary names.
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".carton-").suffix(".partial").permissions(Permissions::from_mode(0o666));
    builder
}

/// A file without a name, if the file system has such files and they can be named later.
#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    if !Path::new("/proc/self/fd").exists() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok().map(File::from)
}

#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD};
    rustix::fs::linkat(CWD, descriptor_path(file), CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
}

/// The path by which a file without a name can be opened and linked.
#[cfg(target_os = "linux")]
fn descriptor_path(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
