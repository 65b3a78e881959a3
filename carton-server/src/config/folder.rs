//! Finds the cartons of a folder: `NAME.carton`, `NAME/VERSION.carton`, and unpacked ones in the same places.

use std::io;
use std::path::{Path, PathBuf};

/// A carton in a folder of cartons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundCarton {
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) path: PathBuf,
}

/// Lists the cartons of `folder`, sorted by name and version. Hidden files, and what is no carton by its name, are left out.
pub(super) fn cartons(folder: &Path) -> io::Result<Vec<FoundCarton>> {
    let mut found = Vec::new();
    for (name, path) in entries(folder)? {
        if let Some(name) = carton_name(&name, &path) {
            found.push(FoundCarton { name, version: None, path });
        } else if path.is_dir() {
            let versions =
                entries(&path)?.into_iter().filter_map(|(file, path)| Some((carton_name(&file, &path)?, path)));
            found.extend(versions.map(|(version, path)| FoundCarton {
                name: name.clone(),
                version: Some(version),
                path,
            }));
        }
    }
    Ok(found)
}

fn entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // A name of a URL is text.
        if let Some(name) = entry.file_name().to_str().filter(|name| !name.starts_with('.')) {
            entries.push((name.to_owned(), entry.path()));
        }
    }
    entries.sort();
    Ok(entries)
}

/// The name of a carton, without `.carton`. An unpacked one is a folder with metadata.
fn carton_name(file: &str, path: &Path) -> Option<String> {
    match file.strip_suffix(".carton") {
        Some(name) if !name.is_empty() => Some(name.to_owned()),
        _ => path.join("carton.toml").is_file().then(|| file.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_and_versions() {
        let folder = tempfile::tempdir().unwrap();
        for path in
            ["b.carton", "a/1.carton", "a/2.carton", "a/notes.txt", ".hidden.carton", "unpacked/carton.toml", "x.txt"]
        {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = cartons(folder.path()).unwrap();
        let found: Vec<_> = found.iter().map(|carton| (carton.name.as_str(), carton.version.as_deref())).collect();
        assert_eq!(found, [("a", Some("1")), ("a", Some("2")), ("b", None), ("unpacked", None)]);
        assert!(cartons(&folder.path().join("none")).is_err());
    }
}
