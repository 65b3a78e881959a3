//! The files in the folder of another one.

use std::io;
#[cfg(feature = "onnx")]
use std::path::Path;

use super::FileBytes;

/// Opens the file of a name beside the first one, on several threads.
pub type Beside<'b> = &'b (dyn Fn(&str) -> io::Result<FileBytes> + Sync);

/// Opens the file at a relative path in the folder of the file `of`. It must be there once links are followed, or in the folder that `of` itself
/// is in if it is a link, as in the cache of the Hugging Face Hub.
#[cfg(feature = "onnx")]
pub(crate) fn open_inside(
    of: &Path,
    path: &str,
    open: impl Fn(&Path) -> io::Result<FileBytes>,
) -> io::Result<FileBytes> {
    let folder = match of.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut target = std::fs::canonicalize(of)?;
    target.pop();
    let file = std::fs::canonicalize(folder.join(path))?;
    if file.starts_with(std::fs::canonicalize(folder)?) || file.starts_with(target) {
        return open(&file);
    }
    let message = format!("`{}` is a link that leads out of the folder", path.escape_debug());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}
