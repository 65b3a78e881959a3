//! Opens a carton without starting anything: what `info`, `verify` and `unpack` need, and what `load` begins with.

use std::sync::Arc;

use crate::cache::Cache;
use crate::config::Config;
use crate::digest::Sha256Digest;
use crate::package::{self, Info, Package};
use crate::progress::run_blocking;
use crate::{Carton, Error, Location};

/// How [`Carton::open`] opens.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The SHA-256 that MANIFEST must have.
    pub expect: Option<Sha256Digest>,
    /// Directories; `None` reads the configuration file and the environment.
    pub config: Option<Config>,
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
        run_blocking(move |_| {
            let config = match options.config {
                Some(config) => config,
                None => Config::load(None)?,
            };
            // Without a cache everything can be looked at, only nothing is remembered: a folder that cannot be made, as in a
            // read-only home, is no reason to fail.
            let cache = cache(&config).inspect_err(|error| tracing::debug!(%error, "there is no cache")).ok();
            open_with(&location, options.expect, cache)
        })
        .await
    }
}

impl Carton {
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

/// Opens the carton at `location`.
pub(crate) fn open(location: &Location, expect: Option<Sha256Digest>, config: &Config) -> Result<Package, Error> {
    open_with(location, expect, Some(cache(config)?))
}

fn open_with(location: &Location, expect: Option<Sha256Digest>, cache: Option<Arc<Cache>>) -> Result<Package, Error> {
    let Some(path) = location.path() else { return Err(Error::Remote { location: location.to_string() }) };
    let expect = location.expected(expect)?;
    Ok(Package::open(path, package::OpenOptions { cache, expect })?)
}

pub(crate) fn cache(config: &Config) -> Result<Arc<Cache>, Error> {
    Ok(Arc::new(Cache::open(&config.cache_dir)?))
}
