//! Arbitrary bytes as the lock of a Python model's packages. An accepted lock is the same as itself, and all of its packages are new beside an
//! empty one; what is shown of them has no character that a terminal or a page would take for something else.

use carton_core::internals::requirements_lock::compare;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(added) = compare(b"", bytes) else { return false };
    assert_eq!(compare(bytes, bytes), Ok(Vec::new()));
    let removed = compare(bytes, b"").expect("both are locks");
    assert_eq!(added.len(), removed.len());
    for (added, removed) in added.iter().zip(&removed) {
        assert!(added.a.is_empty() && !added.b.is_empty() && added.b == removed.a && added.name == removed.name);
        let texts = added.b.iter().chain([&added.name]).chain(&added.marker);
        assert!(texts.flat_map(|text| text.bytes()).all(|byte| (b' '..=b'~').contains(&byte)));
    }
    true
}
