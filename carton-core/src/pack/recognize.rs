//! Decides which runner a model is for, if its files leave no doubt. Looking at the files is separate from deciding, which is
//! pure.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use carton_format::archive::{Archive, ArchiveError};
use carton_format::source::{FileSource, Source};
use carton_templates::Template;
use carton_tensor::content::Content;

use super::error::PackError;
use super::pointers;
use crate::Error;

/// The first bytes of every zip file that has entries.
const ZIP_MAGIC: [u8; 4] = *b"PK\x03\x04";

/// How much of a module is searched, in bytes.
const MAX_MODULE: u64 = 1 << 20;

/// What runs a model, as its files show. Made by [`Carton::recognize`](crate::Carton::recognize).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recognized {
    /// The name of the runner.
    pub runner: &'static str,
    /// The Python model that runs the files of a framework; `None` if the runner reads them itself.
    pub template: Option<Template>,
}

/// What a model looks like from its names.
enum Seen {
    /// A file: its name, and its directory if it is a zip archive.
    File { name: String, entries: Option<Archive> },
    /// A folder.
    Folder {
        /// The number of Python modules directly in it, without `__init__.py`.
        modules: usize,
        /// The number of ONNX files directly in it.
        onnx_files: usize,
        /// Whether one of the modules is `main.py`, or the only one has a function `get_model`.
        has_entry_point: bool,
    },
}

/// The runner of templates.
const PYTHON: &str = "python";

/// Returns what runs the model at `path`; `None` if its files leave doubt.
///
/// # Errors
/// The path cannot be inspected, is a file that is empty or truncated, or a model that no runner runs.
pub(super) fn recognize(path: &Path) -> Result<Option<Recognized>, Error> {
    let seen = look(path)?;
    // A suffix says less than the content, and a module beside a model's files may be anything but its entry point.
    let is_python_model = matches!(seen, Seen::Folder { has_entry_point: true, .. });
    if !is_python_model && let Some(recognized) = of_template(path)? {
        return Ok(Some(recognized));
    }
    if let Some(runner) = decide(&seen) {
        return Ok(Some(Recognized { runner, template: None }));
    }
    Ok(None)
}

/// Returns the template for the model at `path`, if `runner` is that of templates and the files are not a Python model already.
///
/// # Errors
/// As [`recognize`].
pub(super) fn template_for(runner: &str, path: &Path) -> Result<Option<Template>, Error> {
    let has_modules = path.is_dir() && matches!(look(path)?, Seen::Folder { modules, .. } if modules > 0);
    match runner != PYTHON || has_modules {
        true => Ok(None),
        false => Ok(of_template(path)?.and_then(|recognized| recognized.template)),
    }
}

fn of_template(path: &Path) -> Result<Option<Recognized>, Error> {
    match carton_templates::recognize(path).map_err(PackError::Template)? {
        Some(carton_templates::Recognized::Template(template)) => {
            Ok(Some(Recognized { runner: PYTHON, template: Some(template) }))
        }
        Some(carton_templates::Recognized::NotRun { kind, hint }) => {
            Err(PackError::NotRun { path: path.to_path_buf(), kind, hint }.into())
        }
        _ => Ok(None),
    }
}

/// Looks at the model's names. Of an archive only the directory is read.
fn look(path: &Path) -> Result<Seen, Error> {
    let metadata = std::fs::metadata(path).map_err(Error::io("open", path))?;
    if !metadata.is_dir() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(Seen::File { name, entries: archive(path)? });
    }
    let (mut modules, mut onnx_files) = (Vec::new(), 0);
    for entry in std::fs::read_dir(path).map_err(Error::io("list", path))? {
        let entry = entry.map_err(Error::io("list", path))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        onnx_files += usize::from(is_onnx(&name));
        if is_module(&name) && name != "__init__.py" {
            modules.push(name);
        }
    }
    let has_entry_point = match modules.as_slice() {
        [only] if only != "main.py" => defines_get_model(&path.join(only)),
        modules => modules.iter().any(|name| name == "main.py"),
    };
    Ok(Seen::Folder { modules: modules.len(), onnx_files, has_entry_point })
}

/// Reads the directory of a zip archive. Returns `None` for any other file, and for a zip archive that this library cannot read
/// but other programs may: then the user has to name the runner.
///
/// # Errors
/// The file cannot be opened, is empty, or is a truncated zip archive: no runner runs those.
fn archive(path: &Path) -> Result<Option<Archive>, Error> {
    let source = FileSource::open(path).map_err(Error::io("open", path))?;
    let unusable = |source| PackError::ModelFile { path: path.to_path_buf(), source };
    if source.len() == 0 {
        return Err(unusable(ArchiveError::Empty).into());
    }
    pointers::check_file(path)?;
    let mut magic = [0; ZIP_MAGIC.len()];
    if source.read_at(0, &mut magic).is_err() || magic != ZIP_MAGIC {
        return Ok(None);
    }
    match Archive::open(Arc::new(source)) {
        Ok(archive) => Ok(Some(archive)),
        Err(error @ ArchiveError::Truncated { .. }) => Err(unusable(error).into()),
        Err(error) => {
            tracing::debug!(%error, "not an archive that is read");
            Ok(None)
        }
    }
}

fn decide(seen: &Seen) -> Option<&'static str> {
    match seen {
        Seen::File { name, .. } if is_onnx(name) => Some("onnx"),
        Seen::File { name, .. } if is_module(name) => Some("python"),
        Seen::File { entries: Some(archive), .. } => {
            let names = archive.entries().iter().map(|entry| entry.name());
            (Content::of_zip(names) == Content::TorchScript).then_some("torchscript")
        }
        // A module beside ONNX files may be the model, or only help with it.
        Seen::Folder { modules: 1, onnx_files: 0, .. } => Some("python"),
        // Weights may lie beside it.
        Seen::Folder { modules: 0, onnx_files: 1, .. } => Some("onnx"),
        Seen::File { .. } | Seen::Folder { .. } => None,
    }
}

/// Whether a module has the function with which a Python model begins.
fn defines_get_model(module: &Path) -> bool {
    let mut text = Vec::new();
    let read = File::open(module).and_then(|file| file.take(MAX_MODULE).read_to_end(&mut text));
    read.is_ok() && memchr::memmem::find(&text, b"def get_model(").is_some()
}

fn is_onnx(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found.eq_ignore_ascii_case("onnx"))
}

/// Whether this is the name of a Python module. Case matters, as it does for the python runner: Python does not import `.PY`
/// files.
fn is_module(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == "py")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn runner_for(path: &Path) -> Option<&'static str> {
        recognize(path).unwrap().map(|recognized| recognized.runner)
    }

    #[test]
    fn names_decide_where_they_leave_no_doubt() {
        let folder = tempfile::tempdir().unwrap();
        let check = |files: &[&str], expected: Option<&str>| {
            let model = folder.path().join(format!("{}", files.len())).join(files.join("+"));
            std::fs::create_dir_all(&model).unwrap();
            for file in files {
                std::fs::write(model.join(file), "").unwrap();
            }
            assert_eq!(runner_for(&model), expected, "{files:?}");
        };
        check(&["main.py"], Some("python"));
        check(&["model.py", "__init__.py", "weights.pt", "requirements.txt"], Some("python"));
        check(&["a.py", "b.py"], None);
        check(&["a.py", "model.onnx"], None);
        check(&["weights.bin"], None);
        check(&["model.onnx", "model.onnx.data"], Some("onnx"));
        check(&["a.onnx", "b.onnx"], None);
        check(&[], None);
        let file = |name: &str, expected: Option<&str>| {
            let path = folder.path().join(name);
            std::fs::write(&path, "something").unwrap();
            assert_eq!(runner_for(&path), expected, "{name}");
        };
        file("model.onnx", Some("onnx"));
        file("MODEL.ONNX", Some("onnx"));
        file("double.py", Some("python"));
        std::fs::write(folder.path().join("trees.onnx"), "tree\nversion=v4\nend of trees\n").unwrap();
        let trees = recognize(&folder.path().join("trees.onnx")).unwrap().unwrap();
        assert_eq!(trees.template.unwrap().name(), "lightgbm");
        file("model.pt", None);
        file("model", None);
        assert!(recognize(&folder.path().join("missing.onnx")).is_err());
    }

    #[test]
    fn a_module_beside_the_files_of_a_framework_is_the_model_if_it_says_so() {
        let check = |module: &str, text: &str, is_template: bool| {
            let folder = tempfile::tempdir().unwrap();
            let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
            write("MLmodel", "flavors:\n  python_function:\n    env: conda.yaml\n");
            write("requirements.txt", "mlflow==3.17.0\n");
            write(module, text);
            let found = recognize(folder.path()).unwrap().unwrap();
            assert_eq!((found.runner, found.template.is_some()), ("python", is_template), "{module}");
        };
        check("code.py", "import mlflow\nmlflow.models.set_model(1)\n", true);
        check("main.py", "", false);
        check("model.py", "def get_model():\n    return None\n", false);
    }

    #[test]
    fn torchscript_is_known_by_its_bytes() {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/behaviour/torchscript.pt");
        assert_eq!(runner_for(&model), Some("torchscript"));
        // The name does not matter; a truncated archive is not recognized.
        let folder = tempfile::tempdir().unwrap();
        let bytes = std::fs::read(model).unwrap();
        let check = |bytes: &[u8], expected: Option<&str>| {
            let path = folder.path().join("weights.zip");
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(runner_for(&path), expected, "{}", bytes.escape_ascii());
        };
        check(&bytes, Some("torchscript"));
        check(b"PK", None);
        // No runner runs an empty or truncated file.
        let refused = |bytes: &[u8], expected: &str| {
            let path = folder.path().join("weights.pt");
            std::fs::write(&path, bytes).unwrap();
            let error = recognize(&path).unwrap_err();
            let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
            assert!(text.contains("weights.pt") && text.contains(expected), "{text}");
        };
        refused(&bytes[..bytes.len() - 10], "the file is truncated");
        refused(b"PK\x03\x04", "the file is truncated");
        refused(b"", "the file is empty");
    }
}
