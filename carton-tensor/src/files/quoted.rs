//! Names from files in messages.

use std::fmt;

/// Quotes a name from a file for display: escapes control characters and shortens long names.
pub(crate) fn quoted(name: &str) -> impl fmt::Display {
    const SHOWN: usize = 200;
    let shown: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    let rest = name.chars().skip(SHOWN).count();
    if rest == 0 { format!("`{shown}`") } else { format!("`{shown}…` and {rest} more characters") }
}
