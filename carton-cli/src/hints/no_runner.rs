//! Hints for a missing runner: the command that installs it.

use std::ops::RangeInclusive;

use carton_core::VersionReq;
use carton_core::runner::{NoRunner, Rejection, Requirement, Searched};
use carton_runner_onnx::onnx_runtime_library;

use semver::Version;

use crate::text::shell_word;

/// The runners that this program contains and installs.
const INSTALLABLE: [&str; 2] = ["onnx", "noop"];
/// The runners that this program installs for any version of a framework on this machine, and the compat versions that they understand.
const INSTALLABLE_IN_ANY_VERSION: [(&str, RangeInclusive<u64>); 1] = [("python", 1..=2)];
/// The runners that a script of this repository builds, because they need a framework on the machine; and that script.
const BUILT_BY: [(&str, &str); 1] = [("torchscript", "runners/torchscript/install")];

/// Returns the command to run if no runner fits.
pub(super) fn hint(none: &NoRunner) -> String {
    let is_chosen = std::env::var_os("ORT_DYLIB_PATH").is_some_and(|path| !path.is_empty());
    hint_with(none, is_chosen)
}

/// `is_library_chosen` says whether the user names a library of ONNX Runtime.
fn hint_with(none: &NoRunner, is_library_chosen: bool) -> String {
    if let Searched::Index(index) = &none.searched {
        return format!("`carton runner ls --available --index {}` lists what it offers", shell_word(index));
    }
    let name = none.requirement.name.as_str();
    let version_only = |(_, reason): &(String, Rejection)| matches!(reason, Rejection::FrameworkVersion { .. });
    // Runners that an earlier release installed understand lower compat versions.
    let is_older = |(_, reason): &(String, Rejection)| matches!(reason, Rejection::CompatVersion { found, required } if found < required);
    let is_foreign = |(_, reason): &(String, Rejection)| matches!(reason, Rejection::Interface { .. });
    let is_installed = none.searched == Searched::Installed;
    // Runners of the original Carton are in the same folder; this program installs its own beside them.
    let (there, it) = if is_installed && none.rejected.iter().any(is_foreign) {
        ("the one that is installed is for another version of Carton; ", "the one for this version")
    } else {
        ("", "it")
    };
    if INSTALLABLE.contains(&name) && none.rejected.iter().all(is_foreign) && is_installed {
        return format!("{there}install {it}: `carton runner install {name}`");
    }
    if name == carton_runner_onnx::RUNNER_NAME
        && is_installed
        && none.rejected.iter().any(version_only)
        && let Some(required) = &none.requirement.framework_version
    {
        return onnx_runtime(required, is_library_chosen);
    }
    let command = install_command(none);
    let understands = |versions: &RangeInclusive<u64>| {
        none.requirement.compat_version.is_none_or(|version| versions.contains(&version))
    };
    let in_any_version = INSTALLABLE_IN_ANY_VERSION
        .iter()
        .any(|(installable, versions)| *installable == name && understands(versions))
        && none.rejected.iter().all(|rejected| version_only(rejected) || is_foreign(rejected) || is_older(rejected));
    let mut hint = there.to_owned();
    hint.push_str(&if in_any_version && is_installed {
        format!("install {it}: `carton runner install {}`", shell_word(&asked(&none.requirement)))
    } else if none.index_configured {
        format!("install {it}: `{command}`, or let `--install-runners` do so")
    } else if let Some((_, script)) = BUILT_BY.iter().find(|(built, _)| *built == name) {
        format!("install {it} from an index: `{command}`; or build and install it: `{script}` in Carton's source")
    } else {
        format!("no runner index is configured; install {it} from one that has it: `{command}`")
    });
    if is_installed {
        if let Some(version) = nearest(none) {
            let option = shell_word(&format!("={version}"));
            hint.push_str(&format!("; or try the one that is there, {name} {version}: `--framework-version {option}`"));
        } else if none.has_other_version() {
            hint.push_str("; or accept another version with `--framework-version`");
        }
    }
    hint
}

/// The hint where the runner onnx is there, and the library of ONNX Runtime has another version than `required`.
fn onnx_runtime(required: &VersionReq, is_library_chosen: bool) -> String {
    let installs = onnx_runtime_library::VERSION;
    if is_library_chosen {
        return format!(
            "ORT_DYLIB_PATH names the library that is used: unset it, or set it to a libonnxruntime.so of such a version (`carton runner install \
             onnx` installs {installs} where it is not set)"
        );
    }
    if Version::parse(installs).is_ok_and(|version| required.matches(&version)) {
        return format!("`carton runner install onnx` installs ONNX Runtime {installs}, which satisfies that");
    }
    format!(
        "this program installs ONNX Runtime {installs}; `ORT_DYLIB_PATH=LIBRARY carton runner install onnx` installs the \
         libonnxruntime.so of another release"
    )
}

/// Returns the newest version among the runners that only have another version of the same major than the one required. It may well run the
/// model.
fn nearest(none: &NoRunner) -> Option<Version> {
    let required = none.requirement.framework_version.as_ref()?;
    let is_same_major = |found: &Version| required.comparators.iter().any(|comparator| comparator.major == found.major);
    let found = none.rejected.iter().filter_map(|(_, reason)| match reason {
        Rejection::FrameworkVersion { found, .. } => Some(found),
        _ => None,
    });
    found.filter(|found| is_same_major(found)).max().cloned()
}

/// Returns the command that installs the missing runner, quoted for a shell.
fn install_command(none: &NoRunner) -> String {
    let compat_version = none.requirement.compat_version;
    let compat = compat_version.map(|version| format!(" --compat-version {version}")).unwrap_or_default();
    let index = if none.index_configured { "" } else { " --index URL" };
    format!("carton runner install {}{compat}{index}", shell_word(&asked(&none.requirement)))
}

/// Formats the requirement as `carton runner install` expects it.
fn asked(requirement: &Requirement) -> String {
    match &requirement.framework_version {
        Some(version) if *version != VersionReq::STAR => format!("{}@{version}", requirement.name),
        _ => requirement.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::slice;

    use carton_core::runner::{Descriptor, select};

    use super::*;

    /// The hint where no library is chosen.
    fn hint(none: &NoRunner) -> String {
        hint_with(none, false)
    }

    const HERE: &str = "here";

    fn runner(name: &str, version: &str, date: &str) -> Descriptor {
        let mut runner = Descriptor::new(name, version.parse().unwrap(), "run").unwrap();
        runner.runner_release_date = date.parse().unwrap();
        runner.platform = HERE.to_owned();
        runner
    }

    fn requirement(name: &str, version: &str) -> Requirement {
        Requirement::new(name).framework_version(version.parse::<VersionReq>().unwrap()).compat_version(1)
    }

    #[test]
    fn ours_are_installed_beside_those_of_the_original() {
        let check = |name: &str, configured: bool, expected: &str| {
            let mut original = runner(name, "1.0.0", "2023-08-01T00:00:00Z");
            original.runner_interface_version = 1;
            let mut none = select(&[original], &requirement(name, "*"), HERE).unwrap_err();
            none.index_configured = configured;
            let hint = hint(&none);
            let rest = hint.strip_prefix("the one that is installed is for another version of Carton; ").unwrap();
            assert!(rest.starts_with(expected), "{hint}");
        };
        check("onnx", false, "install the one for this version: `carton runner install onnx`");
        check("onnx", true, "install the one for this version: `carton runner install onnx`");
        check("python", true, "install the one for this version: `carton runner install python`");
        check(
            "torchscript",
            false,
            "install the one for this version from an index: `carton runner install torchscript",
        );
        check("torchscript", true, "install the one for this version: `carton runner install torchscript ");
        check("rust-bert", false, "no runner index is configured; ");
        // A runner of this program in another version beside it.
        let mut original = runner("python", "3.10.0", "2023-08-01T00:00:00Z");
        original.runner_interface_version = 1;
        let ours = runner("python", "3.11.7", "2026-01-01T00:00:00Z");
        let none = select(&[original, ours], &requirement("python", "=3.10"), HERE).unwrap_err();
        let hint = hint(&none);
        let expected = "`carton runner install python@=3.10`; or try the one that is there, python 3.11.7: `--framework-version =3.11.7`";
        assert!(hint.contains(expected), "{hint}");
    }

    #[test]
    fn hints_are_commands_to_run() {
        let check = |name: &str, version: &str, configured: bool, expected: &str| {
            let mut none = select::<Descriptor>(&[], &requirement(name, version), HERE).unwrap_err();
            none.index_configured = configured;
            assert!(hint(&none).contains(expected), "{}", hint(&none));
        };
        check("t", "=1.13.1", true, "`carton runner install t@=1.13.1 --compat-version 1`, or");
        check("t", ">=1.12, <2", false, "`carton runner install 't@>=1.12, <2' --compat-version 1 --index URL`");
        check("them/t", "*", true, "`carton runner install them/t --compat-version 1`");
        check("it's;rm", "*", true, r"`carton runner install 'it'\''s;rm' --compat-version 1`");
        let candidate = runner("t", "1.2.0", "2026-01-01T00:00:00Z");
        let onnx = [runner("onnx", "1.24.1", "2026-01-01T00:00:00Z")];
        let other = |required: &str| hint(&select(&onnx, &requirement("onnx", required), HERE).unwrap_err());
        assert_eq!(
            other(">=1.32.0, <2"),
            "`carton runner install onnx` installs ONNX Runtime 1.32.0, which satisfies that"
        );
        assert!(other(">=1.33.0, <2").contains("`ORT_DYLIB_PATH=LIBRARY carton runner install onnx`"));
        let none = select(&onnx, &requirement("onnx", ">=1.32.0, <2"), HERE).unwrap_err();
        assert!(hint_with(&none, true).starts_with("ORT_DYLIB_PATH names the library that is used: unset it"));
        check("python", "=3.10", false, "install it: `carton runner install python@=3.10`");
        check("python", "*", true, "install it: `carton runner install python`");
        let other = runner("python", "3.11.7", "2026-01-01T00:00:00Z");
        // A runner of an earlier release, which understands less than the one that this release installs.
        let newer = requirement("python", "=3.11.7").compat_version(2);
        let none = select(slice::from_ref(&other), &newer, HERE).unwrap_err();
        assert!(hint(&none).starts_with("install it: `carton runner install python@=3.11.7`"), "{}", hint(&none));
        let unknown = newer.compat_version(3);
        let none = select(slice::from_ref(&other), &unknown, HERE).unwrap_err();
        assert!(hint(&none).contains("python@=3.11.7 --compat-version 3 --index URL`"), "{}", hint(&none));
        let mut second = other.clone();
        second.runner_compat_version = 2;
        let twice = [other.clone(), second];
        let none = select(&twice, &requirement("python", "=3.10"), HERE).unwrap_err();
        assert_eq!(none.rejected.len(), 1, "{none}");
        let none = select(&[other], &requirement("python", "=3.10"), HERE).unwrap_err();
        assert!(hint(&none).starts_with("install it: `carton runner install python@=3.10`; or"), "{}", hint(&none));
        let torch = [
            runner("torchscript", "2.15.0", "2026-11-01T00:00:00Z"),
            runner("torchscript", "1.13.1", "2026-11-01T00:00:00Z"),
        ];
        let tried = |required: &str| hint(&select(&torch, &requirement("torchscript", required), HERE).unwrap_err());
        let expected = "; or try the one that is there, torchscript 2.15.0: `--framework-version =2.15.0`";
        assert!(tried("=2.13.0").ends_with(expected), "{}", tried("=2.13.0"));
        assert!(
            tried("=1.12.1").ends_with("torchscript 1.13.1: `--framework-version =1.13.1`"),
            "{}",
            tried("=1.12.1")
        );
        assert!(
            tried("=3.0.0").ends_with("; or accept another version with `--framework-version`"),
            "{}",
            tried("=3.0.0")
        );
        check(
            "torchscript",
            "=1.13.1",
            false,
            "; or build and install it: `runners/torchscript/install` in Carton's source",
        );
        check(
            "torchscript",
            "=1.13.1",
            false,
            "`carton runner install torchscript@=1.13.1 --compat-version 1 --index URL`",
        );
        check("torchscript", "*", true, "install it: `carton runner install torchscript --compat-version 1`, or");
        let none = select(&[candidate], &requirement("t", "^2"), HERE).unwrap_err();
        assert!(hint(&none).contains("`--framework-version`"), "{}", hint(&none));
    }
}
