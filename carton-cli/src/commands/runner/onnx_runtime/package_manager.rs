//! Fetches packages with the user's own `uv` or `pip`, which are configured for the user's package index and network.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use carton_core::CancelToken;

use super::LibraryError;
use crate::process::{Ended, run};

/// The timeout for printing a version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// The CPython version whose wheel is fetched. The library inside is the same in every wheel, and neither `uv` nor `pip` needs that
/// Python to unpack it.
const PYTHON: (&str, &str) = ("3.12", "cp312");

/// A program that installs Python packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackageManager {
    Uv,
    Pip,
}

impl PackageManager {
    /// Returns the managers that are available, the preferred one first.
    pub(super) fn all_usable(cancel_token: &CancelToken) -> Vec<Self> {
        [Self::Uv, Self::Pip].into_iter().filter(|manager| manager.is_usable(cancel_token)).collect()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Uv => "uv",
            Self::Pip => "pip",
        }
    }

    fn command(self) -> Command {
        match self {
            Self::Uv => Command::new("uv"),
            Self::Pip => {
                let mut command = Command::new("python3");
                command.args(["-m", "pip"]);
                command
            }
        }
    }

    fn is_usable(self, cancel_token: &CancelToken) -> bool {
        let ended = run(self.command().arg("--version"), Some(VERSION_TIMEOUT), cancel_token);
        matches!(ended, Ok(Ended::Exited { status, .. }) if status.success())
    }

    /// Fetches the one wheel that `requirements` names, compares it with its hash, and unpacks it into the folder `target`.
    pub(super) fn install(
        self,
        requirements: &str,
        target: &Path,
        offline: bool,
        cancel_token: &CancelToken,
    ) -> Result<(), LibraryError> {
        fs::create_dir(target).map_err(LibraryError::io("create", target))?;
        let file = target.join("requirements.txt");
        fs::write(&file, requirements).map_err(LibraryError::io("write", &file))?;
        let mut command = self.command();
        let (version, abi) = PYTHON;
        match self {
            Self::Uv => command.args(["pip", "install", "--no-deps", "--require-hashes", "--only-binary=:all:"]),
            Self::Pip => {
                command.args(["install", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-compile"])
            }
        };
        command.args(["--python-version", version]);
        if self == Self::Pip {
            command.args(["--implementation=cp", "--abi", abi, "--no-input", "--disable-pip-version-check"]);
            // The user's configuration may contain `user`, which conflicts with a target folder.
            command.env("PIP_USER", "0").env_remove("PIP_TARGET").env_remove("PIP_PREFIX");
        }
        if offline {
            command.arg(if self == Self::Uv { "--offline" } else { "--no-index" });
        }
        // Runs outside of the user's project, whose configuration must not apply.
        command.arg("--target").arg(target).arg("-r").arg(&file).current_dir(target);
        let ended = run(&mut command, None, cancel_token);
        let reason = match ended.map_err(LibraryError::io("start", Path::new(self.name())))? {
            Ended::Exited { status, .. } if status.success() => return Ok(()),
            Ended::Exited { stderr, status, .. } if stderr.is_empty() => status.to_string(),
            Ended::Exited { stderr, .. } => stderr,
            Ended::TimedOut | Ended::Interrupted => return Err(LibraryError::Interrupted),
        };
        let manager = self.name();
        Err(if offline {
            LibraryError::Offline { manager, reason }
        } else {
            LibraryError::PackageManager { manager, reason }
        })
    }
}
