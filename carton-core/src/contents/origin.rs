//! The archive, folder or file that a carton or a bare model was opened from.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_format::archive::Archive;
use carton_format::digest::Sha256Digest;
use carton_format::source::FileIdentity;
use carton_network::remote_source::RemoteSource;

use super::ContentsError;
use crate::cache::Moment;

/// What was opened.
pub(super) enum Origin {
    Archive {
        archive: Archive,
        /// The archive's bytes, if they are on a server: reading those that it does not hold costs a request.
        remote: Option<Arc<RemoteSource>>,
        /// Opening time, before any byte was read. Later changes are detected only if the clock has ticked since.
        opened_at: Option<Moment>,
    },
    /// An unpacked carton: paths are those of the carton.
    Folder(PathBuf),
    /// A model that is not in a carton. Its items are called `model/…`; the file at `model/x` is `root/x`.
    BareFolder {
        path: PathBuf,
        /// Where the followed links lead that leave the folder.
        targets: Vec<PathBuf>,
    },
    /// A model of one file.
    BareFile(PathBuf),
}

impl Origin {
    pub(super) fn location(&self) -> String {
        match self {
            Self::Archive { archive, .. } => archive.source().location().to_owned(),
            Self::Folder(path) | Self::BareFolder { path, .. } | Self::BareFile(path) => path.display().to_string(),
        }
    }

    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(path) | Self::BareFolder { path, .. } => Some(path),
            Self::Archive { .. } | Self::BareFile(_) => None,
        }
    }

    /// The file or folder that it was opened from, unless that is the file `whole` of the cache.
    pub(super) fn local_path(&self, whole: Option<Sha256Digest>) -> Option<PathBuf> {
        let path = match self {
            Self::Archive { archive, .. } if archive.source().file().is_some() && whole.is_none() => {
                Path::new(archive.source().location())
            }
            Self::Archive { .. } => return None,
            Self::Folder(path) | Self::BareFolder { path, .. } | Self::BareFile(path) => path,
        };
        std::path::absolute(path).ok()
    }

    /// The identity of the carton file, which must still be as it was opened; `None` when it is not a local file.
    pub(super) fn unchanged_identity(&self) -> Result<Option<FileIdentity>, ContentsError> {
        let Self::Archive { archive, .. } = self else { return Ok(None) };
        let source = archive.source();
        let (Some(opened), Some(file)) = (source.identity(), source.file()) else { return Ok(None) };
        match file.metadata() {
            Ok(metadata) if FileIdentity::of(&metadata).has_same_bytes(&opened) => Ok(Some(opened)),
            _ => Err(ContentsError::Changed { location: self.location() }),
        }
    }

    /// The file of a local archive, which ranges of it share.
    pub(super) fn archive_file(&self) -> Result<Option<Arc<File>>, ContentsError> {
        let Self::Archive { archive, .. } = self else { return Ok(None) };
        let Some(file) = archive.source().file() else { return Ok(None) };
        let file = file.try_clone().map_err(ContentsError::io("open", Path::new(archive.source().location())))?;
        Ok(Some(Arc::new(file)))
    }
}
