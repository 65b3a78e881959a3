//! Loads a carton that is written but has no name yet, and runs its self-tests. `outputs` compares what it returns with what it declares.

use std::path::Path;
use std::sync::Arc;

use carton_format::context::Context;
use carton_format::links::Links;
use carton_format::manifest::{Manifest, ManifestHash};
use carton_format::source::{FileIdentity, FileSource, Source};

use super::Pack;
use super::error::PackError;
use crate::blocking::run_blocking;
use crate::cache::{Cache, Moment, Scope, TemporaryFolder, WORTH_WAITING};
use crate::config::Config;
use crate::model::Load;
use crate::package::{OpenOptions, Package, PackageError, Unpublished};
use crate::self_test::SelfTestSettings;
use crate::self_test_report::SelfTestReport;
use crate::{Carton, Error, open, shrink};

/// A temporary cache for loading cartons that have no name yet, so that the user's cache never lists a carton that was not
/// published. It is deleted on drop; if the process dies, the next sweep of the user's cache deletes it.
pub(super) struct TrialCache {
    config: Config,
    _folder: TemporaryFolder,
}

impl TrialCache {
    /// Makes an empty cache on the file system of the user's cache.
    ///
    /// # Errors
    /// The user's cache cannot be used.
    pub(super) fn new(config: &Config) -> Result<Self, Error> {
        let folder = open::cache(config)?.temporary_folder()?;
        let config = Config { cache_dir: folder.path().join("cache"), ..config.clone() };
        Ok(Self { config, _folder: folder })
    }
}

/// A carton that is written and does not have its name yet.
pub(super) struct Written {
    carton: Unpublished,
    source: Arc<FileSource>,
    /// The identity of the file, if its bytes are known to match MANIFEST (they were hashed while they were written, to a file
    /// without a name) and any later change would change the identity. `None` for a small carton, which is as quick to hash
    /// again.
    hashed: Option<FileIdentity>,
}

impl Written {
    /// Opens the carton that was written.
    ///
    /// # Errors
    /// The carton cannot be opened.
    pub(super) fn new(carton: Unpublished) -> Result<Self, Error> {
        let source = Arc::new(carton.source().map_err(PackError::Package)?);
        let is_worth = |identity: &FileIdentity| carton.is_private() && identity.size >= WORTH_WAITING;
        let hashed = source.identity().filter(is_worth).filter(|identity| is_settled(&source, identity));
        Ok(Self { carton, source, hashed })
    }

    pub(super) fn manifest(&self) -> &Manifest {
        self.carton.manifest()
    }

    /// Loads the model as [`Carton::load`] would load the published carton, but with the cache of `trial`.
    pub(super) async fn load(&self, pack: &Pack, trial: &TrialCache) -> Result<Carton, Error> {
        let mut load = Load::source(Arc::clone(&self.source) as Arc<dyn Source>)
            .expect_hash(self.manifest().hash())
            .config(trial.config.clone())
            .policy(pack.policy.clone())
            .install_runners(pack.install_runners);
        if let Some(progress) = pack.operation.progress().cloned() {
            load = load.progress(move |event| progress(event));
        }
        if let Some(identity) = self.hashed {
            let (config, manifest) = (trial.config.clone(), self.manifest().hash());
            run_blocking(None, move |_| {
                remember(&config, &identity, manifest);
                Ok::<_, Error>(())
            })
            .await?;
        }
        load.await
    }

    /// Runs the carton's self-tests on `model`, which must be the carton's model, already loaded. The report may have failures.
    pub(super) async fn self_test(&self, model: &Carton) -> Result<SelfTestReport, Error> {
        let (source, options) = (Arc::clone(&self.source) as Arc<dyn Source>, self.open_options());
        let package = run_blocking(None, move |_| Ok(Package::open_archive(source, options)?)).await?;
        let report = model.self_test_of(&package, SelfTestSettings::default(), model.progress()).await;
        report.map_err(|error| error.in_check("stops in a self-test"))
    }

    /// Writes the carton to `output` without the files that `links` list.
    ///
    /// # Errors
    /// The file changed after it was checked, or the operating system refuses. The file that was at `output` before is still
    /// there then.
    pub(super) fn publish_without(self, links: Links, output: &Path, context: &Context) -> Result<Manifest, Error> {
        self.check_unchanged()?;
        let package = Package::open_archive(Arc::clone(&self.source) as Arc<dyn Source>, self.open_options())?;
        shrink::leave_out(package.contents(), links, output, context)?;
        Ok(self.carton.manifest().clone())
    }

    /// Gives the carton its name. For a large carton, records in the cache that it need not be hashed again.
    ///
    /// # Errors
    /// [`PackageError::SourceChanged`] if the file changed after it was written; the operating system refuses.
    pub(super) fn publish(self, config: &Config) -> Result<Manifest, Error> {
        self.check_unchanged()?;
        let manifest = self.carton.publish().map_err(PackError::Package)?;
        // Giving it a name changed the ctime of its inode, and nothing else.
        if let (Some(hashed), Some(found)) = (self.hashed, identity_now(&self.source))
            && found.has_same_bytes(&hashed)
            && is_settled(&self.source, &found)
        {
            remember(config, &found, manifest.hash());
        }
        Ok(manifest)
    }

    fn open_options(&self) -> OpenOptions {
        OpenOptions { expect: Some(self.manifest().hash()), ..OpenOptions::default() }
    }

    /// Checks that the file did not change after it was written. The model's own code has run in between, with the rights of the
    /// user, and could have written to the file.
    fn check_unchanged(&self) -> Result<(), Error> {
        match identity_now(&self.source) {
            found @ Some(_) if found == self.source.identity() => Ok(()),
            _ => Err(changed(self.carton.output())),
        }
    }
}

/// A file changed while it was packed.
fn changed(path: &Path) -> Error {
    PackError::Package(PackageError::SourceChanged { path: path.to_path_buf() }).into()
}

fn identity_now(source: &FileSource) -> Option<FileIdentity> {
    source.file()?.metadata().ok().map(|metadata| FileIdentity::of(&metadata))
}

/// Whether the file still has this identity and any later change would change it, because the timestamps are not racy.
fn is_settled(source: &FileSource, identity: &FileIdentity) -> bool {
    let moment = source.file().map(|file| Moment::after_tick_of(file, identity));
    moment.is_some_and(|moment| identity_now(source) == Some(*identity) && moment.is_after(identity))
}

/// Records that all files of the carton with this identity match MANIFEST. If that fails, the next load verifies the carton
/// again.
fn remember(config: &Config, identity: &FileIdentity, manifest: ManifestHash) {
    let cache = Cache::in_folder(&config.cache_dir);
    if let Err(error) =
        cache.and_then(|cache| cache.verifications().remember_carton(identity, manifest, Scope::Everything))
    {
        tracing::debug!(%error, "cannot record a verification");
    }
}

/// Refuses a carton whose model is not the one that was loaded.
///
/// # Errors
/// [`PackageError::SourceChanged`]: the files of the model were read twice, and changed in between.
pub(super) fn check_same_model(loaded: &Manifest, written: &Manifest) -> Result<(), Error> {
    let difference = |one: &Manifest, other: &Manifest| {
        let mut files = one.iter().filter(|(path, _)| path.starts_with("model/"));
        files.find(|(path, digest)| other.get(path) != Some(*digest)).map(|(path, _)| path.to_owned())
    };
    match difference(loaded, written).or_else(|| difference(written, loaded)) {
        Some(path) => Err(changed(Path::new(&path))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::File;
    use std::time::Duration;

    use carton_format::archive::Compression;
    use carton_format::digest::Sha256Digest;
    use carton_format::metadata::Metadata;
    use tempfile::TempDir;

    use super::*;
    use crate::package::{self, PackageInput};

    /// Longer than a tick of the clock that sets the timestamps of files.
    const TICK: Duration = Duration::from_millis(30);

    /// A folder with a model, a place for its carton, and a cache.
    struct Desk(TempDir);

    impl Desk {
        fn new(length: usize) -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("model")).unwrap();
            std::fs::write(folder.path().join("model/weights.bin"), vec![7; length]).unwrap();
            std::fs::write(folder.path().join("model/config.json"), "{}").unwrap();
            std::fs::write(folder.path().join("config.toml"), "cache_dir = 'cache'").unwrap();
            Self(folder)
        }

        fn config(&self) -> Config {
            Config::load(Some(&self.0.path().join("config.toml"))).unwrap()
        }

        fn output(&self) -> std::path::PathBuf {
            self.0.path().join("model.carton")
        }

        fn write(&self) -> Written {
            let metadata = "spec_version = 1\n[runner]\nrunner_name = 'noop'\nrequired_framework_version = '1'";
            let input = PackageInput::new(Metadata::parse(metadata).unwrap(), self.0.path().join("model"));
            let written =
                package::write_unpublished(&input, &self.output(), Compression::Stored, &Context::default()).unwrap();
            Written::new(written).unwrap()
        }
    }

    /// Writes to the file as the model's code could, which finds it among the open files of its user, and resets its modification
    /// time.
    #[cfg(target_os = "linux")]
    fn tamper(source: &FileSource) {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::FileExt;
        std::thread::sleep(TICK);
        let file = source.file().unwrap();
        let before = file.metadata().unwrap().modified().unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let writable = File::options().write(true).open(path).unwrap();
        writable.write_all_at(b"X", source.len() / 2).unwrap();
        writable.set_modified(before).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_changed_after_it_was_written_gets_no_name() {
        for length in [1000, usize::try_from(WORTH_WAITING).unwrap()] {
            let desk = Desk::new(length);
            std::fs::write(desk.output(), "what was there before").unwrap();
            let refused = |result: Result<Manifest, Error>| {
                let error = result.unwrap_err();
                let is_it = |path: &Path| path == desk.output();
                let found = error.find::<PackError>();
                let is_it = |path: &Path| is_it(path);
                assert!(
                    matches!(found, Some(PackError::Package(PackageError::SourceChanged { path })) if is_it(path)),
                    "{error}"
                );
                assert_eq!(std::fs::read(desk.output()).unwrap(), b"what was there before");
            };
            let written = desk.write();
            tamper(&written.source);
            refused(written.publish(&desk.config()));
            let written = desk.write();
            tamper(&written.source);
            let links = Links::from_urls(
                [(Sha256Digest::of(b"{}"), vec!["https://example.com/config.json".to_owned()])].into(),
            );
            refused(written.publish_without(links.unwrap(), &desk.output(), &Context::default()));
            assert!(!desk.config().cache_dir.join("verified-v1").exists(), "nothing was recorded");
            desk.write().publish(&desk.config()).unwrap();
        }
    }

    #[test]
    fn a_large_carton_is_recorded_when_it_has_its_name() {
        let desk = Desk::new(usize::try_from(WORTH_WAITING).unwrap());
        let written = desk.write();
        let (is_private, hash) = (written.carton.is_private(), written.manifest().hash());
        written.publish(&desk.config()).unwrap();
        let identity = FileIdentity::of(&std::fs::metadata(desk.output()).unwrap());
        let cache = Cache::open(&desk.config().cache_dir).unwrap();
        assert_eq!(cache.verifications().is_carton_verified(&identity, &hash, Scope::Everything), is_private);
    }

    #[test]
    fn a_model_that_changes_between_two_writes_is_refused() {
        let desk = Desk::new(1000);
        let model = desk.0.path().join("model");
        let first = desk.write();
        check_same_model(first.manifest(), desk.write().manifest()).unwrap();
        let check = |path: &str| {
            let second = desk.write();
            for (one, other) in [(&first, &second), (&second, &first)] {
                let error = check_same_model(one.manifest(), other.manifest()).unwrap_err();
                let is_it = |found: &Path| found == Path::new(path);
                let found = error.find::<PackError>();
                let is_it = |path: &Path| is_it(path);
                assert!(
                    matches!(found, Some(PackError::Package(PackageError::SourceChanged { path })) if is_it(path)),
                    "{error}"
                );
            }
        };
        std::fs::write(model.join("weights.bin"), "others").unwrap();
        check("model/weights.bin");
        std::fs::write(model.join("weights.bin"), vec![7; 1000]).unwrap();
        check_same_model(first.manifest(), desk.write().manifest()).unwrap();
        std::fs::write(model.join("added"), "").unwrap();
        check("model/added");
    }

    #[test]
    fn a_trial_leaves_nothing_in_the_cache() {
        let desk = Desk::new(1000);
        let trial = TrialCache::new(&desk.config()).unwrap();
        let cache = Cache::open(&trial.config.cache_dir).unwrap();
        cache.files().insert(&mut &b"a file"[..]).unwrap();
        assert!(trial.config.cache_dir.starts_with(desk.config().cache_dir));
        drop(trial);
        assert!(!cache.path().exists());
        let files = std::fs::read_dir(desk.config().cache_dir.join("partial-v1")).unwrap().count();
        assert_eq!((files, Cache::open(&desk.config().cache_dir).unwrap().list().unwrap().bytes), (0, 0));
    }
}
