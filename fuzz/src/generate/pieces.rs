//! An input that stands for several things: pieces with a byte between them that no text has. And one that stands for text.

/// What lies between two pieces of text.
pub const SEPARATOR: u8 = 0xFF;

/// The text before the first separator, and all that follows it.
pub fn head_and_rest(input: &[u8]) -> (&[u8], &[u8]) {
    match input.iter().position(|&byte| byte == SEPARATOR) {
        Some(position) => (&input[..position], &input[position + 1..]),
        None => (input, &[]),
    }
}

/// The text that an input begins with.
pub fn text_of(input: &[u8]) -> &str {
    input.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}
