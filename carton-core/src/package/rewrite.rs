//! Writes a carton again with fewer or more of its files in it. MANIFEST stays byte-identical, so it is the same carton.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use carton_format::archive::{self, ArchiveError, Compression, Content, Tail};
use carton_format::context::Context;
use carton_format::links::Links;
use carton_format::tensor_data;
use carton_tensor::files::PendingFile;

use super::error::MAX_METADATA_LENGTH;
use super::write::unwritten;
use super::{METADATA, PackageError};
use crate::contents::{Contents, ContentsError};

/// Writes the carton of `contents` to `output`. An existing file of that name is replaced only when the new one is complete.
///
/// The files whose paths are in `left_out` are only listed: `links` must have their digests, or the registry that the result goes to has
/// them. All others are verified while
/// they are copied. Files from an archive keep their compression; `compression` is for the others.
///
/// # Errors
/// A bare model, which has no MANIFEST; a file that cannot be fetched or does not match MANIFEST; an output that cannot be
/// written. The file that was at `output` before is still there then.
pub(crate) fn rewrite(
    contents: &Contents,
    left_out: &BTreeSet<String>,
    links: &Links,
    output: &Path,
    compression: Compression,
    context: &Context,
) -> Result<(), PackageError> {
    let manifest = contents.manifest().ok_or_else(|| ContentsError::NoManifest { location: contents.location() })?;
    if !contents.contains(METADATA) {
        return Err(PackageError::NoMetadata { location: contents.location() });
    }
    let mut tail = Tail {
        carton_toml: contents.read(METADATA, MAX_METADATA_LENGTH, context)?,
        links: (!links.is_empty()).then(|| links.to_bytes()),
        linked: BTreeMap::new(),
        manifest: Some(manifest.clone()),
    };
    let mut entries = Vec::with_capacity(manifest.len());
    for (path, digest) in manifest.iter().filter(|(path, _)| *path != METADATA) {
        if left_out.contains(path) {
            tail.linked.insert(path.to_owned(), digest);
        } else {
            let content = contents.content(path, context)?;
            let is_in_place = tensor_data::is_tensor_file(path) && !matches!(content, Content::Symlink(..));
            entries.push((path.to_owned(), if is_in_place { Content::InPlace(Box::new(content)) } else { content }));
        }
    }
    let mut pending = PendingFile::new(output).map_err(PackageError::io("write", output))?;
    archive::write(pending.file_mut(), entries, tail, compression, context)
        .map_err(|error| at_fault(error, contents, output))?;
    pending.publish().map_err(PackageError::io("write", output))
}

/// Refuses an output that is the carton to be read or lies in its folder: it would replace the only carton that has all files.
pub(crate) fn check_output(contents: &Contents, location: Option<&Path>, output: &Path) -> Result<(), PackageError> {
    let refused = || PackageError::OutputIsSource { output: output.to_path_buf() };
    if let Some(folder) = contents.folder() {
        let parent = match output.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let resolved = std::fs::canonicalize(parent).ok().zip(std::fs::canonicalize(folder).ok());
        if resolved.is_some_and(|(parent, folder)| parent.starts_with(folder)) {
            return Err(refused());
        }
    }
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    match location.and_then(identity) {
        source @ Some(_) if source == identity(output) => Err(refused()),
        _ => Ok(()),
    }
}

/// Separates the errors of the carton that is read from those of writing.
fn at_fault(error: ArchiveError, contents: &Contents, output: &Path) -> PackageError {
    match error {
        ArchiveError::Digest { name, expected, found } => ContentsError::Digest { path: name, expected, found }.into(),
        ArchiveError::Format { .. }
        | ArchiveError::Mismatch { .. }
        | ArchiveError::Corrupt { .. }
        | ArchiveError::Io { action: "read", .. } => {
            ContentsError::Archive { path: contents.location(), source: error }.into()
        }
        error => unwritten(error, output),
    }
}
