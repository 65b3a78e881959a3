//! The environment (spec/runner-descriptor.md, "The process") and the resource limits of a runner process. A sandbox will belong
//! here.

use std::ffi::OsStr;
use std::io;
use std::process::Command;

use rustix::process::Pid;

use crate::network::TOKEN_PREFIX;

/// The variables that a runner gets by default: those that programs need to start, and those that configure frameworks. All
/// others, credentials above all, stay with the host.
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

/// The variable that names the index of runners. Its URL may hold a password.
const RUNNER_INDEX: &str = "CARTON_RUNNER_INDEX";

/// The environment and the limits of a runner process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaunchPolicy {
    /// The names of environment variables that are passed on; a final `*` matches any ending. Tokens (`CARTON_TOKEN_…`) and
    /// `CARTON_RUNNER_INDEX`, a URL that may hold a password, are passed on only if they are named in full: only the host, which
    /// downloads, needs them.
    pub environment: Vec<String>,
    /// The names of variables that are never passed on, even if other rules allow them. Loading and packing add those that the
    /// configuration takes credentials from (`token_env`).
    pub withheld: Vec<String>,
    /// Variables that are set for the runner, independent of those of the host.
    pub variables: Vec<(String, String)>,
    /// The resource limits.
    pub limits: Limits,
}

/// The resource limits of a runner process; `None` keeps that of the host. Linux only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The size of the address space in bytes.
    pub address_space: Option<u64>,
    /// The number of open descriptors.
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
    /// Adds variables that are set for the runner, independent of those of the host.
    #[must_use]
    pub fn with_variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Sets the environment of `command`: the host's variables that this policy or the runner's descriptor (`wanted`) asks for,
    /// and then the variables of this policy. A descriptor never gets the host's own credentials.
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

/// Whether a variable is a token for the host, or may hold a password for it.
fn is_for_the_host(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(TOKEN_PREFIX.as_bytes()) || name == RUNNER_INDEX.as_bytes()
}

/// Whether a variable matches one of `patterns`. A pattern with `*` never matches a variable that is only for the host.
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
