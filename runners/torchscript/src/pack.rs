//! Prepares a model for packing: checks that it is one TorchScript file that this libtorch loads, and puts it where the runners of
//! all releases find it.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;

use carton_runner_interface::runner::{Call, ModelFiles, PackRequest, PackResponse, RunnerError};

use crate::binding::{self, Binding};
use crate::identity::LIBTORCH_VERSION;
use crate::libraries;
use crate::libtorch::Device;
use crate::load_module::load_module;
use crate::model_location;
use crate::options::ModelOptions;

/// The name of a model's TorchScript file in a carton: the original Carton's runner opens no other.
const MODEL_FILE: &str = "model.pt";

/// Loads the TorchScript file at the request's path, or the one in the folder there, and logs the arguments of its forward.
///
/// TorchScript does not state the dtypes and shapes of tensors, so a signature cannot be read from it. A carton requires
/// exactly the libtorch that packed it.
///
/// A single file is stored as `model.pt` whatever its name, and so is the only TorchScript file of a folder if it is directly in that
/// folder. It keeps its name if the option `model`, which is stored too, names it.
///
/// # Errors
/// There is no model, or there are several, or the model cannot be loaded or run.
pub(crate) fn pack(request: PackRequest, call: &Call) -> Result<PackResponse, RunnerError> {
    let options = ModelOptions::parse(&request.options, &mut |warning| call.warn(&warning))?;
    if !request.pack_options.is_empty() {
        let names: Vec<String> = request.pack_options.keys().map(|name| format!("`{name}`")).collect();
        call.warn(&format!("the torchscript runner has no options for packing; given {}", names.join(", ")));
    }
    let failed = |path: &Path, error: std::io::Error| RunnerError::new(format!("reading {}: {error}", path.display()));
    let is_folder = request.path.is_dir();
    let (folder, model, path) = if is_folder {
        let paths = ModelFiles::from_directory(&request.path).paths();
        let model = model_location::MODEL_FILE.choose(&paths, options.model.as_deref()).map_err(|error| {
            RunnerError { message: format!("{}: {}", request.path.display(), error.message), ..error }
        })?;
        let path = request.path.join(&model);
        (request.path.clone(), model, path)
    } else {
        // The contents decide whether a file is TorchScript, so its name may be any.
        let parent = request.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let name = request.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(wanted) = options.model.as_deref().filter(|wanted| *wanted != MODEL_FILE) {
            model_location::MODEL_FILE.choose(std::slice::from_ref(&name), Some(wanted))?;
        }
        (parent.unwrap_or(Path::new(".")).to_owned(), name, request.path.clone())
    };
    // Opened first, because "missing" is a clearer error than a failure to link or to map.
    File::open(&path).map_err(|error| failed(&path, error))?;
    let is_named = options.model.is_some_and(|wanted| wanted == model);
    let keeps_its_name = model == MODEL_FILE || is_named || (is_folder && model.contains('/'));
    let (packed, folder, model) = if keeps_its_name {
        (request.path, folder, model)
    } else {
        let others = if is_folder { Some(folder.as_path()) } else { None };
        link(&path, others, &request.scratch).map_err(|error| failed(&path, error))?;
        (request.scratch.clone(), request.scratch, MODEL_FILE.to_owned())
    };
    let bytes = ModelFiles::from_directory(&folder).map(&model).map_err(|error| failed(&path, error))?;
    libraries::load(&options.libraries, &ModelFiles::from_directory(&folder))?;
    let module = load_module(&path.display().to_string(), bytes, Device::Cpu)?;
    let arguments = module.arguments();
    Binding::new(&arguments, &[])?;
    let list: Vec<String> =
        arguments.iter().map(|argument| format!("{}: {}", argument.name, argument.type_name)).collect();
    call.info(&format!("forward takes ({}); it runs on libtorch {LIBTORCH_VERSION}", list.join(", ")));
    let mismatches = binding::mismatches(&arguments, request.inputs.as_deref());
    Ok(PackResponse { path: packed, mismatches, ..PackResponse::default() })
}

/// Puts a link to `model` into `scratch`, under the name it is stored under, and links to the other entries of the folder `others`. A link
/// that leaves the packed folder is packed as the file it leads to, so nothing is copied.
fn link(model: &Path, others: Option<&Path>, scratch: &Path) -> std::io::Result<()> {
    for entry in others.map(std::fs::read_dir).transpose()?.into_iter().flatten() {
        let entry = entry?;
        if entry.path() != model {
            symlink(entry.path().canonicalize()?, scratch.join(entry.file_name()))?;
        }
    }
    symlink(model.canonicalize()?, scratch.join(MODEL_FILE))
}
