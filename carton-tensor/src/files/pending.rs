//! Writes a file that gets its name only when it is complete.
//!
//! On Linux the file has no name until then, so that even a killed process leaves nothing behind. Where nameless files are not
//! available, the file has a temporary name that starts with `.carton-` and ends in `.partial`. The temporary file of a killed process
//! is never deleted, because such a file may also belong to a process that is still writing it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The most symbolic links to follow in a row, as on Linux.
const MAX_LINKS: usize = 40;

/// A file that is not yet published under its name. Dropping it before [`publish`](Self::publish) deletes it.
///
/// The new file takes over the permissions of a file that it replaces. If the name is a symbolic link, the file that the link leads to
/// is replaced, and the link stays.
///
/// ```
/// use std::io::Write;
/// use carton_tensor::files::PendingFile;
/// # let folder = tempfile::tempdir()?;
/// let output = folder.path().join("output");
/// let pending = PendingFile::new(&output)?;
/// pending.file().write_all(b"all of it")?;
/// assert!(!output.exists());
/// pending.publish()?;
/// assert_eq!(std::fs::read(&output)?, b"all of it");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PendingFile {
    /// The path as the caller gave it.
    output: PathBuf,
    /// The path after following symbolic links.
    target: PathBuf,
    file: TemporaryFile,
}

#[derive(Debug)]
enum TemporaryFile {
    #[cfg(target_os = "linux")]
    Nameless(File),
    Named(NamedTempFile),
}

impl PendingFile {
    /// Creates an empty file to be published as `output`, with the permissions that new files get.
    ///
    /// # Errors
    /// `output` exists and is not a regular file, such as a device, which must not be replaced; its folder does not exist
    /// ([`io::ErrorKind::NotFound`]) or cannot be written to.
    pub fn new(output: &Path) -> io::Result<Self> {
        if fs::metadata(output).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "something is there that is not a file"));
        }
        let target = followed(output)?;
        #[cfg(target_os = "linux")]
        if let Some(file) = nameless(folder(&target)) {
            return Ok(Self { output: output.to_owned(), target, file: TemporaryFile::Nameless(file) });
        }
        let file = builder().tempfile_in(folder(&target)).map_err(|error| without_name(error, folder(&target)))?;
        Ok(Self { output: output.to_owned(), target, file: TemporaryFile::Named(file) })
    }

    /// The file to write to.
    pub fn file(&self) -> &File {
        match &self.file {
            #[cfg(target_os = "linux")]
            TemporaryFile::Nameless(file) => file,
            TemporaryFile::Named(file) => file.as_file(),
        }
    }

    /// The file to write to, for interfaces that need a mutable reference.
    pub fn file_mut(&mut self) -> &mut File {
        match &mut self.file {
            #[cfg(target_os = "linux")]
            TemporaryFile::Nameless(file) => file,
            TemporaryFile::Named(file) => file.as_file_mut(),
        }
    }

    /// The final path, as the caller gave it.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// The temporary path, if the file has one. Code that ends the process without dropping this value should delete that path.
    pub fn temporary_name(&self) -> Option<&Path> {
        match &self.file {
            #[cfg(target_os = "linux")]
            TemporaryFile::Nameless(_) => None,
            TemporaryFile::Named(file) => Some(file.path()),
        }
    }

    /// Opens the file again, for reading only.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn open(&self) -> io::Result<File> {
        match &self.file {
            #[cfg(target_os = "linux")]
            TemporaryFile::Nameless(file) => File::open(descriptor_path(file)),
            TemporaryFile::Named(file) => File::open(file.path()),
        }
    }

    /// Gives the file its name, replacing an existing file of that name.
    ///
    /// # Errors
    /// The operating system refuses. The previous file is then still in place.
    pub fn publish(self) -> io::Result<()> {
        self.take_permissions()?;
        match self.file {
            TemporaryFile::Named(file) => file.persist(&self.target).map(|_| ()).map_err(|error| error.error),
            #[cfg(target_os = "linux")]
            TemporaryFile::Nameless(file) => {
                // `link` cannot replace an existing file, but a rename can.
                match link(&file, &self.target) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    result => return result,
                }
                let named = builder().make_in(folder(&self.target), |path| link(&file, path))?;
                named.persist(&self.target).map(|_| ()).map_err(|error| error.error)
            }
        }
    }

    /// Copies the permission bits of the replaced file, but not its set-user-id, set-group-id and sticky bits.
    #[cfg(unix)]
    fn take_permissions(&self) -> io::Result<()> {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let Ok(found) = fs::metadata(&self.target) else { return Ok(()) };
        let mode = found.mode() & 0o777;
        if self.file().metadata()?.mode() & 0o777 == mode {
            return Ok(());
        }
        match self.file().set_permissions(fs::Permissions::from_mode(mode)) {
            // Some file systems have no permissions.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            result => result,
        }
    }

    #[cfg(not(unix))]
    fn take_permissions(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Follows symbolic links from `output`. The final path need not exist.
fn followed(output: &Path) -> io::Result<PathBuf> {
    let mut path = output.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = folder(&path).join(target),
            // The path is not a link, or does not exist.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "too many symbolic links lead from one to the next"))
}

fn folder(output: &Path) -> &Path {
    match output.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The error of the operating system without the temporary name, which means nothing to the caller.
fn without_name(error: io::Error, folder: &Path) -> io::Error {
    if error.kind() == io::ErrorKind::NotFound {
        return io::Error::new(error.kind(), format!("there is no folder `{}`", folder.display()));
    }
    // `tempfile` gives no access to the error that it wraps, and puts the path behind its text.
    match error.to_string().rsplit_once(" at path ") {
        Some((text, _)) => io::Error::new(error.kind(), text),
        None => error,
    }
}

/// Returns the builder of temporary names.
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".carton-").suffix(".partial");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Creates a file without a name, if the file system supports this and `/proc` allows naming it later.
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

/// The path by which a nameless file can be opened and linked.
#[cfg(target_os = "linux")]
fn descriptor_path(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn write(output: &Path, text: &str) -> io::Result<()> {
        let pending = PendingFile::new(output)?;
        pending.file().write_all(text.as_bytes())?;
        pending.publish()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_is_replaced_leaves_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        write(&output, "old").unwrap();
        let new_file = folder.path().join("new");
        fs::write(&new_file, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&output), mode(&new_file));
        for (old, expected) in [(0o600, 0o600), (0o444, 0o444), (0o4755, 0o755)] {
            fs::set_permissions(&output, fs::Permissions::from_mode(old)).unwrap();
            write(&output, "new").unwrap();
            assert_eq!(mode(&output), expected, "{old:o}");
        }
        assert_eq!(fs::read(&output).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["new", "output"]);
    }

    #[test]
    fn the_target_of_a_link_is_replaced() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (link, target) = (folder.path().join("link"), elsewhere.path().join("target"));
        symlink(&target, folder.path().join("between")).unwrap();
        symlink("between", &link).unwrap();
        // In the first round, nothing exists at the end of the links.
        for text in ["one", "two"] {
            write(&link, text).unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), text);
        }
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("between"));
        assert_eq!(
            (names(folder.path()), names(elsewhere.path())),
            (vec!["between".into(), "link".into()], vec!["target".to_owned()])
        );
        symlink("circle", folder.path().join("circle")).unwrap();
        write(&folder.path().join("circle"), "").unwrap_err();
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(folder.path(), "").unwrap_err();
        assert_eq!(error.to_string(), "something is there that is not a file");
    }

    #[test]
    fn errors_do_not_show_the_temporary_name() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = write(&missing.join("output"), "").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(error.to_string(), format!("there is no folder `{}`", missing.display()));
        fs::write(&missing, "").unwrap();
        let error = write(&missing.join("output"), "").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        assert_eq!(error.to_string(), "Not a directory (os error 20)");
    }

    #[test]
    fn a_file_that_is_not_published_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        fs::write(&output, "old").unwrap();
        let pending = PendingFile::new(&output).unwrap();
        pending.file().write_all(b"new").unwrap();
        assert_eq!(pending.open().unwrap().metadata().unwrap().len(), 3);
        drop(pending);
        assert_eq!(fs::read(&output).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["output"]);
    }
}
