//! Hints: what the user can do about an error. Expresses the library's hints in options and commands of this program.

mod no_runner;

use carton_core::errors::{
    CacheError, ContentsError, InstallError, LaunchError, NetworkError, OciError, PackageError, ShrinkError,
};
use carton_core::{CallError, DataType, Error, Limits, SuspectedLimit, ViolationKind};

use crate::text::shell_word;

/// Returns what can be done about `error`; `None` if nothing is known.
pub(crate) fn hint(error: &Error) -> Option<String> {
    if !error.suspected_limits().is_empty() {
        return Some(limits_hint(error.suspected_limits()));
    }
    match error {
        Error::Check { source, .. } => Some(or(hint(source), "`--no-check` packs it without loading it")),
        Error::SignatureMismatch { .. } | Error::SelfTests(_) => {
            Some(or(error.hint(), "`--no-check` packs the model as it is"))
        }
        Error::Reference { source, .. } => hint(source),
        Error::NoSignature => {
            Some("declare them: `--metadata FILE`, a carton.toml with [[input]]".to_owned())
        }
        Error::OutputsUnknown => {
            Some("declare [[output]] in the metadata, or record a self-test: `--record-self-test INPUT=FILE`".to_owned())
        }
        Error::NoRunner(none) => Some(no_runner::hint(none)),
        error if error.is_disk_full() => Some("make room; `carton cache prune` deletes unused entries".to_owned()),
        Error::Install(install) => match &**install {
            InstallError::NoRunner(none) => Some(no_runner::hint(none)),
            InstallError::NoDigest { .. } => Some("give it: `--sha256 HASH`".to_owned()),
            InstallError::LostLibrary { runner, .. } => Some(format!(
                "install it again, with the library that is there now: `carton runner install {}`",
                shell_word(runner.split(' ').next().unwrap_or(runner))
            )),
            InstallError::Library { runner, .. } => Some(format!(
                "`carton runner install {}` finds it, and asks before it downloads anything",
                shell_word(&runner.replacen(' ', "@=", 1))
            )),
            InstallError::NotInstalled { .. } => Some("`carton runner ls` shows what is installed".to_owned()),
            _ => error.hint(),
        },
        Error::Cache(CacheError::NoCarton { .. }) => Some("`carton cache ls` lists those that are there".to_owned()),
        Error::Package(PackageError::ExampleInput { .. }) => Some(
            "make a tensor of the file, as the model needs it, and pass that: `carton unpack` gets the file".to_owned(),
        ),
        Error::Call(CallError::InputsTooLarge { .. }) => Some(
            "pass the input in parts, or use a runner that supports shared memory, as the built-in runners do".to_owned(),
        ),
        Error::Contents(ContentsError::FileLinkRefused { .. })
        | Error::Package(PackageError::Contents(ContentsError::FileLinkRefused { .. })) => Some(
            "a carton on this machine may link to files on this machine with --allow-file-links, or `allow_file_links = true` in the \
             configuration; one on a server never may"
                .to_owned(),
        ),
        Error::Contents(ContentsError::OutsideLink { target, .. })
        | Error::Package(PackageError::Contents(ContentsError::OutsideLink { target, .. }))
            if target.parent().is_some() =>
        {
            Some(format!(
            "if that is meant, `--allow {}` lets the model read it, or name a folder that has all that the links lead to; or put a copy in \
             place of the link",
                shell_word(&format!("read={}", target.display()))
            ))
        }
        Error::Shrink(ShrinkError::NotPacked { .. }) => {
            Some("`sha256sum` prints the SHA-256 of a file; `carton ls --json` lists those in a carton".to_owned())
        }
        Error::Shrink(ShrinkError::NoneLinked { .. }) => {
            Some("`carton ls --json` shows the SHA-256 of each file".to_owned())
        }
        Error::Signature(error) if error.lacks_inputs() => Some(
            "pass it, or run with `--signature-mode warn` where the model does without it; `carton info` shows what the model expects"
                .to_owned(),
        ),
        Error::Signature(violated) => match (violated.undeclared_bool_hint(), violated.castable()) {
            (Some(hint), _) if violated.violations.iter().any(|violation| violation.expected.parse::<DataType>().is_ok()) => {
                Some(format!("{hint}; if the model takes 0 and 1 as numbers, `--cast` makes these of it"))
            }
            (Some(hint), _) => Some(format!("{hint}; if the model takes 0 and 1 as numbers, pass these")),
            (None, Some((input, _))) => {
                Some(format!("`--cast` casts `{input}` where no value changes but by rounding"))
            }
            // These are refused in every mode.
            (None, None) if violated.violations.iter().any(|violation| violation.kind == ViolationKind::Element) => {
                Some("`carton info` shows what the carton declares".to_owned())
            }
            (None, None) => Some(
                "`carton info` shows what the carton declares; where it declares the wrong thing, `--signature-mode warn` runs the model \
                 anyway"
                    .to_owned(),
            ),
        },
        Error::Launch(LaunchError::Sandbox { .. }) => {
            error.hint().map(|_| "`--sandbox on` enforces what this system has".to_owned())
        }
        Error::LoadRefused { .. } | Error::RunnerSetup { .. } | Error::Model { .. } => error.hint().map(|hint| with_option(&hint)),
        error => error.hint(),
    }
}

/// Whether a server that a carton is read from does not answer.
pub(crate) fn is_unreachable(error: &Error) -> bool {
    let source = match error {
        Error::Network(source)
        | Error::Contents(ContentsError::Network(source))
        | Error::Package(PackageError::Contents(ContentsError::Network(source))) => source,
        Error::Oci(refused) => match &**refused {
            OciError::Refused { source, .. } => source,
            _ => return false,
        },
        _ => return false,
    };
    matches!(source, NetworkError::Connection { .. } | NetworkError::Stalled { .. })
}

/// Returns what can be done about limits that are the likely cause of an error.
fn limits_hint(limits: &[SuspectedLimit]) -> String {
    let named: Vec<String> = limits.iter().map(ToString::to_string).collect();
    let options: Vec<String> = limits
        .iter()
        .map(|limit| format!("`--limit {}={}`", limit.name, if Limits::is_size(limit.name) { "SIZE" } else { "N" }))
        .collect();
    format!(
        "the limit {} may be too low: raise it by {}, or in `[sandbox]` of the configuration",
        named.join(" or "),
        options.join(" or ")
    )
}

/// Adds to a hint that something can be allowed by which option.
fn with_option(hint: &str) -> String {
    for (words, option) in [(BUILD_HINT, "build"), (NETWORK_HINT, "network")] {
        if hint.contains(words) {
            return hint.replace(words, &format!("{words} (`--allow {option}`)"));
        }
    }
    let path = hint.split_once(READ_HINT).and_then(|(_, rest)| rest.split_once('`'));
    match path {
        Some((path, _)) => {
            let option = shell_word(&format!("read={path}"));
            hint.replace(&format!("{READ_HINT}{path}`"), &format!("{READ_HINT}{path}` (`--allow {option}`)"))
        }
        None => hint.to_owned(),
    }
}

/// What `runners/python`, which is part of this command, says where a package has no wheel.
const BUILD_HINT: &str = "allow building packages from source";
/// What the library says where the sandbox has probably refused something.
const NETWORK_HINT: &str = "allow the network";
const READ_HINT: &str = "allow reading `";

/// Appends an alternative to a hint.
fn or(hint: Option<String>, other: &str) -> String {
    hint.map_or_else(|| other.to_owned(), |hint| format!("{hint}; {other}"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_full_disk_has_a_command_against_it() {
        let source = || io::Error::from(io::ErrorKind::StorageFull);
        let io = InstallError::Io { action: "write", path: "x".into(), source: source() };
        for error in [Error::Io { what: "write", path: "x".into(), source: source() }, io.into()] {
            let hint = hint(&error);
            assert!(hint.as_deref().is_some_and(|hint| hint.contains("`carton cache prune`")), "{hint:?}");
            assert!(error.hint().is_some_and(|hint| !hint.contains("carton cache")));
        }
    }
}
