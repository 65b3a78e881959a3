//! ONNX Runtime, loaded from its shared library when a model first asks for it.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{DataType, Element, NumericTensor, StringTensor, Tensor};
use ort::environment::Environment;
use ort::session::{OutputSelector, RunOptions, Session, SessionInputValue};
use ort::value::{DynValue, PrimitiveTensorElementType, TensorElementType, TensorRef, ValueType};

use super::{Allocate, Engine, catch_panic, write_output};
use crate::element_type::ElementType;
use crate::model_file::{GraphValue, ValueKind};
use crate::model_source::ModelSource;
use crate::options::ModelOptions;

/// The library is loaded once in a process and stays.
static LIBRARY: OnceLock<Library> = OnceLock::new();
/// Held while the library is being loaded, so that two threads do not both try.
static LOADING: Mutex<()> = Mutex::new(());

/// A model loaded by ONNX Runtime.
///
/// Calls run one at a time: the bindings, which know the runtime's history of races inside concurrent runs of one
/// session, allow no others. Each uses all the threads the session has.
pub(crate) struct OnnxRuntime {
    session: Mutex<Session>,
    version: &'static str,
}

/// ONNX Runtime, loaded.
pub(crate) struct Library {
    path: PathBuf,
    /// What it says of itself.
    pub(crate) version: String,
    environment: Environment,
}

/// Loads the library at `path`, if that has not happened yet.
///
/// # Errors
/// Not a library, not ONNX Runtime, too old.
pub(crate) fn load_library(path: &Path) -> Result<&'static Library, RunnerError> {
    let _guard = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(loaded) = LIBRARY.get() {
        if loaded.path == path {
            return Ok(loaded);
        }
        return Err(RunnerError::new(format!(
            "cannot use the ONNX Runtime library {}: {} is loaded already",
            path.display(),
            loaded.path.display()
        )));
    }
    let library = catch_panic("loading ONNX Runtime", || {
        let environment = ort::init_from(path)
            .map_err(|error| RunnerError::new(error.to_string()))?
            .with_name("carton")
            .with_telemetry(false)
            .build()
            .map_err(|error| RunnerError::from_error(&error))?;
        Ok(Library { path: path.to_owned(), version: version_of(path)?, environment })
    })
    .map_err(|mut error| {
        error.message = format!("cannot use the ONNX Runtime library {}: {}", path.display(), error.message);
        error
    })?;
    Ok(LIBRARY.get_or_init(|| library))
}

/// The version that the library at `path` names. The bindings have loaded it and found it usable.
fn version_of(path: &Path) -> Result<String, RunnerError> {
    let failed = |error: libloading::Error| RunnerError::new(error.to_string());
    // SAFETY: the library is loaded already, so this runs no code of it and only counts one user more.
    let library = unsafe { libloading::Library::new(path) }.map_err(failed)?;
    // SAFETY: the function of this name takes nothing and returns a static structure (onnxruntime_c_api.h).
    let base = unsafe { library.get::<unsafe extern "C" fn() -> *const ort::sys::OrtApiBase>(b"OrtGetApiBase\0") };
    // SAFETY: as above; the bindings have called both functions too, and found neither result to be null.
    let version = unsafe { CStr::from_ptr(((*base.map_err(failed)?()).GetVersionString)()) };
    Ok(version.to_string_lossy().into_owned())
}

impl OnnxRuntime {
    /// Loads a model.
    ///
    /// # Errors
    /// Whatever ONNX Runtime says of it.
    pub(crate) fn load(
        source: &ModelSource,
        options: &ModelOptions,
        library: &'static Library,
    ) -> Result<Self, RunnerError> {
        let session = catch_panic("ONNX Runtime", || {
            build_session(source, options, &library.environment)
                .map_err(|message| RunnerError::new(format!("ONNX Runtime cannot load `{}`: {message}", source.path)))
        })?;
        Ok(Self { session: Mutex::new(session), version: &library.version })
    }
}

fn build_session(source: &ModelSource, options: &ModelOptions, environment: &Environment) -> Result<Session, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut builder = Session::builder(environment).map_err(|error| text(&error))?;
    if let Some(threads) = options.intra_op_threads {
        builder = builder.with_intra_threads(threads).map_err(|error| text(&error))?;
    }
    if let Some(threads) = options.inter_op_threads {
        builder = builder.with_inter_threads(threads).map_err(|error| text(&error))?;
        builder = builder.with_parallel_execution(threads > 1).map_err(|error| text(&error))?;
    }
    // In a folder the runtime maps external data itself; otherwise it is given the bytes.
    if let Some(path) = &source.on_disk {
        return builder.commit_from_file(path).map_err(|error| text(&error));
    }
    for (location, data) in &source.external {
        builder = builder
            .with_external_initializer_file_in_memory(location, data.bytes().into())
            .map_err(|error| text(&error))?;
    }
    builder.commit_from_memory(source.bytes.bytes()).map_err(|error| text(&error))
}

impl Engine for OnnxRuntime {
    fn description(&self) -> String {
        format!("ONNX Runtime {}", self.version)
    }

    fn max_concurrency(&self) -> usize {
        1
    }

    fn run(
        &self,
        inputs: &[(&GraphValue, &Tensor)],
        outputs: &[&GraphValue],
        allocate: Allocate<'_>,
    ) -> Result<Vec<Tensor>, RunnerError> {
        catch_panic("ONNX Runtime", || {
            let mut values = Vec::with_capacity(inputs.len());
            for (declared, tensor) in inputs {
                values.push((declared.name.as_str(), input(declared, tensor)?));
            }
            let mut selected = OutputSelector::no_default();
            for declared in outputs {
                selected = selected.with(declared.name.as_str());
            }
            let run_options = RunOptions::new().map_err(|error| run_error(&error))?.with_outputs(selected);
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            let results = session.run_with_options::<_, 0>(values, &run_options).map_err(|error| run_error(&error))?;
            outputs
                .iter()
                .map(|declared| match results.get(&declared.name) {
                    Some(value) => output(declared, value, allocate),
                    None => Err(RunnerError::new(format!("ONNX Runtime returned no output `{}`", declared.name))),
                })
                .collect()
        })
    }
}

fn run_error(error: &ort::Error) -> RunnerError {
    RunnerError::new(format!("ONNX Runtime: {error}"))
}

/// A tensor as the runtime takes it: numbers in place, strings copied.
fn input<'a>(declared: &GraphValue, tensor: &'a Tensor) -> Result<SessionInputValue<'a>, RunnerError> {
    let failed = |error: &dyn std::fmt::Display| RunnerError::new(format!("input `{}`: {error}", declared.name));
    match tensor {
        Tensor::String(strings) => {
            if let Some(index) = strings.elements().iter().position(|text| text.contains('\0')) {
                return Err(failed(&format!("string {index} holds a NUL character, where ONNX Runtime would end it")));
            }
            ort::value::Tensor::from_string_array((strings.shape(), strings.elements()))
                .map(Into::into)
                .map_err(|error| failed(&error))
        }
        Tensor::Numeric(tensor) => {
            if matches!(declared.kind, ValueKind::Tensor { element: ElementType::BOOL, .. }) {
                let flags: Vec<bool> = tensor.bytes().iter().map(|&byte| byte != 0).collect();
                return ort::value::Tensor::from_array((tensor.shape(), flags))
                    .map(Into::into)
                    .map_err(|error| failed(&error));
            }
            match tensor.dtype() {
                DataType::Float32 => numbers::<f32>(tensor),
                DataType::Float64 => numbers::<f64>(tensor),
                DataType::Int8 => numbers::<i8>(tensor),
                DataType::Int16 => numbers::<i16>(tensor),
                DataType::Int32 => numbers::<i32>(tensor),
                DataType::Int64 => numbers::<i64>(tensor),
                DataType::Uint8 => numbers::<u8>(tensor),
                DataType::Uint16 => numbers::<u16>(tensor),
                DataType::Uint32 => numbers::<u32>(tensor),
                DataType::Uint64 => numbers::<u64>(tensor),
                dtype => return Err(failed(&format!("ONNX has no tensors of {dtype}"))),
            }
            .map_err(|error| failed(&error))
        }
        _ => Err(failed(&"ONNX has no nested tensors")),
    }
}

fn numbers<T: Element + PrimitiveTensorElementType>(tensor: &NumericTensor) -> Result<SessionInputValue<'_>, String> {
    match tensor.as_slice::<T>() {
        Ok(elements) => {
            TensorRef::from_array_view((tensor.shape(), elements)).map(Into::into).map_err(|error| error.to_string())
        }
        // Frames put small tensors wherever they end up.
        Err(_) => {
            let elements = tensor.to_vec::<T>().map_err(|error| error.to_string())?;
            ort::value::Tensor::from_array((tensor.shape(), elements))
                .map(Into::into)
                .map_err(|error| error.to_string())
        }
    }
}

/// A result of the runtime, written once.
fn output(declared: &GraphValue, value: &DynValue, allocate: Allocate<'_>) -> Result<Tensor, RunnerError> {
    let failed = |error: &dyn std::fmt::Display| RunnerError::new(format!("output `{}`: {error}", declared.name));
    let ValueType::Tensor { ty, .. } = value.dtype() else {
        return Err(failed(&format!("the model returns a {}, which is no tensor", value.dtype())));
    };
    match ty {
        TensorElementType::Float32 => copy::<f32>(value, allocate),
        TensorElementType::Float64 => copy::<f64>(value, allocate),
        TensorElementType::Int8 => copy::<i8>(value, allocate),
        TensorElementType::Int16 => copy::<i16>(value, allocate),
        TensorElementType::Int32 => copy::<i32>(value, allocate),
        TensorElementType::Int64 => copy::<i64>(value, allocate),
        TensorElementType::Uint8 => copy::<u8>(value, allocate),
        TensorElementType::Uint16 => copy::<u16>(value, allocate),
        TensorElementType::Uint32 => copy::<u32>(value, allocate),
        TensorElementType::Uint64 => copy::<u64>(value, allocate),
        TensorElementType::Bool => {
            let (shape, flags) = value.try_extract_tensor::<bool>().map_err(|error| failed(&error))?;
            write_output(allocate, &dimensions(shape)?, |elements: &mut [u8]| {
                elements.iter_mut().zip(flags).for_each(|(to, from)| *to = u8::from(*from));
                Ok(())
            })
        }
        TensorElementType::String => {
            let (shape, strings) = value.try_extract_strings().map_err(|error| failed(&error))?;
            Ok(StringTensor::new(strings, dimensions(shape)?)?.into())
        }
        element => Err(failed(&format!("the model returns {element}, which Carton's tensors do not have"))),
    }
}

fn copy<T: Element + PrimitiveTensorElementType>(
    value: &DynValue,
    allocate: Allocate<'_>,
) -> Result<Tensor, RunnerError> {
    let (shape, data) = value.try_extract_tensor::<T>().map_err(|error| run_error(&error))?;
    write_output(allocate, &dimensions(shape)?, |elements: &mut [T]| {
        if elements.len() != data.len() {
            return Err(RunnerError::new(format!("expected {} elements, found {}", elements.len(), data.len())));
        }
        elements.copy_from_slice(data);
        Ok(())
    })
}

fn dimensions(shape: &[i64]) -> Result<Vec<usize>, RunnerError> {
    shape
        .iter()
        .map(|&size| usize::try_from(size).map_err(|_| RunnerError::new(format!("a dimension of {size} elements"))))
        .collect()
}
