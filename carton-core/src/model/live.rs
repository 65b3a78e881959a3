//! The runner of a loaded model, which is restarted when it has died.

use std::sync::Arc;
use std::time::{Duration, Instant};

use carton_format::causes::in_one_line;
use carton_format::progress::ProgressCallback;
use carton_format::side::Side;
use carton_format::signature::{Bindings, Giver, SignatureMode, as_declared};
use carton_runner_interface::Statement;
use carton_runner_interface::host::{CallError, CallOptions, CallTimings, Phase, Turn, code};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::start::Starter;
use crate::blocking::spawn;
use crate::package::Package;
use crate::runner::Descriptor;
use crate::runner::session::{Session, StartError};
use crate::runner_failure::RunnerFailure;
use crate::runner_message::runner_error;
use crate::{Error, Inputs, Tensors};

/// A package with a running runner.
pub(super) struct Live {
    starter: Arc<Starter>,
    max_concurrency: usize,
    /// The latest start of the runner.
    latest: Mutex<Start>,
}

/// What a model returned, before it is compared with the signature.
pub(crate) struct Observed {
    pub(crate) outputs: Tensors,
    /// The values of the symbols of the inputs.
    pub(crate) bindings: Bindings,
}

/// A start of the runner; `None` while it is under way.
type Start = watch::Receiver<Option<Result<Arc<Session>, StartError>>>;

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("runner", &self.descriptor().to_string()).finish_non_exhaustive()
    }
}

impl Live {
    pub(super) async fn start(starter: Arc<Starter>) -> Result<Self, Error> {
        let session = starter.start().await?;
        let max_concurrency = session.connection().loaded().map_or(1, |loaded| loaded.max_concurrency);
        let (_, latest) = watch::channel(Some(Ok(Arc::new(session))));
        Ok(Self { starter, max_concurrency, latest: Mutex::new(latest) })
    }

    /// Starts another runner with the same model.
    pub(super) async fn start_another(&self) -> Result<Self, Error> {
        Self::start(Arc::clone(&self.starter)).await
    }

    pub(super) fn package(&self) -> &Package {
        &self.starter.package
    }

    /// The tensors for inputs that a call leaves out.
    pub(super) fn defaults(&self) -> &Tensors {
        &self.starter.defaults
    }

    pub(super) fn descriptor(&self) -> &Descriptor {
        &self.starter.descriptor
    }

    pub(super) fn max_concurrency(&self) -> usize {
        self.max_concurrency
    }

    pub(super) fn progress(&self) -> Option<ProgressCallback> {
        self.starter.progress.clone()
    }

    pub(super) fn signature_mode(&self) -> SignatureMode {
        self.starter.settings.signature
    }

    /// Returns the options of a call that begins now. Its deadline follows from `timeout`, or else from the timeout of the model.
    pub(super) fn call_options(&self, timeout: Option<Duration>) -> CallOptions {
        let timeout = timeout.or(self.starter.settings.timeout);
        CallOptions { deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)) }
    }

    /// Returns the running session. If it has died, waits until the deadline of the call for a fresh one, unless restarting is
    /// switched off. All calls wait for the same start, which goes on when none of them waits any more.
    pub(super) async fn session(&self, deadline: Option<Instant>) -> Result<Arc<Session>, Error> {
        let mut start = {
            let mut latest = self.latest.lock();
            if let Some(Ok(session)) = &*latest.borrow()
                && !session.is_dead()
            {
                return Ok(Arc::clone(session));
            }
            let is_under_way = latest.borrow().is_none() && latest.has_changed().is_ok();
            if !is_under_way {
                if !self.starter.settings.restart {
                    return Err(RunnerFailure::Gone { runner: self.descriptor().to_string() }.into());
                }
                *latest = self.start_again()?;
            }
            latest.clone()
        };
        let started = self.before(deadline, start.wait_for(Option::is_some)).await?;
        match started.as_deref() {
            Ok(Some(started)) => Ok(started.clone()?),
            _ => Err(Error::internal("the thread that starts runners ended")),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(&*self.latest.lock().borrow(), Some(Ok(session)) if !session.is_dead())
    }

    /// Waits until the runner is dead, and returns why. A start that is under way is waited for.
    pub(super) async fn died(&self) -> Error {
        let mut start = self.latest.lock().clone();
        let session = match start.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Ok(session))) => Arc::clone(session),
            Ok(Some(Err(error))) => return error.clone().into(),
            _ => return RunnerFailure::Gone { runner: self.descriptor().to_string() }.into(),
        };
        let reason = session.ended().await;
        self.explain(&session, CallError::Closed(reason)).await
    }

    /// Starts a fresh runner on another thread. Dropping the model stops that.
    fn start_again(&self) -> Result<Start, Error> {
        let starter = Arc::clone(&self.starter);
        let (sender, start) = watch::channel(None);
        spawn("carton-restart", async move {
            let runner = &starter.descriptor;
            tracing::info!(%runner, "starting a fresh runner");
            let started = tokio::select! {
                started = starter.start() => started,
                () = sender.closed() => return,
            };
            if let Err(error) = &started {
                tracing::warn!(%runner, "cannot start a fresh runner: {}", in_one_line(&Error::from(error.clone())));
            }
            sender.send_replace(Some(started.map(Arc::new)));
        })?;
        Ok(start)
    }

    /// Waits for `work` until the deadline of a call that has not been sent yet.
    pub(super) async fn before<T>(&self, deadline: Option<Instant>, work: impl Future<Output = T>) -> Result<T, Error> {
        match deadline {
            None => Ok(work.await),
            Some(deadline) => {
                let done = tokio::time::timeout_at(deadline.into(), work).await;
                done.map_err(|_| self.timed_out(Phase::Queued, None))
            }
        }
    }

    /// Waits for a turn on the running session. If the runner dies while the call waits, the call waits again, for a turn on the
    /// fresh runner: nothing of it has been sent yet.
    pub(super) async fn turn(&self, options: &CallOptions) -> Result<(Arc<Session>, Turn), Error> {
        loop {
            let session = self.session(options.deadline).await?;
            match session.connection().turn(options).await {
                Ok(turn) => return Ok((session, turn)),
                Err(CallError::Closed(_)) if self.starter.settings.restart => {}
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
        let (Observed { outputs, bindings }, timings) = self.observe(inputs, timeout).await?;
        Ok((self.check_outputs(bindings, outputs)?, timings))
    }

    /// Runs the model once on `inputs`, and checks only them against the signature. Outputs get the declared dtypes where their values have them.
    pub(super) async fn observe(
        &self,
        inputs: Inputs,
        timeout: Option<Duration>,
    ) -> Result<(Observed, CallTimings), Error> {
        let (inputs, bindings) = self.check_inputs(inputs)?;
        let (session, turn) = self.turn(&self.call_options(timeout)).await?;
        match turn.infer(inputs).await {
            Ok((mut outputs, timings)) => {
                let signature = self.package().metadata().signature();
                let declared = signature.and_then(|signature| signature.outputs.as_deref());
                // Outputs with other values stay what they are, which their check reports.
                if let Err(error) = as_declared(Side::Output, Giver::Runner, declared, &mut outputs) {
                    tracing::debug!("outputs do not have the declared dtypes: {error}");
                }
                Ok((Observed { outputs, bindings }, timings))
            }
            Err(error) => Err(self.explain(&session, error).await),
        }
    }

    /// Returns what the loaded model states about itself: nothing, if its runner does not know this call.
    pub(super) async fn describe(&self) -> Result<Statement, Error> {
        let (session, turn) = self.turn(&self.call_options(None)).await?;
        match turn.describe().await {
            Ok(statement) => Ok(statement),
            Err(CallError::Runner { code, .. }) if code == code::UNKNOWN_MESSAGE => Ok(Statement::default()),
            Err(error) => Err(self.explain(&session, error).await),
        }
    }

    /// Turns the error of a failed call into the error for the caller. If the deadline passed while the call was running, the
    /// runner is killed.
    pub(super) async fn explain(&self, session: &Session, error: CallError) -> Error {
        match session.explain(error).await {
            Err(crash) => crash.into(),
            Ok(CallError::Runner { error, .. }) => {
                let limits = session.suspected_limits(&error);
                RunnerFailure::Model { runner: session.runner().to_owned(), source: runner_error(error, limits) }.into()
            }
            Ok(CallError::DeadlineExceeded { phase }) => {
                let mut hint = None;
                if phase == Phase::Running {
                    hint = session.hint_on_denial();
                    session.kill("a call ran out of time");
                }
                self.timed_out(phase, hint)
            }
            Ok(other) => other.into(),
        }
    }

    /// The error of a call that was not answered in time.
    pub(super) fn timed_out(&self, phase: Phase, hint: Option<String>) -> Error {
        RunnerFailure::Timeout { runner: self.descriptor().to_string(), waiting: phase == Phase::Queued, hint }.into()
    }
}
