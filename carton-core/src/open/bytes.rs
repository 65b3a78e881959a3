//! The bytes of one file at any location, such as a tensor file on a server.

use std::fmt;
use std::future::IntoFuture;
use std::io;
use std::path::Path;
use std::sync::Arc;

use carton_format::context::CancelToken;
use carton_format::source::Source;
use carton_network::http::{Activity, Extent, Network, NetworkError, Part, Wanted};
use carton_network::place::Place;
use carton_network::remote_source::RemoteSource;
use carton_tensor::files::{FileBytes, ReadAt};

use super::{Opening, cache, find};
use crate::blocking::{Awaited, run_blocking};
use crate::config::Config;
use crate::error::Error;
use crate::location::Location;
use crate::settings::{OperationSettings, operation_setters};

/// What the first request asks for, in bytes: the header of most tensor files.
const FIRST: u64 = 64 << 10;
/// The most bytes of a read that are kept for later ones. Headers are read in pieces, and the bytes of a tensor once.
const KEPT: u64 = 1 << 20;
/// The most bytes of one request.
const REQUEST: u64 = 64 << 20;

/// A file whose bytes are to be read. Made by [`file_bytes`]; setters configure it, and `.await` opens it.
#[derive(Clone, Debug)]
#[must_use = "nothing is opened until this is awaited"]
pub struct OpenBytes {
    location: Location,
    operation: OperationSettings,
    cancel_token: Option<CancelToken>,
}

/// Opens the files beside one, such as those of a sharded checkpoint. Made by [`OpenBytes::with_files_beside`].
pub struct FilesBeside {
    place: Place,
    config: Config,
    opening: Opening,
}

/// Opens the bytes of one file, which need not be a carton: a file of this machine, or one that an `http`, `https`, `hf`, `s3`, `gs` or `az` URL names.
/// Only what is read is fetched, by ranges. All bytes are of one version of the file; nothing else about them is verified.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let bytes = carton_core::file_bytes("https://host/model.safetensors").await?;
/// println!("{} bytes, which begin with {:?}", bytes.len(), &bytes.read(0..8)?[..]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Nothing is there, or it is no single file, as an artifact of a registry. A server that does not send parts of files is refused by reads.
pub fn file_bytes(location: impl Into<Location>) -> OpenBytes {
    OpenBytes { location: location.into(), operation: OperationSettings::default(), cancel_token: None }
}

impl OpenBytes {
    operation_setters!(operation);

    /// A token that cancels opening, and reading the file later. By default, dropping the operation cancels opening alone.
    pub fn cancel_token(self, token: CancelToken) -> Self {
        Self { cancel_token: Some(token), ..self }
    }

    /// Opens the file, and returns with it what opens the files in its folder.
    ///
    /// # Errors
    /// As [`file_bytes`].
    pub async fn with_files_beside(self) -> Result<(FileBytes, FilesBeside), Error> {
        let Self { location, operation, cancel_token } = self;
        let progress = operation.progress().cloned();
        run_blocking(progress.as_ref(), move |context| {
            let config = operation.config()?;
            let context = match cancel_token {
                Some(token) => context.with_cancel_token(token),
                None => context,
            };
            let opening = Opening { cache: cache(&config).ok(), context };
            let place = location.place()?.clone();
            let bytes = open_at(&place, &config, &opening)?;
            Ok((bytes, FilesBeside { place, config, opening }))
        })
        .await
    }
}

impl FilesBeside {
    /// Opens the file of this name beside the first one. It blocks.
    ///
    /// # Errors
    /// The name is not that of a file in the folder; otherwise as [`file_bytes`].
    pub fn open(&self, name: &str) -> Result<FileBytes, Error> {
        match self.place.beside(name) {
            Some(place) => open_at(&place, &self.config, &self.opening),
            None => Err(Error::io("open", Path::new(name))(io::ErrorKind::NotFound.into())),
        }
    }
}

impl fmt::Debug for FilesBeside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesBeside").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Opens the file at `place`.
fn open_at(place: &Place, config: &Config, opening: &Opening) -> Result<FileBytes, Error> {
    match &*find(place, None, config, opening)? {
        Place::Path(path) => FileBytes::open(path).map_err(Error::io("open", path)),
        Place::Oci(url) => {
            let reason = "names an artifact of a registry, which is no single file".to_owned();
            Err(NetworkError::Url { url: url.shown(), reason }.into())
        }
        Place::Web(url) | Place::Hub(url) | Place::ObjectStore(url) => {
            let activity = Activity::new(opening.context.cancel_token());
            Ok(FileBytes::from_reader(Arc::new(Remote::open(&config.network(), url, activity)?)))
        }
    }
}

impl IntoFuture for OpenBytes {
    type Output = Result<FileBytes, Error>;
    type IntoFuture = Awaited<'static, FileBytes>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.with_files_beside().await?.0) })
    }
}

/// A file on a server.
struct Remote {
    source: RemoteSource,
    activity: Arc<Activity>,
}

impl Remote {
    fn open(network: &Network, url: &carton_format::url::Url, activity: Arc<Activity>) -> Result<Self, NetworkError> {
        let wanted = Wanted { url: url.clone(), part: Part::Range(0..FIRST), version: None, known: None, limit: FIRST };
        let fetched = network.read(wanted, &activity)?;
        let length = match fetched.extent {
            Extent::Part { total, .. } => total,
            _ => fetched.bytes.len() as u64,
        };
        let blocks = [(0, fetched.bytes)];
        let source =
            RemoteSource::new(network.clone(), url.clone(), fetched.version, length, blocks, Arc::clone(&activity));
        Ok(Self { source, activity })
    }
}

impl ReadAt for Remote {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let length = buffer.len() as u64;
        let end = offset.checked_add(length).filter(|end| *end <= self.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        if length <= KEPT || self.source.holds(&(offset..end)) {
            return self.source.read_at(offset, buffer).map_err(as_error);
        }
        let mut start = offset;
        for piece in buffer.chunks_mut(REQUEST as usize) {
            let range = start..start + piece.len() as u64;
            start = range.end;
            piece.copy_from_slice(
                &self.source.fetch(range, &self.activity).map_err(|error| io::Error::other(Error::from(error)))?,
            );
        }
        Ok(())
    }
}

/// Turns a network error inside an `io::Error` into an [`Error`]. The reader of the file can then tell its kind.
fn as_error(error: io::Error) -> io::Error {
    match error.downcast::<NetworkError>() {
        Ok(error) => io::Error::other(Error::from(error)),
        Err(error) => error,
    }
}
