//! Arbitrary bytes as the manifest of a dataset. An accepted manifest is consistent, and the same after writing and reading it again.

use std::path::{Component, Path};

use carton_dataset::Manifest;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(manifest) = Manifest::parse(bytes) else { return false };
    assert!(std::str::from_utf8(bytes).is_ok());
    let sum = |number: fn(&carton_dataset::Shard) -> u64| manifest.shards().iter().map(number).sum::<u64>();
    assert_eq!(manifest.total_samples(), sum(|shard| shard.samples_count));
    assert_eq!(manifest.total_bytes(), sum(|shard| shard.bytes));
    for (position, shard) in manifest.shards().iter().enumerate() {
        assert_eq!(manifest.position(&shard.shard_path), Some(position));
        let path = Path::new(&shard.shard_path);
        assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
    }
    let written = manifest.to_json().expect("it was read");
    let again = Manifest::parse(&written).expect("it was written");
    assert_eq!(again, manifest);
    assert_eq!(again.to_json().expect("it was read"), written);
    if let Ok(new) = Manifest::new(manifest.shards().to_vec(), manifest.schema().clone()) {
        assert!(new.shards() == manifest.shards() && new.schema() == manifest.schema());
    }
    true
}
