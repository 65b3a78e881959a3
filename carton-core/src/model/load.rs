//! Loading a model: what is said before it, and the steps of it.

use std::fmt;
use std::future::IntoFuture;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use carton_runner_interface::OptionValue;
use semver::VersionReq;

use super::Carton;
use super::live::{Live, ModelFiles};
use super::load_settings::LoadSettings;
use crate::blocking::{Awaited, run_blocking};
use crate::config::Config;
use crate::context::Context;
use crate::open::{self, Opening};
use crate::package::{self, Package};
use crate::runner::launch::LaunchPolicy;
use crate::runner::{self, Choice, Requirement};
use crate::settings::{OpenSettings, open_setters};
use crate::signature::SignatureMode;
use crate::source::Source;
use crate::{Error, Location};

/// A model that is about to be loaded: what [`Carton::load`] and [`Carton::load_unpacked`] return. Setters say how, and
/// `.await` loads it. A clone can be kept, to load the same model again.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use carton_core::Carton;
///
/// let model = Carton::load("https://example.com/digits.carton")
///     .expect_hash("6c3ff4a0f46c21a14ae8ab1b23ce0aa21bb5b2a9a0ba8d5d7c0a2f4f1a7d8e90".parse()?)
///     .device("cpu")
///     .timeout(Duration::from_secs(10))
///     .await?;
/// # let _ = model;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is loaded until this is awaited"]
pub struct Load {
    from: Origin,
    open: OpenSettings,
    settings: LoadSettings,
}

/// What is loaded.
#[derive(Clone)]
enum Origin {
    /// A carton, packed or unpacked.
    Carton(Location),
    /// The carton that a source holds. What it only links to is not fetched.
    Source(Arc<dyn Source>),
    /// A model that is in no carton. Its runner is in the settings.
    Bare(PathBuf),
}

impl Load {
    pub(super) fn carton(location: Location) -> Self {
        Self::new(Origin::Carton(location))
    }

    pub(super) fn bare(path: PathBuf, runner: String) -> Self {
        Self::new(Origin::Bare(path)).runner(runner)
    }

    /// The carton that `source` holds. What it only links to is not fetched.
    pub(crate) fn source(source: Arc<dyn Source>) -> Self {
        Self::new(Origin::Source(source))
    }

    fn new(from: Origin) -> Self {
        Self { from, open: OpenSettings::default(), settings: LoadSettings::default() }
    }

    open_setters!(open);

    /// Where the model runs: `cpu`, a GPU index, `GPU-…`, `MIG-…`. The runner chooses unless this is called.
    pub fn device(mut self, device: impl Into<String>) -> Self {
        self.settings.device = Some(device.into());
        self
    }

    /// Sets an option of the runner. It wins over the carton's option of that name.
    pub fn option(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        self.settings.options.insert(name.into(), value.into());
        self
    }

    /// Sets options of the runner, as [`option`](Self::option) does for one.
    pub fn options(mut self, options: impl IntoIterator<Item = (String, OptionValue)>) -> Self {
        self.settings.options.extend(options);
        self
    }

    /// Uses another runner than the one that the carton names.
    pub fn runner(mut self, name: impl Into<String>) -> Self {
        self.settings.runner = Some(name.into());
        self
    }

    /// Requires another version of the framework than the carton does.
    pub fn framework_version(mut self, required: VersionReq) -> Self {
        self.settings.framework_version = Some(required);
        self
    }

    /// Whether a missing runner is installed from the configured index ([`Config::runner_index`]). Off by default;
    /// [`Config::auto_install`] switches it on, too.
    pub fn install_runners(mut self, install: bool) -> Self {
        self.settings.install_runners = install;
        self
    }

    /// How inputs and outputs are checked against the carton's signature.
    pub fn signature(mut self, mode: SignatureMode) -> Self {
        self.settings.signature = mode;
        self
    }

    /// Whether the outputs are copied out of the memory that the runner shares, so that the runner cannot change them afterwards.
    /// Off by default.
    pub fn untrusted(mut self, copy_outputs: bool) -> Self {
        self.settings.untrusted = copy_outputs;
        self
    }

    /// The time that a call may take, waiting included; unlimited by default. A runner that exceeds it is killed, because nothing
    /// else stops a framework for certain.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// The time that a runner may take from its start to its first message; 30 seconds by default.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.settings.start_timeout = timeout;
        self
    }

    /// Whether a call after the runner died starts a fresh one. On by default.
    pub fn restart(mut self, restart: bool) -> Self {
        self.settings.restart = restart;
        self
    }

    /// The largest amount of shared memory that is kept for inputs, in bytes; 4 GiB by default.
    pub fn pool_bytes(mut self, n_bytes: u64) -> Self {
        self.settings.pool_bytes = n_bytes;
        self
    }

    /// The largest number of calls that wait for the runner; 1024 by default. The next one fails at once.
    pub fn max_waiting_calls(mut self, n_calls: usize) -> Self {
        self.settings.max_waiting_calls = n_calls;
        self
    }

    /// The environment and the limits of the runner's process.
    pub fn policy(mut self, policy: LaunchPolicy) -> Self {
        self.settings.policy = policy;
        self
    }

    async fn load(self) -> Result<Carton, Error> {
        let Self { from, open, mut settings } = self;
        let progress = open.operation.progress().cloned();
        let (package, descriptor, files, settings) = run_blocking(progress.as_ref(), move |context| {
            let config = open.operation.config()?;
            let opening = Opening { cache: Some(open::cache(&config)?), context: context.clone() };
            let package = from.open(&open, &settings, &config, &opening)?;
            let descriptor = choose_runner(&package, &config, &settings, &context)?;
            let files = ModelFiles::prepare(&package, descriptor.files, &context)?;
            complete_policy(&mut settings.policy, &config);
            Ok((package, descriptor, files, settings))
        })
        .await?;
        Ok(Carton { live: Arc::new(Live::start(package, descriptor, files, settings, progress).await?) })
    }
}

impl IntoFuture for Load {
    type Output = Result<Carton, Error>;
    type IntoFuture = Awaited<'static, Carton>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.load())
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Load");
        match &self.from {
            Origin::Carton(location) => debug.field("location", location),
            Origin::Source(_) => &mut debug,
            Origin::Bare(path) => debug.field("path", path),
        };
        let LoadSettings { device, runner, .. } = &self.settings;
        debug.field("open", &self.open).field("device", device).field("runner", runner).finish_non_exhaustive()
    }
}

impl Origin {
    fn open(
        self,
        open: &OpenSettings,
        settings: &LoadSettings,
        config: &Config,
        opening: &Opening,
    ) -> Result<Package, Error> {
        let cache = opening.cache.clone();
        match self {
            Self::Carton(location) => open::open(&location, open, config, opening),
            Self::Source(source) => {
                let options = package::OpenOptions { cache, expect: open.expect, ..Default::default() };
                Ok(Package::open_archive(source, options)?)
            }
            Self::Bare(path) => {
                let runner = settings.runner.as_deref().unwrap_or_default();
                let version = settings.framework_version.clone().unwrap_or(VersionReq::STAR);
                Ok(Package::bare(&path, runner, version, cache)?)
            }
        }
    }
}

/// Adds what the configuration says to the caller's policy: which variables a runner gets, and which it does not get because the
/// host takes credentials from them.
pub(crate) fn complete_policy(policy: &mut LaunchPolicy, config: &Config) {
    let offline = if config.offline { "1" } else { "0" };
    policy.variables.extend([
        ("CARTON_RUNNER_DATA_DIR".to_owned(), config.runner_data_dir.to_string_lossy().into_owned()),
        ("CARTON_OFFLINE".to_owned(), offline.to_owned()),
    ]);
    policy.withheld.extend(config.credentials.tokens.iter().filter_map(|token| token.variable.clone()));
}

/// The runner that fits the carton, with what the caller overrides.
fn choose_runner(
    package: &Package,
    config: &Config,
    settings: &LoadSettings,
    context: &Context,
) -> Result<runner::Descriptor, Error> {
    let platforms = package.metadata().required_platforms();
    if !platforms.is_empty() && !platforms.iter().any(|platform| platform == runner::PLATFORM) {
        return Err(Error::Platform { required: platforms.to_vec(), found: runner::PLATFORM });
    }
    let required = package.metadata().runner();
    let requirement = Requirement {
        name: settings.runner.clone().unwrap_or_else(|| required.runner_name.clone()),
        framework_version: Some(
            settings.framework_version.clone().unwrap_or_else(|| required.required_framework_version.clone()),
        ),
        // Another runner numbers its layouts in its own way.
        compat_version: settings.runner.is_none().then_some(required.runner_compat_version),
    };
    Ok(runner::choose(&requirement, &Choice { config, install: settings.install_runners, context })?)
}
