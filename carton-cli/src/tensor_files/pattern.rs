//! Patterns of tensor names: `*` stands for any characters, also none.

/// Whether one of the patterns is that of `name`.
pub(crate) fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, mut rest_of_pattern)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    // Each part between two stars is taken where it comes first; the last one must end the name.
    while let Some((part, behind)) = rest_of_pattern.split_once('*') {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
        rest_of_pattern = behind;
    }
    rest.ends_with(rest_of_pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        let check =
            |pattern: &str, name: &str, expected| assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        check("a", "a", true);
        check("a", "ab", false);
        check("*", "", true);
        check("layers.*", "layers.0.w", true);
        check("layers.*.w", "layers.0.w", true);
        check("layers.*.w", "layers.0.b", false);
        check("*a*a", "aa", true);
        check("*a*a", "a", false);
        check("a*a", "a", false);
        check("a*b*c", "a-b-b-c", true);
        check("", "a", false);
    }
}
