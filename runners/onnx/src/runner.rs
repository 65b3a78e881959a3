//! The runner itself: finds the model among the files, loads it and translates names.

use std::path::Path;

use carton_runner_interface::runner::{
    Call, DeclaredTensor, Description, LoadRequest, PackRequest, PackResponse, Runner, RunnerError, Tensors,
};
use carton_tensor::DataType;

use crate::binding::Binding;
use crate::identity::RUNNER_NAME;
use crate::library::{LibrarySearch, SearchPath};
use crate::model_source::{Files, ModelSource};
use crate::onnx_runtime::{self, Allocate, Library, OnnxRuntime};
use crate::onnx_runtime_library::{OLDEST_VERSION, framework_version};
use crate::options::ModelOptions;
use crate::{operator_libraries, pack};

/// A loaded ONNX model.
///
/// Options: `num_threads`, also called `intra_op_threads`; `inter_op_threads`; `execution_provider`, the execution
/// providers of ONNX Runtime; `model`, the `.onnx` file to load where there are several; `libraries`, the libraries of operators that the
/// model uses.
///
/// ONNX Runtime runs one call at a time, on all its threads.
pub struct Onnx {
    runtime: OnnxRuntime,
    binding: Binding,
}

impl Runner for Onnx {
    /// All beyond format v1 but complex numbers, which ONNX Runtime does not have.
    const DTYPES: &'static [DataType] = &[
        DataType::Bool,
        DataType::Float16,
        DataType::BFloat16,
        DataType::Float8E4m3Fn,
        DataType::Float8E5m2,
        DataType::Float8E4m3Fnuz,
        DataType::Float8E5m2Fnuz,
        DataType::Bytes,
    ];

    fn describe() -> Description {
        Description {
            name: RUNNER_NAME.to_owned(),
            framework_version: framework_version(&SearchPath::of_environment()),
        }
    }

    fn load(request: LoadRequest, call: &Call) -> Result<Self, RunnerError> {
        let options = ModelOptions::parse(&request.options, &mut |warning| call.warn(&warning))?;
        let device = request.device.as_deref();
        let model = Self::open(
            &request.files,
            &options,
            device,
            (&request.inputs, &request.outputs),
            &SearchPath::of_environment(),
            &mut |warning| call.warn(&warning),
        )?;
        call.info(&format!("running the model with {}", model.runtime.description()));
        Ok(model)
    }

    fn pack(request: PackRequest, call: &Call) -> Result<PackResponse, RunnerError> {
        let options = ModelOptions::parse(&request.options, &mut |warning| call.warn(&warning))?;
        for name in request.pack_options.keys() {
            call.warn(&format!("the onnx runner has no pack option `{name}`"));
        }
        pack::pack(&request, &options, &mut |warning| call.warn(&warning))
    }

    fn infer(&self, inputs: Tensors, call: &Call) -> Result<Tensors, RunnerError> {
        self.run(&inputs, &|dtype, shape| call.alloc(dtype, shape))
    }
}

impl Onnx {
    pub(crate) fn open(
        files: &dyn Files,
        options: &ModelOptions,
        device: Option<&str>,
        (inputs, outputs): (&[DeclaredTensor], &[DeclaredTensor]),
        libraries: &SearchPath,
        warn: &mut dyn FnMut(String),
    ) -> Result<Self, RunnerError> {
        let source = ModelSource::open(files, options.model.as_deref())?;
        let binding = Binding::new(&source.file, inputs, outputs, warn)?;
        let library = load_library(libraries)?;
        let find = |name: &String| operator_libraries::find(name, files, &library.path, libraries.installed.as_deref());
        let operators = options.libraries.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let runtime = OnnxRuntime::load(&source, options, device, library, &operators)?;
        Ok(Self { runtime, binding })
    }

    pub(crate) fn run(&self, inputs: &Tensors, allocate: Allocate<'_>) -> Result<Tensors, RunnerError> {
        let inputs = self.binding.inputs(inputs)?;
        let outputs = self.runtime.run(&inputs, &self.binding.outputs(), allocate)?;
        self.binding.name_outputs(outputs)
    }
}

/// The hint for an unusable `ORT_DYLIB_PATH`. Installing another library does not help while the variable is set.
fn choose_another() -> String {
    format!(
        "set ORT_DYLIB_PATH to a libonnxruntime.so of version {OLDEST_VERSION} or later; or unset it, and let \
         `carton runner install onnx` install one"
    )
}

/// Loads the library that this machine has.
///
/// # Errors
/// There is none, or not of the version that the model was given to this runner for (kind `Unavailable`); it cannot be used.
fn load_library(libraries: &SearchPath) -> Result<&'static Library, RunnerError> {
    match libraries.find() {
        LibrarySearch::Library(path) => {
            let library = onnx_runtime::load_library(&path).map_err(|error| match &libraries.chosen {
                Some(_) => error.with_hint(choose_another()),
                None => error.with_hint("`carton runner install onnx` installs the library again"),
            })?;
            match &libraries.wanted {
                Some(wanted) if *wanted != library.version => Err(other_version(&path, &library.version, wanted)),
                _ => Ok(library),
            }
        }
        LibrarySearch::ChosenIsMissing(path) => Err(RunnerError::unavailable(
            format!("ORT_DYLIB_PATH names {}, which is not there", path.display()),
            choose_another(),
        )),
        LibrarySearch::Nothing => Err(RunnerError::unavailable(
            format!("ONNX Runtime is not installed; looked at {}", libraries.places()),
            "`carton runner install onnx` installs it; or set ORT_DYLIB_PATH to a libonnxruntime.so",
        )),
    }
}

/// The error of a library that is not of the version by which this runner was chosen: it was replaced since, or does not state its version.
fn other_version(path: &Path, found: &str, wanted: &str) -> RunnerError {
    RunnerError::unavailable(
        format!("{} is ONNX Runtime {found}, and the model was given to the runner of {wanted}", path.display()),
        "`carton runner install onnx` installs the runner again, for the library that is there; the library's name can state its version: \
         `libonnxruntime.so.1.2.3`",
    )
}
