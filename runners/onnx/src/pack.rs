//! Prepares a model for packing: finds the files that belong to it, its signature and its requirement on the framework.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_runner_interface::runner::{PackRequest, PackResponse, RunnerError};
use carton_tensor::Storage;

use crate::model_file::{ExternalTensor, ModelFile};
use crate::options::ModelOptions;
use crate::runtime_release::requirement_of;
use crate::{model_location, model_source, operator_libraries, signature};

/// The depth to which nested folders are searched.
const MAX_DEPTH: usize = 64;
/// The number of files after which a folder is refused.
const MAX_FILES: usize = 1_000_000;

/// Reads the `.onnx` file at the request's path, or the one in the folder there, and describes how to pack it.
///
/// # Errors
/// There is no model, or there are several; the model cannot be read; external data is outside the model's folder; or tensors cannot hold an
/// input or all of the outputs.
pub(crate) fn pack(
    request: &PackRequest,
    options: &ModelOptions,
    warn: &mut dyn FnMut(String),
) -> Result<PackResponse, RunnerError> {
    let is_folder = request.path.is_dir();
    let (folder, model) = if is_folder {
        let paths = list(&request.path)?;
        let model = model_location::MODEL_FILE
            .choose(&paths, options.model.as_deref())
            .map_err(|error| RunnerError::new(format!("{}: {}", request.path.display(), error.message)))?;
        (request.path.clone(), model)
    } else {
        let name = request.path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.filter(|name| model_location::MODEL_FILE.is_model(name)) else {
            return Err(RunnerError::new(format!(
                "{} is neither a .onnx file nor a folder with one",
                request.path.display()
            )));
        };
        (request.path.parent().map(Path::to_owned).unwrap_or_default(), name.to_owned())
    };
    let path = folder.join(&model);
    let bytes = map(&path)?;
    let file =
        ModelFile::parse(bytes.bytes()).map_err(|error| RunnerError::new(format!("{} is {error}", path.display())))?;
    let mut external = external_files(&folder, &model, &file.external)?;
    for library in options.libraries.iter().filter(|name| operator_libraries::is_file(name)) {
        if operator_libraries::is_in_package(library) && !folder.join(library).exists() {
            warn(format!(
                "`{library}` of option `libraries` is not a file of the model, and is taken for a file of a package"
            ));
            continue;
        }
        external.push(library_file(&folder, library)?);
    }
    // A folder becomes the model as it is. With a single file only the files that it names are packed, not its whole folder.
    let path = if is_folder || external.is_empty() {
        request.path.clone()
    } else {
        gather(&folder, external.iter().chain([&model]), &request.scratch)?;
        request.scratch.clone()
    };
    signature::check_carried(&file)?;
    let (inputs, outputs) = signature::of_file(&file).unwrap_or_else(|problem| {
        warn(format!("no inputs and outputs are declared: {problem}"));
        Default::default()
    });
    if request.outputs.is_none() {
        signature::left_out(&file).for_each(&mut *warn);
    }
    let required_framework_version = Some(requirement_of(&file));
    let mismatches = signature::mismatches(&file, request.inputs.as_deref(), request.outputs.as_deref());
    Ok(PackResponse {
        path,
        required_framework_version,
        inputs,
        outputs,
        optional_inputs: signature::optional(&file.inputs),
        optional_outputs: signature::optional(&file.outputs),
        mismatches,
        ..PackResponse::default()
    })
}

/// Paths of the files in a folder, relative to it, sorted.
fn list(root: &Path) -> Result<Vec<String>, RunnerError> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        RunnerError::new(format!("reading the folder {}: {error}", path.display()))
    };
    let mut paths = Vec::new();
    let mut folders = vec![(root.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        for entry in folder.read_dir().map_err(|error| failed(&folder, &error))? {
            let entry = entry.map_err(|error| failed(&folder, &error))?;
            let Ok(name) = entry.file_name().into_string() else {
                return Err(failed(&entry.path(), &"its name is not valid UTF-8"));
            };
            let path = format!("{prefix}{name}");
            // A link to a folder is not followed, so there is no loop.
            if entry.file_type().map_err(|error| failed(&folder, &error))?.is_dir() {
                if depth == MAX_DEPTH {
                    return Err(failed(&entry.path(), &format!("more than {MAX_DEPTH} folders inside one another")));
                }
                folders.push((entry.path(), format!("{path}/"), depth + 1));
            } else {
                paths.push(path);
                if paths.len() > MAX_FILES {
                    return Err(failed(root, &format!("more than {MAX_FILES} files")));
                }
            }
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the files with external data, relative to the folder, after checking that each exists, is long enough and is inside
/// the folder.
fn external_files(folder: &Path, model: &str, tensors: &[ExternalTensor]) -> Result<Vec<String>, RunnerError> {
    let mut files: Vec<(&str, String, u64)> = Vec::new();
    for tensor in tensors {
        let known = files.iter().find(|(location, ..)| *location == tensor.location).map(|(_, _, length)| *length);
        let length = match known {
            Some(length) => length,
            None => {
                let path = model_location::external_path(model, &tensor.location)?;
                let length = length_inside(folder, &path)?;
                files.push((&tensor.location, path, length));
                length
            }
        };
        model_source::check_range(tensor, length)?;
    }
    let mut paths: Vec<String> = files.into_iter().map(|(_, path, _)| path).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Returns the path of a library of operators in the folder, which the option `libraries` names, after checking that it is a file there.
fn library_file(folder: &Path, name: &str) -> Result<String, RunnerError> {
    let is_plain = !name.starts_with('/') && name.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !is_plain {
        return Err(RunnerError::new(format!(
            "option `libraries` names `{name}`, which is not the path of a file of the model"
        )));
    }
    length_inside(folder, name).map(|_| name.to_owned()).map_err(|error| {
        let message = format!("option `libraries` names `{name}`: {}", error.message);
        RunnerError { message, ..error }
    })
}

/// Returns the length of a file, which must be inside the folder after links are resolved.
fn length_inside(folder: &Path, path: &str) -> Result<u64, RunnerError> {
    let full = folder.join(path);
    let failed = |error: std::io::Error| RunnerError::new(format!("reading {}: {error}", full.display()));
    let root = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (root, real) = (root.canonicalize().map_err(failed)?, full.canonicalize().map_err(failed)?);
    if !real.starts_with(&root) {
        return Err(RunnerError::new(format!(
            "{} is a link to {}, outside the model's folder",
            full.display(),
            real.display()
        )));
    }
    let metadata = real.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(RunnerError::new(format!("{} is not a file", full.display())));
    }
    Ok(metadata.len())
}

/// Puts links to files of `folder` into `scratch`. A link that leaves the model is packed as the file it points to, so
/// nothing is copied.
fn gather<'a>(folder: &Path, paths: impl Iterator<Item = &'a String>, scratch: &Path) -> Result<(), RunnerError> {
    for path in paths {
        let (from, to) = (folder.join(path), scratch.join(path));
        let failed = |error: std::io::Error| RunnerError::new(format!("linking {}: {error}", from.display()));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let target: PathBuf = from.canonicalize().map_err(failed)?;
        #[cfg(unix)]
        std::os::unix::fs::symlink(target, to).map_err(failed)?;
        #[cfg(not(unix))]
        fs::copy(target, to).map(drop).map_err(failed)?;
    }
    Ok(())
}

/// Returns the bytes of a file. The whole file is read, because packing reads it only once.
fn map(path: &Path) -> Result<Arc<dyn Storage>, RunnerError> {
    let bytes = fs::read(path).map_err(|error| RunnerError::new(format!("reading {}: {error}", path.display())))?;
    Ok(Arc::new(bytes))
}
