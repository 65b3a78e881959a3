//! What of a policy a system does not enforce.

use std::fmt;

/// A part of the sandbox that this system does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Gap {
    /// Landlock is missing: the process may use all files of its user.
    Files,
    /// Landlock before ABI 6 (Linux 6.12): the process may send signals to other processes of its user.
    Signals,
    /// seccomp is missing: the process may make any system call, and with them reach the network.
    SystemCalls,
    /// A limit of processes was set for root, whom it binds only in a cgroup.
    Processes,
    /// There are no namespaces for this user: the process has no `/dev/shm`, no sockets and no `/proc`, which processes of a model need among
    /// each other.
    Namespaces,
    /// There is no `/proc` of the process's own, because this system has covered parts of its own one.
    Proc,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "not enforced: the model may use all files of this user (the kernel has no Landlock)",
            Self::Signals => {
                "not enforced: the model may send signals to other processes of this user (Linux before 6.12)"
            }
            Self::SystemCalls => {
                "not enforced: the model may use the network and all other system calls (the kernel has no seccomp)"
            }
            Self::Processes => "not enforced: the limit of processes (it binds root only with a cgroup)",
            Self::Namespaces => {
                "missing: /dev/shm, sockets and /proc for the model's own processes, which Python's multiprocessing needs (this \
                 user gets no namespaces)"
            }
            Self::Proc => {
                "missing: /proc for the model's own processes, which some libraries read (this system covers parts of its own)"
            }
        })
    }
}

impl Gap {
    /// All parts that a system may lack.
    pub const ALL: [Self; 6] =
        [Self::Files, Self::Signals, Self::SystemCalls, Self::Processes, Self::Namespaces, Self::Proc];

    /// Whether the model may do something that the policy forbids. Otherwise it lacks something that it should have.
    #[must_use]
    pub fn is_unsafe(self) -> bool {
        !matches!(self, Self::Namespaces | Self::Proc)
    }
}
