//! The runner itself: finds the model among the files, selects an engine and translates names.

use carton_runner_protocol::runner::{
    Call, DeclaredTensor, Description, Device, LoadRequest, PackRequest, PackResponse, Runner, RunnerError,
    RunnerErrorKind, Tensors,
};

use crate::engine::library::{LibrarySearch, SearchPath};
use crate::engine::onnx_runtime::{self, OnnxRuntime};
use crate::engine::rten::Rten;
use crate::engine::{Allocate, Engine};
use crate::identity::{FRAMEWORK_VERSION, NEWEST_OPERATOR_SET, RUNNER_NAME};
use crate::model_source::{Files, ModelSource};
use crate::onnx_runtime_library::OLDEST_VERSION;
use crate::options::{EngineChoice, ModelOptions};
use crate::pack;
use crate::signature::Binding;

/// A loaded ONNX model.
///
/// Options: `engine` = `"auto"` (ONNX Runtime where its library is found, else the built-in engine), `"rten"` or
/// `"onnxruntime"`; `num_threads`, also called `intra_op_threads`; `inter_op_threads`; `execution_provider`, the execution
/// providers of ONNX Runtime; `model`, the `.onnx` file to load where there are several. Booleans are carried as `uint8` with
/// the values 0 and 1, float16 and bfloat16 as `float32`.
///
/// The built-in engine runs as many calls at once as it has threads, but at most eight; they share one thread pool. ONNX
/// Runtime runs one call at a time, on all its threads.
pub struct Onnx {
    engine: Box<dyn Engine>,
    binding: Binding,
}

impl Runner for Onnx {
    fn describe() -> Description {
        Description { name: RUNNER_NAME.to_owned(), framework_version: FRAMEWORK_VERSION.to_owned() }
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
        call.info(&format!("running the model with {}", model.engine.description()));
        Ok(model)
    }

    fn pack(request: PackRequest, call: &Call) -> Result<PackResponse, RunnerError> {
        let options = ModelOptions::parse(&request.options, &mut |warning| call.warn(&warning))?;
        for name in request.pack_options.keys() {
            call.warn(&format!("the onnx runner has no pack option `{name}`"));
        }
        pack::pack(&request, &options, &SearchPath::of_environment(), &mut |warning| call.warn(&warning))
    }

    fn max_concurrency(&self) -> usize {
        self.engine.max_concurrency()
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
        let operator_set = source.file.default_operator_set();
        if operator_set > NEWEST_OPERATOR_SET {
            warn(format!(
                "the model uses operator set {operator_set}, this runner knows sets up to {NEWEST_OPERATOR_SET}"
            ));
        }
        let binding = Binding::new(&source.file, inputs, outputs, warn)?;
        let engine = load_engine(&source, options, device, libraries, warn)?;
        Ok(Self { engine, binding })
    }

    pub(crate) fn run(&self, inputs: &Tensors, allocate: Allocate<'_>) -> Result<Tensors, RunnerError> {
        let inputs = self.binding.inputs(inputs)?;
        let outputs = self.engine.run(&inputs, &self.binding.outputs(), allocate)?;
        Ok(self.binding.name_outputs(outputs))
    }
}

/// The hint for an unusable `ORT_DYLIB_PATH`. Installing another library does not help while the variable is set.
fn choose_another() -> String {
    format!(
        "set ORT_DYLIB_PATH to a libonnxruntime.so of version {OLDEST_VERSION} or later; or unset it, and let \
         `carton runner install onnx` install one"
    )
}

/// Loads the model with the engine that the options select, as far as this machine has it.
fn load_engine(
    source: &ModelSource,
    options: &ModelOptions,
    device: Option<&str>,
    libraries: &SearchPath,
    warn: &mut dyn FnMut(String),
) -> Result<Box<dyn Engine>, RunnerError> {
    let hint_at_choice = |error: RunnerError| match &libraries.chosen {
        Some(_) => error.with_hint(choose_another()),
        None => error,
    };
    let library = match options.engine {
        EngineChoice::Rten => None,
        EngineChoice::Auto => match libraries.find() {
            LibrarySearch::Library(path) => match onnx_runtime::load_library(&path) {
                Ok(library) => Some(library),
                Err(error) => {
                    warn(format!("{}; using the built-in engine", error.message));
                    None
                }
            },
            LibrarySearch::ChosenIsMissing(path) => {
                warn(format!("ORT_DYLIB_PATH names {}, which is not there; using the built-in engine", path.display()));
                None
            }
            LibrarySearch::Nothing => None,
        },
        EngineChoice::OnnxRuntime => match libraries.find() {
            LibrarySearch::Library(path) => Some(onnx_runtime::load_library(&path).map_err(hint_at_choice)?),
            LibrarySearch::ChosenIsMissing(path) => {
                return Err(RunnerError::unavailable(
                    format!("ORT_DYLIB_PATH names {}, which is not there", path.display()),
                    choose_another(),
                ));
            }
            LibrarySearch::Nothing => {
                return Err(RunnerError::unavailable(
                    format!("the library of ONNX Runtime was not found; looked at {}", libraries.places()),
                    "`carton runner install onnx` installs it; or set ORT_DYLIB_PATH to a libonnxruntime.so, or use the \
                     built-in engine with the option engine = \"rten\"",
                ));
            }
        },
    };
    Ok(match library {
        Some(library) => Box::new(OnnxRuntime::load(source, options, device, library).map_err(|mut error| {
            if options.engine == EngineChoice::Auto && error.hint.is_none() {
                error.hint = Some("the option engine = \"rten\" uses the built-in engine instead".to_owned());
            }
            error
        })?),
        None => {
            Device::require_cpu(device, "the built-in engine")?;
            if let Some(first) = options.execution_providers.first() {
                let hint = match &libraries.chosen {
                    Some(_) if options.engine == EngineChoice::Auto => choose_another(),
                    _ => "`carton runner install onnx` installs it".to_owned(),
                };
                let message = format!("the built-in engine has no execution provider `{first}`; ONNX Runtime has them");
                return Err(RunnerError::unavailable(message, hint));
            }
            Box::new(Rten::load(source, options, warn).map_err(|mut error| {
                // Installing another engine would be enough, unless the options select this one.
                if options.engine == EngineChoice::Auto && error.hint.is_some() {
                    error.kind = RunnerErrorKind::Unavailable;
                    if libraries.chosen.is_some() {
                        error.hint = Some(choose_another());
                    }
                }
                error
            })?)
        }
    })
}
