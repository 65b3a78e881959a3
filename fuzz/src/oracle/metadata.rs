//! Arbitrary bytes as a carton.toml. If it is accepted as that of a carton, it is the same after writing and reading it again, and is
//! also a valid draft.

use carton_core::metadata::{Draft, Metadata, Oddity};

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let metadata = Metadata::from_bytes(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        assert!(metadata.is_err());
        return false;
    };
    // A draft needs no version. Rules that only writers must keep are checked when the draft is completed.
    let draft = Draft::parse(text);
    if let Ok(draft) = draft.as_ref().map(Clone::clone)
        && let Ok(valid) = draft.validate()
    {
        let written = valid.to_toml();
        let again = Metadata::parse(&written).expect("it was written");
        assert!(again == valid, "{written}");
        assert!(again.oddities().is_empty(), "{written}");
    }
    let Ok(metadata) = metadata else { return false };
    // What is ignored in the card of a carton is refused in a draft, and is not written.
    let is_ignored = metadata.oddities().iter().any(|oddity| matches!(oddity, Oddity::CardIgnored { .. }));
    assert!(is_ignored || draft.is_ok(), "it was read as a carton's");
    let written = metadata.to_toml();
    let again = Metadata::parse(&written).expect("it was written");
    assert!(if is_ignored { again.card() == metadata.card() } else { again == metadata }, "{written}");
    assert_eq!(again.to_toml(), written);
    true
}
