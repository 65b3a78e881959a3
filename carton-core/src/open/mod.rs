//! Opens a carton without starting anything: what `info`, `verify` and `unpack` need, and what `load` begins with.

mod remote;

use std::fmt;
use std::sync::Arc;

use crate::blocking::run_blocking;
use crate::cache::Cache;
use crate::config::Config;
use crate::contents::Access;
use crate::digest::Sha256Digest;
use crate::network::Activity;
use crate::package::{self, Info, Package};
use crate::progress::ProgressCallback;
use crate::{Carton, Error, Location, Place};

/// How [`Carton::open`] opens.
#[derive(Clone, Default)]
pub struct OpenOptions {
    /// The SHA-256 that MANIFEST must have.
    pub expect: Option<Sha256Digest>,
    /// Whether LINKS of a local carton may name local files. LINKS of one on a server never may.
    pub allow_file_links: bool,
    /// Directories and what is allowed; `None` reads the configuration file and the environment.
    pub config: Option<Config>,
    /// Told of a download, which opening needs only where a server cannot send parts of files.
    pub progress: Option<ProgressCallback>,
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("expect", &self.expect)
            .field("allow_file_links", &self.allow_file_links)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Carton {
    /// Opens a carton, or a folder that holds an unpacked one, without starting a runner: for its metadata, its files and
    /// tensors, to verify or to unpack it.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), carton_core::Error> {
    /// use carton_core::{Carton, OpenOptions};
    /// let package = Carton::open("digits.carton", OpenOptions::default()).await?;
    /// println!("{:?}", package.metadata().model_name());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A carton that is malformed, or whose MANIFEST is not the expected one. Files are verified when they are read.
    pub async fn open(location: impl Into<Location>, options: OpenOptions) -> Result<Package, Error> {
        let location = location.into();
        run_blocking(move |abandoned| {
            let config = match options.config {
                Some(config) => config,
                None => Config::load(None)?,
            };
            // Without a cache everything can be looked at, only nothing is remembered: a folder that cannot be made, as in a
            // read-only home, is no reason to fail.
            let cache = cache(&config).inspect_err(|error| tracing::debug!(%error, "there is no cache")).ok();
            let activity = Arc::clone(abandoned.activity());
            let opening = Opening { cache, activity, progress: options.progress };
            open(&location, options.expect, options.allow_file_links, &config, &opening)
        })
        .await
    }

    /// What a carton says about itself, with names for JSON that do not change: its hash, metadata, signature, self-tests
    /// and files. No runner is started.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use carton_core::{Carton, OpenOptions};
    /// let info = Carton::info("digits.carton", OpenOptions::default()).await?;
    /// println!("{} files", info.files.len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn info(location: impl Into<Location>, options: OpenOptions) -> Result<Info, Error> {
        Ok(Self::open(location, options).await?.info())
    }
}

/// What opening needs besides the location, whether the carton is here or on a server.
pub(crate) struct Opening {
    /// Without one nothing can be fetched, and nothing is remembered.
    pub(crate) cache: Option<Arc<Cache>>,
    /// Stopping it ends a wait for a server or for another process.
    pub(crate) activity: Arc<Activity>,
    pub(crate) progress: Option<ProgressCallback>,
}

/// Opens the carton at `location`.
pub(crate) fn open(
    location: &Location,
    expect: Option<Sha256Digest>,
    allow_file_links: bool,
    config: &Config,
    opening: &Opening,
) -> Result<Package, Error> {
    let expect = location.expected(expect)?;
    let network = config.network();
    let path = match location.place()? {
        Place::Path(path) => path,
        Place::Url(url) => {
            let link_network = if config.allow_private_links { network.clone() } else { network.public_only(url) };
            // Whoever can change the carton on its server must not learn of local files.
            return remote::open(url, expect, Access { network, link_network, file_links: false }, opening);
        }
    };
    let access =
        Access { link_network: network.clone(), network, file_links: allow_file_links || config.allow_file_links };
    let cache = opening.cache.clone();
    Ok(Package::open(path, package::OpenOptions { cache, expect, access: Some(access), whole: None })?)
}

pub(crate) fn cache(config: &Config) -> Result<Arc<Cache>, Error> {
    Ok(Arc::new(Cache::open(&config.cache_dir)?))
}
