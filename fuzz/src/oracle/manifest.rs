//! Arbitrary bytes as a MANIFEST. An accepted file is kept byte by byte, every line of it can be found, and its entries make the
//! MANIFEST that is written for them, whatever the order of the lines.

use carton_core::ManifestHash;
use carton_format::manifest::Manifest;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(manifest) = Manifest::parse(bytes) else { return false };
    assert_eq!(manifest.to_bytes(), bytes);
    assert_eq!(manifest.hash(), ManifestHash::of(bytes));
    assert_eq!(manifest.len(), bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count());
    for (path, digest) in manifest.iter() {
        assert_eq!(manifest.get(path), Some(digest));
        let line = format!("{path}={digest}");
        assert!(bytes.split(|&byte| byte == b'\n').any(|found| found == line.as_bytes()), "{line}");
        assert!(!path.starts_with('/') && path.split('/').all(|part| !["", ".", ".."].contains(&part)), "{path}");
    }
    let entries = manifest.iter().map(|(path, digest)| (path.to_owned(), digest));
    let written = Manifest::from_entries(entries).expect("it was read");
    assert!(written.iter().eq(manifest.iter()));
    true
}
