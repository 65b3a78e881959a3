//! Hints: what the user can do about an error. Expresses the library's hints in options and commands of this program.

mod no_runner;

use carton_core::errors::{CacheError, ContentsError, InstallError, LaunchError, PackageError, ShrinkError};
use carton_core::{CallError, Error};

/// Returns what can be done about `error`; `None` if nothing is known.
pub(crate) fn hint(error: &Error) -> Option<String> {
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
        Error::Signature(violated) => match violated.castable() {
            Some((input, dtype)) => Some(format!(
                "`--cast` casts `{input}` where no value changes but by rounding; or save it as {dtype}, in NumPy with \
                 `.astype(\"{dtype}\")`"
            )),
            None => Some("`carton info` shows what the model expects".to_owned()),
        },
        Error::Launch(LaunchError::Sandbox { .. }) => {
            error.hint().map(|_| "`--sandbox on` enforces what this system has".to_owned())
        }
        Error::LoadRefused { .. } | Error::RunnerSetup { .. } => {
            // The python runner says so, which is part of this command.
            error.hint().map(|hint| hint.replace(BUILD_HINT, &format!("{BUILD_HINT}: `--allow build`")))
        }
        error => error.hint(),
    }
}

/// What `runners/python` says where a package has no wheel.
const BUILD_HINT: &str = "allow building packages from source";

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
