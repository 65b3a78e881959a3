//! Loads a model: the settings of the load, and its steps.

use std::fmt;
use std::future::IntoFuture;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use carton_format::context::Context;
use carton_format::signature::SignatureMode;
use carton_format::source::Source;
use carton_runner_interface::OptionValue;
use semver::VersionReq;

use super::Carton;
use super::error::ModelError;
use super::live::Live;
use super::load_settings::LoadSettings;
use super::preparation::Preparations;
use super::start::{ModelFiles, Starter};
use crate::blocking::{Awaited, run_blocking};
use crate::config::Config;
use crate::contents::OutsideLinks;
use crate::open::{self, Opening};
use crate::package::{self, Package};
use crate::runner::launch::{Configured, LaunchPolicy};
use crate::runner::launch_setters;
use crate::runner::{self, Requirement, RunnerSources};
use crate::sandbox::PrivatePlaces;
use crate::settings::{OpenSettings, open_setters};
use crate::variables::{self, VariableError, Variables};
use crate::{Error, Location};

/// A model to be loaded. Made by [`Carton::load`] and [`Carton::load_bare`]; setters configure it, and `.await` loads it. It
/// can be cloned, to load the same model again.
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
    from: LoadOrigin,
    open: OpenSettings,
    settings: LoadSettings,
}

/// Where the model is loaded from.
#[derive(Clone)]
enum LoadOrigin {
    /// A carton, packed or unpacked.
    Carton(Location),
    /// A carton whose bytes a source holds. Files that it only links to are not fetched.
    Source(Arc<dyn Source>),
    /// A model that is not in a carton. The settings name its runner.
    Bare(PathBuf),
}

impl Load {
    pub(super) fn carton(location: Location) -> Self {
        Self::new(LoadOrigin::Carton(location))
    }

    pub(super) fn bare(path: PathBuf, runner: String) -> Self {
        Self::new(LoadOrigin::Bare(path)).runner(runner)
    }

    /// Loads the carton whose bytes `source` holds. Files that it only links to are not fetched.
    pub(crate) fn source(source: Arc<dyn Source>) -> Self {
        Self::new(LoadOrigin::Source(source))
    }

    fn new(from: LoadOrigin) -> Self {
        Self { from, open: OpenSettings::default(), settings: LoadSettings::default() }
    }

    open_setters!(open);

    /// Sets the device that the model runs on: `cpu`, a GPU index, `GPU-…`, `MIG-…`. By default the CPU in the sandbox; without it the
    /// runner chooses.
    pub fn device(mut self, device: impl Into<String>) -> Self {
        self.settings.device = Some(device.into());
        self
    }

    /// Sets an option of the runner. It overrides the carton's option of that name. An option `env.NAME` is no option but the environment
    /// variable `NAME`, and overrides the carton's.
    pub fn option(mut self, name: impl Into<String>, value: impl Into<OptionValue>) -> Self {
        self.settings.options.insert(name.into(), value.into());
        self
    }

    /// Sets several options of the runner; see [`option`](Self::option).
    pub fn options(mut self, options: impl IntoIterator<Item = (String, OptionValue)>) -> Self {
        self.settings.options.extend(options);
        self
    }

    /// Uses this runner instead of the one that the carton names.
    pub fn runner(mut self, name: impl Into<String>) -> Self {
        self.settings.runner = Some(name.into());
        self
    }

    /// Sets the required version of the framework, in place of the carton's requirement.
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

    /// Sets how strictly inputs and outputs are checked against the carton's signature.
    pub fn signature(mut self, mode: SignatureMode) -> Self {
        self.settings.signature = mode;
        self
    }

    /// Whether the outputs are copied out of the memory that the runner shares, so that the runner cannot change them afterwards.
    /// Off by default.
    pub fn copy_outputs(mut self, copy: bool) -> Self {
        self.settings.copy_outputs = copy;
        self
    }

    /// Sets the time that a call may take, waiting included: for its turn, and for a fresh runner if the last one has died. Unlimited
    /// by default. If a call is running when its time is up, the runner is killed, because nothing else stops a framework for
    /// certain. Other calls that are running there then fail with [`ErrorKind::RunnerCrashed`](crate::ErrorKind::RunnerCrashed).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Sets the time for which a runner that starts may make no progress until its first message; 30 seconds by default. On Linux, a runner
    /// makes progress while its processes use processor time, wait for a processor, or read from a disk, so that a busy machine does not make a
    /// start fail. On other systems all time counts. A start takes 10 minutes at most, or this time if that is longer.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.settings.start_timeout = timeout;
        self
    }

    /// Sets the time that loading the model in the runner may take; unlimited by default. It begins when the runner has started,
    /// and holds for a fresh runner too. A runner that does not load the model within it is killed, also if its answer is late by a moment.
    pub fn load_timeout(mut self, timeout: Duration) -> Self {
        self.settings.load_timeout = Some(timeout);
        self
    }

    /// Whether a call starts a fresh runner if the last one has died. On by default.
    pub fn restart(mut self, restart: bool) -> Self {
        self.settings.restart = restart;
        self
    }

    /// Sets the largest amount of shared memory for inputs, in bytes; 4 GiB by default.
    pub fn pool_bytes(mut self, n_bytes: u64) -> Self {
        self.settings.pool_bytes = n_bytes;
        self
    }

    /// Sets the largest amount of shared memory for outputs, in bytes, of all calls whose outputs are still held. By default as much as this
    /// machine has, or as the cgroup of this process allows. A runner that lends more is ended. All strings of one output message have at
    /// most 1 GiB, whatever is set.
    pub fn output_bytes(mut self, n_bytes: u64) -> Self {
        self.settings.output_bytes = Some(n_bytes);
        self
    }

    /// Sets the time for which calls and [`Carton::alloc`] wait for room in full shared memory; 30 seconds by default. A call waits
    /// no longer than its own timeout.
    pub fn pool_wait(mut self, wait: Duration) -> Self {
        self.settings.pool_wait = wait;
        self
    }

    /// Sets the largest number of calls that wait for the runner; 1024 by default. Any further call fails at once.
    pub fn max_waiting_calls(mut self, n_calls: usize) -> Self {
        self.settings.max_waiting_calls = n_calls;
        self
    }

    launch_setters!(settings.policy);

    async fn load(self) -> Result<Carton, Error> {
        let Self { from, open, mut settings } = self;
        let progress = open.operation.progress().cloned();
        let starter = run_blocking(progress.as_ref(), move |context| {
            let config = open.operation.config()?;
            let opening = Opening { cache: Some(open::cache(&config)?), context: context.clone() };
            let variables = variables::take_from_options(&mut settings.options)?;
            complete_policy(&mut settings.policy, &config)?;
            let Variables(passed) = &mut settings.policy.configured.variables;
            variables.into_iter().for_each(|(name, value)| _ = passed.entry(name).or_insert(value));
            let package = from.open(&open, &settings, &config, &opening)?;
            let descriptor = choose_runner(&package, &config, &settings, &context)?;
            let files = ModelFiles::prepare(&package, descriptor.files, &context)?;
            let preparations = Preparations::new(&package, &descriptor, &config.runner_data_dir);
            let defaults = defaults(&package)?;
            Ok(Starter {
                defaults,
                package,
                descriptor,
                files,
                settings,
                progress: open.operation.progress,
                preparations,
            })
        })
        .await?;
        Ok(Carton { live: Arc::new(Live::start(Arc::new(starter)).await?) })
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
            LoadOrigin::Carton(location) => debug.field("location", location),
            LoadOrigin::Source(_) => &mut debug,
            LoadOrigin::Bare(path) => debug.field("path", path),
        };
        let LoadSettings { device, runner, .. } = &self.settings;
        debug.field("open", &self.open).field("device", device).field("runner", runner).finish_non_exhaustive()
    }
}

impl LoadOrigin {
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
                open::refuse_bare(&path, &open.trust, config)?;
                let runner = settings.runner.as_deref().unwrap_or_default();
                let version = settings.framework_version.clone().unwrap_or(VersionReq::STAR);
                Ok(Package::bare(&path, &outside_links(&settings.policy), runner, version, cache)?)
            }
        }
    }
}

/// Returns which links of a bare model are followed that leave its folder. A link asks for what it leads to, as a carton does in its
/// `carton.toml`. The host opens files for runners, so that the sandbox alone does not stop it.
fn outside_links(policy: &LaunchPolicy) -> OutsideLinks {
    if policy.is_confined() {
        let allowed = policy.all_allowed().read;
        OutsideLinks::Within(allowed.iter().filter_map(|path| path.canonicalize().ok()).collect())
    } else {
        OutsideLinks::Followed
    }
}

/// The variable that allows runners to build packages from their sources.
const BUILD_VARIABLE: &str = "CARTON_ALLOW_BUILD";

/// Adds settings of the configuration to the caller's policy: variables for the runner, and the names of variables that the
/// runner must not get because the host takes credentials from them.
///
/// # Errors
/// A variable that the caller passes is not set, or is none that a model gets.
pub(crate) fn complete_policy(policy: &mut LaunchPolicy, config: &Config) -> Result<(), VariableError> {
    let offline = if config.offline { "1" } else { "0" };
    policy.variables.extend([
        ("CARTON_RUNNER_DATA_DIR".to_owned(), config.runner_data_dir.to_string_lossy().into_owned()),
        ("CARTON_OFFLINE".to_owned(), offline.to_owned()),
    ]);
    // Set in any case, because variables of this name are passed on.
    let build = if policy.allow.build || config.sandbox.allow.build { "1" } else { "0" };
    policy.variables.push((BUILD_VARIABLE.to_owned(), build.to_owned()));
    policy.withheld.extend(config.credentials.tokens.iter().filter_map(|token| token.variable.clone()));
    let passed = policy.passed.iter().map(|variable| variable.resolve(&policy.withheld));
    let passed = Variables(passed.collect::<Result<_, _>>()?);
    if policy.allow.network && config.offline {
        tracing::warn!(target: "carton::sandbox", "the model does not get the network, because of `offline`");
    }
    policy.configured = Configured {
        sandbox: config.sandbox.clone(),
        private: private_places(config),
        launcher: runner::launcher(config),
        data_dir: config.runner_data_dir.clone(),
        offline: config.offline,
        variables: passed,
        proxy: config.proxy.clone(),
    };
    for path in &mut policy.allow.read {
        // Rules about files need to know which ones are meant, wherever the runner is started.
        *path = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        if !path.exists() {
            tracing::warn!(target: "carton::sandbox", "nothing is at `{}`, which the model may read", path.display());
        }
    }
    let Configured { sandbox, private, .. } = &mut policy.configured;
    if !policy.allow.private && !sandbox.allow.private {
        for allowed in [&mut policy.allow.read, &mut sandbox.allow.read] {
            let paths = std::mem::take(allowed).into_iter();
            let (reaching, granted): (Vec<PathBuf>, Vec<PathBuf>) =
                paths.partition(|path| private.are_reached_by(path));
            *allowed = granted;
            for path in reaching {
                tracing::warn!(
                    target: "carton::sandbox",
                    "the model does not get to read `{}`: your home folder, the configuration or the cache is in it, and `private` is not allowed",
                    path.display()
                );
            }
        }
    }
    Ok(())
}

/// The folders that a permission to read does not reach by itself: the user's home, and what tells of or belongs to other models.
fn private_places(config: &Config) -> PrivatePlaces {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let own = home.as_ref().map(|home| home.join(".carton"));
    let whole = [home, own, Some(config.runner_dir.clone()), Some(config.runner_data_dir.clone())];
    PrivatePlaces::new(whole.into_iter().flatten(), [config.cache_dir.clone()])
}

/// Chooses the runner that fits the carton and the caller's overrides.
fn choose_runner(
    package: &Package,
    config: &Config,
    settings: &LoadSettings,
    context: &Context,
) -> Result<runner::Descriptor, Error> {
    let platforms = package.metadata().required_platforms();
    if !platforms.is_empty() && !platforms.iter().any(|platform| platform == runner::PLATFORM) {
        return Err(ModelError::Platform { required: platforms.to_vec(), found: runner::PLATFORM }.into());
    }
    let required = package.metadata().runner();
    let requirement = Requirement {
        name: settings.runner.clone().unwrap_or_else(|| required.runner_name.clone()),
        framework_version: Some(
            settings.framework_version.clone().unwrap_or_else(|| required.required_framework_version.clone()),
        ),
        // The compat version of the carton means nothing for a different runner, which numbers its layouts independently.
        compat_version: settings.runner.is_none().then_some(required.runner_compat_version),
    };
    runner::choose(&requirement, &RunnerSources { config, install: settings.install_runners, context })
}

/// The tensors of the carton that the model gets for inputs that a call leaves out.
fn defaults(package: &Package) -> Result<crate::Tensors, Error> {
    let optional = package.metadata().inputs().iter().filter(|input| input.is_optional());
    let with_default = optional.filter_map(|input| Some((input, input.default_tensor()?)));
    with_default.map(|(input, tensor)| Ok((input.name.clone(), package.tensor(tensor)?))).collect()
}
