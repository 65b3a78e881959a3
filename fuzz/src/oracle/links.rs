//! Arbitrary bytes as a LINKS file. An accepted file is the same after writing and reading it again, and after merging it with itself.

use carton_core::Links;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(links) = Links::parse(bytes) else { return false };
    for (digest, urls) in links.iter() {
        assert!(!urls.is_empty());
        assert_eq!(links.urls(digest), urls);
    }
    let written = links.to_bytes();
    let again = Links::parse(&written).expect("it was written");
    assert!(again == links, "{}", String::from_utf8_lossy(&written));
    assert_eq!(again.to_bytes(), written);
    assert!(links.clone().merged(&links) == links);
    let _ = format!("{links:?}");
    true
}
