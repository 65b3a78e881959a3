//! The environment of a runner process (spec/runner-descriptor.md, "The process"), and what its caller allows and limits.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use carton_network::http::ProxyConfig;
use rustix::process::Pid;

use crate::sandbox::{Limits, Permissions, PrivatePlaces, SandboxConfig, SandboxMode};
use crate::variables::{PassedVariable, Variables};

/// The variables that a runner gets by default: those that programs need to start, and those that configure frameworks. All
/// others, credentials above all, stay with the host. The list names each variable. A prefix such as `NVIDIA_*` would also pass secrets: `NVIDIA_API_KEY`.
const DEFAULT_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "RUST_BACKTRACE",
    "RUST_LOG",
    // ONNX Runtime's library.
    "ORT_DYLIB_PATH",
    // Threads of OpenMP, MKL and OpenBLAS.
    "OMP_DYNAMIC",
    "OMP_MAX_ACTIVE_LEVELS",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_SCHEDULE",
    "OMP_STACKSIZE",
    "OMP_THREAD_LIMIT",
    "OMP_WAIT_POLICY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "GOMP_CPU_AFFINITY",
    "MKL_CBWR",
    "MKL_DYNAMIC",
    "MKL_NUM_THREADS",
    "MKL_THREADING_LAYER",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    // The choice and the use of GPUs.
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_TF32_OVERRIDE",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
];

/// What the names of the library's own variables begin with. Those that runners need are set for them; the others are for the host, and some
/// hold a password.
const OWN_PREFIX: &str = "CARTON_";

/// The environment and the limits of a runner process, and what confines it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaunchPolicy {
    /// The names of environment variables that are passed on; a final `*` matches any ending. Variables of the library (`CARTON_…`), some of
    /// which are passwords and tokens of the host, are passed on only if they are named in full.
    pub environment: Vec<String>,
    /// The names of variables that are never passed on, even if other rules allow them. Loading and packing add those that the
    /// configuration takes credentials from (`token_env`).
    pub withheld: Vec<String>,
    /// Variables that are set for the runner, independent of those of the host.
    pub variables: Vec<(String, String)>,
    /// The resource limits. Each that is `None` is that of the configuration, or else that of the host. Linux only.
    pub limits: Limits,
    /// How strictly the process is confined; `None` leaves that to the configuration.
    pub sandbox: Option<SandboxMode>,
    /// What the caller lets the model use beyond its own files, whether the carton asks for it or not.
    pub allow: Permissions,
    /// The variables that the caller passes to the model.
    pub(crate) passed: Vec<PassedVariable>,
    /// The configuration, once it is known.
    pub(crate) configured: Configured,
}

/// The part of the configuration that starting a runner takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configured {
    pub(crate) sandbox: SandboxConfig,
    /// What permissions to read do not reach by themselves.
    pub(crate) private: PrivatePlaces,
    /// The program that confines runners; `None` if there is none.
    pub(crate) launcher: Option<PathBuf>,
    /// The folder for the runners' own data.
    pub(crate) data_dir: PathBuf,
    pub(crate) offline: bool,
    /// The variables that the caller passes to the model, beside those that the carton sets.
    pub(crate) variables: Variables,
    /// The proxy that preparations of a runner go through.
    pub(crate) proxy: ProxyConfig,
}

impl Default for LaunchPolicy {
    fn default() -> Self {
        Self {
            environment: DEFAULT_VARIABLES.iter().map(|&name| name.to_owned()).collect(),
            withheld: Vec::new(),
            variables: Vec::new(),
            limits: Limits::default(),
            sandbox: None,
            allow: Permissions::default(),
            passed: Vec::new(),
            configured: Configured::default(),
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

    /// Returns how strictly the process is confined.
    pub(crate) fn mode(&self) -> SandboxMode {
        self.sandbox.unwrap_or(self.configured.sandbox.mode)
    }

    /// Returns whether the process is confined. Only Linux has a sandbox.
    pub(crate) fn is_confined(&self) -> bool {
        cfg!(target_os = "linux") && self.mode() != SandboxMode::Off
    }

    /// Returns what the caller allows, and what the configuration allows.
    pub(crate) fn all_allowed(&self) -> Permissions {
        let mut allowed = self.configured.sandbox.allow.clone();
        allowed.add_all(&self.allow);
        allowed
    }

    /// Returns the limits of the caller, and those of the configuration where the caller has none.
    pub(crate) fn all_limits(&self) -> Limits {
        self.limits.or(self.configured.sandbox.limits)
    }

    /// Sets the environment of `command`: the host's variables that this policy or the runner's descriptor (`wanted`) asks for,
    /// with the proxy of the configuration if it has one, and then the variables of this policy. A descriptor never gets the host's own credentials.
    pub(super) fn apply_environment(&self, wanted: &[String], command: &mut Command) {
        command.env_clear();
        for (name, value) in std::env::vars_os().filter(|(name, _)| self.passes(wanted, name)) {
            command.env(name, value);
        }
        let proxy = self.configured.proxy.variables();
        for (name, value) in proxy.into_iter().filter(|(name, _)| self.passes(wanted, name.as_ref())) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }

    /// Returns whether the runner gets the host's variable of this name.
    pub(super) fn passes(&self, wanted: &[String], name: &OsStr) -> bool {
        let withheld = self.withheld.iter().any(|withheld| name.as_encoded_bytes() == withheld.as_bytes());
        let asked = matches(wanted, name) && !is_for_the_host(name);
        !withheld && (asked || matches(&self.environment, name))
    }

    /// Sets the limits of a process that is not confined. A launcher sets those of one that is.
    #[cfg(target_os = "linux")]
    pub(super) fn apply_limits(&self, pid: Pid) -> io::Result<()> {
        use rustix::process::{Resource, Rlimit, prlimit};

        let limits = self.all_limits();
        let limits = [
            (Resource::As, limits.memory),
            (Resource::Nproc, limits.processes),
            (Resource::Nofile, limits.open_files),
            (Resource::Fsize, limits.file_size),
            (Resource::Cpu, limits.cpu_seconds),
        ];
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

/// Whether a variable is one of the library, for the host.
fn is_for_the_host(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(OWN_PREFIX.as_bytes())
}

/// Whether a variable matches one of `patterns`. A pattern with `*` never matches a variable that is only for the host.
pub(super) fn matches(patterns: &[String], name: &OsStr) -> bool {
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
        check("NVIDIA_API_KEY", false);
        for own in
            ["CACHE_DIR", "CONFIG_PATH", "HUB", "KEY_PASSWORD", "RUNNER_INDEX", "TOKEN_models_example", "OF_LATER"]
        {
            check(&format!("CARTON_{own}"), false);
        }
        check("NETRC", false);
        assert!(DEFAULT_VARIABLES.iter().all(|name| !name.contains('*')));
        assert!(matches(&["CARTON_TOKEN_a".to_owned()], OsStr::new("CARTON_TOKEN_a")));
        assert!(!matches(&["*".to_owned()], OsStr::new("CARTON_TOKEN_a")));
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
        let secrets = ["CARTON_TOKEN_a", "CARTON_RUNNER_INDEX", "CARTON_KEY_PASSWORD", "CARTON_HUB", "MINE"];
        for wanted in ["*", "CARTON_*"].iter().chain(&secrets) {
            for name in secrets {
                check(wanted, name, false);
            }
        }
    }
}
