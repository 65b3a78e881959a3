//! Patterns of identities.

/// Whether `text` fits a pattern in which `*` stands for any characters, also for none.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(start) = rest.find(part) else { return false };
        rest = &rest[start + part.len()..];
    }
    rest.ends_with(last)
}
