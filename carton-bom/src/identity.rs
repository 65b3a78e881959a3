//! The UUID of a document: the same for the same carton and the same knowledge of it.

use carton_core::Sha256Digest;
use carton_core::package::Inventory;

/// A UUID of version 8 (RFC 9562, section 5.8) of a SHA-256: that of everything that the document is made of, in which the carton's hash is.
pub(crate) fn uuid(inventory: &Inventory, format: &str, time: &str) -> String {
    // The fields of the inventory are in a fixed order, and its maps are sorted.
    let inventory = serde_json::to_vec(inventory).unwrap_or_default();
    let parts: [&[u8]; 4] = [format.as_bytes(), env!("CARGO_PKG_VERSION").as_bytes(), time.as_bytes(), &inventory];
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    let digest = Sha256Digest::of(&bytes).to_string();
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
