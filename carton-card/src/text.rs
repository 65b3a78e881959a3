//! Short forms of values: numbers, shapes, sizes, texts that are too long.

use std::borrow::Cow;

use carton_core::{Dimension, SymbolicShape};

/// Formats a number with four significant digits.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..15).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = usize::try_from(3 - magnitude).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Formats a declared shape: `[batch, 64]`, `any shape`.
pub(crate) fn declared_shape(shape: &SymbolicShape) -> String {
    match shape {
        SymbolicShape::Any => "any shape".to_owned(),
        SymbolicShape::Symbol(symbol) => format!("shape {symbol}"),
        SymbolicShape::Dimensions(dimensions) if dimensions.is_empty() => "scalar".to_owned(),
        SymbolicShape::Dimensions(dimensions) => {
            let sizes = dimensions.iter().map(|dimension| match dimension {
                Dimension::Any => "*".to_owned(),
                Dimension::Symbol(symbol) => symbol.clone(),
                Dimension::Fixed(size) => size.to_string(),
            });
            format!("[{}]", sizes.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Formats the shape of a tensor: `[2, 3]`, `scalar`.
pub(crate) fn shape(shape: &[usize]) -> String {
    match shape {
        [] => "scalar".to_owned(),
        _ => format!("{shape:?}"),
    }
}

/// Formats a size: `1.4 MiB`.
pub(crate) fn byte_size(n_bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n_bytes < 1024 {
        return format!("{n_bytes} B");
    }
    let mut size = n_bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while size >= 1023.95 {
        let Some(next) = units.next() else { break };
        size /= 1024.0;
        unit = Some(next);
    }
    format!("{size:.1} {}", unit.unwrap_or(&""))
}

/// The text, with an ellipsis in place of what is beyond `limit` characters.
pub(crate) fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// As [`cut`], with a sign in place of control characters, but for line ends and tabs, and of those that change the direction in which text is
/// read.
pub(crate) fn cut_plain(text: &str, limit: usize) -> String {
    let is_harmful = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    cut(text, limit).chars().map(|c| if is_harmful(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(cut_plain("a\u{1b}[2J\tb\u{202e}c\u{2066}d", 8), "a\u{fffd}[2J\tb\u{fffd}…");
    }

    #[test]
    fn numbers_have_four_digits() {
        let check = |value, expected| assert_eq!(number(value), expected);
        check(0.0, "0");
        check(1.0, "1");
        check(-0.123_456, "-0.1235");
        check(1234.5678, "1235");
        check(16_777_216.0, "16777216");
        check(0.000_001_234, "1.234e-6");
        check(1e300, "1.000e300");
        check(f64::NAN, "NaN");
        check(f64::NEG_INFINITY, "-inf");
    }

    #[test]
    fn sizes_have_units() {
        let check = |n_bytes, expected| assert_eq!(byte_size(n_bytes), expected);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1024, "1.0 KiB");
        check((1 << 20) - 1, "1.0 MiB");
        check(u64::MAX, "16384.0 PiB");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äöü…");
    }
}
