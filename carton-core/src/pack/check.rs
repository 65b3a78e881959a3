//! Loads a carton that was written and has no name yet, and puts it to its self-tests.

use std::path::Path;
use std::sync::Arc;

use super::{PackCheck, PackOptions};
use crate::blocking::run_blocking;
use crate::cache::{Cache, Moment, Scope, WORTH_WAITING};
use crate::config::Config;
use crate::digest::Sha256Digest;
use crate::links::Links;
use crate::manifest::Manifest;
use crate::model::LoadOptions;
use crate::package::{OnProgress, OpenOptions, Package, PackageError, Unpublished};
use crate::source::{FileIdentity, FileSource, Source};
use crate::{Carton, Error, SelfTestOptions, shrink};

/// A carton that was written and does not have its name yet.
pub(super) struct Written {
    carton: Unpublished,
    source: Arc<FileSource>,
    verified: Option<Verified>,
}

impl Written {
    /// Opens what was written, and lets the cache know that it need not be hashed again.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn new(carton: Unpublished, config: &Config) -> Result<Self, Error> {
        let source = Arc::new(carton.source().map_err(Error::Pack)?);
        let verified = match carton.is_private() {
            true => Verified::remember(Arc::clone(&source), carton.manifest().hash(), config),
            false => None,
        };
        Ok(Self { carton, source, verified })
    }

    pub(super) fn manifest(&self) -> &Manifest {
        self.carton.manifest()
    }

    /// Loads the model as [`Carton::load`] would under the carton's name.
    pub(super) async fn load(&self, options: &PackOptions, config: &Config) -> Result<Carton, Error> {
        let load = LoadOptions {
            expect: Some(self.manifest().hash()),
            config: Some(config.clone()),
            policy: options.policy.clone(),
            progress: options.progress.clone(),
            install_runners: options.install_runners,
            ..LoadOptions::default()
        };
        Carton::load_source(Arc::clone(&self.source) as Arc<dyn Source>, load).await
    }

    /// Runs the carton's self-tests on `model`, which is the carton's own.
    ///
    /// # Errors
    /// [`Error::SelfTests`] when one fails.
    pub(super) async fn check(&self, model: &Carton) -> Result<PackCheck, Error> {
        let source = Arc::clone(&self.source);
        let package = run_blocking(move |_| Ok(Package::open_archive(source, OpenOptions::default())?)).await?;
        let report = model.self_test_of(&package, SelfTestOptions::default()).await;
        let report = report.map_err(|error| error.in_check("stops in a self-test"))?;
        match report.passed {
            true => Ok(PackCheck { runner: model.runner().to_string(), report }),
            false => Err(Error::SelfTests(report)),
        }
    }

    /// Writes what was written here to `output` without the files that `links` know.
    ///
    /// # Errors
    /// The operating system refuses; what was at `output` before is still there then.
    pub(super) fn publish_without(
        self,
        links: Links,
        output: &Path,
        on_progress: OnProgress<'_>,
    ) -> Result<Manifest, Error> {
        let package = Package::open_archive(self.source, OpenOptions::default())?;
        shrink::leave_out(package.contents(), links, output, on_progress)?;
        Ok(self.carton.manifest().clone())
    }

    /// Gives the carton its name.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(super) fn publish(self) -> Result<Manifest, Error> {
        let manifest = self.carton.publish().map_err(Error::Pack)?;
        if let Some(verified) = self.verified {
            verified.remember_published();
        }
        Ok(manifest)
    }
}

/// A large carton of which the cache knows that its bytes match its MANIFEST, because they were hashed as they were written.
struct Verified {
    cache: Cache,
    source: Arc<FileSource>,
    identity: FileIdentity,
    manifest: Sha256Digest,
}

impl Verified {
    /// Tells the cache, so that the carton is not hashed again at once. `None` where hashing it is as quick, or where the cache
    /// cannot be told: then it is hashed.
    fn remember(source: Arc<FileSource>, manifest: Sha256Digest, config: &Config) -> Option<Self> {
        let identity = source.identity().filter(|identity| identity.size >= WORTH_WAITING)?;
        let cache = Cache::open(&config.cache_dir).ok()?;
        let verified = Self { cache, source, identity, manifest };
        verified.record(identity).then_some(verified)
    }

    /// Records the carton as it is under its name, which changed the times of its inode and nothing else.
    fn remember_published(mut self) {
        let Some(found) = self.source.file().and_then(|file| file.metadata().ok()) else { return };
        let found = FileIdentity::of(&found);
        let known = self.identity;
        if (found.device, found.inode, found.size, found.modified)
            == (known.device, known.inode, known.size, known.modified)
        {
            self.identity = found;
            self.record(found);
        }
    }

    /// Records the file with this identity, if every later change would show.
    fn record(&self, identity: FileIdentity) -> bool {
        let Some(file) = self.source.file() else { return false };
        let moment = Moment::after_tick_of(file, &identity);
        let is_unchanged = file.metadata().is_ok_and(|metadata| FileIdentity::of(&metadata) == identity);
        if !is_unchanged || !moment.is_after(&identity) {
            return false;
        }
        let recorded = self.cache.remember_carton(&identity, self.manifest, Scope::Everything);
        // It costs a verification, no more.
        recorded.inspect_err(|error| tracing::debug!(%error, "cannot record a verification")).is_ok()
    }
}

/// Refuses a carton whose model is another one than was loaded.
///
/// # Errors
/// [`PackageError::SourceChanged`]: its files were read twice, and changed in between.
pub(super) fn check_same_model(loaded: &Manifest, written: &Manifest) -> Result<(), Error> {
    let changed = |one: &Manifest, other: &Manifest| {
        let mut files = one.iter().filter(|(path, _)| path.starts_with("model/"));
        files.find(|(path, digest)| other.get(path) != Some(*digest)).map(|(path, _)| path.to_owned())
    };
    match changed(loaded, written).or_else(|| changed(written, loaded)) {
        Some(path) => Err(Error::Pack(PackageError::SourceChanged { path: path.into() })),
        None => Ok(()),
    }
}
