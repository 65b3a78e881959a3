//! Starts a runner process, watches it, writes its output to the log, and leaves nothing of it behind (spec/runner-descriptor.md,
//! "The process").
//!
//! The runner gets one end of a Unix socket pair as its standard input, and its own process group. A supervisor thread waits for
//! the end of the process and for its output. When the process dies, its whole group is killed before the process is reaped, so
//! that a runner that forked leaves no orphans of that group behind.

mod confinement;
mod exit_notice;
mod output;
mod policy;
mod progress;
mod setters;
mod state;
#[cfg(test)]
mod tests;
mod unreaped;
mod variables;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Pid;
use tokio::sync::watch;

use self::exit_notice::ExitNotice;
use self::output::{Output, Tail};
use self::progress::Idleness;
use self::state::{State, kill};
use super::Descriptor;
use crate::error::{Advice, Failure};
use crate::held_folder::{self, HeldFolder};
use crate::sandbox::{SandboxMode, SuspectedLimit};
use crate::variables::Variables;
use carton_format::error_kind::ErrorKind;

pub(crate) use confinement::{Access, places_of_program};
pub(crate) use policy::Configured;
pub use policy::LaunchPolicy;
pub(crate) use setters::launch_setters;
pub use unreaped::end_all;

/// How long a launcher may take, on a busy machine, to say that it started a runner which has said hello already.
const LAUNCH_PATIENCE: Duration = Duration::from_secs(5);

/// The bounds of the interval at which the progress of a starting runner is checked.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(20);
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a runner may take to exit by itself once the host is done with it, before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Why a runner process could not be started.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// The executable is missing, or may not be executed.
    #[error("cannot start runner {runner}: `{}`", path.display())]
    Spawn {
        /// Name and version of the runner.
        runner: String,
        /// The executable.
        path: PathBuf,
        /// Why that failed.
        source: Arc<io::Error>,
        /// The limits that are the likely cause.
        limits: Vec<SuspectedLimit>,
    },
    /// The system has no sockets, threads or descriptors left.
    #[error("cannot start runner {runner}")]
    System {
        /// Name and version of the runner.
        runner: String,
        /// Why that failed.
        source: Arc<io::Error>,
    },
    /// The folder of a confined runner cannot be made in the folder for temporary files.
    #[error("cannot make a scratch folder for runner {runner} in `{}`", folder.display())]
    Scratch {
        /// Name and version of the runner.
        runner: String,
        /// The folder for temporary files.
        folder: PathBuf,
        /// Why that failed.
        source: Arc<io::Error>,
    },
    /// A path that a confined runner needs is not UTF-8, as a policy and the protocol have to be.
    #[error("cannot confine runner {runner}: the path `{}` is not UTF-8", path.display())]
    NotUtf8 {
        /// Name and version of the runner.
        runner: String,
        /// The path.
        path: PathBuf,
    },
    /// No program is known that confines runners.
    #[error("cannot confine runner {runner}: no program that does so was found")]
    NoLauncher {
        /// Name and version of the runner.
        runner: String,
    },
    /// A file system that starting a runner takes is not mounted.
    #[error("cannot start runner {runner}: `{path}` is missing")]
    NotMounted {
        /// Name and version of the runner.
        runner: String,
        /// The file or folder that is missing.
        path: &'static str,
    },
    /// The sandbox is strict, and this system does not enforce all of it.
    #[error("cannot confine runner {runner}: {reason}")]
    Sandbox {
        /// Name and version of the runner.
        runner: String,
        /// What is missing.
        reason: String,
        /// The limits that are the likely cause.
        limits: Vec<SuspectedLimit>,
    },
}

impl Failure for LaunchError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoLauncher { .. }
            | Self::Sandbox { .. }
            | Self::Scratch { .. }
            | Self::NotUtf8 { .. }
            | Self::NotMounted { .. } => ErrorKind::Machine,
            Self::Spawn { .. } | Self::System { .. } => ErrorKind::RunnerCrashed,
        }
    }

    fn suspected_limits(&self) -> &[SuspectedLimit] {
        match self {
            Self::Spawn { limits, .. } | Self::Sandbox { limits, .. } => limits,
            _ => &[],
        }
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::NoLauncher { .. } => Some(
                "call `runner_main` first in the program's `main`, or install the program `carton`; or turn the sandbox off, if \
                 the model may do all that you may"
                    .into(),
            ),
            Self::Sandbox { reason, .. } if reason.contains("not enforced") => {
                Some(Advice::RelaxSandbox)
            }
            Self::Scratch { .. } => Some(Advice::Text(match std::env::var_os(TEMPORARY) {
                Some(_) => format!("`{TEMPORARY}` names this folder: make it, or set another one that you may write to"),
                None => format!("set `{TEMPORARY}` to a folder that you may write to"),
            })),
            Self::NotUtf8 { path, .. } => {
                let names = |variable: &&&str| {
                    // An empty variable would be the beginning of every path.
                    let value = std::env::var_os(variable).filter(|value| !value.is_empty());
                    value.is_some_and(|value| path.starts_with(value))
                };
                Some(Advice::Text(match [TEMPORARY, "HOME"].iter().find(names) {
                    Some(variable) => format!("`{variable}` leads there: set it to a folder whose path is UTF-8"),
                    None => "rename its folders".to_owned(),
                }))
            }
            Self::NotMounted { path: NULL, .. } => {
                Some("mount `/dev`, or make the device: `mknod -m 666 /dev/null c 1 3`".into())
            }
            Self::NotMounted { .. } => Some("mount `/proc`: `mount -t proc proc /proc`".into()),
            Self::Sandbox { .. } | Self::Spawn { .. } | Self::System { .. } => None,
        }
    }
}

/// Where a process finds its own executable and descriptors, on Linux.
const PROCESS: &str = "/proc/self";
/// What replaces the standard input of a runner.
const NULL: &str = "/dev/null";

/// Returns what is missing of the file systems that every start of a runner needs. A container or chroot lacks them until they are mounted.
fn not_mounted() -> Option<&'static str> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    [PROCESS, NULL].into_iter().find(|path| !std::path::Path::new(path).exists())
}

/// The variable by which a runner learns for which version of its framework it was chosen. There may be several on this machine.
const VERSION_VARIABLE: &str = "CARTON_FRAMEWORK_VERSION";

/// The variable that names the folder for temporary files.
const TEMPORARY: &str = "TMPDIR";

/// How a runner process ended, and its last output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The exit status as text: `exit status 3`, `killed by signal 9`.
    pub status: String,
    /// The reason of a launcher that refused to start the runner, or could not.
    pub not_started: Option<NotStarted>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The last lines it wrote to standard error.
    pub stderr: Vec<String>,
}

/// Why a launcher started no runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotStarted {
    /// The system cannot enforce the policy.
    Refused(String),
    /// The program cannot be executed.
    CannotStart(String),
}

/// A running runner process. Dropping it gives the process a second to exit by itself, and then kills its group.
pub(crate) struct Process {
    state: Arc<Mutex<State>>,
    /// Whether the launcher has said that it confined the runner; `true` for one that is not confined. Closed when the process has ended.
    started: watch::Receiver<bool>,
    /// The last lines that the runner has written to standard error.
    tail: Arc<Mutex<Tail>>,
    /// Closing it tells the supervisor that the host is done with the process.
    _stop: OwnedFd,
}

impl Process {
    /// Waits until the launcher has said that the runner is confined. Returns `false` if it does not say so: the program that was started is no
    /// launcher, or the process has ended.
    pub(crate) async fn is_confined(&self) -> bool {
        let mut started = self.started.clone();
        let said = tokio::time::timeout(LAUNCH_PATIENCE, started.wait_for(|started| *started)).await;
        matches!(said, Ok(Ok(_)))
    }

    /// Returns the last lines that the runner has written to standard error so far.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.tail.lock().lines()
    }

    /// Returns when the runner has made no progress for `patience` (spec/runner-descriptor.md, "The process").
    pub(crate) async fn until_stuck(&self, patience: Duration) {
        let interval = (patience / 10).clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL);
        let mut idleness = Idleness::default();
        loop {
            let start = Instant::now();
            tokio::time::sleep(interval).await;
            let State::Alive(leader) = *self.state.lock() else { return std::future::pending().await };
            let usage = tokio::task::spawn_blocking(move || progress::usage(leader)).await.ok().flatten();
            // On a busy machine this process waits too. What its runner does meanwhile is not seen, so that the time does not count.
            if idleness.observe(usage, start.elapsed().min(interval * 2)) >= patience {
                return;
            }
        }
    }

    /// Kills the process and its group now. Does nothing if the process is dead.
    pub(crate) fn kill(&self) {
        kill(&self.state.lock());
    }
}

/// Starts the runner of `descriptor` under `policy`, confined unless that is off, with what `access` adds. Returns the host's end of its
/// socket. `on_exit` is called once, from another thread, when the process has died.
///
/// # Errors
/// See [`LaunchError`].
pub(crate) fn launch(
    descriptor: &Descriptor,
    policy: &LaunchPolicy,
    access: &Access,
    on_exit: impl FnOnce(Exit) + Send + 'static,
) -> Result<(OwnedFd, Process), LaunchError> {
    let runner = descriptor.to_string();
    let system = |source: io::Error| LaunchError::System { runner: runner.clone(), source: Arc::new(source) };
    let spawn_error = |source: io::Error| LaunchError::Spawn {
        runner: runner.clone(),
        path: descriptor.runner_path.clone(),
        source: Arc::new(source),
        limits: Vec::new(),
    };
    if let Some(path) = not_mounted() {
        return Err(LaunchError::NotMounted { runner, path });
    }
    let (host_end, runner_end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|e| system(e.into()))?;
    let (stop_read, stop_write) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| system(e.into()))?;

    let is_confined = policy.is_confined();
    if !is_confined && policy.mode() == SandboxMode::Strict {
        return Err(LaunchError::Sandbox {
            runner,
            reason: "this system has no sandbox".to_owned(),
            limits: Vec::new(),
        });
    }
    if !is_confined && policy.mode() == SandboxMode::On {
        tracing::warn!(target: "carton::sandbox", runner, "the model is not confined: this system has no sandbox");
    }
    let (command, scratch) = if is_confined {
        // The launcher would report it as well, but not as an error of the operating system.
        rustix::fs::access(&descriptor.runner_path, rustix::fs::Access::EXEC_OK).map_err(|e| spawn_error(e.into()))?;
        let launcher = policy.configured.launcher.as_deref();
        let launcher = launcher.ok_or_else(|| LaunchError::NoLauncher { runner: runner.clone() })?;
        let scratch = scratch_folder(&runner)?;
        let mut confined = confinement::policy(descriptor, policy, access);
        confined.scratch = Some(scratch.path().to_path_buf());
        if let Some(path) = confined.paths().find(|path| path.to_str().is_none()) {
            return Err(LaunchError::NotUtf8 { runner, path: path.to_path_buf() });
        }
        let arguments: Vec<OsString> = descriptor.args.iter().map(Into::into).collect();
        (confined.launch(launcher, &descriptor.runner_path, &arguments).map_err(system)?, Some(scratch))
    } else {
        let mut command = Command::new(&descriptor.runner_path);
        command.args(&descriptor.args);
        (command, None)
    };
    let wrapper = &policy.configured.sandbox.wrapper;
    // A process that makes preparations has credentials and the network, so that nothing of a model decides what it loads.
    let of_model = if access.prepares { &Variables::default() } else { &access.variables };
    let (command, variables) =
        variables::through(command, of_model, is_confined, !wrapper.is_empty()).map_err(system)?;
    let mut command = wrapped(command, wrapper);
    let (stdout, runner_stdout) = standard_output(is_confined).map_err(|e| system(e.into()))?;
    command.stdin(Stdio::from(runner_end)).stdout(runner_stdout).stderr(Stdio::piped()).process_group(0);
    let wanted = match &descriptor.prepare {
        Some(prepare) if access.prepares => [&descriptor.environment[..], &prepare.environment].concat(),
        _ => descriptor.environment.clone(),
    };
    policy.apply_environment(&wanted, &mut command);
    let enforced = if is_confined { policy.mode() } else { SandboxMode::Off };
    command.env(confinement::SANDBOX_VARIABLE, enforced.name());
    command.env(VERSION_VARIABLE, descriptor.framework_version.to_string());
    if let Some(scratch) = &scratch {
        let (set, removed) = confinement::variables(scratch.path(), access.prepares);
        command.envs(set);
        for name in removed {
            command.env_remove(name);
        }
    }
    command.envs(variables);
    let child = command.spawn();
    // The command still holds the runner's end of the socket. If it were kept, the host would never see the end of the stream.
    drop(command);
    let mut child = child.map_err(spawn_error)?;

    let (report_started, started) = watch::channel(!is_confined);
    let supervised = supervise(&mut child, policy, is_confined.then_some(report_started), stdout, &runner);
    let (pid, exit_notice, output) = match supervised {
        Ok(parts) => parts,
        Err(error) => {
            // No supervisor watches the process yet, so it is reaped here.
            let _ = child.kill();
            let _ = child.wait();
            return Err(system(error));
        }
    };
    let tail = output.tail();
    let state = Arc::new(Mutex::new(State::Alive(pid)));
    let supervisor =
        Supervisor { child, state: Arc::clone(&state), exit_notice, output, stop: stop_read, is_confined, scratch };
    unreaped::add(&state);
    let spawned = std::thread::Builder::new()
        .name(format!("carton-watch-{}", descriptor.runner_name))
        .spawn(move || on_exit(supervisor.run()));
    if let Err(error) = spawned {
        kill(&state.lock());
        unreaped::remove(&state);
        return Err(system(error));
    }
    Ok((host_end, Process { state, started, tail, _stop: stop_write }))
}

/// What the names of scratch folders begin with.
const SCRATCH_PREFIX: &str = "carton-runner-";

/// Makes the scratch folder of a runner. The first one that this process makes sweeps those that killed hosts have left.
fn scratch_folder(runner: &str) -> Result<HeldFolder, LaunchError> {
    static SWEPT: Once = Once::new();
    // The launcher needs the path without links and `..`. A folder that is not there is an error below.
    let parent = std::env::temp_dir();
    let parent = std::fs::canonicalize(&parent).unwrap_or(parent);
    SWEPT.call_once(|| held_folder::sweep(&parent, SCRATCH_PREFIX, carton_sandbox::delete_scratch_folder));
    HeldFolder::create(&parent, SCRATCH_PREFIX).map_err(|source| LaunchError::Scratch {
        runner: runner.to_owned(),
        folder: parent,
        source: Arc::new(source),
    })
}

/// Puts the program and arguments of the configuration in front of a command line.
fn wrapped(command: Command, wrapper: &[String]) -> Command {
    let Some((program, arguments)) = wrapper.split_first() else { return command };
    let mut wrapped = Command::new(program);
    wrapped.args(arguments).arg(command.get_program()).args(command.get_args());
    wrapped
}

/// Returns the host's and the runner's end of the runner's standard output: a pipe, or a pair of sockets for a confined runner. The launcher
/// watches whether the host's end is open. A process can open the other end of a pipe through its own end (`/proc/self/fd/1`), so that the pipe
/// never closes. That of a socket it cannot.
fn standard_output(is_confined: bool) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    if is_confined {
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
    } else {
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
    }
}

fn supervise(
    child: &mut Child,
    policy: &LaunchPolicy,
    report_started: Option<watch::Sender<bool>>,
    stdout: OwnedFd,
    runner: &str,
) -> io::Result<(Pid, ExitNotice, Output)> {
    let pid = Pid::from_child(child);
    if report_started.is_none() {
        policy.apply_limits(pid)?;
    }
    let Some(stderr) = child.stderr.take() else {
        return Err(io::Error::other("the runner's standard error is not piped"));
    };
    let output = Output::new(runner, report_started, stdout, stderr.into())?;
    Ok((pid, ExitNotice::new(pid)?, output))
}

/// The state of the supervisor thread.
struct Supervisor {
    child: Child,
    state: Arc<Mutex<State>>,
    exit_notice: ExitNotice,
    output: Output,
    stop: OwnedFd,
    is_confined: bool,
    /// The folder of a confined runner.
    scratch: Option<HeldFolder>,
}

/// What the supervisor waits for, besides the end of the process and its output.
#[derive(Clone, Copy)]
enum Phase {
    /// Waits for the host to be done with the process.
    Running,
    /// Gives the process until this time to exit by itself.
    Stopping(Instant),
    /// The process was killed; there is nothing else to wait for.
    Killed,
}

impl Supervisor {
    fn run(mut self) -> Exit {
        let mut phase = Phase::Running;
        loop {
            match self.wait(phase) {
                Ok(Ready { exited: true, .. }) => break,
                Ok(Ready { stop: true, .. }) => phase = Phase::Stopping(Instant::now() + STOP_GRACE),
                Ok(_) => {}
                Err(error) => {
                    // Without `poll` the process cannot be watched. Ending it is the only safe way to continue.
                    tracing::error!(runner = self.output.runner(), "cannot watch the runner: {error}");
                    break;
                }
            }
            if let Phase::Stopping(until) = phase
                && until <= Instant::now()
            {
                kill(&self.state.lock());
                phase = Phase::Killed;
            }
        }
        self.finish()
    }

    /// Waits until the process has died or has written something, which is handled here, or until the event of the phase.
    fn wait(&mut self, phase: Phase) -> io::Result<Ready> {
        let timeout = match phase {
            Phase::Stopping(until) => Some(until.saturating_duration_since(Instant::now())),
            Phase::Running | Phase::Killed => None,
        };
        let timeout = timeout.and_then(|timeout| timeout.try_into().ok());
        let watch_stop = matches!(phase, Phase::Running);
        let mut watched = vec![PollFd::new(&self.exit_notice, PollFlags::IN)];
        watched.extend(self.output.open().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        if watch_stop {
            watched.push(PollFd::new(&self.stop, PollFlags::IN));
        }
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let stop = watch_stop && watched.pop().is_some_and(|fd| !fd.revents().is_empty());
        let exited = !watched[0].revents().is_empty();
        let readable = watched[1..].iter().any(|fd| !fd.revents().is_empty());
        drop(watched);
        if readable {
            self.output.read();
        }
        Ok(Ready { exited, stop })
    }

    /// Kills the rest of the group, and then reaps the leader. Until it is reaped, the dead leader reserves the ID of the group.
    fn finish(mut self) -> Exit {
        let status = {
            let mut state = self.state.lock();
            kill(&state);
            let status = self.child.wait();
            *state = State::Reaped;
            status
        };
        if let Some(scratch) = self.scratch {
            delete(&scratch.keep());
        }
        unreaped::remove(&self.state);
        self.output.read();
        let (stderr, is_launching) = self.output.into_tail();
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        let signal = status.as_ref().ok().and_then(ExitStatusExt::signal);
        let not_started = if self.is_confined { not_started(code, &stderr, is_launching) } else { None };
        Exit { status: describe(status), not_started, signal, stderr }
    }
}

/// For how long the deletion of a scratch folder is tried again, and the pause between two attempts.
const DELETION_LIMIT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(10);

/// Deletes a scratch folder. Links in it are not followed. Processes that were killed may still be writing for a moment.
fn delete(path: &Path) {
    let end = Instant::now() + DELETION_LIMIT;
    while let Err(error) = carton_sandbox::delete_scratch_folder(path) {
        if error.kind() == io::ErrorKind::NotFound {
            return;
        }
        if Instant::now() > end {
            tracing::warn!("cannot delete the scratch folder `{}` of a runner: {error}", path.display());
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Recognises a launcher that started nothing. A program that was started can end in the same way, and say the same: it cannot claim that
/// the sandbox refused it.
fn not_started(code: Option<i32>, stderr: &[String], is_launching: bool) -> Option<NotStarted> {
    let reason = stderr.last()?.strip_prefix(carton_sandbox::MESSAGE_PREFIX)?.to_owned();
    match code? {
        carton_sandbox::EXIT_REFUSED if is_launching => {
            Some(NotStarted::Refused(reason.trim_start_matches("refused: ").to_owned()))
        }
        carton_sandbox::EXIT_CANNOT_START => Some(NotStarted::CannotStart(reason)),
        _ => None,
    }
}

struct Ready {
    exited: bool,
    stop: bool,
}

fn describe(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("killed by signal {signal}"),
            (None, None) => status.to_string(),
        },
        Err(error) => format!("unknown exit status: {error}"),
    }
}

impl AsFd for ExitNotice {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.descriptor()
    }
}
