//! The UUID of a document: the same for the same document, and another one for any other.

use carton_core::Sha256Digest;
use serde_json::Value;

/// A UUID of version 8 (RFC 9562, section 5.8), of the SHA-256 of the rest of the document, in which the carton's hash is.
pub(crate) fn uuid(rest: &Value) -> String {
    let digest = Sha256Digest::of(rest.to_string().as_bytes()).to_string();
    let mut digits: Vec<char> = digest.chars().take(32).collect();
    let variant = digits.get(16).and_then(|digit| digit.to_digit(16)).unwrap_or(0) & 3 | 8;
    for (place, digit) in [(12, '8'), (16, char::from_digit(variant, 16).unwrap_or('8'))] {
        if let Some(old) = digits.get_mut(place) {
            *old = digit;
        }
    }
    let part = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default().iter().collect::<String>();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}
