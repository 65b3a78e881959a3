//! Any bytes as the index of a sharded checkpoint. What is accepted is what a general reader of JSON finds, with names of files alone.

use std::collections::BTreeMap;

use carton_tensor::safetensors::Index;
use serde_json::value::RawValue;

/// Checks these bytes, and says whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(index) = Index::parse(bytes) else { return false };
    assert_eq!(index.iter().count(), index.len());
    for (tensor, file) in index.iter() {
        assert_eq!(index.file_of(tensor), Some(file));
        assert!(index.files().any(|known| known == file));
        assert!(!file.contains(['/', '\\']) && !["", ".", ".."].contains(&file), "{file:?}");
    }
    // Not `Value`, to which one key is special.
    let theirs: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(bytes).expect("only we accept it");
    let theirs: BTreeMap<String, String> = serde_json::from_str(theirs["weight_map"].get()).expect("only we accept it");
    let ours = index.iter().map(|(tensor, file)| (tensor.to_owned(), file.to_owned()));
    assert_eq!(theirs, ours.collect());
    true
}
