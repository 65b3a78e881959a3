//! Chooses a runner for a model (spec/runner-descriptor.md, "Selection"). Pure: takes a list of runners, and returns one of them
//! or the reasons against each.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;

use semver::VersionReq;

use super::Place;
use super::descriptor::{Descriptor, INTERFACE_VERSION};
use crate::error::{Advice, Error, Failure};
use carton_format::error_kind::ErrorKind;

/// What a carton requires of its runner (`[runner]` of carton.toml).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requirement {
    /// `runner_name`.
    pub name: String,
    /// `required_framework_version`; `None` accepts every version. Packing uses `None` before a requirement is known.
    pub framework_version: Option<VersionReq>,
    /// `runner_compat_version`; `None` accepts every one.
    pub compat_version: Option<u64>,
}

impl Requirement {
    /// Accepts any version of the runner with this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), framework_version: None, compat_version: None }
    }

    /// Sets the framework versions that are accepted; `None` accepts every one.
    #[must_use]
    pub fn framework_version(mut self, required: impl Into<Option<VersionReq>>) -> Self {
        self.framework_version = required.into();
        self
    }

    /// Sets the `runner_compat_version` that the runner must have; `None` accepts every one.
    #[must_use]
    pub fn compat_version(mut self, required: impl Into<Option<u64>>) -> Self {
        self.compat_version = required.into();
        self
    }
}

/// Why a runner was not chosen.
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
    /// It understands another version of the contents of `model/`.
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

/// None of the runners that are installed, or that an index offers, can run the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoRunner {
    /// What was required.
    pub requirement: Requirement,
    /// The runners of that name, and why each was rejected.
    pub rejected: Vec<(String, Rejection)>,
    /// The names of all available runners.
    pub others: Vec<String>,
    /// Where the runner was looked for.
    pub searched: Searched,
    /// Whether an index is configured that may have the runner.
    pub index_configured: bool,
}

/// Where a runner was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Searched {
    /// Among the runners that are installed or part of this program.
    Installed,
    /// Among the runners that are part of this program.
    Program,
    /// In the index at this place.
    Index(String),
}

/// The largest number of names or reasons in a message.
const MAX_LISTED: usize = 20;

impl NoRunner {
    /// Tells the user what to do.
    #[must_use]
    pub fn hint(&self) -> String {
        let Requirement { name, framework_version, .. } = &self.requirement;
        if let Searched::Index(_) = &self.searched {
            return "look at what the index offers, or name another one".to_owned();
        }
        let version = match framework_version {
            Some(version) if *version != VersionReq::STAR => format!(" with framework version `{version}`"),
            _ => String::new(),
        };
        let mut hint = format!("install the runner `{name}`{version}");
        if self.index_configured {
            hint.push_str(", or allow it to be installed from the configured index");
        }
        if self.has_other_version() && self.searched == Searched::Installed {
            hint.push_str("; or accept another version of the framework");
        }
        hint
    }

    /// Whether a runner was rejected because of its framework version.
    #[must_use]
    pub fn has_other_version(&self) -> bool {
        self.rejected.iter().any(|(_, reason)| matches!(reason, Rejection::FrameworkVersion { .. }))
    }

    /// Makes this the error of a search in an index.
    pub(super) fn in_index(mut self: Box<Self>, index: &Place) -> Box<Self> {
        self.searched = Searched::Index(index.to_string());
        self
    }

    /// Makes this the error of a search among the runners of this program.
    pub(super) fn in_program(mut self: Box<Self>) -> Box<Self> {
        self.searched = Searched::Program;
        self
    }
}

impl fmt::Display for NoRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Requirement { name, framework_version, compat_version } = &self.requirement;
        match &self.searched {
            Searched::Installed => write!(f, "no installed runner `{name}`")?,
            Searched::Program => write!(f, "this program carries no runner `{name}`")?,
            Searched::Index(index) => write!(f, "`{index}` offers no runner `{name}`")?,
        }
        match (framework_version, compat_version) {
            (Some(version), _) => write!(f, " with framework version `{version}`")?,
            (None, Some(version)) => write!(f, " with compat version {version}")?,
            (None, None) => {}
        }
        let is_installed = self.searched == Searched::Installed;
        f.write_str(if is_installed { " fits" } else { " that fits" })?;
        if !self.rejected.is_empty() {
            let reasons = self.rejected.iter().map(|(runner, reason)| format!("{runner}: {reason}"));
            return write!(f, " ({})", listed(reasons, "; "));
        }
        match (is_installed, self.others.is_empty()) {
            (true, true) => f.write_str(" (no runner is installed)"),
            (true, false) => write!(f, " (installed: {})", listed(self.others.iter().cloned(), ", ")),
            (false, true) => f.write_str(" (there is none)"),
            (false, false) => write!(f, " (there are: {})", listed(self.others.iter().cloned(), ", ")),
        }
    }
}

impl std::error::Error for NoRunner {}

impl Failure for Box<NoRunner> {
    fn kind(&self) -> ErrorKind {
        ErrorKind::NoRunner
    }

    fn advice(&self) -> Option<Advice> {
        Some(self.hint().into())
    }
}

impl Error {
    /// What was looked for, and why nothing of what is there fits, if no runner fits the model.
    #[must_use]
    pub fn no_runner(&self) -> Option<&NoRunner> {
        self.find::<Box<NoRunner>>().map(Box::as_ref)
    }
}

/// Joins the first items, and appends how many more there are.
fn listed(items: impl ExactSizeIterator<Item = String>, separator: &str) -> String {
    let more = items.len().saturating_sub(MAX_LISTED);
    let mut text = items.take(MAX_LISTED).collect::<Vec<_>>().join(separator);
    if more > 0 {
        text.push_str(&format!("{separator}and {more} more"));
    }
    text
}

/// Chooses one of `runners`. Its name, framework version, compat version, platform and interface version must fit. Of several,
/// the one with the newest framework version is chosen, and of those the newest release.
///
/// # Errors
/// [`NoRunner`], with the reason against each runner of that name.
pub fn select<'a, R: Borrow<Descriptor>>(
    runners: &'a [R],
    requirement: &Requirement,
    platform: &str,
) -> Result<&'a R, Box<NoRunner>> {
    let mut rejected = Vec::new();
    let mut best: Option<&R> = None;
    for runner in runners.iter().filter(|&runner| runner.borrow().runner_name == requirement.name) {
        match reject(runner.borrow(), requirement, platform) {
            Some(reason) => {
                let rejection = (runner.borrow().to_string(), reason);
                // A runner that understands several compat versions is listed once for each.
                if !rejected.contains(&rejection) {
                    rejected.push(rejection);
                }
            }
            None if best.is_none_or(|best| newer(runner.borrow(), best.borrow()) == Ordering::Greater) => {
                best = Some(runner);
            }
            None => {}
        }
    }
    best.ok_or_else(|| {
        let mut others: Vec<String> = runners.iter().map(|runner| runner.borrow().to_string()).collect();
        others.sort();
        others.dedup();
        let requirement = requirement.clone();
        Box::new(NoRunner { requirement, rejected, others, searched: Searched::Installed, index_configured: false })
    })
}

/// Returns why `runner` cannot run a model with this requirement on `platform`; `None` if it can.
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
    // A pre-release is older than any release, so it is chosen only if no release fits.
    let is_released = |runner: &Descriptor| runner.framework_version.pre.is_empty();
    (is_released(a), &a.framework_version)
        .cmp(&(is_released(b), &b.framework_version))
        .then_with(|| a.runner_release_date.cmp(&b.runner_release_date))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::PathBuf;

    use super::super::ModelFilesMode;
    use super::*;
    use crate::runner::SandboxNeeds;

    const HERE: &str = "x86_64-unknown-linux-gnu";

    fn runner(name: &str, version: &str, date: &str) -> Descriptor {
        Descriptor {
            runner_name: name.to_owned(),
            framework_version: version.parse().unwrap(),
            runner_compat_version: 1,
            runner_interface_version: INTERFACE_VERSION,
            runner_release_date: date.parse().unwrap(),
            runner_path: PathBuf::from("/r"),
            args: Vec::new(),
            platform: HERE.to_owned(),
            files: ModelFilesMode::Directory,
            environment: Vec::new(),
            sandbox: SandboxNeeds::default(),
            prepare: None,
            library: None,
            folder: None,
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
            // Later than the next one, although its text sorts after it.
            runner("v", "1.0.0", "2026-01-01T05:00:00+09:00"),
            runner("v", "1.0.0", "2025-12-31T23:00:00Z"),
        ];
        let check = |version: &str, expected: usize| {
            let chosen = select(&runners, &requirement("t", version), HERE).unwrap();
            assert!(std::ptr::eq(chosen, &raw const runners[expected]), "{version}: {chosen}");
        };
        check("^1", 2);
        check("=1.2.0", 0);
        check(">=1.2", 3);
        check(">=1, <1.5", 0);
        let releases =
            [runner("t", "1.0.0", "2026-01-01T00:00:00Z"), runner("t", "2.0.0-rc.1", "2026-02-01T00:00:00Z")];
        let any = Requirement { name: "t".to_owned(), framework_version: None, compat_version: None };
        assert_eq!(select(&releases, &any, HERE).unwrap().framework_version.to_string(), "1.0.0");
        let chosen = select(&runners, &requirement("v", "*"), HERE).unwrap();
        assert!(std::ptr::eq(chosen, &raw const runners[6]), "{}", chosen.runner_release_date);
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
        let none = select::<Descriptor>(&[], &requirement("onnx", "^1"), HERE).unwrap_err();
        assert!(none.to_string().contains("no runner is installed"), "{none}");
        assert_eq!(none.hint(), "install the runner `onnx` with framework version `^1`");
    }
}
