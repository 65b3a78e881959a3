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
    /// There are no mount namespaces for this user: the process has no `/dev/shm`, which the locks of `multiprocessing` need.
    SharedMemory,
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
            Self::SharedMemory => {
                "missing: /dev/shm, which the locks of Python's multiprocessing need (user namespaces are disabled)"
            }
        })
    }
}

impl Gap {
    /// All parts that a system may lack.
    pub const ALL: [Self; 5] = [Self::Files, Self::Signals, Self::SystemCalls, Self::Processes, Self::SharedMemory];

    /// Whether the model may do something that the policy forbids. Otherwise it lacks something that it should have.
    #[must_use]
    pub fn is_unsafe(self) -> bool {
        self != Self::SharedMemory
    }
}
