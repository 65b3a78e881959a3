//! Chooses a runner for a model. Pure: a list of runners in, one of them or the reasons against each out.

use std::cmp::Ordering;

use semver::VersionReq;

use super::descriptor::{Descriptor, INTERFACE_VERSION};

/// What a carton asks of its runner (`[runner]` of carton.toml).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// `runner_name`.
    pub name: String,
    /// `required_framework_version`; `None` accepts every version (packing, before a requirement is known).
    pub framework_version: Option<VersionReq>,
    /// `runner_compat_version`; `None` accepts every one.
    pub compat_version: Option<u64>,
}

/// Why one installed runner was not chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// It runs another version of the framework.
    #[error("its framework version {found} does not satisfy `{required}`")]
    FrameworkVersion {
        /// The version it runs.
        found: semver::Version,
        /// What the carton requires.
        required: VersionReq,
    },
    /// It understands another version of the model folder.
    #[error("its compat version is {found}, the model needs {required}")]
    CompatVersion {
        /// The version it understands.
        found: u64,
        /// The version of the model.
        required: u64,
    },
    /// It was built for another platform.
    #[error("it was built for {found}, this is {required}")]
    Platform {
        /// Its platform.
        found: String,
        /// This platform.
        required: String,
    },
    /// It speaks another version of the runner protocol.
    #[error("it speaks runner interface {found}, supported is {required}")]
    Interface {
        /// The version it speaks.
        found: u64,
        /// The version supported.
        required: u64,
    },
}

/// No installed runner can run the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no installed runner `{}`{} fits{}", requirement.name, version_text(requirement), rejections_text(rejected, installed))]
pub struct NoRunner {
    /// What was asked for.
    pub requirement: Requirement,
    /// Runners of that name, and why each was not chosen.
    pub rejected: Vec<(String, Rejection)>,
    /// The names of all installed runners.
    pub installed: Vec<String>,
}

/// The runners that the `carton` command carries and installs.
const INSTALLABLE: [&str; 2] = ["onnx", "noop"];

impl NoRunner {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let name = &self.requirement.name;
        let version_only = |(_, reason): &(String, Rejection)| matches!(reason, Rejection::FrameworkVersion { .. });
        if self.rejected.iter().any(version_only) {
            "use a runner of that version, or accept another one with `--framework-version`".to_owned()
        } else if INSTALLABLE.contains(&name.as_str()) {
            format!("install it with `carton runner install {name}`")
        } else {
            "put the runner's folder into `runner_dir`; `carton runner ls` shows what is there".to_owned()
        }
    }
}

fn version_text(requirement: &Requirement) -> String {
    requirement
        .framework_version
        .as_ref()
        .map(|version| format!(" with framework version `{version}`"))
        .unwrap_or_default()
}

fn rejections_text(rejected: &[(String, Rejection)], installed: &[String]) -> String {
    if !rejected.is_empty() {
        let reasons: Vec<String> = rejected.iter().map(|(runner, reason)| format!("{runner}: {reason}")).collect();
        return format!(" ({})", reasons.join("; "));
    }
    if installed.is_empty() {
        return " (no runner is installed)".to_owned();
    }
    format!(" (installed: {})", installed.join(", "))
}

/// Chooses among `runners`: name, framework version, compat version, platform and interface version must fit; of those
/// that do, the newest framework version wins, then the newest release.
///
/// # Errors
/// [`NoRunner`] with the reason against each runner of that name.
pub fn select<'a>(
    runners: &'a [Descriptor],
    requirement: &Requirement,
    platform: &str,
) -> Result<&'a Descriptor, Box<NoRunner>> {
    let mut rejected = Vec::new();
    let mut best: Option<&Descriptor> = None;
    for runner in runners.iter().filter(|runner| runner.runner_name == requirement.name) {
        match reject(runner, requirement, platform) {
            Some(reason) => rejected.push((runner.to_string(), reason)),
            None if best.is_none_or(|best| newer(runner, best) == Ordering::Greater) => best = Some(runner),
            None => {}
        }
    }
    best.ok_or_else(|| {
        let mut installed: Vec<String> = runners.iter().map(ToString::to_string).collect();
        installed.sort();
        installed.dedup();
        Box::new(NoRunner { requirement: requirement.clone(), rejected, installed })
    })
}

/// Why `runner` cannot run a model with this requirement on `platform`; `None` when it can.
#[must_use]
pub fn reject(runner: &Descriptor, requirement: &Requirement, platform: &str) -> Option<Rejection> {
    if runner.runner_interface_version != INTERFACE_VERSION {
        return Some(Rejection::Interface { found: runner.runner_interface_version, required: INTERFACE_VERSION });
    }
    if runner.platform != platform {
        return Some(Rejection::Platform { found: runner.platform.clone(), required: platform.to_owned() });
    }
    if let Some(required) = &requirement.framework_version
        && !required.matches(&runner.framework_version)
    {
        return Some(Rejection::FrameworkVersion {
            found: runner.framework_version.clone(),
            required: required.clone(),
        });
    }
    if let Some(required) = requirement.compat_version
        && required != runner.runner_compat_version
    {
        return Some(Rejection::CompatVersion { found: runner.runner_compat_version, required });
    }
    None
}

fn newer(a: &Descriptor, b: &Descriptor) -> Ordering {
    // RFC 3339 dates in UTC sort as text; others only decide between equals, where any fixed order will do.
    a.framework_version.cmp(&b.framework_version).then_with(|| a.runner_release_date.cmp(&b.runner_release_date))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::PathBuf;

    use super::super::descriptor::ModelFilesMode;
    use super::*;

    const HERE: &str = "x86_64-unknown-linux-gnu";

    fn runner(name: &str, version: &str, date: &str) -> Descriptor {
        Descriptor {
            runner_name: name.to_owned(),
            framework_version: version.parse().unwrap(),
            runner_compat_version: 1,
            runner_interface_version: INTERFACE_VERSION,
            runner_release_date: date.to_owned(),
            runner_path: PathBuf::from("/r"),
            args: Vec::new(),
            platform: HERE.to_owned(),
            files: ModelFilesMode::Directory,
        }
    }

    fn requirement(name: &str, version: &str) -> Requirement {
        Requirement {
            name: name.to_owned(),
            framework_version: Some(version.parse().unwrap()),
            compat_version: Some(1),
        }
    }

    #[test]
    fn newest_framework_then_newest_release() {
        let runners = [
            runner("t", "1.2.0", "2026-01-01T00:00:00Z"),
            runner("t", "1.10.0", "2025-01-01T00:00:00Z"),
            runner("t", "1.10.0", "2025-06-01T00:00:00Z"),
            runner("t", "2.0.0", "2027-01-01T00:00:00Z"),
            runner("u", "1.99.0", "2027-01-01T00:00:00Z"),
        ];
        let check = |version: &str, expected: usize| {
            let chosen = select(&runners, &requirement("t", version), HERE).unwrap();
            assert!(std::ptr::eq(chosen, &raw const runners[expected]), "{version}: {chosen}");
        };
        check("^1", 2);
        check("=1.2.0", 0);
        check(">=1.2", 3);
        check(">=1, <1.5", 0);
    }

    #[test]
    fn each_reason_is_named() {
        let check = |change: &dyn Fn(&mut Descriptor), expected: &str| {
            let mut candidate = runner("t", "1.2.0", "2026-01-01T00:00:00Z");
            change(&mut candidate);
            let error = select(&[candidate], &requirement("t", "^1"), HERE).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
        check(&|r| r.framework_version = "2.0.0".parse().unwrap(), "framework version 2.0.0 does not satisfy");
        check(&|r| r.runner_compat_version = 2, "compat version is 2, the model needs 1");
        check(&|r| r.platform = "riscv64-unknown-none".to_owned(), "built for riscv64-unknown-none");
        check(&|r| r.runner_interface_version = 1, "runner interface 1");
        check(&|r| r.runner_name = "other".to_owned(), "installed: other 1.2.0");
        let none = select(&[], &requirement("onnx", "^1"), HERE).unwrap_err();
        assert!(none.to_string().contains("no runner is installed"), "{none}");
        assert_eq!(none.hint(), "install it with `carton runner install onnx`");
    }
}
