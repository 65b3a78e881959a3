//! Fetches a model that is on a server, so that it can be packed.

use std::fs::File;
use std::future::IntoFuture;
use std::path::{Path, PathBuf};

use carton_format::context::Context;
use carton_format::digest::{Sha256Digest, hash_all};
use carton_format::error_kind::ErrorKind;
use carton_format::progress::fetched;
use carton_format::url::Url;
use carton_network::download::{Download, Target};
use carton_network::http::{Activity, NetworkError};
use carton_network::hub::HubName;
use carton_network::place::Place;

use super::error::PackError;
use super::mlflow;
use crate::blocking::{Awaited, run_blocking};
use crate::cache::{Cache, TemporaryFolder};
use crate::config::Config;
use crate::contents::ContentsError;
use crate::error::{Advice, Failure};
use crate::hub::{self, Snapshot};
use crate::sandbox::SuspectedLimit;
use crate::settings::{OperationSettings, operation_setters};
use crate::{Error, Location};

/// The largest file that is fetched, in bytes.
const MAX_FILE: u64 = 1 << 40;

/// A model that is to be fetched. Made by [`fetch_model`]; setters configure it, and `.await` fetches it.
#[derive(Clone, Debug)]
#[must_use = "nothing is fetched until this is awaited"]
pub struct FetchModel {
    location: Location,
    operation: OperationSettings,
}

/// A model on this machine. What was fetched of it is deleted when this is dropped.
#[derive(Debug)]
pub struct FetchedModel {
    path: PathBuf,
    kept: Kept,
    /// Where it was, unless it is the user's own file or folder.
    address: Option<String>,
}

/// An error about a model that was fetched, in words that name its address.
#[derive(Debug)]
struct OfFetched {
    message: String,
    advice: Option<Advice>,
    error: Error,
}

impl std::fmt::Display for OfFetched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for OfFetched {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl Failure for OfFetched {
    fn kind(&self) -> ErrorKind {
        self.error.kind()
    }

    fn advice(&self) -> Option<Advice> {
        self.advice.clone()
    }

    fn suspected_limits(&self) -> &[SuspectedLimit] {
        self.error.suspected_limits()
    }

    fn is_unreachable(&self) -> bool {
        self.error.is_unreachable()
    }

    fn is_not_found(&self) -> bool {
        self.error.is_not_found()
    }

    fn within(&self) -> Option<&Error> {
        Some(&self.error)
    }
}

/// What has to stay for as long as the model is in use.
#[derive(Debug)]
enum Kept {
    /// The user's own file or folder.
    Nothing,
    Snapshot(Snapshot),
    Folder {
        _folder: TemporaryFolder,
    },
}

impl FetchedModel {
    /// The file or folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an error about this model as one whose message and hint name its address, in place of the path that its files have for a while.
    /// Causes are left as they are.
    #[must_use]
    pub fn explain(&self, error: Error) -> Error {
        let Some(address) = &self.address else { return error };
        let path = self.path.display().to_string();
        let message = error.to_string().replace(&path, address);
        let advice = match error.advice() {
            Some(Advice::Text(text)) => Some(Advice::Text(text.replace(&path, address))),
            advice => advice,
        };
        OfFetched { message, advice, error }.into()
    }

    /// The README.md and the licenses of the repository, by their names, if it is from the Hugging Face Hub.
    #[must_use]
    pub fn papers(&self) -> &[(String, PathBuf)] {
        match &self.kept {
            Kept::Snapshot(snapshot) => snapshot.papers(),
            Kept::Nothing | Kept::Folder { .. } => &[],
        }
    }

    /// The commit that the files are of, if they are from the Hugging Face Hub.
    #[must_use]
    pub fn commit(&self) -> Option<&str> {
        match &self.kept {
            Kept::Snapshot(snapshot) => Some(snapshot.commit()),
            Kept::Nothing | Kept::Folder { .. } => None,
        }
    }
}

/// Fetches the model at `location`, so that it can be packed: a repository of the Hugging Face Hub or one file of it, as [`hub::snapshot`] does; a file on a
/// web server or in an object store; or a model that MLflow keeps, `runs:/RUN/NAME` or `models:/NAME/VERSION`, by the command `mlflow`. A path of this machine is returned as it is. A file must have the SHA-256 that follows `#sha256=`. [`Carton::pack`](crate::Carton::pack) does this itself.
///
/// ```no_run
/// # async fn example() -> Result<(), carton_core::Error> {
/// use carton_core::{Carton, packing::fetch_model};
/// let model = fetch_model("s3://bucket/booster.json").await?;
/// let recognized = Carton::recognize(model.path()).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The place is an artifact of a registry, or malformed; the file is another one than its SHA-256 says; the server cannot be reached, or refuses; there is no such file or model; the cache cannot be
/// written to.
pub fn fetch_model(location: impl Into<Location>) -> FetchModel {
    FetchModel { location: location.into(), operation: OperationSettings::default() }
}

impl FetchModel {
    operation_setters!(operation);

    async fn fetch(self) -> Result<FetchedModel, Error> {
        let (location, operation) = (self.location.clone(), self.operation.clone());
        let expected = location.expected(None)?;
        if expected.is_some() && location.path().is_some_and(|path| mlflow::Address::of(path).is_some()) {
            return Err(PackError::DigestOfFolder { location: location.to_string() }.into());
        }
        let model = self.fetch_unverified().await?;
        let Some(expected) = expected else { return Ok(model) };
        run_blocking(operation.progress(), move |context| verify(model, &location, expected.digest(), &context)).await
    }

    async fn fetch_unverified(self) -> Result<FetchedModel, Error> {
        let Self { location, operation } = self;
        let address = Some(location.to_string());
        match location.place()?.clone() {
            Place::Path(path) => match mlflow::Address::of(&path) {
                None => Ok(FetchedModel { path, kept: Kept::Nothing, address: None }),
                Some(of_mlflow) => {
                    let config = operation.config()?;
                    let fetch = move |context: Context| from_mlflow(&of_mlflow, &config, &context);
                    let (path, kept) = run_blocking(operation.progress(), fetch).await?;
                    Ok(FetchedModel { path, kept, address })
                }
            },
            Place::Hub(url) => {
                let name =
                    HubName::from_url(&url).map_err(|source| PackError::HubName { name: url.shown(), source })?;
                let mut fetching = hub::snapshot(name).config(operation.config()?);
                if let Some(progress) = operation.progress().cloned() {
                    fetching = fetching.progress(move |event| progress(event));
                }
                let snapshot = fetching.await?;
                Ok(FetchedModel { path: snapshot.path().to_path_buf(), kept: Kept::Snapshot(snapshot), address })
            }
            Place::Oci(url) => {
                let reason = "names an artifact of a registry, which is no single file".to_owned();
                Err(NetworkError::Url { url: url.shown(), reason }.into())
            }
            Place::Web(url) | Place::ObjectStore(url) => {
                let config = operation.config()?;
                let fetch = move |context: Context| download(&url, &config, &context);
                let (path, kept) = run_blocking(operation.progress(), fetch).await?;
                Ok(FetchedModel { path, kept, address })
            }
        }
    }
}

impl IntoFuture for FetchModel {
    type Output = Result<FetchedModel, Error>;
    type IntoFuture = Awaited<'static, FetchedModel>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.fetch())
    }
}

/// Compares the file with the digest that follows its address.
fn verify(
    model: FetchedModel,
    location: &Location,
    expected: Sha256Digest,
    context: &Context,
) -> Result<FetchedModel, Error> {
    let location = location.to_string();
    if model.path().is_dir() {
        return Err(PackError::DigestOfFolder { location }.into());
    }
    let mut file = File::open(model.path()).map_err(Error::io("open", model.path()))?;
    let found = hash_all(&mut file, |error| Error::io("read", model.path())(error), |_| Ok(context.check()?))?;
    match found == expected {
        true => Ok(model),
        false => Err(PackError::OtherFile { location, expected, found }.into()),
    }
}

/// Fetches what MLflow keeps at an address into a folder of its own.
fn from_mlflow(address: &mlflow::Address, config: &Config, context: &Context) -> Result<(PathBuf, Kept), Error> {
    address.check(&config.network())?;
    let folder = Cache::open(&config.cache_dir)?.temporary_folder()?;
    let path = address.fetch(folder.path(), context)?;
    Ok((path, Kept::Folder { _folder: folder }))
}

/// Downloads one file into a folder of its own, where it has the name of its address.
fn download(url: &Url, config: &Config, context: &Context) -> Result<(PathBuf, Kept), Error> {
    let cache = Cache::open(&config.cache_dir)?;
    let (folder, parts) = (cache.temporary_folder()?, cache.temporary_folder()?);
    let network = config.network();
    let activity = Activity::new(context.cancel_token());
    let target =
        Target { url, version: None, range: None, folder: parts.path(), accept_encoded: false, limit: MAX_FILE };
    let download = Download::start(&network, &target, &activity).map_err(ContentsError::from)?;
    let name = file_name(url);
    let read_error = |error| ContentsError::from_fetch(error, &name);
    hash_all(&mut download.reader(), read_error, |_| {
        context.check()?;
        context.report(&fetched(activity.received(), activity.kept(), None));
        Ok::<(), ContentsError>(())
    })?;
    let path = folder.path().join(&name);
    std::fs::rename(download.path(), &path).map_err(Error::io("move to", &path))?;
    Ok((path, Kept::Folder { _folder: folder }))
}

/// Returns the name of the file that an address is of. `model` if it has none that a file may have.
fn file_name(url: &Url) -> String {
    let name =
        percent_encoding::percent_decode_str(url.file_name().unwrap_or_default()).decode_utf8_lossy().into_owned();
    let is_name = !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\0']) && name.len() <= 255;
    if is_name { name } else { "model".to_owned() }
}
