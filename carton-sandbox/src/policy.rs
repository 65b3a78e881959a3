//! What a confined process may do. Pure.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;

/// The first argument of a program that is started as a launcher. The second is the policy in JSON, then follow the program to start and its
/// arguments.
pub const LAUNCHER_ARGUMENT: &str = "__carton-launcher";

/// The largest policy in bytes. The kernel takes arguments of 128 KiB.
const MAX_BYTES: usize = 120 << 10;

/// What a process may do, and all processes that it starts.
///
/// Without any permission it may execute and read the system's programs and libraries, use the descriptors that it was started with, its own
/// memory, time and randomness, and start processes, which are confined alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Policy {
    /// Whether the launcher refuses to start anything if the system cannot enforce all of this.
    pub strict: bool,
    /// Files, and folders with all that they contain, which the process may read and execute: its own program and libraries. What does not
    /// exist is ignored, here and below.
    pub execute: Vec<PathBuf>,
    /// Files and folders that it may read.
    pub read: Vec<PathBuf>,
    /// Folders in which it may do everything but execute.
    pub write: Vec<PathBuf>,
    /// A folder in which it may do everything but execute, and which the launcher deletes at the end if the host has not.
    pub scratch: Option<PathBuf>,
    /// Whether it may use the network (IPv4 and IPv6). Sockets in the file system stay out of reach.
    pub network: bool,
    /// Whether it may use the GPUs of the system.
    pub gpus: bool,
    /// Whether it gets namespaces of its own, where this system has them: a root folder that has nothing but what it may use, with `/tmp`,
    /// `/dev/shm` and `/proc` of its own, and a network of its own processes unless it may use the system's.
    pub namespaces: bool,
    /// The resource limits.
    pub limits: Limits,
    /// The resource limits that hold for the program and all that it starts together are set in a new cgroup below this one.
    pub cgroup: Option<PathBuf>,
}

impl Policy {
    /// A policy without any permission.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns all paths of the policy.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let Self { execute, read, write, scratch, cgroup, .. } = self;
        execute.iter().chain(read).chain(write).chain(scratch).chain(cgroup).map(PathBuf::as_path)
    }

    /// Returns the command that starts `program` with `arguments` under this policy, by `launcher`, a program that calls
    /// [`launcher_main`](crate::launcher_main).
    ///
    /// The command's standard input becomes that of the program. The launcher regards the host as gone when nobody reads its standard output
    /// any more, so that must be a socket whose other end the host keeps: the program could open the other end of a pipe. The launcher has to
    /// lead a process group of its own.
    ///
    /// # Errors
    /// The policy has paths that are not UTF-8, or is larger than an argument may be.
    pub fn launch(&self, launcher: &Path, program: &Path, arguments: &[OsString]) -> io::Result<Command> {
        let text = serde_json::to_string(self).map_err(io::Error::other)?;
        if text.len() > MAX_BYTES {
            let message = format!("a policy of {} bytes is too large: at most {MAX_BYTES}", text.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut command = Command::new(launcher);
        command.args([OsStr::new(LAUNCHER_ARGUMENT), OsStr::new(&text), program.as_os_str()]).args(arguments);
        Ok(command)
    }

    /// Reads the policy that a launcher was started with.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn from_argument(text: &OsStr) -> Result<Self, String> {
        let text = text.to_str().ok_or("the policy is not UTF-8")?;
        serde_json::from_str(text).map_err(|error| format!("the policy is invalid: {error}"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_policy_reads_back_from_the_command_line() {
        let mut policy = Policy::new();
        policy.read.push("/srv/a b\"c".into());
        policy.limits.memory = Some(1 << 40);
        policy.network = true;
        let command = policy.launch("/l".as_ref(), "/p".as_ref(), &["x".into()]).unwrap();
        let arguments: Vec<&OsStr> = command.get_args().collect();
        assert_eq!(arguments[0], LAUNCHER_ARGUMENT);
        assert_eq!(arguments[2..], ["/p", "x"]);
        assert_eq!(Policy::from_argument(arguments[1]).unwrap(), policy);
    }

    #[test]
    fn a_misspelt_permission_is_an_error() {
        // Ignoring it could leave out a restriction that a newer host asks for.
        assert!(Policy::from_argument(OsStr::new(r#"{"netwrok": true}"#)).unwrap_err().contains("netwrok"));
    }

    #[test]
    fn a_huge_policy_is_refused_before_the_kernel_does() {
        let mut policy = Policy::new();
        policy.read = vec![PathBuf::from("/x".repeat(2000)); 100];
        assert!(policy.launch("/l".as_ref(), "/p".as_ref(), &[]).is_err());
    }
}
