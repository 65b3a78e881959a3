//! Arbitrary bytes as a `runner.toml`. The paths of an accepted untrusted descriptor stay in its folder. Such a descriptor is also
//! accepted from the user, and is the same after writing and reading it again.

use std::path::{Component, Path};

use carton_core::internals::runner::parse;
use carton_core::runner::{Descriptor, ExecutablePaths};
use serde_json::json;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let folder = Path::new("/runners/one");
    let anywhere = parse(text, folder, ExecutablePaths::Anywhere);
    let Ok(runners) = parse(text, folder, ExecutablePaths::InFolder) else { return false };
    assert_eq!(anywhere.expect("less was accepted"), runners);
    for runner in &runners {
        let path = runner.runner_path.strip_prefix(folder).expect("it is in the folder");
        assert!(path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)));
        assert!(runner.is_same_runner(runner));
    }
    // TOML is never read with numbers that TOML cannot hold, so writing succeeds.
    let written = toml::to_string(&json!({ "version": 1, "runner": runners })).expect("it was read");
    let again = parse(&written, Path::new("/"), ExecutablePaths::Anywhere).expect("it was written");
    let same = |(one, other): (&Descriptor, &Descriptor)| one == other;
    assert!(again.len() == runners.len() && again.iter().zip(&runners).all(same), "{written}");
    true
}
