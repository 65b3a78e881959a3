//! Starts the runner of a model, and loads the model there.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use carton_format::context::Context;
use carton_format::metadata;
use carton_format::metadata::SandboxRequest;
use carton_format::progress::{ProgressCallback, ProgressEvent, Stage};
use carton_runner_interface::DeclaredTensor;
use carton_runner_interface::host::{
    CallError, CallOptions, ConnectionOptions, Event, FileRange, Files, LoadRequest, LogLevel, Phase,
};
use carton_runner_interface::runner::RunnerErrorKind;
use carton_tensor::{Dimension, SymbolicShape};

use super::load_settings::LoadSettings;
use super::preparation::{Preparation, Preparations};
use crate::contents::{self, ModelDirectory, ModelRanges};
use crate::memory::memory_bytes;
use crate::package::Package;
use crate::runner::launch::{Access, LaunchPolicy};
use crate::runner::session::{Session, StartError};
use crate::runner::{Descriptor, ModelFilesMode};
use crate::sandbox::SandboxMode;
use crate::variables::Variables;
use crate::{Error, Tensors};

/// The device that is no GPU.
const CPU: &str = "cpu";

/// The verified files of the model. Their lease in the cache lasts as long as the model is loaded.
pub(super) enum ModelFiles {
    Directory(ModelDirectory),
    Ranges(ModelRanges),
}

impl ModelFiles {
    pub(super) fn prepare(package: &Package, mode: ModelFilesMode, context: &Context) -> Result<Self, Error> {
        Ok(match mode {
            ModelFilesMode::Directory => Self::Directory(package.contents().model_directory(context)?),
            ModelFilesMode::Ranges => Self::Ranges(package.contents().model_ranges(context)?),
        })
    }

    /// The folder of the files, and where its links lead; nothing for open files.
    fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Directory(directory) => [directory.path()]
                .into_iter()
                .chain(directory.targets().iter().map(PathBuf::as_path))
                .map(Path::to_path_buf)
                .collect(),
            Self::Ranges(_) => Vec::new(),
        }
    }

    fn for_runner(&self) -> Files {
        match self {
            Self::Directory(directory) => Files::Directory(directory.path().to_path_buf()),
            Self::Ranges(ranges) => Files::Ranges(ranges.files().iter().map(wire_range).collect()),
        }
    }
}

/// What starting a model takes, any number of times.
pub(super) struct Starter {
    /// What the model gets for inputs that a call leaves out.
    pub(super) defaults: Tensors,
    pub(super) package: Package,
    pub(super) descriptor: Descriptor,
    pub(super) files: ModelFiles,
    pub(super) settings: LoadSettings,
    pub(super) progress: Option<ProgressCallback>,
    pub(super) preparations: Preparations,
}

impl Starter {
    /// Starts the runner and loads the model there. A runner that makes preparations makes them first, in a process of its own.
    pub(super) async fn start(&self) -> Result<Session, StartError> {
        let deadline = self.settings.load_timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut prepared = Preparation::default();
        if self.descriptor.prepare.is_some() {
            prepared = match self.preparations.remembered() {
                Some(prepared) => prepared,
                None => self.prepare(deadline).await?,
            };
            match self.load(&prepared, deadline).await {
                // What was made earlier is gone, or the model needs something else by now.
                Err(StartError::Refused { error, .. }) if error.kind == RunnerErrorKind::Unprepared => {
                    prepared = self.prepare(deadline).await?;
                }
                done => return done,
            }
        }
        self.load(&prepared, deadline).await
    }

    /// Starts the runner, confined, and loads the model there.
    async fn load(&self, prepared: &Preparation, deadline: Option<Instant>) -> Result<Session, StartError> {
        let session = self.start_runner(&self.access(prepared)).await?;
        match session.connection().load(self.request(), CallOptions { deadline }).await {
            // An answer that is there already is returned without a look at the clock.
            Ok(_) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                Err(self.explain(&session, CallError::DeadlineExceeded { phase: Phase::Running }).await)
            }
            Ok(_) => Ok(session),
            Err(error) => Err(self.explain(&session, error).await),
        }
    }

    /// Lets the runner make what the model needs, in a process that runs nothing of the model.
    async fn prepare(&self, deadline: Option<Instant>) -> Result<Preparation, StartError> {
        let access = Access {
            read: self.files.paths(),
            network: !self.settings.policy.configured.offline,
            // A device that is not there is reported before anything is fetched for the model.
            gpus: self.uses_gpus(),
            prepares: true,
            ..Access::default()
        };
        let session = self.start_runner(&access).await?;
        match session.connection().prepare(self.request(), CallOptions { deadline }).await {
            Ok(prepared) => Ok(self.preparations.remember(prepared)),
            Err(error) => Err(self.explain(&session, error).await),
        }
    }

    /// What the process that runs the model gets. A warning says what the carton asks for and does not get.
    fn access(&self, prepared: &Preparation) -> Access {
        let policy = &self.settings.policy;
        let request = self.package.metadata().sandbox();
        let resolve = |path: &Path| path.canonicalize().ok();
        let (granted, refused) = policy.all_allowed().divide(request, &resolve);
        if !refused.is_empty() && policy.mode() != SandboxMode::Off {
            // The field is for programs that name their own way to allow it.
            // A path that is never granted in this way is no advice.
            let is_grantable = |path: &&String| !policy.configured.private.are_reached_by(Path::new(path));
            let read = refused.read.iter().filter(is_grantable).cloned().collect();
            let grantable = SandboxRequest::new(refused.network, read).permissions();
            let allow = serde_json::to_string(&grantable).unwrap_or_default();
            tracing::warn!(target: "carton::sandbox", allow, "the model asks for {refused}, which is not allowed");
        }
        // What the caller allows, the model gets whether the carton asks for it or not.
        let mut read = self.files.paths();
        read.extend(granted.read.iter().chain(&policy.allow.read).cloned());
        let mut variables = self.package.metadata().runner().env.clone();
        variables.extend(policy.configured.variables.0.clone());
        Access {
            read,
            // Packages have programs.
            execute: prepared.read.clone(),
            network: (policy.allow.network || granted.network) && !policy.configured.offline,
            gpus: self.uses_gpus(),
            variables: Variables(variables),
            ..Access::default()
        }
    }

    /// Whether the caller asks for a device that is not the processor.
    fn uses_gpus(&self) -> bool {
        self.settings.device.as_deref().is_some_and(|device| device != CPU)
    }

    fn request(&self) -> LoadRequest {
        let Self { package, files, settings, .. } = self;
        let mut runner_options = carton_runner_interface::Options::new();
        runner_options.extend(package.metadata().runner().opts.clone());
        runner_options.extend(settings.options.clone());
        LoadRequest {
            files: files.for_runner(),
            options: runner_options,
            device: settings.device.clone(),
            inputs: wire_specs(package.metadata().inputs()),
            outputs: wire_specs(package.metadata().outputs()),
        }
    }

    async fn start_runner(&self, access: &Access) -> Result<Session, StartError> {
        let settings = &self.settings;
        let defaults = ConnectionOptions::default();
        let connection = ConnectionOptions {
            hello_timeout: settings.start_timeout,
            pool_cap: settings.pool_bytes,
            runner_pool_cap: settings.output_bytes.or_else(memory_bytes).unwrap_or(defaults.runner_pool_cap),
            pool_wait: settings.pool_wait,
            queue_cap: settings.max_waiting_calls,
            copy_outputs: settings.copy_outputs,
            ..defaults
        };
        start_runner(&self.descriptor, &settings.policy, access, connection, self.progress.clone()).await
    }

    /// Turns the error of a call into that of the start.
    async fn explain(&self, session: &Session, error: CallError) -> StartError {
        let runner = self.descriptor.to_string();
        match session.explain(error).await {
            Err(crash) => StartError::Crash(crash),
            Ok(CallError::Runner { error, .. }) => {
                StartError::Refused { runner, limits: session.suspected_limits(&error), error }
            }
            Ok(CallError::DeadlineExceeded { .. }) => {
                let hint = session.hint_on_denial();
                session.kill("loading the model ran out of time");
                StartError::LoadTimeout { runner, hint }
            }
            Ok(other) => StartError::Call(other),
        }
    }
}

/// Starts a runner. Its log records go to this program's log, and its progress goes to `progress`.
pub(crate) async fn start_runner(
    descriptor: &Descriptor,
    policy: &LaunchPolicy,
    access: &Access,
    mut connection: ConnectionOptions,
    progress: Option<ProgressCallback>,
) -> Result<Session, StartError> {
    let runner = descriptor.to_string();
    connection.on_event = Some(Arc::new(move |event| match event {
        Event::Log { level, message, .. } => log(&runner, level, &message),
        Event::Progress { what, done, total, .. } => {
            if let Some(progress) = &progress {
                progress(&ProgressEvent::new(Stage::Runner(what), done, total, ""));
            }
        }
        _ => {}
    }));
    Session::start(descriptor, policy, access, connection).await
}

fn log(runner: &str, level: LogLevel, message: &str) {
    match level {
        LogLevel::Error => tracing::error!(target: "carton::runner", runner, "{message}"),
        LogLevel::Warn => tracing::warn!(target: "carton::runner", runner, "{message}"),
        LogLevel::Info => tracing::info!(target: "carton::runner", runner, "{message}"),
        _ => tracing::debug!(target: "carton::runner", runner, "{message}"),
    }
}

fn wire_range(range: &contents::ModelRange) -> FileRange {
    FileRange {
        path: range.path.clone(),
        file: Arc::clone(&range.file),
        // For runners that cannot receive descriptors. This path names the open file itself, even if the file was renamed or
        // deleted.
        location: cfg!(target_os = "linux")
            .then(|| format!("/proc/{}/fd/{}", std::process::id(), range.file.as_raw_fd()).into()),
        offset: range.offset,
        length: range.length,
    }
}

/// Converts declared inputs or outputs into the form that a runner receives. Other writers may declare several with the same
/// name, of which the runner gets the first. A spec with neither a name nor an internal name means nothing to a runner and is
/// left out.
pub(crate) fn wire_specs(specs: &[metadata::TensorSpec]) -> Vec<DeclaredTensor> {
    let mut names = BTreeSet::new();
    specs
        .iter()
        .filter(|spec| names.insert(spec.name.as_str()))
        .filter(|spec| !spec.name.is_empty() || spec.internal_name.is_some())
        .map(|spec| DeclaredTensor {
            name: spec.name.clone(),
            dtype: spec.dtype,
            shape: without_empty_symbols(&spec.shape),
            internal_name: spec.internal_name.clone(),
        })
        .collect()
}

/// Replaces empty symbols, which other writers leave in shapes, by wildcards.
fn without_empty_symbols(shape: &SymbolicShape) -> SymbolicShape {
    match shape {
        SymbolicShape::Symbol(symbol) if symbol.is_empty() => SymbolicShape::Any,
        SymbolicShape::Dimensions(dimensions) => SymbolicShape::Dimensions(
            dimensions
                .iter()
                .map(|dimension| match dimension {
                    Dimension::Symbol(symbol) if symbol.is_empty() => Dimension::Any,
                    dimension => dimension.clone(),
                })
                .collect(),
        ),
        shape => shape.clone(),
    }
}
