//! The ONNX release that introduced each operator set (the ONNX document "Versioning", table of released versions).

use std::collections::BTreeMap;

/// Operator sets of the default domain `ai.onnx` and the first ONNX release that has them, oldest first.
///
/// Releases before 1.2 have operator sets 1 to 6; current readers of models do not distinguish them.
const DEFAULT_DOMAIN: [(u64, &str); 28] = [
    (1, "1.0.0"),
    (2, "1.0.0"),
    (3, "1.0.0"),
    (4, "1.0.0"),
    (5, "1.1.0"),
    (6, "1.1.2"),
    (7, "1.2.0"),
    (8, "1.3.0"),
    (9, "1.4.1"),
    (10, "1.5.0"),
    (11, "1.6.0"),
    (12, "1.7.0"),
    (13, "1.8.0"),
    (14, "1.9.0"),
    (15, "1.10.0"),
    (16, "1.11.0"),
    (17, "1.12.0"),
    (18, "1.13.0"),
    (19, "1.14.0"),
    (20, "1.15.0"),
    (21, "1.16.0"),
    (22, "1.17.0"),
    (23, "1.18.0"),
    (24, "1.19.0"),
    (25, "1.20.0"),
    (26, "1.21.0"),
    (27, "1.22.0"),
    (28, "1.23.0"),
];

/// The same for the domain `ai.onnx.ml`.
const MACHINE_LEARNING_DOMAIN: [(u64, &str); 5] =
    [(1, "1.0.0"), (2, "1.6.0"), (3, "1.11.0"), (4, "1.15.0"), (5, "1.16.0")];

/// Returns the requirement on the framework version for a carton whose model imports `opset` of the default domain:
/// at least the ONNX release that introduced it, below 2.
///
/// An operator set newer than this table requires a release newer than every release in it, so that no runner claims a model
/// with an operator set that it does not know.
///
/// ```
/// assert_eq!(carton_runner_onnx::recommended_requirement(17), ">=1.12.0, <2");
/// assert_eq!(carton_runner_onnx::recommended_requirement(0), ">=1.0.0, <2");
/// assert_eq!(carton_runner_onnx::recommended_requirement(29), ">=1.24.0, <2");
/// ```
#[must_use]
pub fn recommended_requirement(opset: u64) -> String {
    format!(">={}, <2", release_of(opset))
}

/// Returns the requirement for a model that imports several operator sets, by domain: that of the set that was introduced
/// last. Domains other than ONNX's own require nothing.
pub(crate) fn requirement_of(operator_sets: &BTreeMap<String, u64>) -> String {
    let of_default = release_of(operator_sets.get("").copied().unwrap_or(0));
    let of_machine_learning = operator_sets
        .get("ai.onnx.ml")
        .and_then(|opset| MACHINE_LEARNING_DOMAIN.iter().find(|(known, _)| known >= opset))
        .map(|(_, release)| (*release).to_owned());
    let newest = of_machine_learning.into_iter().chain([of_default]).max_by_key(|release| order(release));
    format!(">={}, <2", newest.unwrap_or_default())
}

/// The numbers of a release, for comparison.
fn order(release: &str) -> Vec<u64> {
    release.split('.').filter_map(|part| part.parse().ok()).collect()
}

/// The first ONNX release with `opset` of the default domain.
fn release_of(opset: u64) -> String {
    if let Some((_, release)) = DEFAULT_DOMAIN.iter().find(|(known, _)| *known >= opset) {
        return (*release).to_owned();
    }
    // Since 1.2 each minor release has brought one operator set.
    let newest = DEFAULT_DOMAIN.len() as u64;
    format!("1.{}.0", 23 + opset.saturating_sub(newest).min(10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        for (opset, release) in
            [(1, "1.0.0"), (8, "1.3.0"), (13, "1.8.0"), (21, "1.16.0"), (26, "1.21.0"), (28, "1.23.0")]
        {
            assert_eq!(release_of(opset), release, "opset {opset}");
        }
        assert_eq!(release_of(30), "1.25.0");
        assert_eq!(release_of(u64::MAX), "1.10023.0");
    }

    #[test]
    fn several_domains() {
        let check = |sets: &[(&str, u64)], expected: &str| {
            let sets = sets.iter().map(|(domain, version)| ((*domain).to_owned(), *version)).collect();
            assert_eq!(requirement_of(&sets), expected);
        };
        check(&[("", 17)], ">=1.12.0, <2");
        check(&[("", 9), ("ai.onnx.ml", 3)], ">=1.11.0, <2");
        check(&[("", 21), ("ai.onnx.ml", 1), ("com.microsoft", 1)], ">=1.16.0, <2");
        check(&[("ai.onnx.ml", 2)], ">=1.6.0, <2");
        check(&[("com.example", 99)], ">=1.0.0, <2");
    }

    #[test]
    fn table_is_complete_and_in_order() {
        for (position, (opset, _)) in DEFAULT_DOMAIN.iter().enumerate() {
            assert_eq!(*opset, position as u64 + 1);
        }
    }
}
