//! Arbitrary bytes as what a registry sends and as what names an artifact: a manifest, a list of referrers, a challenge, a file of logins, and
//! the text of names. What is accepted is the same after it was written and read again, and shows no more than it should.

use carton_core::hub::HubName;
use carton_core::registry::Reference;
use carton_network::oci::fuzzing;

/// Checks these bytes. Returns whether they are accepted as any of these.
pub fn check(bytes: &[u8]) -> bool {
    let mut is_accepted = false;
    if let Some(sizes) = fuzzing::carton_manifest(bytes) {
        is_accepted = true;
        // Sums of sizes that a registry states must not overflow where they are added up.
        let _ = sizes.iter().fold(0_u64, |sum, size| sum.saturating_add(*size));
    }
    is_accepted |= fuzzing::referrers(bytes).is_some();
    is_accepted |= fuzzing::logins(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return is_accepted };
    if let Ok(reference) = text.parse::<Reference>() {
        is_accepted = true;
        let again: Reference = reference.to_string().parse().expect("it was written");
        assert_eq!(again, reference);
        assert!(!reference.repository().contains("..") && !reference.host().contains(['/', '@', '%']));
    }
    if let Ok(name) = text.parse::<HubName>() {
        is_accepted = true;
        let again: HubName = name.to_string().parse().expect("it was written");
        assert_eq!(again, name);
        assert!(name.file().is_none_or(|file| file.split('/').all(|part| !matches!(part, "" | "." | ".."))));
    }
    fuzzing::challenge(bytes);
    is_accepted
}
