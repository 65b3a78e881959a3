//! Arbitrary bytes as the index of a sharded checkpoint. An accepted index equals what a general JSON reader finds, and contains only
//! file names.

use std::collections::BTreeMap;

use carton_tensor::safetensors::ShardIndex;
use serde_json::value::RawValue;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(index) = ShardIndex::parse(bytes) else { return false };
    assert_eq!(index.iter().count(), index.len());
    for (tensor, file) in index.iter() {
        assert_eq!(index.file_of(tensor), Some(file));
        assert!(index.files().any(|known| known == file));
        assert!(!file.contains(['/', '\\']) && !["", ".", ".."].contains(&file), "{file:?}");
    }
    // `Value` gives one key a special meaning, so this uses raw values.
    let theirs: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(bytes).expect("only we accept it");
    let theirs: BTreeMap<String, String> = serde_json::from_str(theirs["weight_map"].get()).expect("only we accept it");
    let ours = index.iter().map(|(tensor, file)| (tensor.to_owned(), file.to_owned()));
    assert_eq!(theirs, ours.collect());
    true
}
