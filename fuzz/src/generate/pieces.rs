//! An input that stands for several things: pieces with a byte between them that no text has.

/// What lies between two pieces of text.
pub const SEPARATOR: u8 = 0xFF;

/// The text before the first separator, and all that follows it.
pub fn head_and_rest(input: &[u8]) -> (&[u8], &[u8]) {
    match input.iter().position(|&byte| byte == SEPARATOR) {
        Some(position) => (&input[..position], &input[position + 1..]),
        None => (input, &[]),
    }
}
