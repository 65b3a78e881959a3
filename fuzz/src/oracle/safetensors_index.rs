//! Any bytes as the index of a sharded checkpoint. What is accepted is what a general reader of JSON finds, with names of files alone.

use std::collections::BTreeMap;

use carton_tensor::safetensors::Index;
use serde_json::Value;

/// Checks these bytes, and says whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(index) = Index::parse(bytes) else { return false };
    assert_eq!(index.iter().count(), index.len());
    for (tensor, file) in index.iter() {
        assert_eq!(index.file_of(tensor), Some(file));
        assert!(index.files().any(|known| known == file));
        assert!(!file.contains(['/', '\\']) && !["", ".", ".."].contains(&file), "{file:?}");
    }
    let theirs: Value = match serde_json::from_slice(bytes) {
        Ok(theirs) => theirs,
        // What it gives up on has no value, and belongs to a key that means nothing here.
        Err(error) => {
            let error = error.to_string();
            let of_no_value = ["number out of range", "lone leading surrogate", "unexpected end of hex escape"];
            assert!(of_no_value.iter().any(|reason| error.contains(reason)), "only we accept it: {error}");
            return true;
        }
    };
    let theirs: BTreeMap<&str, &str> = theirs["weight_map"]
        .as_object()
        .expect("it was accepted")
        .iter()
        .map(|(tensor, file)| (tensor.as_str(), file.as_str().expect("it was accepted")))
        .collect();
    assert_eq!(theirs, index.iter().collect());
    true
}
