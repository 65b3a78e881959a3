//! Splits an input into pieces at a byte that does not occur in text, and extracts its text.

/// The separator between two pieces.
pub const SEPARATOR: u8 = 0xFF;

/// Splits an input into the bytes before the first separator and those after it.
pub fn head_and_rest(input: &[u8]) -> (&[u8], &[u8]) {
    match input.iter().position(|&byte| byte == SEPARATOR) {
        Some(position) => (&input[..position], &input[position + 1..]),
        None => (input, &[]),
    }
}

/// Returns the longest valid UTF-8 text at the start of an input.
pub fn text_of(input: &[u8]) -> &str {
    input.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}
