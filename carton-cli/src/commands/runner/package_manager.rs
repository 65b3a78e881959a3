//! Fetches wheels with the user's own `uv` or `pip`, which are configured for the user's package index and network, or with the `uv` that
//! this command has installed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use carton_core::{CancelToken, Config};

use super::uv;
use carton_core::program::{Ended, run};

/// The timeout for printing a version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// The CPython that a wheel was built for. What is used of a wheel is the same in the wheels for all of them, and neither `uv` nor `pip`
/// needs that Python to unpack it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PythonTag {
    pub(super) version: &'static str,
    pub(super) abi: &'static str,
}

/// A program that installs Python packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PackageManager {
    Uv(PathBuf),
    Pip,
}

/// An error of fetching wheels.
#[derive(Debug, thiserror::Error)]
pub(super) enum PackageManagerError {
    #[error("{manager} did not install it: {reason}")]
    Failed { manager: &'static str, reason: String },
    #[error("{manager} does not have it, and the network may not be used: {reason}")]
    Offline { manager: &'static str, reason: String },
    #[error("cannot {what} {}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("interrupted")]
    Interrupted,
}

impl PackageManagerError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

impl PackageManager {
    /// Returns the managers that are available, the preferred one first.
    pub(super) fn all_usable(runner_data_dir: &Path, cancel_token: &CancelToken) -> Vec<Self> {
        let own = uv::installed(runner_data_dir).map(Self::Uv);
        let managers = [Self::Uv(PathBuf::from("uv"))].into_iter().chain(own).chain([Self::Pip]);
        managers.filter(|manager| manager.is_usable(cancel_token)).collect()
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Uv(_) => "uv",
            Self::Pip => "pip",
        }
    }

    fn command(&self) -> Command {
        match self {
            Self::Uv(path) => Command::new(path),
            Self::Pip => {
                let mut command = Command::new("python3");
                command.args(["-m", "pip"]);
                command
            }
        }
    }

    fn is_usable(&self, cancel_token: &CancelToken) -> bool {
        let ended = run(self.command().arg("--version"), Some(VERSION_TIMEOUT), cancel_token);
        matches!(ended, Ok(Ended::Exited { status, .. }) if status.success())
    }

    /// Fetches the wheels that `requirements` names, compares them with their hashes, and unpacks them into the folder `target`.
    pub(super) fn install(
        &self,
        requirements: &str,
        python: PythonTag,
        target: &Path,
        config: &Config,
        cancel_token: &CancelToken,
    ) -> Result<(), PackageManagerError> {
        fs::create_dir(target).map_err(PackageManagerError::io("create", target))?;
        let file = target.join("requirements.txt");
        fs::write(&file, requirements).map_err(PackageManagerError::io("write", &file))?;
        let mut command = self.command();
        match self {
            Self::Uv(_) => command.args(["pip", "install", "--no-deps", "--require-hashes", "--only-binary=:all:"]),
            Self::Pip => {
                command.args(["install", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-compile"])
            }
        };
        command.args(["--python-version", python.version]);
        if *self == Self::Pip {
            command.args(["--implementation=cp", "--abi", python.abi, "--no-input"]);
            command.arg("--disable-pip-version-check");
            // The user's configuration may contain `user`, which conflicts with a target folder.
            command.env("PIP_USER", "0").env_remove("PIP_TARGET").env_remove("PIP_PREFIX");
        }
        if config.offline {
            command.arg(if *self == Self::Pip { "--no-index" } else { "--offline" });
        }
        for (name, value) in config.proxy.variables() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        // Runs outside of the user's project, whose configuration must not apply.
        command.arg("--target").arg(target).arg("-r").arg(&file).current_dir(target);
        let ended = run(&mut command, None, cancel_token);
        let reason = match ended.map_err(PackageManagerError::io("start", Path::new(self.name())))? {
            Ended::Exited { status, .. } if status.success() => return Ok(()),
            Ended::Exited { stderr, status, .. } if stderr.is_empty() => status.to_string(),
            Ended::Exited { stderr, .. } => stderr,
            Ended::TimedOut | Ended::Interrupted => return Err(PackageManagerError::Interrupted),
        };
        let manager = self.name();
        Err(if config.offline {
            PackageManagerError::Offline { manager, reason }
        } else {
            PackageManagerError::Failed { manager, reason }
        })
    }
}
