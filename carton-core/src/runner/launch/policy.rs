//! What a runner process may see and use: the place where a sandbox will go.

use std::ffi::OsStr;
use std::io;
use std::process::Command;

use rustix::process::Pid;

use crate::network::TOKEN_PREFIX;

/// Variables a runner sees by default: what programs need to start, and what frameworks are configured with. Everything
/// else, credentials above all, stays with the host.
const DEFAULT_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "CARTON_*",
    "ORT_*",
    "OMP_*",
    "MKL_*",
    "OPENBLAS_*",
    "CUDA_*",
    "NVIDIA_*",
    "RTEN_*",
];

/// Where runners are installed from. Its URL may hold a password.
const RUNNER_INDEX: &str = "CARTON_RUNNER_INDEX";

/// What a runner process gets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaunchPolicy {
    /// Names of environment variables passed on; a final `*` stands for any ending. Tokens, `CARTON_TOKEN_…`, and
    /// `CARTON_RUNNER_INDEX`, a URL that may hold a password, are passed on only if they are named in full: they are for the host,
    /// which downloads, and no runner needs them.
    pub environment: Vec<String>,
    /// Names of variables that are never passed on, whatever else says so. Loading and packing add those that the configuration
    /// takes credentials from (`token_env`).
    pub withheld: Vec<String>,
    /// Variables set for the runner, whatever the host's are.
    pub variables: Vec<(String, String)>,
    /// Resource limits.
    pub limits: Limits,
}

/// Resource limits of a runner process; `None` leaves the host's in force. Linux only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of address space.
    pub address_space: Option<u64>,
    /// Open descriptors.
    pub open_files: Option<u64>,
}

impl Default for LaunchPolicy {
    fn default() -> Self {
        Self {
            environment: DEFAULT_VARIABLES.iter().map(|&name| name.to_owned()).collect(),
            withheld: Vec::new(),
            variables: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl LaunchPolicy {
    /// Sets variables for the runner, whatever the host's are.
    #[must_use]
    pub fn with_variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Gives `command` the variables that this policy passes on, and those that the runner's descriptor asks for, which never
    /// are the host's own credentials.
    pub(super) fn apply_environment(&self, wanted: &[String], command: &mut Command) {
        command.env_clear();
        for (name, value) in std::env::vars_os().filter(|(name, _)| self.passes(wanted, name)) {
            command.env(name, value);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }

    fn passes(&self, wanted: &[String], name: &OsStr) -> bool {
        let withheld = self.withheld.iter().any(|withheld| name.as_encoded_bytes() == withheld.as_bytes());
        let asked = matches(wanted, name) && !is_for_the_host(name);
        !withheld && (asked || matches(&self.environment, name))
    }

    #[cfg(target_os = "linux")]
    pub(super) fn apply_limits(&self, pid: Pid) -> io::Result<()> {
        use rustix::process::{Resource, Rlimit, prlimit};

        let limits = [(Resource::As, self.limits.address_space), (Resource::Nofile, self.limits.open_files)];
        for (resource, limit) in limits {
            if let Some(limit) = limit {
                prlimit(Some(pid), resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
            }
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn apply_limits(&self, _pid: Pid) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a variable is a token of the host, or may hold a password of it.
fn is_for_the_host(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(TOKEN_PREFIX.as_bytes()) || name == RUNNER_INDEX.as_bytes()
}

/// Whether a variable is one of `patterns`. A pattern with `*` never stands for what is for the host.
fn matches(patterns: &[String], name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => bytes.starts_with(prefix.as_bytes()) && !is_for_the_host(name),
        None => bytes == pattern.as_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_with_the_host() {
        let policy = LaunchPolicy::default();
        let check =
            |name: &str, expected: bool| assert_eq!(matches(&policy.environment, OsStr::new(name)), expected, "{name}");
        check("PATH", true);
        check("LC_ALL", true);
        check("OMP_NUM_THREADS", true);
        check("PATHOLOGY", false);
        check("AWS_SECRET_ACCESS_KEY", false);
        check("CARTON_CACHE_DIR", true);
        check("CARTON_TOKEN_models_example", false);
        check("NETRC", false);
        assert!(matches(&["CARTON_TOKEN_a".to_owned()], OsStr::new("CARTON_TOKEN_a")));
        assert!(!matches(&["*".to_owned()], OsStr::new("CARTON_TOKEN_a")));
        check("CARTON_RUNNER_INDEX", false);
        check("LD_PRELOAD", false);
    }

    #[test]
    fn no_descriptor_gets_the_hosts_credentials() {
        let policy =
            LaunchPolicy { withheld: vec!["CARTON_HUB".to_owned(), "MINE".to_owned()], ..LaunchPolicy::default() };
        let check = |wanted: &str, name: &str, expected: bool| {
            assert_eq!(policy.passes(&[wanted.to_owned()], OsStr::new(name)), expected, "{wanted} {name}");
        };
        check("NETRC", "NETRC", true);
        check("UV_*", "UV_INDEX_URL", true);
        check("UV_*", "NETRC", false);
        for wanted in ["*", "CARTON_*", "CARTON_TOKEN_a", "CARTON_RUNNER_INDEX", "CARTON_HUB", "MINE"] {
            for name in ["CARTON_TOKEN_a", "CARTON_RUNNER_INDEX", "CARTON_HUB", "MINE"] {
                check(wanted, name, false);
            }
        }
        check("", "CARTON_OFFLINE", true);
    }
}
