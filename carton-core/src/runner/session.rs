//! A runner process and the connection to it, which end together. The protocol itself is in `carton-runner-interface`.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use carton_format::causes::in_one_line;
use carton_runner_interface::host::{CallError, CloseReason, Connection, ConnectionOptions};
use carton_runner_interface::runner::RunnerError;
use tokio::sync::watch;

use super::Descriptor;
use super::launch::{Access, Exit, LaunchError, LaunchPolicy, NotStarted, Process, launch};
use crate::error::{Error, Failure};
use crate::runner_failure::RunnerFailure;
use crate::sandbox::{Denial, Limits, Reach, SuspectedLimit, suspected_limits};
use carton_format::error_kind::ErrorKind;

/// How long to wait for the exit status after the connection has ended, before the error is reported without it.
const EXIT_REPORT_WAIT: Duration = Duration::from_secs(1);

/// How long a start may take in all, however much progress the runner makes.
const START_LIMIT: Duration = Duration::from_secs(600);

/// The death of a runner: it exited, hung at its start, or broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    /// Name and version of the runner.
    pub(crate) runner: String,
    /// What happened: `killed by signal 9`, `exit status 1`, `broke the protocol: …`.
    pub(crate) what: String,
    /// The last lines of its standard error.
    pub(crate) stderr: Vec<String>,
    /// The limits that are the likely cause.
    pub(crate) limits: Vec<SuspectedLimit>,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "runner {} died: {}", self.runner, self.what)?;
        if !self.stderr.is_empty() {
            write!(f, "; its last words:")?;
            for line in &self.stderr {
                write!(f, "\n    {line}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Crash {}

impl Failure for Crash {
    fn kind(&self) -> ErrorKind {
        ErrorKind::RunnerCrashed
    }

    fn suspected_limits(&self) -> &[SuspectedLimit] {
        &self.limits
    }
}

/// Why a session could not be started, or could not load its model. Can be cloned, for all calls that wait for the session.
#[derive(Clone, Debug)]
pub(crate) enum StartError {
    Launch(LaunchError),
    Crash(Crash),
    /// The runner does not load the model.
    Refused {
        runner: String,
        error: RunnerError,
        limits: Vec<SuspectedLimit>,
    },
    /// The runner did not load the model in time.
    LoadTimeout {
        runner: String,
        hint: Option<String>,
    },
    /// The request to load the model could not be made.
    Call(CallError),
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Launch(error) => error.into(),
            StartError::Crash(crash) => crash.into(),
            StartError::Refused { runner, error, limits } => RunnerFailure::refused(runner, error, limits).into(),
            StartError::LoadTimeout { runner, hint } => RunnerFailure::LoadTimeout { runner, hint }.into(),
            StartError::Call(error) => error.into(),
        }
    }
}

/// A running, connected runner. Dropping the session ends the process.
pub(crate) struct Session {
    runner: String,
    connection: Connection,
    process: Process,
    /// The limits of the process.
    limits: Limits,
    /// What the process has, if it is confined and runs a model.
    confined: Option<Reach>,
    exit: watch::Receiver<Option<Exit>>,
}

impl Session {
    /// Starts the process and exchanges the hello messages. `options.hello_timeout` is the time for which the runner may make no progress until
    /// then; a start that makes some takes at most [`START_LIMIT`].
    pub(crate) async fn start(
        descriptor: &Descriptor,
        policy: &LaunchPolicy,
        access: &Access,
        mut options: ConnectionOptions,
    ) -> Result<Self, StartError> {
        let patience = options.hello_timeout;
        options.hello_timeout = START_LIMIT.max(patience);
        let runner = descriptor.to_string();
        let limits = policy.all_limits();
        let (report_exit, exit) = watch::channel(None);
        // The process may die before there is a connection to close.
        let connection_to_close: Arc<OnceLock<Connection>> = Arc::default();
        let (socket, process) = launch(descriptor, policy, access, {
            let connection = Arc::clone(&connection_to_close);
            move |exit| {
                report_exit.send_replace(Some(exit));
                if let Some(connection) = connection.get() {
                    connection.close(CloseReason::EndOfFile);
                }
            }
        })
        .map_err(StartError::Launch)?;
        let mut died = exit.clone();
        let opened = tokio::select! {
            // A hello that has come while this process waited for a processor counts.
            biased;
            opened = Connection::open(socket.into(), options) => opened,
            // A child that the dead runner left behind may hold the socket open, and then no hello would ever arrive.
            _ = died.wait_for(Option::is_some) => Err(Arc::new(CloseReason::EndOfFile)),
            () = process.until_stuck(patience) => Err(Arc::new(CloseReason::Requested(stuck(patience)))),
        };
        // A program that is no launcher, and speaks the protocol, would be a runner that nothing confines.
        let opened = match opened {
            Ok(connection) if !process.is_confined().await && exit.borrow().is_none() => {
                let reason = "the program that should confine it did not say that it has".to_owned();
                connection.close(CloseReason::Requested(reason.clone()));
                process.kill();
                return Err(StartError::Launch(LaunchError::Sandbox { runner, reason, limits: Vec::new() }));
            }
            opened => opened,
        };
        match opened {
            Ok(connection) => {
                let _ = connection_to_close.set(connection.clone());
                if exit.borrow().is_some() {
                    connection.close(CloseReason::EndOfFile);
                }
                let confined = (policy.is_confined() && !access.prepares)
                    .then_some(Reach { network: access.network, gpus: access.gpus });
                Ok(Self { runner, connection, process, limits, confined, exit })
            }
            Err(reason) => {
                if !matches!(*reason, CloseReason::EndOfFile) {
                    process.kill();
                }
                let crash = crash(&runner, &reason, &process, &limits, exit.clone()).await;
                let not_started = exit.borrow().as_ref().and_then(|exit| exit.not_started.clone());
                Err(match not_started {
                    Some(NotStarted::Refused(reason)) => {
                        let limits = suspected_limits(&limits, None, [reason.as_str()]);
                        StartError::Launch(LaunchError::Sandbox { runner, reason, limits })
                    }
                    Some(NotStarted::CannotStart(reason)) => StartError::Launch(LaunchError::Spawn {
                        runner,
                        path: descriptor.runner_path.clone(),
                        limits: suspected_limits(&limits, None, [reason.as_str()]),
                        source: Arc::new(std::io::Error::other(reason)),
                    }),
                    None => StartError::Crash(crash),
                })
            }
        }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn runner(&self) -> &str {
        &self.runner
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.connection.is_closed() || self.exit.borrow().is_some()
    }

    /// Waits until the process or its connection has ended, and returns why the connection was closed.
    pub(crate) async fn ended(&self) -> Arc<CloseReason> {
        let mut exit = self.exit.clone();
        tokio::select! {
            reason = self.connection.closed() => reason,
            // If nobody will ever report the exit, the connection tells.
            Ok(_) = exit.wait_for(Option::is_some) => self.connection.close_reason().unwrap_or_else(|| Arc::new(CloseReason::EndOfFile)),
        }
    }

    /// Kills the process. Every pending call fails.
    pub(crate) fn kill(&self, reason: &str) {
        self.connection.close(CloseReason::Requested(reason.to_owned()));
        self.process.kill();
    }

    /// Returns the limits that are the likely cause of an error of the runner.
    pub(crate) fn suspected_limits(&self, error: &RunnerError) -> Vec<SuspectedLimit> {
        let texts = std::iter::once(&error.message).chain(&error.causes);
        suspected_limits(&self.limits, None, texts.map(String::as_str))
    }

    /// What the user can do about a runner that does not answer, if its last words look like a refusal of the sandbox.
    pub(crate) fn hint_on_denial(&self) -> Option<String> {
        let reach = self.confined?;
        let lines = self.process.last_lines();
        let denial = Denial::of(lines.iter().map(String::as_str), reach)?;
        Some(format!("the model may be waiting for something that the sandbox refused: {}", denial.hint()))
    }

    /// Turns a closed connection into a [`Crash`] that tells how the process ended. An error that looks like a refusal of the sandbox gets a
    /// hint that says so. Other errors are returned unchanged.
    pub(crate) async fn explain(&self, error: CallError) -> Result<CallError, Crash> {
        match error {
            CallError::Closed(reason) => {
                Err(crash(&self.runner, &reason, &self.process, &self.limits, self.exit.clone()).await)
            }
            CallError::Runner { code, mut error } => {
                let texts = std::iter::once(&error.message).chain(&error.causes).map(String::as_str);
                let denial = self.confined.and_then(|reach| Denial::of(texts, reach));
                error.hint = error.hint.or_else(|| Some(denial?.hint()));
                Ok(CallError::Runner { code, error })
            }
            other => Ok(other),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The runner sees the end of the stream and exits. If it does not, dropping the process handle kills it.
        self.connection.close(CloseReason::Requested("the model was dropped".to_owned()));
    }
}

/// What to say of a runner that has made no progress for `patience`.
fn stuck(patience: Duration) -> String {
    if cfg!(target_os = "linux") {
        format!("it hangs: it did not say hello, and for {patience:?} it neither ran nor read from a disk")
    } else {
        CloseReason::HelloTimeout(patience).to_string()
    }
}

async fn crash(
    runner: &str,
    reason: &CloseReason,
    process: &Process,
    limits: &Limits,
    mut exit: watch::Receiver<Option<Exit>>,
) -> Crash {
    if !matches!(reason, CloseReason::EndOfFile) {
        // The runner broke the protocol or was given up, so it is of no use even if it is alive.
        process.kill();
    }
    let exit = match tokio::time::timeout(EXIT_REPORT_WAIT, exit.wait_for(Option::is_some)).await {
        Ok(Ok(exit)) => exit.clone(),
        _ => None,
    };
    if exit.is_none() {
        // The process closed its end of the connection and is still running.
        process.kill();
    }
    let what = match (reason, &exit) {
        (CloseReason::EndOfFile, Some(exit)) => exit.status.clone(),
        (CloseReason::EndOfFile, None) => "it closed its connection without ending".to_owned(),
        (reason, _) => in_one_line(reason),
    };
    let signal = exit.as_ref().and_then(|exit| exit.signal);
    let stderr = exit.map(|exit| exit.stderr).unwrap_or_default();
    let limits = suspected_limits(limits, signal, stderr.iter().map(String::as_str));
    Crash { runner: runner.to_owned(), what, stderr, limits }
}
