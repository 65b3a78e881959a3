//! Where the bytes of an archive are.

use std::sync::Arc;

use carton_format::source::{FileSource, MemorySource, Source};
use carton_network::remote_source::RemoteSource;

/// The bytes of an archive. It matters where they are: reading those that are on a server takes a request, which is made for many at once.
#[derive(Clone)]
pub(crate) enum ArchiveBytes {
    /// On this machine.
    Local(Arc<dyn Source>),
    /// On a server.
    Remote(Arc<RemoteSource>),
}

impl ArchiveBytes {
    pub(crate) fn source(&self) -> Arc<dyn Source> {
        match self {
            Self::Local(source) => Arc::clone(source),
            Self::Remote(source) => Arc::clone(source) as Arc<dyn Source>,
        }
    }

    pub(super) fn remote(self) -> Option<Arc<RemoteSource>> {
        match self {
            Self::Local(_) => None,
            Self::Remote(source) => Some(source),
        }
    }
}

impl From<Arc<RemoteSource>> for ArchiveBytes {
    fn from(source: Arc<RemoteSource>) -> Self {
        Self::Remote(source)
    }
}

impl From<Arc<dyn Source>> for ArchiveBytes {
    fn from(source: Arc<dyn Source>) -> Self {
        Self::Local(source)
    }
}

impl From<FileSource> for ArchiveBytes {
    fn from(source: FileSource) -> Self {
        Self::Local(Arc::new(source))
    }
}

impl From<MemorySource> for ArchiveBytes {
    fn from(source: MemorySource) -> Self {
        Self::Local(Arc::new(source))
    }
}
