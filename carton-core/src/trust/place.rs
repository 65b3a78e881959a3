//! Where the bundle of a carton is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where the bundle of a carton on this machine is by default: under its name and `.sig`.
///
/// ```
/// use carton_core::trust::bundle_path;
///
/// assert_eq!(bundle_path("models/digits.carton").to_str(), Some("models/digits.carton.sig"));
/// assert_eq!(bundle_path("unpacked/").to_str(), Some("unpacked.sig"));
/// ```
#[must_use]
pub fn bundle_path(carton: impl AsRef<Path>) -> PathBuf {
    let path = carton.as_ref();
    // A path that ends with a slash, or is `.`, has no name to add to.
    let path: PathBuf = match path.file_name() {
        Some(_) => path.components().collect(),
        None => path.canonicalize().unwrap_or_else(|_| path.to_path_buf()),
    };
    let mut name = OsString::from(path);
    name.push(".sig");
    name.into()
}
