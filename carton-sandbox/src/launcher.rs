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
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, geteuid, getpid, kill_current_process_group, kill_process,
    set_child_subreaper, wait,
};

use crate::files::FileRules;
use crate::gap::Gap;
use crate::syscalls::Filters;
use crate::{
    EXIT_CANNOT_START, EXIT_REFUSED, MESSAGE_PREFIX, Policy, STARTED, delete_scratch_folder, descriptors, limiting,
    mounts, privileges,
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
    match start(&policy, &program, arguments.collect()) {
        Ok(process) => watch(process, policy.scratch.as_deref()),
        Err(failure) => end(&failure),
    }
}

fn end(failure: &Failure) -> ! {
    let (text, status) = match failure {
        Failure::Refused(reason) => (format!("refused: {reason}"), EXIT_REFUSED),
        Failure::CannotStart(reason) => (reason.clone(), EXIT_CANNOT_START),
    };
    eprintln!("{MESSAGE_PREFIX}{text}");
    std::process::exit(status)
}

/// Starts the program, confined.
fn start(policy: &Policy, program: &OsString, arguments: Vec<OsString>) -> Result<Pid, Failure> {
    descriptors::close_on_exec()
        .map_err(|error| Failure::Refused(format!("inherited descriptors cannot be closed: {error}")))?;
    // Processes whose parents have died become children of this one, which can kill them then.
    set_child_subreaper(Some(getpid())).map_err(refused)?;
    let mut gaps = Vec::new();
    let has_shared_memory = policy.shared_memory
        && match mounts::make_private_shared_memory(policy.limits.memory) {
            Ok(()) => true,
            Err(_) => {
                gaps.push(Gap::SharedMemory);
                false
            }
        };
    if policy.limits.processes.is_some() && policy.cgroup.is_none() && geteuid().is_root() {
        gaps.push(Gap::Processes);
    }
    limiting::apply(policy).map_err(|error| Failure::Refused(format!("a limit cannot be set: {error}")))?;

    // Only a thread is confined, and the program inherits its state. The main thread stays able to clean up, and out of the program's reach.
    let mut command = Command::new(program);
    command.args(arguments);
    let (policy, strict) = (policy.clone(), policy.strict);
    let starter = thread::Builder::new()
        .spawn(move || {
            confine(&policy, has_shared_memory, &mut gaps)?;
            gaps.sort_unstable();
            if strict && gaps.iter().any(|gap| gap.is_unsafe()) {
                let gaps: Vec<String> = gaps.iter().map(Gap::to_string).collect();
                return Err(Failure::Refused(gaps.join("; ")));
            }
            for gap in &gaps {
                eprintln!("{MESSAGE_PREFIX}{gap}");
            }
            eprintln!("{STARTED}");
            command.spawn().map_err(|error| {
                let program = command.get_program().to_string_lossy().into_owned();
                Failure::CannotStart(format!("cannot start `{program}`: {error}"))
            })
        })
        .map_err(|error| {
            Failure::Refused(format!("the launcher cannot start a thread, perhaps because a limit is too low: {error}"))
        })?;
    let child = starter.join().map_err(|_| Failure::Refused("the launcher panicked".to_owned()))??;
    Ok(Pid::from_child(&child))
}

/// Confines the calling thread.
fn confine(policy: &Policy, has_shared_memory: bool, gaps: &mut Vec<Gap>) -> Result<(), Failure> {
    // Files are opened while the thread still has its rights.
    let files = FileRules::new(policy, has_shared_memory).map_err(|error| {
        Failure::Refused(format!("rules about files cannot be made, perhaps because a limit is too low: {error}"))
    })?;
    privileges::drop_all().map_err(|error| Failure::Refused(format!("capabilities cannot be dropped: {error}")))?;
    let enforced = files.confine().map_err(refused)?;
    gaps.extend(enforced.gaps);
    if !Filters::new(policy, enforced.governs_truncating).and_then(|filters| filters.confine()).map_err(refused)? {
        gaps.push(Gap::SystemCalls);
    }
    Ok(())
}

/// The signals that a launcher ignores: whoever wants to end it kills it, or ends the program.
const IGNORED: [libc::c_int; 7] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

fn set_disposition(signal: libc::c_int, disposition: libc::sighandler_t) {
    // SAFETY: both dispositions that are passed run no code of this process.
    unsafe { libc::signal(signal, disposition) };
}

/// Waits until the program or the host has ended, and then ends.
fn watch(process: Pid, scratch: Option<&Path>) -> ! {
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
    let watching = thread::Builder::new().spawn(move || {
        wait_for_the_end_of_the_host();
        // The main thread sees that, and does the rest.
        let _ = kill_process(process, Signal::KILL);
    });
    if watching.is_err() {
        let _ = kill_current_process_group(Signal::KILL);
    }
    let status = loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == process => break status,
            // An orphan that was left to this process has ended.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => std::process::exit(EXIT_CANNOT_START),
        }
    };
    // A host that is alive kills the group too. One that is just ending might not.
    kill_children();
    if let Some(scratch) = scratch {
        let _ = delete_scratch_folder(scratch);
    }
    if is_host_gone() {
        // Nothing can leave the group, so that this ends whatever was started faster than it was killed.
        let _ = kill_current_process_group(Signal::KILL);
    }
    mirror(status)
}

/// Ends this process as the program has ended.
fn mirror(status: WaitStatus) -> ! {
    if let Some(signal) = status.terminating_signal().and_then(Signal::from_named_raw) {
        set_disposition(signal.as_raw(), libc::SIG_DFL);
        // The handlers that Rust's runtime has for some signals give way the first time.
        for _ in 0..3 {
            let _ = kill_process(getpid(), signal);
        }
    }
    let code = status.exit_status().or_else(|| Some(128 + status.terminating_signal()?));
    std::process::exit(code.unwrap_or(EXIT_CANNOT_START))
}

/// Whether nobody reads standard output any more.
fn is_host_gone() -> bool {
    poll_output(Some(&Timespec::default()))
}

/// Returns when nobody reads standard output any more.
fn wait_for_the_end_of_the_host() {
    while !poll_output(None) {}
}

fn poll_output(timeout: Option<&Timespec>) -> bool {
    let output = io::stdout();
    let mut watched = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::empty())];
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
