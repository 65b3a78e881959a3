//! The runner of a loaded model, which is restarted when it has died.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use carton_runner_protocol::DeclaredTensor;
use carton_runner_protocol::host::{
    CallError, CallOptions, CallTimings, ConnectionOptions, Event, FileRange, Files, LoadRequest, LogLevel, Phase, Turn,
};
use carton_tensor::{Dimension, SymbolicShape};
use parking_lot::RwLock;

use super::load_settings::LoadSettings;
use crate::contents::{self, ModelDirectory, ModelRanges};
use crate::context::Context;
use crate::error::runner_error;
use crate::metadata;
use crate::package::Package;
use crate::progress::{ProgressCallback, ProgressEvent, Stage};
use crate::runner::launch::LaunchPolicy;
use crate::runner::session::Session;
use crate::runner::{Descriptor, ModelFilesMode};
use crate::signature::SignatureMode;
use crate::{Error, Inputs, Tensors};

/// The verified files of the model. Their lease in the cache lasts as long as the model is loaded.
pub(super) enum ModelFiles {
    Directory(ModelDirectory),
    Ranges(ModelRanges),
}

impl ModelFiles {
    pub(super) fn prepare(package: &Package, mode: ModelFilesMode, context: &Context) -> Result<Self, Error> {
        Ok(match mode {
            ModelFilesMode::Directory => {
                Self::Directory(package.contents().model_directory(&context.on_contents(Stage::Extract))?)
            }
            ModelFilesMode::Ranges => {
                Self::Ranges(package.contents().model_ranges(&context.on_contents(Stage::Verify))?)
            }
        })
    }

    fn for_runner(&self) -> Files {
        match self {
            Self::Directory(directory) => Files::Directory(directory.path().to_path_buf()),
            Self::Ranges(ranges) => Files::Ranges(ranges.files().iter().map(wire_range).collect()),
        }
    }
}

/// A package with a running runner.
pub(super) struct Live {
    package: Package,
    descriptor: Descriptor,
    files: ModelFiles,
    settings: LoadSettings,
    progress: Option<ProgressCallback>,
    session: RwLock<Arc<Session>>,
    /// Held while a fresh runner starts, so that concurrent calls start only one.
    restarting: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("runner", &self.descriptor.to_string()).finish_non_exhaustive()
    }
}

impl Live {
    pub(super) async fn start(
        package: Package,
        descriptor: Descriptor,
        files: ModelFiles,
        settings: LoadSettings,
        progress: Option<ProgressCallback>,
    ) -> Result<Self, Error> {
        let session = start_session(&package, &descriptor, &files, &settings, progress.clone()).await?;
        Ok(Self {
            package,
            descriptor,
            files,
            settings,
            progress,
            session: RwLock::new(Arc::new(session)),
            restarting: tokio::sync::Mutex::default(),
        })
    }

    pub(super) fn package(&self) -> &Package {
        &self.package
    }

    pub(super) fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    pub(super) fn progress(&self) -> Option<ProgressCallback> {
        self.progress.clone()
    }

    pub(super) fn signature_mode(&self) -> SignatureMode {
        self.settings.signature
    }

    /// Returns the options of a call that begins now. Its deadline follows from `timeout`, or else from the timeout of the model.
    pub(super) fn call_options(&self, timeout: Option<Duration>) -> CallOptions {
        let timeout = timeout.or(self.settings.timeout);
        CallOptions { deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)) }
    }

    /// Returns the running session. Starts a fresh one if the last one died, unless restarting is switched off.
    pub(super) async fn session(&self) -> Result<Arc<Session>, Error> {
        let session = self.current();
        if !session.is_dead() {
            return Ok(session);
        }
        if !self.settings.restart {
            return Err(Error::RunnerGone { runner: self.descriptor.to_string() });
        }
        let _one_at_a_time = self.restarting.lock().await;
        let session = self.current();
        if !session.is_dead() {
            return Ok(session);
        }
        tracing::info!(runner = %self.descriptor, "starting a fresh runner");
        let session =
            start_session(&self.package, &self.descriptor, &self.files, &self.settings, self.progress()).await?;
        let session = Arc::new(session);
        *self.session.write() = Arc::clone(&session);
        Ok(session)
    }

    /// Waits for a turn on the running session. If the runner dies while the call waits, the call waits again, for a turn on the
    /// fresh runner: nothing of it has been sent yet.
    pub(super) async fn turn(&self, options: &CallOptions) -> Result<(Arc<Session>, Turn), Error> {
        loop {
            let session = self.session().await?;
            match session.connection().turn(options).await {
                Ok(turn) => return Ok((session, turn)),
                Err(CallError::Closed(_)) if self.settings.restart => {}
                Err(error) => return Err(self.explain(&session, error).await),
            }
        }
    }

    /// Runs the model once on `inputs`, and checks inputs and outputs against the signature.
    pub(super) async fn infer(
        &self,
        inputs: Inputs,
        timeout: Option<Duration>,
    ) -> Result<(Tensors, CallTimings), Error> {
        let (inputs, bindings) = self.check_inputs(inputs)?;
        let (session, turn) = self.turn(&self.call_options(timeout)).await?;
        match turn.infer(inputs).await {
            Ok((outputs, timings)) => self.check_outputs(bindings, &outputs).map(|()| (outputs, timings)),
            Err(error) => Err(self.explain(&session, error).await),
        }
    }

    fn current(&self) -> Arc<Session> {
        Arc::clone(&self.session.read())
    }

    /// Turns the error of a failed call into the error for the caller. If the deadline passed while the call was running, the
    /// runner is killed.
    pub(super) async fn explain(&self, session: &Session, error: CallError) -> Error {
        match session.explain(error).await {
            Err(crash) => Error::RunnerCrashed(crash),
            Ok(CallError::Runner { error, .. }) => {
                Error::Model { runner: session.runner().to_owned(), source: runner_error(error) }
            }
            Ok(CallError::DeadlineExceeded { phase }) => {
                if phase == Phase::Running {
                    session.kill("a call ran out of time");
                }
                timed_out(session, phase)
            }
            Ok(other) => Error::Call(other),
        }
    }
}

/// The error of a call that was not answered in time.
pub(super) fn timed_out(session: &Session, phase: Phase) -> Error {
    Error::Timeout { runner: session.runner().to_owned(), waiting: phase == Phase::Queued }
}

async fn start_session(
    package: &Package,
    descriptor: &Descriptor,
    files: &ModelFiles,
    settings: &LoadSettings,
    progress: Option<ProgressCallback>,
) -> Result<Session, Error> {
    let mut runner_options = carton_runner_protocol::Options::new();
    runner_options.extend(package.metadata().runner().opts.clone());
    runner_options.extend(settings.options.clone());
    let request = LoadRequest {
        files: files.for_runner(),
        options: runner_options,
        device: settings.device.clone(),
        inputs: wire_specs(package.metadata().inputs()),
        outputs: wire_specs(package.metadata().outputs()),
    };
    let connection = ConnectionOptions {
        hello_timeout: settings.start_timeout,
        pool_cap: settings.pool_bytes,
        queue_cap: settings.max_waiting_calls,
        copy_outputs: settings.untrusted,
        ..ConnectionOptions::default()
    };
    let session = start_runner(descriptor, &settings.policy, connection, progress).await?;
    match session.connection().load(request, CallOptions::default()).await {
        Ok(_) => Ok(session),
        Err(error) => match session.explain(error).await {
            Err(crash) => Err(Error::RunnerCrashed(crash)),
            Ok(CallError::Runner { error, .. }) => Err(Error::refused(descriptor.to_string(), error)),
            Ok(other) => Err(Error::Call(other)),
        },
    }
}

/// Starts a runner. Its log records go to this program's log, and its progress goes to `progress`.
pub(crate) async fn start_runner(
    descriptor: &Descriptor,
    policy: &LaunchPolicy,
    mut connection: ConnectionOptions,
    progress: Option<ProgressCallback>,
) -> Result<Session, Error> {
    let runner = descriptor.to_string();
    connection.on_event = Some(Arc::new(move |event| match event {
        Event::Log { level, message, .. } => log(&runner, level, &message),
        Event::Progress { what, done, total, .. } => {
            if let Some(progress) = &progress {
                progress(&ProgressEvent { stage: Stage::Runner(what), done, kept: 0, total, unit: "" });
            }
        }
        _ => {}
    }));
    Ok(Session::start(descriptor, policy, connection).await?)
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
