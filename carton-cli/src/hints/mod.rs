//! Hints: what the user can do about an error. Expresses the library's hints in options and commands of this program.

mod no_runner;

use carton_core::Error;
use carton_core::errors::{ContentsError, InstallError, PackageError, ShrinkError};

/// Returns what can be done about `error`; `None` if nothing is known.
pub(crate) fn hint(error: &Error) -> Option<String> {
    match error {
        Error::Check { source, .. } => Some(or(hint(source), "`--no-check` packs it without loading it")),
        Error::SignatureMismatch { .. } | Error::SelfTests(_) => {
            Some(or(error.hint(), "`--no-check` packs the model as it is"))
        }
        Error::Reference { source, .. } => hint(source),
        Error::NoSignature => {
            Some("declare them: `--metadata FILE`, a carton.toml with [[input]] and [[output]]".to_owned())
        }
        Error::NoRunner(none) => Some(no_runner::hint(none)),
        Error::Install(error) => match &**error {
            InstallError::NoRunner(none) => Some(no_runner::hint(none)),
            InstallError::NoDigest { .. } => Some("give it: `--sha256 HASH`".to_owned()),
            error => error.hint(),
        },
        Error::Contents(ContentsError::FileLinkRefused { .. })
        | Error::Package(PackageError::Contents(ContentsError::FileLinkRefused { .. })) => Some(
            "a carton on this machine may link to files on this machine with --allow-file-links, or `allow_file_links = true` in the \
             configuration; one on a server never may"
                .to_owned(),
        ),
        Error::Shrink(ShrinkError::NotPacked { .. }) => {
            Some("`sha256sum` tells the SHA-256 of a file; `carton ls --json` those in a carton".to_owned())
        }
        Error::Shrink(ShrinkError::NoneLinked { .. }) => {
            Some("`carton ls --json` shows the SHA-256 of each file".to_owned())
        }
        Error::Signature(error) if error.lacks_inputs() => Some(
            "pass it, or run with `--signature warn` where the model does without it; `carton info` shows what the model expects"
                .to_owned(),
        ),
        Error::Signature(violated) => match violated.castable() {
            Some((input, dtype)) => Some(format!(
                "`--cast` casts `{input}` where no value changes but by rounding; or save it as {dtype}, in NumPy with \
                 `.astype(\"{dtype}\")`"
            )),
            None => error.hint(),
        },
        error => error.hint(),
    }
}

/// Appends an alternative to a hint.
fn or(hint: Option<String>, other: &str) -> String {
    hint.map_or_else(|| other.to_owned(), |hint| format!("{hint}; {other}"))
}
