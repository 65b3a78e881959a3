//! Opens tensors wherever they are.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use carton_core::tensor::FileBytes;
use carton_core::{Carton, Config, Location, Open, Place, file_bytes};
use carton_tensor::any_file::{TensorFile, TensorFileError};
use carton_tensor::checkpoint::{FollowLinks, open_beside, path_in};
use carton_tensor::content::Content;
use carton_tensor::context::CancelToken;

use crate::checkpoint;
use crate::error::TensorFilesError;
use crate::location::TensorLocation;
use crate::source::TensorSource;

/// Sets how a carton is opened.
type Opening = Box<dyn Fn(Open) -> Open + Send>;

/// Tensors to be opened. Made by [`open()`]; setters configure it, and `.await` opens them.
#[must_use = "nothing is opened until this is awaited"]
pub struct OpenTensors {
    location: TensorLocation,
    config: Option<Config>,
    is_mapped: bool,
    links: FollowLinks,
    opening: Option<Opening>,
    cancel_token: Option<CancelToken>,
}

/// Opens the tensors at a location: a tensor file, the folder of a checkpoint, a carton, or a tensor file in the model of a carton; on this
/// machine, or at an `http`, `https`, `hf`, `s3`, `gs` or `az` URL, of which only what is needed is fetched; a carton also at an `oci` URL.
/// Nothing but names, dtypes and shapes is read.
///
/// # Errors
/// [`TensorFilesError`]: nothing is there, it is no tensor file, or its description is malformed.
pub fn open(location: impl Into<TensorLocation>) -> OpenTensors {
    OpenTensors {
        location: location.into(),
        config: None,
        is_mapped: false,
        links: FollowLinks::default(),
        opening: None,
        cancel_token: None,
    }
}

impl fmt::Debug for OpenTensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTensors").field("location", &self.location).finish_non_exhaustive()
    }
}

impl OpenTensors {
    /// Uses the folders, permissions and credentials of `config`, instead of those of the configuration file and the environment.
    pub fn config(self, config: Config) -> Self {
        Self { config: Some(config), ..self }
    }

    /// Maps files of this machine, so that tensors are views of them. No process may write to a file while it is mapped.
    pub fn mapped(self, is_mapped: bool) -> Self {
        Self { is_mapped, ..self }
    }

    /// Sets which symbolic links to the files of a checkpoint on this machine are followed.
    pub fn follow_links(self, links: FollowLinks) -> Self {
        Self { links, ..self }
    }

    /// A token that cancels opening a file at a URL, and reading it later.
    pub fn cancel_token(self, token: CancelToken) -> Self {
        Self { cancel_token: Some(token), ..self }
    }

    /// Sets how a carton is opened, if it is one: its hash, who must have signed it. A tensor file has neither.
    pub fn opening(self, opening: impl Fn(Open) -> Open + Send + 'static) -> Self {
        Self { opening: Some(Box::new(opening)), ..self }
    }

    async fn open(self) -> Result<TensorSource, TensorFilesError> {
        match self.location.clone() {
            TensorLocation::File(path, only) => {
                blocking(move || open_path(&path, only.as_deref(), self.is_mapped, self.links)).await
            }
            TensorLocation::Carton(place, part) => self.carton(place, part).await,
            TensorLocation::Url(url, part) => self.url(url, part).await,
        }
    }

    /// Opens a tensor file at a URL, or the carton that is there.
    async fn url(self, url: String, part: Option<String>) -> Result<TensorSource, TensorFilesError> {
        let location = Location::from(url.as_str());
        // A name without a file is that of a repository, which has a carton.
        if !location.place().is_ok_and(Place::names_a_file) {
            return self.carton(url, part).await;
        }
        let shown = location.to_string();
        let mut opening = file_bytes(location);
        if let Some(config) = &self.config {
            opening = opening.config(config.clone());
        }
        if let Some(token) = &self.cancel_token {
            opening = opening.cancel_token(token.clone());
        }
        let (bytes, files) = opening.with_files_beside().await?;
        if is_carton(&bytes, &shown) {
            return self.carton(url, part).await;
        }
        blocking(move || {
            let beside = |name: &str| files.open(name).map_err(io::Error::other);
            let file = TensorFile::with_files_beside(bytes, shown.as_str(), beside)?;
            let beside = move |name: &str| match files.open(name) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error.to_string()),
            };
            TensorSource::file_at(file, &shown, part.as_deref(), Box::new(beside))
        })
        .await
    }

    async fn carton(self, place: String, part: Option<String>) -> Result<TensorSource, TensorFilesError> {
        let location = Location::from(place.as_str());
        // Without what may be secret in a URL.
        let shown = location.to_string();
        let mut open = Carton::open(location);
        if let Some(config) = self.config {
            open = open.config(config);
        }
        if let Some(opening) = self.opening {
            open = opening(open);
        }
        let package = open.await?;
        blocking(move || TensorSource::of_carton(package, &shown, part.as_deref())).await
    }
}

impl IntoFuture for OpenTensors {
    type Output = Result<TensorSource, TensorFilesError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// Runs blocking work on tokio's threads for such work.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TensorFilesError> + Send + 'static,
) -> Result<T, TensorFilesError> {
    let ended = |error: tokio::task::JoinError| TensorFilesError::Thread(error.to_string());
    tokio::task::spawn_blocking(work).await.map_err(ended)?
}

/// Whether bytes are those of a carton: a zip file that is neither named as an archive of NumPy's nor known as another kind of file.
fn is_carton(bytes: &FileBytes, place: &str) -> bool {
    let content = bytes.start(Content::START).ok().and_then(|start| Content::of_start(&start));
    // Without the query of a URL, which stands for `?…` here.
    let name = place.split('?').next().unwrap_or_default().to_ascii_lowercase();
    matches!(content, Some(Content::Carton | Content::Zip)) && !name.ends_with(".npz")
}

/// Opens a tensor file of this machine, or the folder of a checkpoint, on this thread: what [`open()`] does for [`TensorLocation::File`], without a
/// runtime and a configuration, which it does not need. `only` names the one tensor that is wanted, and `links` says which links to the files of a
/// checkpoint are followed.
///
/// # Errors
/// As [`open()`].
pub fn open_path(
    path: &Path,
    only: Option<&str>,
    is_mapped: bool,
    links: FollowLinks,
) -> Result<TensorSource, TensorFilesError> {
    let unreadable = |source| TensorFilesError::Io { action: "open", path: path.to_path_buf(), source };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return open_path(&checkpoint_in(path, links)?, only, is_mapped, links);
    }
    if !metadata.is_file() {
        return Err(TensorFilesError::NotAFile { path: path.to_path_buf() });
    }
    let file = match is_mapped {
        true => TensorFile::map_following(path, links)?,
        false => TensorFile::open_following(path, links)?,
    };
    let of_file = path.to_path_buf();
    let beside = move |name: &str| match open_beside(&of_file, name, links) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    };
    TensorSource::file_at(file, &path.display().to_string(), only, Box::new(beside))
}

/// The checkpoint in a folder: its index, or the only tensor file. The user did not name it, so that it is only followed as a link if its shards would be.
fn checkpoint_in(folder: &Path, links: FollowLinks) -> Result<PathBuf, TensorFilesError> {
    let unreadable = |source| TensorFilesError::Io { action: "read", path: folder.to_path_buf(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        // A name that is not UTF-8 is none of a checkpoint. A folder of such a name is one below this one.
        let entry = entry.map_err(unreadable)?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        names.extend(entry.file_name().into_string().ok().filter(|_| !is_folder));
    }
    match checkpoint::choose(names.iter().map(String::as_str)) {
        Ok(name) => {
            let place = || folder.join(name).display().to_string();
            path_in(folder, name, links).map_err(|source| TensorFileError::Io { place: place(), source }.into())
        }
        Err(no_choice) => Err(TensorFilesError::no_choice(&folder.display().to_string(), no_choice)),
    }
}
