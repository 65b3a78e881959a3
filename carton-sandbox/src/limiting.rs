//! Sets resource limits: by a cgroup where the policy names one, else of each process.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, FsWord, flock, statfs};
use rustix::process::{Resource, Rlimit, getpid, getrlimit, setrlimit};

use crate::Policy;

/// The type of the file system of cgroups (`CGROUP2_SUPER_MAGIC`).
const CGROUP2: FsWord = 0x6367_7270;

/// What the names of cgroups begin with that launchers make.
const CGROUP_PREFIX: &str = "carton-";

/// The most signals that may wait, and timers, of the user while a confined process gets another one. Frameworks have a few.
const SIGPENDING: u64 = 1024;

/// Moves this process to a cgroup of its own with the limits, if the policy names one. The processes that it starts will be there too.
pub(crate) fn enter_cgroup(policy: &Policy) -> io::Result<()> {
    policy.cgroup.as_ref().map_or(Ok(()), |parent| enter_cgroup_below(parent, policy))
}

/// Sets the limits of each process, for this one and those that it starts.
pub(crate) fn set_limits(policy: &Policy) -> io::Result<()> {
    let limits = &policy.limits;
    let in_cgroup = policy.cgroup.is_some();
    let of_each = [
        (Resource::As, limits.memory.filter(|_| !in_cgroup)),
        (Resource::Nproc, limits.processes.filter(|_| !in_cgroup)),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_size),
        (Resource::Cpu, limits.cpu_seconds),
        // Signals that wait, and timers, are counted for all processes of the user. With this, others have what is above it.
        (Resource::Sigpending, Some(SIGPENDING)),
    ];
    of_each.into_iter().try_for_each(|(resource, limit)| limit.map_or(Ok(()), |limit| set(resource, limit)))
}

/// Lets neither this process nor those that it starts dump a core.
///
/// A core has the memory of a model, or the variables that this process passes to it, and goes where the system's configuration says. One byte is
/// too little for a file. Where the dump is piped to a program, 0 is ignored, and the kernel dumps nothing for 1 (fs/coredump.c,
/// `coredump_pipe`).
pub(crate) fn forbid_cores() -> io::Result<()> {
    set(Resource::Core, 1)
}

fn set(resource: Resource, limit: u64) -> io::Result<()> {
    // What the user did not ask for is not raised above what the host has, which only root may do.
    let limit = match getrlimit(resource).maximum {
        Some(maximum) if matches!(resource, Resource::Sigpending | Resource::Core) => limit.min(maximum),
        _ => limit,
    };
    setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })
        .map_err(|error| io::Error::new(io::Error::from(error).kind(), format!("{resource:?}: {error}")))
}

/// Makes a cgroup (version 2) below `parent`, sets its limits, and moves this process into it. Cgroups of launchers that have ended are
/// deleted: a process cannot delete its own one.
fn enter_cgroup_below(parent: &Path, policy: &Policy) -> io::Result<()> {
    let in_file =
        |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display()));
    // In an ordinary folder, limits would be files that nothing enforces.
    let found = statfs(parent).map_err(|error| in_file(parent, error.into()))?.f_type;
    if found != CGROUP2 {
        return Err(in_file(parent, io::Error::other("it is no cgroup of version 2")));
    }
    // Otherwise one launcher could delete the cgroup that another has made and not entered yet.
    let lock = fs::File::open(parent).map_err(|error| in_file(parent, error))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| in_file(parent, error.into()))?;
    for entry in fs::read_dir(parent).map_err(|error| in_file(parent, error))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(CGROUP_PREFIX) {
            // Fails for cgroups that have processes.
            let _ = fs::remove_dir(entry.path());
        }
    }
    let folder = parent.join(format!("{CGROUP_PREFIX}{}", getpid().as_raw_nonzero()));
    fs::create_dir(&folder).map_err(|error| in_file(&folder, error))?;
    let write = |name: &str, value: &str| {
        let path = folder.join(name);
        fs::write(&path, value).map_err(|error| in_file(&path, error))
    };
    let entered = (|| {
        if let Some(memory) = policy.limits.memory {
            write("memory.max", &memory.to_string())?;
            // Otherwise what exceeds the limit is swapped out instead. Systems without swap do not have the file.
            let _ = write("memory.swap.max", "0");
            write("memory.oom.group", "1")?;
        }
        if let Some(processes) = policy.limits.processes {
            write("pids.max", &processes.to_string())?;
        }
        write("cgroup.procs", "0")
    })();
    if entered.is_err() {
        let _ = fs::remove_dir(&folder);
    }
    entered
}
