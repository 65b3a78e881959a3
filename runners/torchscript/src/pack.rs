//! Prepares a model for packing: that it is one TorchScript file that this libtorch loads.

use std::fs::File;
use std::path::Path;

use carton_runner_interface::runner::{Call, ModelFiles, PackRequest, PackResponse, RunnerError};

use crate::binding::Binding;
use crate::module::Device;
use crate::options::ModelOptions;
use crate::runner::load_module;
use crate::{LIBTORCH_VERSION, model_location};

/// Loads the TorchScript file at the path, or the one of the folder there, and says what its forward takes.
///
/// TorchScript does not say the dtypes and shapes of tensors, so a signature cannot be read from it. A carton requires
/// exactly the libtorch that packed it.
///
/// # Errors
/// No model or several, or one that cannot be loaded or run.
pub(crate) fn pack(request: PackRequest, call: &Call) -> Result<PackResponse, RunnerError> {
    let options = ModelOptions::parse(&request.options, &mut |warning| call.warn(&warning))?;
    if !request.pack_options.is_empty() {
        let names: Vec<String> = request.pack_options.keys().map(|name| format!("`{name}`")).collect();
        call.warn(&format!("the torchscript runner has no options for packing; given {}", names.join(", ")));
    }
    let shown = request.path.display();
    let (folder, model) = if request.path.is_dir() {
        let files = ModelFiles::from_directory(&request.path);
        let model = model_location::choose(&files.paths(), options.model.as_deref())
            .map_err(|error| RunnerError { message: format!("{shown}: {}", error.message), ..error })?;
        (request.path.clone(), model)
    } else {
        let name =
            request.path.file_name().and_then(|name| name.to_str()).filter(|name| model_location::is_model(name));
        let Some(name) = name else {
            return Err(RunnerError::new(format!(
                "{shown} is neither a TorchScript file (.pt, .pth or .ts) nor a folder with one"
            )));
        };
        let parent = request.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        (parent.unwrap_or(Path::new(".")).to_path_buf(), name.to_owned())
    };
    let path = folder.join(&model);
    let failed = |error: std::io::Error| RunnerError::new(format!("reading {}: {error}", path.display()));
    // A missing file is better said than one that cannot be mapped.
    File::open(&path).map_err(failed)?;
    let bytes = ModelFiles::from_directory(&folder).map(&model).map_err(failed)?;
    let module = load_module(&path.display().to_string(), bytes, Device::Cpu)?;
    let arguments = module.arguments();
    Binding::new(&arguments, &[], &[])?;
    let list: Vec<String> =
        arguments.iter().map(|argument| format!("{}: {}", argument.name, argument.type_name)).collect();
    call.info(&format!("forward takes ({}); it runs on libtorch {LIBTORCH_VERSION}", list.join(", ")));
    Ok(PackResponse { path: request.path, ..PackResponse::default() })
}
