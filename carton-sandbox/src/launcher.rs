//! The launcher: starts one confined program, waits for its end, and leaves nothing of it behind.
//!
//! The launcher itself is not confined, and runs nothing but this module. It is what the host's process handle stands for: it ends as the
//! program ended, by the same status or signal. It leads the process group that the host kills.
//!
//! If the host is gone, however it ended, nobody reads the launcher's standard output any more. Then the launcher kills the program. Whenever
//! the program has ended, it kills all that the program has left, and deletes the scratch folder.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, geteuid, getpid, kill_current_process_group, kill_process,
    set_child_subreaper, set_dumpable_behavior, wait,
};

use crate::files::FileRules;
use crate::gap::Gap;
use crate::namespaces::{End, Init, Inside, Side};
use crate::root::Root;
use crate::syscalls::Filters;
use crate::{
    EXIT_CANNOT_START, EXIT_REFUSED, MESSAGE_PREFIX, NOTE_PREFIX, Policy, STARTED, delete_scratch_folder, descriptors,
    limiting, namespaces, privileges, variables,
};

/// How long to kill processes one by one, before the whole group is killed, this process included.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause between two rounds of that.
const PAUSE: Duration = Duration::from_millis(1);

/// Why a program was not started.
enum Failure {
    /// The system cannot enforce the policy.
    Refused(String),
    /// The program, or something that starting it takes, is missing.
    CannotStart(String),
}

fn refused(error: impl std::error::Error) -> Failure {
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    Failure::Refused(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
}

/// Runs the launcher with its arguments: the policy, the program, the program's arguments.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> ! {
    let (Some(policy), Some(program)) = (arguments.next(), arguments.next()) else {
        end(&Failure::Refused("a launcher needs a policy and a program".to_owned()));
    };
    let policy = match Policy::from_argument(&policy) {
        Ok(policy) => policy,
        Err(problem) => end(&Failure::Refused(problem)),
    };
    let arguments = arguments.collect();
    let scratch = policy.scratch.as_deref();
    let started = prepare(&policy).and_then(|mut gaps| match enter_namespaces(&policy, &mut gaps) {
        Some(Side::Outside(init)) => watch(init.pid, Some(&init), scratch),
        Some(Side::Inside(inside)) => {
            start(&policy, Some(&inside), gaps, &program, arguments).map(|process| wait_inside(process, &inside))
        }
        None => start(&policy, None, gaps, &program, arguments).map(|process| watch(process, None, scratch)),
    });
    let Err(failure) = started;
    end(&failure)
}

fn end(failure: &Failure) -> ! {
    let (text, status) = match failure {
        Failure::Refused(reason) => (format!("refused: {reason}"), EXIT_REFUSED),
        Failure::CannotStart(reason) => (reason.clone(), EXIT_CANNOT_START),
    };
    eprintln!("{MESSAGE_PREFIX}{text}");
    std::process::exit(status)
}

/// Prepares this process. Returns what of `policy` this system does not enforce, as far as that is known yet.
fn prepare(policy: &Policy) -> Result<Vec<Gap>, Failure> {
    descriptors::close_on_exec()
        .map_err(|error| Failure::Refused(format!("inherited descriptors cannot be closed: {error}")))?;
    // Processes whose parents have died become children of this one, which can kill them then.
    set_child_subreaper(Some(getpid())).map_err(refused)?;
    let is_unbound = policy.limits.processes.is_some() && policy.cgroup.is_none() && geteuid().is_root();
    limiting::forbid_cores().map_err(cannot_limit)?;
    limiting::enter_cgroup(policy).map_err(cannot_limit)?;
    Ok(is_unbound.then_some(Gap::Processes).into_iter().collect())
}

fn cannot_limit(error: io::Error) -> Failure {
    Failure::Refused(format!("a limit cannot be set: {error}"))
}

/// Enters namespaces if `policy` asks for them. Returns `None` if it does not, or if the system gives this user none.
fn enter_namespaces(policy: &Policy, gaps: &mut Vec<Gap>) -> Option<Side> {
    if !policy.namespaces {
        return None;
    }
    match namespaces::enter(policy) {
        Ok(side) => {
            if let Side::Inside(Inside { root: Root { has_processes: false, .. }, .. }) = side {
                gaps.push(Gap::Proc);
            }
            Some(side)
        }
        Err(reason) => {
            eprintln!("{NOTE_PREFIX}namespaces cannot be made: {reason}");
            gaps.push(Gap::Namespaces);
            None
        }
    }
}

/// Starts the program, confined. `inside` is there if this process is in namespaces of its own.
fn start(
    policy: &Policy,
    inside: Option<&Inside>,
    gaps: Vec<Gap>,
    program: &OsString,
    arguments: Vec<OsString>,
) -> Result<Pid, Failure> {
    limiting::set_limits(policy).map_err(cannot_limit)?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let (Some(outside), Some(scratch)) = (&policy.scratch, inside.and_then(|inside| inside.root.scratch.as_ref())) {
        // The scratch folder has another path in its root folder.
        let named = std::env::vars_os().filter(|(_, value)| value == outside.as_os_str());
        command.envs(named.map(|(name, _)| (name, scratch.as_os_str())));
    }
    variables::pass(&mut command).map_err(Failure::Refused)?;
    let files = FileRules::new(policy, inside.map(|inside| &inside.root)).map_err(|error| {
        Failure::Refused(format!("rules about files cannot be made, perhaps because a limit is too low: {error}"))
    })?;
    let mut confinement = Some(Confinement { policy: policy.clone(), has_namespaces: inside.is_some(), files, gaps });
    // Runs in the child, so that the launcher stays able to clean up, and out of the program's reach. The closure could be called twice, which the
    // confinement cannot.
    let confine = move || match confinement.take().map(Confinement::apply) {
        Some(Ok(())) => Ok(()),
        // For `spawn`, the child has become the program then, and the launcher ends with the same status.
        Some(Err(failure)) => end(&failure),
        None => Err(io::ErrorKind::Unsupported.into()),
    };
    // SAFETY: this process has one thread, so that no lock of another one is held in the new process, which may do all that this one may.
    let child = unsafe { command.pre_exec(confine) }
        .spawn()
        .map_err(|error| Failure::CannotStart(format!("cannot start `{}`: {error}", program.to_string_lossy())))?;
    Ok(Pid::from_child(&child))
}

/// What a process needs to confine itself before it becomes the program.
struct Confinement {
    policy: Policy,
    has_namespaces: bool,
    files: FileRules,
    /// What is known already not to be enforced.
    gaps: Vec<Gap>,
}

impl Confinement {
    /// Confines this process, and says what the system does not enforce.
    fn apply(self) -> Result<(), Failure> {
        let Self { policy, has_namespaces, files, mut gaps } = self;
        privileges::drop_all().map_err(|error| Failure::Refused(format!("capabilities cannot be dropped: {error}")))?;
        let enforced = files.confine().map_err(refused)?;
        let filters = Filters::new(&policy, &enforced, has_namespaces).map_err(refused)?;
        gaps.extend(enforced.gaps);
        if !filters.confine().map_err(refused)? {
            gaps.push(Gap::SystemCalls);
        }
        gaps.sort_unstable();
        if policy.strict && gaps.iter().any(|gap| gap.is_unsafe()) {
            let gaps: Vec<String> = gaps.iter().map(Gap::to_string).collect();
            return Err(Failure::Refused(gaps.join("; ")));
        }
        for gap in &gaps {
            eprintln!("{MESSAGE_PREFIX}{gap}");
        }
        eprintln!("{STARTED}");
        Ok(())
    }
}

/// The signals that a launcher ignores: whoever wants to end it kills it, or ends the program.
const IGNORED: [libc::c_int; 7] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

fn set_disposition(signal: libc::c_int, disposition: libc::sighandler_t) {
    // SAFETY: both dispositions that are passed run no code of this process.
    unsafe { libc::signal(signal, disposition) };
}

/// Leaves the signals, the input and the errors to the program that was started.
fn step_back() {
    // This process has the variables of the program in its memory, and ends by the program's signals.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // When the host dies and a process of the group is stopped, the kernel sends SIGHUP to the group. After the program was started, because
    // it would inherit this.
    for signal in IGNORED {
        set_disposition(signal, libc::SIG_IGN);
    }
    // The program has the host's socket as its standard input. Kept open here, it would hide that the program has closed it.
    if let Ok(null) = fs::File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        // Standard error stays with the program too: its end is the end of the program's output.
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Waits until the program or the host has ended, and then ends. `process` is the program, or the `init` that starts it.
fn watch(process: Pid, init: Option<&Init>, scratch: Option<&Path>) -> ! {
    step_back();
    let watching = thread::Builder::new().spawn(move || {
        wait_for_hangup(io::stdout().as_fd());
        // The main thread sees that, and does the rest.
        let _ = kill_process(process, Signal::KILL);
    });
    if watching.is_err() {
        let _ = kill_current_process_group(Signal::KILL);
    }
    let end_of_process = wait_for(process);
    let end = init.and_then(Init::end_of_program).unwrap_or(end_of_process);
    // With init, all others in its namespaces have ended. A host that is alive kills the group too. One that is just ending might not.
    if init.is_none() {
        kill_children();
    }
    if let Some(scratch) = scratch {
        let _ = delete_scratch_folder(scratch);
    }
    if is_hung_up(io::stdout().as_fd(), Some(&Timespec::default())) {
        // Without namespaces nothing can leave the group, so that this ends whatever was started faster than it was killed. With them, all have
        // ended with init.
        let _ = kill_current_process_group(Signal::KILL);
    }
    mirror(end)
}

/// Waits in the namespaces of the program until it or the launcher has ended, and then ends, and with it all that the program has left.
fn wait_inside(program: Pid, inside: &Inside) -> ! {
    thread::scope(|scope| {
        let watching = thread::Builder::new().spawn_scoped(scope, || {
            wait_for_hangup(inside.launcher());
            std::process::exit(EXIT_CANNOT_START)
        });
        if let Err(error) = watching {
            let reason = format!("the launcher cannot start a thread, perhaps because a limit is too low: {error}");
            end(&Failure::CannotStart(reason));
        }
        step_back();
        inside.report(wait_for(program));
        std::process::exit(EXIT_CANNOT_START)
    })
}

/// Waits until `process` has ended, a child of this one.
fn wait_for(process: Pid) -> End {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == process => {
                if let Some(end) = End::of(status) {
                    return end;
                }
            }
            // An orphan that was left to this process has ended.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => std::process::exit(EXIT_CANNOT_START),
        }
    }
}

/// Ends this process as the program has ended.
fn mirror(end: End) -> ! {
    let status = match end {
        End::Status(status) => status,
        End::Signal(number) => {
            if let Some(signal) = Signal::from_named_raw(number) {
                set_disposition(number, libc::SIG_DFL);
                // The handlers that Rust's runtime has for some signals give way the first time.
                for _ in 0..3 {
                    let _ = kill_process(getpid(), signal);
                }
            }
            128 + number
        }
    };
    std::process::exit(status)
}

/// Returns when the other end of a descriptor is closed.
fn wait_for_hangup(descriptor: BorrowedFd<'_>) {
    while !is_hung_up(descriptor, None) {}
}

/// Whether the other end of a descriptor is closed, now or within `timeout`.
fn is_hung_up(descriptor: BorrowedFd<'_>, timeout: Option<&Timespec>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(descriptor, PollFlags::empty())];
    match poll(&mut watched, timeout) {
        Ok(_) => watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL),
        Err(rustix::io::Errno::INTR) => false,
        Err(_) => true,
    }
}

/// Kills all processes that the program has left. The orphans of each killed process become children of this one, and are killed in the next
/// round.
fn kill_children() {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = kill_process(child, Signal::KILL);
        }
        // Takes those that have ended. A child that has not is there in the next round.
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        thread::sleep(PAUSE);
    }
}

/// The children of this process, found by the parents of all processes: not every kernel lists the children of a process.
fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().to_string();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |number: &i32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        // The name before the last parenthesis may contain anything.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        fields.split_whitespace().nth(1) == Some(own.as_str())
    };
    numbers.filter(is_child).filter_map(Pid::from_raw).collect()
}
