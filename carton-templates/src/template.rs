//! The Python model of one kind of files, and how it is written.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use carton_format::archive::MAX_ENTRIES;

use crate::TemplateError;

/// The most folders in each other that a model has.
const MAX_DEPTH: usize = 256;
/// The largest list of requirements, in bytes, as the python runner has it.
const MAX_LIST: u64 = 1 << 20;

/// What a file or folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recognized {
    /// A model that a template runs.
    Template(Template),
    /// A model that is known, and not run: R's, Julia's, weights without code.
    NotRun {
        /// What it is, such as `a model of R (.rds)`.
        kind: String,
        /// What is missing, and what the user can do.
        hint: String,
    },
}

/// A Python model that runs a file or folder of a framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The name of the template, such as `xgboost`.
    pub(crate) name: &'static str,
    /// What the file is, such as `an XGBoost model (JSON)`.
    pub(crate) kind: String,
    /// The text of `main.py`. Its line `NAME = …` is replaced for each of `constants`.
    pub(crate) source: &'static str,
    /// The constants of `main.py`, each with its value as text or number of Python.
    pub(crate) constants: Vec<(&'static str, String)>,
    /// The lines of `requirements.txt`.
    pub(crate) requirements: Vec<String>,
    /// The minor version of Python that the model needs, such as `3.11`.
    pub(crate) python: Option<String>,
    /// The files and folders of the model, each with its path beside `main.py`, such as `model/config.json`.
    pub(crate) files: Vec<(String, PathBuf)>,
    /// What the user should know, one sentence each.
    pub(crate) warnings: Vec<String>,
}

impl Template {
    /// Returns the name of the template, such as `xgboost`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// Returns what the model is, such as `an XGBoost model (JSON)`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the packages that the model needs, as lines of `requirements.txt`.
    #[must_use]
    pub fn requirements(&self) -> &[String] {
        &self.requirements
    }

    /// Returns what the user should know about the model, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the minor version of Python that the model needs, such as `3.11`; `None` if any will do.
    #[must_use]
    pub fn python(&self) -> Option<&str> {
        self.python.as_deref()
    }

    /// Returns the name that the file or folder at `path` has beside `main.py`.
    #[must_use]
    pub fn name_of(&self, path: &Path) -> Option<&str> {
        self.files.iter().find_map(|(name, file)| {
            let is_in_it = || file.parent() == Some(path);
            match name.rsplit_once('/') {
                _ if file == path => Some(name.as_str()),
                Some((folder, _)) if is_in_it() => Some(folder),
                _ => None,
            }
        })
    }

    /// Returns what of the user's folder `folder` is no part of the model, by its path in the folder, sorted.
    ///
    /// # Errors
    /// A folder cannot be listed.
    pub fn unused(&self, folder: &Path) -> Result<Vec<(String, PathBuf)>, TemplateError> {
        let mut unused = Vec::new();
        let mut to_visit = vec![folder.to_path_buf()];
        while let Some(visited) = to_visit.pop() {
            for entry in fs::read_dir(&visited).map_err(TemplateError::io("list", &visited))? {
                let path = entry.map_err(TemplateError::io("list", &visited))?.path();
                if self.files.iter().any(|(_, file)| path.starts_with(file)) {
                    continue;
                }
                // A folder with some files of the model.
                if self.files.iter().any(|(_, file)| file.starts_with(&path)) {
                    to_visit.push(path);
                    continue;
                }
                let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                unused.push((if path.is_dir() { format!("{name}/") } else { name }, path));
            }
        }
        unused.sort_unstable();
        Ok(unused)
    }

    /// Writes the model into the empty folder `folder`: `main.py`, `requirements.txt`, and symbolic links to the model's files, so that nothing
    /// large is copied. Folders are made anew.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn link_into(&self, folder: &Path) -> Result<(), TemplateError> {
        self.write_texts(folder)?;
        self.put_into(folder, &link)
    }

    /// Writes the model into `folder`, which must not exist or be empty, with copies of the model's files.
    ///
    /// # Errors
    /// The folder has files already; the operating system refuses. What was written is removed then.
    pub fn copy_into(&self, folder: &Path) -> Result<(), TemplateError> {
        let existed = folder.exists();
        if existed && fs::read_dir(folder).map_err(TemplateError::io("list", folder))?.next().is_some() {
            return Err(TemplateError::NotEmpty { path: folder.to_path_buf() });
        }
        fs::create_dir_all(folder).map_err(TemplateError::io("make", folder))?;
        let written = self.write_texts(folder).and_then(|()| self.put_into(folder, &copy));
        if written.is_err() {
            // Nothing of others is in it. What cannot be removed is left.
            let _ = fs::remove_dir_all(folder);
            if existed {
                let _ = fs::create_dir(folder);
            }
        }
        written
    }

    fn put_into(
        &self,
        folder: &Path,
        put: &dyn Fn(&Path, &Path) -> Result<(), TemplateError>,
    ) -> Result<(), TemplateError> {
        let mut n_left = MAX_ENTRIES;
        self.files
            .iter()
            .try_for_each(|(name, path)| mirror(path, &place_for(folder, name)?, &mut Vec::new(), &mut n_left, put))
    }

    fn write_texts(&self, folder: &Path) -> Result<(), TemplateError> {
        let requirements: String = self.requirements.iter().map(|line| format!("{line}\n")).collect();
        for (name, text) in [("main.py", self.module()), ("requirements.txt", requirements)] {
            let place = folder.join(name);
            fs::write(&place, text).map_err(TemplateError::io("write", &place))?;
        }
        Ok(())
    }

    /// Returns the text of `main.py` with its constants.
    pub(crate) fn module(&self) -> String {
        let with_constant = |line: &str| {
            let constant = self
                .constants
                .iter()
                .find(|(name, _)| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(" = ")));
            constant.map_or_else(|| line.to_owned(), |(name, value)| format!("{name} = {value}"))
        };
        let lines: Vec<String> = self.source.lines().map(with_constant).collect();
        lines.join("\n") + "\n"
    }
}

/// Returns the place of `name` in `folder`, with the folders that it is in made.
fn place_for(folder: &Path, name: &str) -> Result<PathBuf, TemplateError> {
    let place = folder.join(name);
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent).map_err(TemplateError::io("make", parent))?;
    }
    Ok(place)
}

/// Makes the folder `to` of the folder `from`, with what its links lead to, and puts each file in its place by `put`. `above` are the folders that
/// `from` is in, by device and inode, and `n_left` the number of files and folders that may be made: links can make a tree endless without a circle.
fn mirror(
    from: &Path,
    to: &Path,
    above: &mut Vec<(u64, u64)>,
    n_left: &mut u64,
    put: &dyn Fn(&Path, &Path) -> Result<(), TemplateError>,
) -> Result<(), TemplateError> {
    *n_left = n_left.checked_sub(1).ok_or_else(|| not_a_file(from, "it has more files than a carton can have"))?;
    let Some(metadata) = fs::metadata(from).ok().filter(fs::Metadata::is_dir) else {
        return put(from, to);
    };
    let identity = (metadata.dev(), metadata.ino());
    if above.contains(&identity) || above.len() >= MAX_DEPTH {
        return Err(not_a_file(from, "it leads to a folder that it is in, or is too deep"));
    }
    fs::create_dir(to).map_err(TemplateError::io("make", to))?;
    above.push(identity);
    for entry in fs::read_dir(from).map_err(TemplateError::io("list", from))? {
        let entry = entry.map_err(TemplateError::io("list", from))?;
        mirror(&entry.path(), &to.join(entry.file_name()), above, n_left, put)?;
    }
    above.pop();
    Ok(())
}

/// Links to a file. What is no file is linked too: packing leaves it out, or refuses it. Lists of requirements are copied, because the python
/// runner reads only those that are in the model's own folder.
fn link(from: &Path, to: &Path) -> Result<(), TemplateError> {
    let is_list = from.extension().is_some_and(|suffix| suffix == "txt" || suffix == "in");
    let is_small = |metadata: fs::Metadata| metadata.is_file() && metadata.len() <= MAX_LIST;
    if is_list && fs::symlink_metadata(from).is_ok_and(is_small) {
        return copy(from, to);
    }
    let target =
        fs::canonicalize(from).or_else(|_| std::path::absolute(from)).map_err(TemplateError::io("open", from))?;
    symlink(&target, to).map_err(TemplateError::io("write", to))
}

/// Copies a file. Reading a pipe would block, and a device has no end.
fn copy(from: &Path, to: &Path) -> Result<(), TemplateError> {
    if !fs::metadata(from).map_err(TemplateError::io("open", from))?.is_file() {
        return Err(not_a_file(from, "it is neither a file nor a folder"));
    }
    fs::copy(from, to).map(drop).map_err(TemplateError::io("copy", from))
}

fn not_a_file(path: &Path, problem: &str) -> TemplateError {
    let kind = "a part of the model";
    TemplateError::Malformed { path: path.to_path_buf(), kind, problem: problem.to_owned(), hint: None }
}

/// Returns `text` as a literal of Python. JSON's escapes are those of Python, but for characters beyond 16 bits, which are written as they are.
pub(crate) fn python_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn links_that_make_a_tree_endless_are_bounded() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // Each folder has the next one twice: a million files without a circle.
        for level in 0..20 {
            let place = from.path().join(format!("level{level}"));
            fs::create_dir(&place).unwrap();
            for name in ["a", "b"] {
                symlink(format!("../level{}", level + 1), place.join(name)).unwrap();
            }
        }
        fs::create_dir(from.path().join("level20")).unwrap();
        let mirrored = |n_left: &mut u64| {
            mirror(&from.path().join("level17"), &to.path().join("m"), &mut Vec::new(), n_left, &link)
        };
        let error = mirrored(&mut 14).unwrap_err();
        assert!(error.to_string().contains("more files than a carton can have"), "{error}");
        fs::remove_dir_all(to.path().join("m")).unwrap();
        // 1 + 2 + 4 + 8.
        mirrored(&mut 15).unwrap();
    }
}
