//! Entry points for the fuzz target of what registries send. Other callers reach the parsers only through a request. Only `cargo fuzz` sets
//! `cfg(fuzzing)`, so this is not part of the API.

use super::manifest::{CartonManifest, Referrers};
use crate::http::fuzzing as network;

/// The sizes of the blobs of a carton, in bytes; `None` if the bytes are not the manifest of one.
pub fn carton_manifest(bytes: &[u8]) -> Option<Vec<u64>> {
    let manifest = CartonManifest::parse(bytes).ok()?;
    Some(manifest.files.iter().chain([&manifest.small]).map(|layer| layer.size).collect())
}

/// The number of bundles in a list of referrers. Checks that the list is the same after writing and reading it again.
///
/// # Panics
/// If it is not.
pub fn referrers(bytes: &[u8]) -> Option<usize> {
    let referrers = Referrers::parse(bytes).ok()?;
    let again = Referrers::parse(&referrers.to_bytes()).ok();
    let n_bundles = referrers.bundles().count();
    assert_eq!(again.map(|again| again.bundles().count()), Some(n_bundles));
    Some(n_bundles)
}

/// Whether the bytes are a file of logins. Looks for a login in it.
pub fn logins(bytes: &[u8]) -> bool {
    network::logins(bytes)
}

/// Reads a challenge.
pub fn challenge(bytes: &[u8]) {
    network::challenge(bytes);
}
