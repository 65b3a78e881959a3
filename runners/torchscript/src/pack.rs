//! Prepares a model for packing: that it is one TorchScript file that this libtorch loads, and is found where the runners of all
//! releases look.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;

use carton_runner_interface::runner::{Call, ModelFiles, PackRequest, PackResponse, RunnerError};

use crate::binding::{self, Binding};
use crate::libtorch::Device;
use crate::options::ModelOptions;
use crate::runner::load_module;
use crate::{LIBTORCH_VERSION, model_location};

/// What the TorchScript file of a model is called: the original Carton's runner opens no other.
const MODEL_FILE: &str = "model.pt";

/// Loads the TorchScript file at the path, or the one of the folder there, and says what its forward takes.
///
/// TorchScript does not say the dtypes and shapes of tensors, so a signature cannot be read from it. A carton requires
/// exactly the libtorch that packed it.
///
/// A file, and the only TorchScript file of a folder that lies directly in it, is stored as `model.pt` whatever it is called, unless the
/// option `model`, which is stored too, names it.
///
/// # Errors
/// No model or several, or one that cannot be loaded or run.
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
        let model = model_location::choose(&paths, options.model.as_deref()).map_err(|error| RunnerError {
            message: format!("{}: {}", request.path.display(), error.message),
            ..error
        })?;
        let path = request.path.join(&model);
        (request.path.clone(), model, path)
    } else {
        // The file is what decides, whatever it is called.
        let parent = request.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let name = request.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(wanted) = options.model.as_deref().filter(|wanted| *wanted != MODEL_FILE) {
            model_location::choose(std::slice::from_ref(&name), Some(wanted))?;
        }
        (parent.unwrap_or(Path::new(".")).to_owned(), name, request.path.clone())
    };
    // A missing file is better said than one that cannot be linked or mapped.
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
    let module = load_module(&path.display().to_string(), bytes, Device::Cpu)?;
    let arguments = module.arguments();
    Binding::new(&arguments, &[], &[])?;
    let list: Vec<String> =
        arguments.iter().map(|argument| format!("{}: {}", argument.name, argument.type_name)).collect();
    call.info(&format!("forward takes ({}); it runs on libtorch {LIBTORCH_VERSION}", list.join(", ")));
    let mismatches = binding::mismatches(&arguments, request.inputs.as_deref());
    Ok(PackResponse { path: packed, mismatches, ..PackResponse::default() })
}

/// Puts a link to `model` into `scratch`, under the name it is stored under, and links to what else is in the folder `others`. Links that
/// lead out of what is packed are packed as what they lead to, so nothing is copied.
fn link(model: &Path, others: Option<&Path>, scratch: &Path) -> std::io::Result<()> {
    for entry in others.map(std::fs::read_dir).transpose()?.into_iter().flatten() {
        let entry = entry?;
        if entry.path() != model {
            symlink(entry.path().canonicalize()?, scratch.join(entry.file_name()))?;
        }
    }
    symlink(model.canonicalize()?, scratch.join(MODEL_FILE))
}
