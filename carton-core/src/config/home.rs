//! Expands `~` at the beginning of a path, as shells do.

use std::path::{Path, PathBuf};

use super::ConfigError;

/// Replaces a first component of `~` by the home directory. `key` is the setting that has this path.
///
/// # Errors
/// There is no home directory; or the path begins with `~name`, the home of another user, which only the system's user database knows. It
/// is refused, because silently creating a folder of that name in the working folder would be a surprise.
pub(super) fn expanded(path: PathBuf, home: Option<&Path>, key: &'static str) -> Result<PathBuf, ConfigError> {
    let Some(first) = path.components().next().map(|first| first.as_os_str().to_os_string()) else { return Ok(path) };
    if !first.as_encoded_bytes().starts_with(b"~") {
        return Ok(path);
    }
    let refused = |reason| Err(ConfigError::Home { key, found: first.to_string_lossy().into_owned(), reason });
    match (path.strip_prefix("~"), home) {
        (Err(_), _) => refused(
            "the home of another user is not looked up, only `~` and `~/…` are (`./~…` is a folder of that name)",
        ),
        (Ok(_), None) => refused("there is no home directory, set HOME"),
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => Ok(home.to_path_buf()),
        (Ok(rest), Some(home)) => Ok(home.join(rest)),
    }
}

/// As [`expanded`], for an index of runners, which may also be a URL.
///
/// # Errors
/// As [`expanded`].
pub(super) fn expanded_index(index: String, home: Option<&Path>, key: &'static str) -> Result<String, ConfigError> {
    if !index.starts_with('~') {
        return Ok(index);
    }
    Ok(expanded(PathBuf::from(index), home, key)?.to_string_lossy().into_owned())
}
