//! Checks paths of shards in a manifest or an index (spec/dataset.md §3.3). Pure.

/// Whether `path` consists of file and folder names joined by `/`, so that it leads to a place below its base folder on every system.
/// Colons and backslashes are refused because Windows has drives and streams.
pub(crate) fn is_below(path: &str) -> bool {
    let is_name = |name: &str| {
        !matches!(name, "" | "." | "..") && !name.contains(|c: char| matches!(c, '\\' | ':') || c.is_control())
    };
    path.split('/').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below() {
        for path in ["a", "a.safetensors", "a/b", "..a", "a..", "é b/…"] {
            assert!(is_below(path), "{path}");
        }
        for path in ["", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/./b", "C:", "a\\b", "a\0", "a\nb"] {
            assert!(!is_below(path), "{path}");
        }
    }
}
