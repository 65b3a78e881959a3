//! Names and numbers in messages.

use std::fmt::Display;

/// Formats a name for a line of text: without control characters, and truncated.
#[must_use]
pub fn shown_name(name: &str) -> String {
    const LONGEST: usize = 100;
    let mut shown: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// The first names of a list, in backticks, and whether there are more.
pub(crate) fn shown_names<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    const SHOWN: usize = 5;
    let mut names = names.into_iter();
    let shown: Vec<String> = names.by_ref().take(SHOWN).map(shown_name).collect();
    let more = if names.next().is_some() { " and others" } else { "" };
    format!("`{}`{more}", shown.join("`, `"))
}

/// `1 tensor`, `2 tensors`.
pub(crate) fn count<N: PartialEq + From<u8> + Display>(number: N, singular: &str) -> String {
    if number == N::from(1) { format!("1 {singular}") } else { format!("{number} {singular}s") }
}
