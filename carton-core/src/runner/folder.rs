//! Lists a runner's folder, to copy or archive it.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::unpack::UnpackError;

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Its path below the folder.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) kind: FoundKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FoundKind {
    Folder,
    File { is_executable: bool, length: u64 },
    Link { target: Vec<u8> },
}

/// Lists everything below `folder`, sorted by name, so that a folder comes before its entries. Links are not followed.
pub(super) fn list(folder: &Path) -> Result<Vec<Found>, UnpackError> {
    let mut found = Vec::new();
    let mut to_list = vec![(String::new(), folder.to_path_buf())];
    while let Some((prefix, path)) = to_list.pop() {
        for entry in fs::read_dir(&path).map_err(io("list", &path))? {
            let entry = entry.map_err(io("list", &path))?;
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path).map_err(io("inspect", &path))?;
            let file_name = entry.file_name();
            let not_utf8 = || UnpackError::Name {
                name: file_name.as_bytes().escape_ascii().to_string(),
                source: carton_format::name::NameError::NotUtf8,
            };
            let own = file_name.to_str().ok_or_else(not_utf8)?;
            let name = if prefix.is_empty() { own.to_owned() } else { format!("{prefix}/{own}") };
            let kind = metadata.file_type();
            let refused = |found| UnpackError::Kind { name: name.clone(), found };
            let kind = if kind.is_dir() {
                to_list.push((name.clone(), path.clone()));
                FoundKind::Folder
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).map_err(io("read", &path))?;
                FoundKind::Link { target: target.as_os_str().as_bytes().to_vec() }
            } else if kind.is_file() {
                let is_executable = metadata.permissions().mode() & 0o111 != 0;
                FoundKind::File { is_executable, length: metadata.len() }
            } else if kind.is_fifo() || kind.is_socket() {
                return Err(refused("a pipe or a socket"));
            } else {
                return Err(refused("a device"));
            };
            found.push(Found { name, path, kind });
        }
    }
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> UnpackError + 'a {
    move |source| UnpackError::Io { action, path: path.to_path_buf(), source }
}
