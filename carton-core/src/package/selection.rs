//! Decides which files of a folder belong to a model: all but those that no model needs, those of `.cartonignore`, and those that the user
//! excludes. The syntax is that of `.gitignore`.

use std::fs;
use std::path::Path;

use carton_format::context::Context;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::Serialize;

use super::PackageError;

/// The file in a model's folder that says what is not packed. It is not packed either.
pub(crate) const IGNORE_FILE: &str = ".cartonignore";
/// The largest such file, in bytes.
const MAX_IGNORE_FILE: u64 = 1 << 20;

/// What no model needs: histories, caches, and what editors and systems leave.
const DEFAULTS: [&str; 20] = [
    "/.cartonignore",
    ".git",
    ".hg",
    ".svn",
    "__pycache__/",
    ".ipynb_checkpoints/",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".tox/",
    ".nox/",
    ".venv/",
    "wandb/",
    "mlruns/",
    "/.cache/huggingface/",
    ".idea/",
    ".vscode/",
    ".DS_Store",
    "Thumbs.db",
    "desktop.ini",
];

/// Which files of a model are packed. The default is all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    rules: Option<Gitignore>,
    /// The folder in the model that the rules are for: empty, or the name under which a template has the user's folder.
    within: String,
    /// The patterns that the user gave beside the folder.
    exclude: Vec<String>,
}

/// A file or folder that is not packed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NotPacked {
    /// Its path in the model.
    pub path: String,
    /// The number of files.
    pub n_files: u64,
    /// The size of them all, in bytes.
    pub n_bytes: u64,
}

impl Selection {
    /// Reads the rules for the folder `model`: the defaults, then its `.cartonignore`, then `exclude`. A later rule decides, and one that
    /// begins with `!` keeps what an earlier one leaves out. A file has no rules, and nothing can be excluded of it.
    ///
    /// # Errors
    /// `.cartonignore` cannot be read; a pattern is malformed.
    pub(crate) fn of(model: &Path, exclude: &[String]) -> Result<Self, PackageError> {
        if !model.is_dir() {
            return match exclude.first() {
                Some(pattern) => {
                    Err(PackageError::NothingToExclude { path: model.to_path_buf(), pattern: pattern.clone() })
                }
                None => Ok(Self::default()),
            };
        }
        let place = model.join(IGNORE_FILE);
        let mut builder = GitignoreBuilder::new("");
        let mut add = |from: &Path, line: &str| {
            builder.add_line(None, line).map(drop).map_err(|source| PackageError::IgnorePattern {
                place: from.to_path_buf(),
                pattern: line.to_owned(),
                problem: source.to_string(),
            })
        };
        for line in DEFAULTS {
            add(Path::new("the defaults"), line)?;
        }
        if let Some(text) = read_ignore_file(&place)? {
            for line in text.strip_prefix('\u{feff}').unwrap_or(&text).lines() {
                add(&place, line)?;
            }
        }
        for line in exclude {
            add(Path::new("--exclude"), line)?;
        }
        let rules = builder.build().map_err(|source| PackageError::IgnorePattern {
            place,
            pattern: String::new(),
            problem: source.to_string(),
        })?;
        Ok(Self { rules: Some(rules), within: String::new(), exclude: exclude.to_vec() })
    }

    /// Returns these rules for a model that has the user's folder as its folder `name`.
    #[must_use]
    pub(crate) fn within(mut self, name: &str) -> Self {
        self.within = name.to_owned();
        self
    }

    /// Returns the path in the user's folder of the file at `path` in the model.
    pub(crate) fn in_given_folder<'a>(&self, path: &'a str) -> &'a str {
        let inner = path.strip_prefix(&self.within).filter(|_| !self.within.is_empty());
        inner.and_then(|path| path.strip_prefix('/')).unwrap_or(path)
    }

    /// Whether a file of the user's folder is packed.
    pub(crate) fn keeps(&self, name: &str) -> bool {
        self.rules.as_ref().is_none_or(|rules| !rules.matched(name, false).is_ignore())
    }

    /// The patterns given beside the folder that leave nothing of it out, where `left_out` are all paths in the model that are.
    pub(crate) fn idle<'a>(&self, left_out: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let decided_by = |path: &str| {
            let path = self.in_given_folder(path);
            let (path, is_folder) = path.strip_suffix('/').map_or((path, false), |path| (path, true));
            let decided = self.rules.as_ref()?.matched(path, is_folder);
            decided.inner().map(|pattern| pattern.original().to_owned())
        };
        let used: Vec<String> = left_out.into_iter().filter_map(decided_by).collect();
        let is_idle = |pattern: &&String| !pattern.starts_with(['!', '#']) && !used.contains(pattern);
        self.exclude.iter().filter(is_idle).cloned().collect()
    }

    /// Whether the file or folder at `path`, relative to the model, is not packed. Of the folders above it, none may be left out.
    pub(super) fn leaves_out(&self, path: &Path, is_folder: bool) -> bool {
        let Some(rules) = &self.rules else { return false };
        path.strip_prefix(&self.within)
            .is_ok_and(|path| !path.as_os_str().is_empty() && rules.matched(path, is_folder).is_ignore())
    }
}

fn read_ignore_file(place: &Path) -> Result<Option<String>, PackageError> {
    if fs::symlink_metadata(place).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    // A link that leads to nothing is there.
    let metadata = fs::metadata(place).map_err(PackageError::io("open", place))?;
    if !metadata.is_file() || metadata.len() > MAX_IGNORE_FILE {
        return Err(PackageError::IgnoreFile { path: place.to_path_buf(), limit: MAX_IGNORE_FILE });
    }
    fs::read_to_string(place).map(Some).map_err(PackageError::io("read", place))
}

/// Measures what is left out at `path`: the files of a folder, without following links. What cannot be read counts nothing.
pub(crate) fn measure(name: String, path: &Path, context: &Context) -> Result<NotPacked, PackageError> {
    let mut measured = NotPacked { path: name, n_files: 0, n_bytes: 0 };
    let mut to_visit = vec![path.to_path_buf()];
    while let Some(path) = to_visit.pop() {
        context.check()?;
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if !metadata.is_dir() {
            measured.n_files += 1;
            measured.n_bytes += metadata.len();
            continue;
        }
        let entries = fs::read_dir(&path).into_iter().flatten();
        to_visit.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn selection(ignore_file: &str, exclude: &[&str]) -> Result<Selection, PackageError> {
        let folder = tempfile::tempdir().unwrap();
        if !ignore_file.is_empty() {
            fs::write(folder.path().join(IGNORE_FILE), ignore_file).unwrap();
        }
        Selection::of(folder.path(), &exclude.iter().map(|&pattern| pattern.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn later_rules_decide() {
        let check = |rules: &Selection, path: &str, expected: bool| {
            let (path, is_folder) = path.strip_suffix('/').map_or((path, false), |path| (path, true));
            assert_eq!(rules.leaves_out(Path::new(path), is_folder), expected, "{path}");
        };
        let rules = selection("# notes\n*.log\n!keep.log\n/data/\n!wandb/\n", &["*.tmp", "!b.tmp"]).unwrap();
        check(&rules, "a.log", true);
        check(&rules, "deep/er/a.log", true);
        check(&rules, "keep.log", false);
        check(&rules, "data/", true);
        check(&rules, "inner/data/", false);
        check(&rules, "data", false);
        check(&rules, ".git/", true);
        check(&rules, "inner/.git", true);
        check(&rules, "__pycache__/", true);
        check(&rules, "wandb/", false);
        check(&rules, ".cartonignore", true);
        check(&rules, "inner/.cartonignore", false);
        check(&rules, "a.tmp", true);
        check(&rules, "b.tmp", false);
        check(&rules, "weights.bin", false);
        let idle = |rules: &Selection| rules.idle(["a.log", ".git/", "a.tmp"]);
        assert_eq!(idle(&rules), Vec::<String>::new());
        assert_eq!(idle(&selection("", &["*.tmp", "./b", "[", "!c"]).unwrap()), ["./b", "["]);
        assert!(rules.keeps("README.md") && !rules.keeps("README.log"));
        let inner = rules.within("mlmodel");
        assert_eq!(inner.in_given_folder("mlmodel/a.log"), "a.log");
        assert_eq!(inner.in_given_folder("mlmodels/a.log"), "mlmodels/a.log");
        check(&inner, "mlmodel/a.log", true);
        check(&inner, "a.log", false);
        check(&inner, "mlmodel/", false);
        check(&Selection::default(), ".git/", false);
    }

    #[test]
    fn malformed_patterns_are_named() {
        let error = selection("ok\n[z-a]\n", &[]).unwrap_err();
        assert!(matches!(&error, PackageError::IgnorePattern { pattern, .. } if pattern == "[z-a]"), "{error}");
    }
}
