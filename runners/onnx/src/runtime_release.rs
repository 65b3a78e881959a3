//! The release of ONNX Runtime that a model needs: the first that loads its operator sets and its version of the file format.
//!
//! The tables were read off the releases on PyPI, by loading a model of each operator set and each version of the format.

use crate::model_file::ModelFile;

/// The oldest release that this runner loads (the version of the C API that the bindings ask for).
pub(crate) const OLDEST: [u64; 2] = [1, 24];

/// A release, and what it was the first to load.
struct Release {
    version: [u64; 2],
    /// The newest operator set of `ai.onnx`.
    operator_set: u64,
    /// The newest operator set of `ai.onnx.ml`.
    machine_learning_set: u64,
    /// The newest version of the file format.
    ir_version: u64,
}

/// The releases that load something that the one before does not, oldest first.
const RELEASES: [Release; 3] = [
    Release { version: OLDEST, operator_set: 25, machine_learning_set: 5, ir_version: 13 },
    Release { version: [1, 25], operator_set: 26, machine_learning_set: 5, ir_version: 13 },
    Release { version: [1, 32], operator_set: 28, machine_learning_set: 5, ir_version: 14 },
];

/// Returns the requirement on the framework version for a carton with this model: at least the first release that loads it, below 2.
///
/// What is newer than every release in the table requires a release newer than all of them, so that no runner claims a model
/// that it cannot load. Domains other than ONNX's own require nothing: the library says at load what it lacks.
pub(crate) fn requirement_of(file: &ModelFile) -> String {
    let set = |domain: &str| file.operator_sets.get(domain).copied().unwrap_or(0);
    let (operator_set, machine_learning_set) = (set(""), set("ai.onnx.ml"));
    let first = RELEASES.iter().find(|release| {
        operator_set <= release.operator_set
            && machine_learning_set <= release.machine_learning_set
            && file.ir_version <= release.ir_version
    });
    let [major, minor] = match (first, RELEASES.last()) {
        (Some(release), _) => release.version,
        (None, Some(Release { version: [major, minor], .. })) => [*major, minor + 1],
        (None, None) => OLDEST,
    };
    format!(">={major}.{minor}.0, <2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements() {
        let check = |sets: &[(&str, u64)], ir_version: u64, expected: &str| {
            let operator_sets = sets.iter().map(|(domain, version)| ((*domain).to_owned(), *version)).collect();
            let file = ModelFile { operator_sets, ir_version, ..ModelFile::default() };
            assert_eq!(requirement_of(&file), expected, "{sets:?}");
        };
        check(&[("", 1)], 3, ">=1.24.0, <2");
        check(&[("", 25), ("ai.onnx.ml", 5), ("com.microsoft", 99)], 13, ">=1.24.0, <2");
        check(&[("", 26)], 10, ">=1.25.0, <2");
        check(&[("", 27)], 10, ">=1.32.0, <2");
        check(&[("", 28)], 14, ">=1.32.0, <2");
        check(&[("", 17)], 14, ">=1.32.0, <2");
        check(&[("", 29)], 10, ">=1.33.0, <2");
        check(&[("", 17), ("ai.onnx.ml", 6)], 10, ">=1.33.0, <2");
        check(&[("", u64::MAX)], u64::MAX, ">=1.33.0, <2");
        check(&[("com.example", 99)], 10, ">=1.24.0, <2");
    }

    #[test]
    fn the_table_is_in_order() {
        for pair in RELEASES.windows(2) {
            let [before, after] = pair else { continue };
            assert!(before.version < after.version && before.operator_set <= after.operator_set);
        }
    }
}
