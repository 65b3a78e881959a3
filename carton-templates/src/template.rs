//! The Python model of one kind of files, and how it is written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::TemplateError;

/// The most names that the path of a copied file has. A link to a folder that it is in makes longer ones.
const MAX_DEPTH: usize = 256;

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

    /// Writes the model into the empty folder `folder`: `main.py`, `requirements.txt`, and symbolic links to the model's files, so that nothing
    /// large is copied.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn link_into(&self, folder: &Path) -> Result<(), TemplateError> {
        self.write_texts(folder)?;
        for (name, path) in &self.files {
            let path = fs::canonicalize(path).map_err(TemplateError::io("open", path))?;
            let place = place_for(folder, name)?;
            symlink(&path, &place).map_err(TemplateError::io("write", &place))?;
        }
        Ok(())
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
        let written = self
            .write_texts(folder)
            .and_then(|()| self.files.iter().try_for_each(|(name, path)| copy(path, &place_for(folder, name)?)));
        if written.is_err() {
            // Nothing of others is in it. What cannot be removed is left.
            let _ = fs::remove_dir_all(folder);
            if existed {
                let _ = fs::create_dir(folder);
            }
        }
        written
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

/// Copies a file, or a folder with what its links lead to.
fn copy(from: &Path, to: &Path) -> Result<(), TemplateError> {
    let mut to_copy = vec![(from.to_path_buf(), to.to_path_buf())];
    while let Some((from, to)) = to_copy.pop() {
        if to.components().count() > MAX_DEPTH {
            return Err(TemplateError::io("copy", &from)(std::io::ErrorKind::InvalidInput.into()));
        }
        if !fs::metadata(&from).map_err(TemplateError::io("open", &from))?.is_dir() {
            fs::copy(&from, &to).map_err(TemplateError::io("copy", &from))?;
            continue;
        }
        fs::create_dir(&to).map_err(TemplateError::io("make", &to))?;
        for entry in fs::read_dir(&from).map_err(TemplateError::io("list", &from))? {
            let entry = entry.map_err(TemplateError::io("list", &from))?;
            to_copy.push((entry.path(), to.join(entry.file_name())));
        }
    }
    Ok(())
}

/// Returns `text` as a literal of Python. JSON's escapes are those of Python, but for characters beyond 16 bits, which are written as they are.
pub(crate) fn python_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
