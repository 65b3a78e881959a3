//! What lies behind an error, in words.

use std::error::Error;

/// An error and its causes in one line: `cannot read \`x\`: permission denied`.
pub(crate) fn in_one_line(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
