//! Hints: what the user can do about an error. Expresses the library's hints in options and commands of this program.

mod no_runner;

use carton_core::sandbox::{Limits, SuspectedLimit};
use carton_core::{Advice, Error, ErrorKind};

use crate::text::shell_word;

/// Returns what can be done about `error`; `None` if nothing is known.
pub(crate) fn hint(error: &Error) -> Option<String> {
    let hint = match (error.no_runner(), error.advice()) {
        // Nothing else is to be done before.
        (_, Some(Advice::RaiseLimits(limits))) => return Some(limits_hint(&limits)),
        (Some(none), _) => Some(no_runner::hint(none)),
        (None, advice) => advice.map(expressed),
    };
    match error.kind() {
        ErrorKind::SelfTest | ErrorKind::SignatureMismatch => Some(or(hint, "`--no-check` packs the model as it is")),
        _ if error.is_of_check() => Some(or(hint, "`--no-check` packs it without loading it")),
        _ => hint,
    }
}

/// Returns an advice in options and commands of this program.
fn expressed(advice: Advice) -> String {
    let text = match advice {
        Advice::RaiseLimits(limits) => return limits_hint(&limits),
        Advice::OfRunner(hint) => return with_option(&hint),
        Advice::FreeSpace => "make room; `carton cache prune` deletes unused entries",
        Advice::DeclareInputs => {
            "name them, as in NAME=VALUE, or declare them: `--metadata FILE`, a carton.toml with [[input]]"
        }
        Advice::DeclareOutputs => {
            "declare [[output]] in the metadata, or record a self-test: `--record-self-test INPUT=FILE`"
        }
        Advice::TrustSomebody => "name whom you trust: `--key PUB.pem`, or a [[trust]] rule of the configuration",
        Advice::PassDigest => "give it: `--sha256 HASH`",
        Advice::Reinstall { runner } => {
            let runner = shell_word(&runner);
            return format!("install it again, with the library that is there now: `carton runner install {runner}`");
        }
        Advice::InstallWithLibrary { runner, version } => {
            let runner = shell_word(&format!("{runner}@={version}"));
            return format!("`carton runner install {runner}` finds it, and asks before it downloads anything");
        }
        Advice::ListRunners => "`carton runner ls` shows what is installed",
        Advice::ListCache => "`carton cache ls` lists those that are there",
        Advice::PassTensor => {
            "make a tensor of the file, as the model needs it, and pass that: `carton unpack` gets the file"
        }
        Advice::SplitInput => {
            "pass the input in parts, or use a runner that supports shared memory, as the built-in runners do"
        }
        Advice::AllowFileLinks => {
            "a carton on this machine may link to files on this machine with --allow-file-links, or `allow_file_links = true` in the \
             configuration; one on a server never may"
        }
        Advice::AllowReading(path) if path.parent().is_some() => {
            let option = shell_word(&format!("read={}", path.display()));
            return format!(
                "if that is meant, `--allow {option}` lets the model read it, or name a folder that has all that the links lead to; or put a \
                 copy in place of the link"
            );
        }
        Advice::LookUpDigests { in_carton: false } => {
            "`sha256sum` prints the SHA-256 of a file; `carton ls --json` lists those in a carton"
        }
        Advice::LookUpDigests { in_carton: true } => "`carton ls --json` shows the SHA-256 of each file",
        Advice::LowerMinSize => "leave out smaller files too: --min-size SIZE",
        Advice::PassInput => {
            "pass it, or run with `--signature-mode warn` where the model does without it; `carton info` shows what the model expects"
        }
        Advice::DeclareBools { how, castable: true } => {
            return format!("{how}; if the model takes 0 and 1 as numbers, `--cast` makes these of it");
        }
        Advice::CastInput { input, .. } => {
            return format!("`--cast` casts `{input}` where no value changes but by rounding");
        }
        Advice::ReadSignature => "`carton info` shows what the carton declares",
        Advice::WaiveSignature => {
            "`carton info` shows what the carton declares; where it declares the wrong thing, `--signature-mode warn` runs the model anyway"
        }
        Advice::RelaxSandbox => "`--sandbox on` enforces what this system has",
        advice => return advice.to_string(),
    };
    text.to_owned()
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
    use super::*;

    #[test]
    fn advice_is_expressed_in_commands() {
        assert!(expressed(Advice::FreeSpace).contains("`carton cache prune`"));
        let library = Advice::InstallWithLibrary { runner: "t".to_owned(), version: "1.2.0".to_owned() };
        assert!(expressed(library).starts_with("`carton runner install t@=1.2.0` finds it"));
        let network = Advice::OfRunner("allow the network, if the model may have it".to_owned());
        assert_eq!(expressed(network), "allow the network (`--allow network`), if the model may have it");
    }

    /// The library does not know the commands of this program.
    #[test]
    fn advice_of_the_library_names_no_commands() {
        for advice in [Advice::FreeSpace, Advice::SplitInput, Advice::ListRunners, Advice::ListCache] {
            assert!(!advice.to_string().contains("`carton "), "{advice}");
            assert_ne!(advice.to_string(), expressed(advice));
        }
    }
}
