//! Models on the Hugging Face Hub, or on a server that answers as it does (spec/registries.md, "The Hugging Face Hub").
//!
//! A name `hf://OWNER/REPOSITORY[@REVISION][/FILE]` that leads to a carton stands wherever the URL of a carton does. A repository that holds a bare
//! model can be packed: [`snapshot`] fetches its files.

use std::fs;
use std::future::IntoFuture;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_format::context::Context;
use carton_format::digest::hash_all;
use carton_format::model_card::{MAX_README_LENGTH, README};
use carton_format::name;
use carton_format::progress::fetched;
use carton_format::url::Url;
use carton_network::download::{Download, Target};
use carton_network::http::Activity;
use carton_network::hub::{HubError, Server, TreeFile};
pub use carton_network::hub::{HubName, InvalidHubName};
use carton_tensor::parallel::par_map;

use crate::Error;
use crate::blocking::{Awaited, run_blocking};
use crate::cache::{Cache, TemporaryFolder};
use crate::config::Config;
use crate::contents::ContentsError;
use crate::fetch_verified::{Unverified, fetch_verified};
use crate::settings::{OperationSettings, operation_setters};

/// How many files are fetched at once.
const N_FILES: usize = 4;

/// How many papers are kept.
const MAX_PAPERS: usize = 16;

/// The largest file that is fetched, in bytes.
const MAX_FILE: u64 = 1 << 40;

/// A repository whose files are to be fetched. Made by [`snapshot`]; setters configure it, and `.await` fetches them.
#[derive(Clone, Debug)]
#[must_use = "nothing is fetched until this is awaited"]
pub struct FetchSnapshot {
    name: HubName,
    operation: OperationSettings,
}

/// The files of a repository at one commit, in a folder that is deleted when this is dropped.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    commit: String,
    papers: Vec<(String, PathBuf)>,
    _folder: TemporaryFolder,
    _folder_of_papers: TemporaryFolder,
}

impl Snapshot {
    /// The folder with the files, or the file that the name was of.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The README.md of the repository and its licenses, by their names. They are there also where the name was of another file, and
    /// a carton that is packed from the address keeps them.
    #[must_use]
    pub fn papers(&self) -> &[(String, PathBuf)] {
        &self.papers
    }

    /// The commit that the files are of.
    #[must_use]
    pub fn commit(&self) -> &str {
        &self.commit
    }
}

/// Fetches the files of a repository on the Hub, or the one file that the name is of, so that they can be packed. Large files are verified
/// against the SHA-256 that the server states, kept in the cache, and resumed if an earlier attempt was interrupted. Files and folders whose
/// names begin with a dot are left out. README.md and the licenses of the repository are fetched, too, where the name is of another file.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use carton_core::{Carton, hub};
/// let snapshot = hub::snapshot("hf://team/digits@v1".parse()?).await?;
/// Carton::pack(snapshot.path(), "digits.carton").runner("onnx").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// There is no such repository, revision or file; the server cannot be reached or refuses the token; a file has another digest than
/// stated; the cache cannot be written to.
pub fn snapshot(name: HubName) -> FetchSnapshot {
    FetchSnapshot { name, operation: OperationSettings::default() }
}

impl FetchSnapshot {
    operation_setters!(operation);

    async fn fetch(self) -> Result<Snapshot, Error> {
        let Self { name, operation } = self;
        let config = operation.config()?;
        run_blocking(operation.progress(), move |context| fetch(&name, &config, &context)).await
    }
}

impl IntoFuture for FetchSnapshot {
    type Output = Result<Snapshot, Error>;
    type IntoFuture = Awaited<'static, Snapshot>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.fetch())
    }
}

fn fetch(name: &HubName, config: &Config, context: &Context) -> Result<Snapshot, Error> {
    let network = config.network();
    let activity = Activity::new(context.cancel_token());
    let server = Server::new(&network, &config.hub_endpoint()?, &activity);
    let commit = server.commit(name)?;
    let is_hidden = |path: &str| path.split('/').any(|part| part.starts_with('.'));
    let is_wanted = |file: &TreeFile| match name.file() {
        Some(wanted) => file.path == wanted,
        None => !is_hidden(&file.path),
    };
    let (files, others): (Vec<TreeFile>, Vec<TreeFile>) = server.files(name, &commit)?.into_iter().partition(is_wanted);
    if files.is_empty() {
        return Err(HubError::Empty { repository: name.to_string() }.into());
    }
    let cache = Arc::new(Cache::open(&config.cache_dir)?);
    let folder = cache.temporary_folder()?;
    let beside: Vec<TreeFile> = others.into_iter().filter(is_paper).take(MAX_PAPERS).collect();
    let total = files.iter().chain(&beside).fold(0, |sum: u64, file| sum.saturating_add(file.size));
    // Named as the repository is, because names of models are taken from folders.
    let root = folder.path().join(name.repository());
    let fetching =
        Fetching { server: &server, name, commit: &commit, cache: &cache, context, activity: &activity, total };
    par_map(files.len(), N_FILES, || (), |(), at| fetching.file(&files[at], &root))?;
    // Not beside the model, whose runner may pack the whole folder.
    let folder_of_papers = cache.temporary_folder()?;
    par_map(beside.len(), N_FILES, || (), |(), at| fetching.file(&beside[at], folder_of_papers.path()))?;
    let in_repository = files.iter().filter(|file| is_paper(file)).take(MAX_PAPERS).map(|file| (file, root.as_path()));
    let papers = in_repository.chain(beside.iter().map(|file| (file, folder_of_papers.path())));
    let papers = papers.map(|(file, folder)| (file.path.clone(), folder.join(&file.path))).collect();
    let path = name.file().map_or_else(|| root.clone(), |file| root.join(file));
    Ok(Snapshot { path, commit, papers, _folder: folder, _folder_of_papers: folder_of_papers })
}

/// Whether a file belongs to the papers of a model: README.md, and what states a license.
fn is_paper(file: &TreeFile) -> bool {
    let upper = file.path.to_ascii_uppercase();
    let is_license = ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|word| upper.starts_with(word));
    let is_named = file.path == README || is_license && !file.path.contains('/');
    is_named && file.size <= MAX_README_LENGTH && name::check(format!("misc/{}", file.path).as_bytes()).is_ok()
}

/// Copies a file to a path where nothing is.
fn copy_new(source: &Path, target: &Path) -> io::Result<()> {
    let mut copy = fs::File::create_new(target)?;
    io::copy(&mut fs::File::open(source)?, &mut copy).map(drop)
}

struct Fetching<'a> {
    server: &'a Server<'a>,
    name: &'a HubName,
    commit: &'a str,
    cache: &'a Cache,
    context: &'a Context,
    activity: &'a Arc<Activity>,
    total: u64,
}

impl Fetching<'_> {
    /// Puts one file into the folder `root`.
    fn file(&self, file: &TreeFile, root: &Path) -> Result<(), Error> {
        let target = root.join(&file.path);
        let parent = target.parent().unwrap_or(root);
        fs::create_dir_all(parent).map_err(Error::io("make the folder", parent))?;
        let url = self.server.file_url(self.name, self.commit, &file.path)?;
        let Some(digest) = file.sha256 else {
            let folder = self.cache.temporary_folder()?;
            let fetched = self.download(&url, folder.path(), file)?;
            return fs::rename(&fetched.file, &target).map_err(Error::io("move to", &target));
        };
        let cancel_token = self.context.cancel_token();
        let lock = self.cache.files().lock(&digest, cancel_token)?;
        let fetched = match lock.file(cancel_token)? {
            Some(_) => None,
            None => Some(fetch_verified(&lock, &file.path, |folder| self.download(&url, folder, file))?),
        };
        // The file must not be deleted before it is linked into the folder.
        let _no_prune = self.cache.hold_off_prune(cancel_token)?;
        if let Some(fetched) = fetched {
            lock.adopt(&fetched)?;
        }
        let source = self.cache.files().path(&digest);
        match fs::hard_link(&source, &target) {
            // Another file system, or one without links. A file that is there must not be written to: it may be one of the cache.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => copy_new(&source, &target),
            result => result,
        }
        .map_err(Error::io("write", &target))
    }

    fn download(&self, url: &Url, folder: &Path, file: &TreeFile) -> Result<Unverified, ContentsError> {
        let target =
            Target { url, version: None, range: None, folder, accept_encoded: false, limit: file.size.min(MAX_FILE) };
        let download = Download::start(self.server.network, &target, self.activity)?;
        let read_error = |error| ContentsError::from_fetch(error, &file.path);
        let digest = hash_all(&mut download.reader(), read_error, |_| {
            self.context.check()?;
            self.context.report(&fetched(self.activity.received(), self.activity.kept(), Some(self.total)));
            Ok::<(), ContentsError>(())
        })?;
        Ok(Unverified { digest, file: download.path() })
    }
}
