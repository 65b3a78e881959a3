//! Any bytes as a carton.toml. What is accepted as that of a carton is the same when it was written and read again, and is a draft too.

use carton_core::metadata::{Draft, Metadata};

/// Checks these bytes, and says whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let metadata = Metadata::from_bytes(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        assert!(metadata.is_err());
        return false;
    };
    let _ = Draft::unknown_keys(text);
    // A draft needs no version, and what only writers must keep is looked at when it is finished.
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
    draft.expect("it was read as a carton's");
    let _ = metadata.oddities();
    let written = metadata.to_toml();
    let again = Metadata::parse(&written).expect("it was written");
    assert!(again == metadata, "{written}");
    assert_eq!(again.to_toml(), written);
    true
}
