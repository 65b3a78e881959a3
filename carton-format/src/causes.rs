//! Formats an error chain as text.

use std::error::Error;

/// An error and its causes in one line: `cannot read \`x\`: permission denied`.
pub fn in_one_line(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A message of the TOML or JSON reader that names the type of the offending value, but not the value, which may be a secret.
pub fn without_value(message: &str) -> String {
    let found = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match found.and_then(|found| found.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            let kind = found.split(['`', '"']).next().unwrap_or_default().trim();
            format!("expected {expected}, found {kind}")
        }
        None => message.to_owned(),
    }
}
