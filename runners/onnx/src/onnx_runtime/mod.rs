//! ONNX Runtime, loaded from its shared library when a model first needs it.

mod bound;
mod element;
mod empty_sequence;
mod input;
mod output;
mod providers;
mod value;

use std::any::Any;
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{DataType, NumericTensor, Tensor};
use ort::AsPointer;
use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use ort::sys::OrtValue;
use parking_lot::Mutex;

use self::bound::{Bindable, Bound};
use self::input::Input;
pub(crate) use self::providers::Choice as ProviderChoice;
use self::value::{Value, check};
use crate::model_file::GraphValue;
use crate::model_source::ModelSource;
use crate::operator_libraries::{self, OperatorLibrary};
use crate::options::ModelOptions;

/// Allocates an output: a new tensor with arbitrary contents.
pub(crate) type Allocate<'a> = &'a dyn Fn(DataType, &[usize]) -> Result<NumericTensor, RunnerError>;

/// An input of a call.
#[derive(Debug)]
pub(crate) enum Given<'a> {
    /// A tensor of the dtype that the model takes, or for a sequence a nested one.
    Tensor(Cow<'a, Tensor>),
    /// A map, as two tensors of one dimension.
    Map { keys: Tensor, values: Tensor },
}

/// An output that is to be computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requested<'a> {
    pub(crate) value: &'a GraphValue,
    /// Whether its strings are bytes to the caller.
    pub(crate) is_bytes: bool,
}

/// What a call returns for an output.
#[derive(Debug)]
pub(crate) enum Returned {
    /// The model returned no value for an optional output.
    Nothing,
    /// A tensor, or for a sequence a nested one.
    Tensor(Tensor),
    /// The values of a map as scalars, each with its key as text.
    Map(Vec<(String, Tensor)>),
}

/// The library, which is loaded once in a process and never unloaded.
static LIBRARY: OnceLock<Library> = OnceLock::new();
/// Held while the library is being loaded, so that two threads do not both try.
static LOADING: Mutex<()> = Mutex::new(());

/// A model loaded by ONNX Runtime.
///
/// Calls run one at a time: because of earlier races of the runtime inside concurrent runs of one session, the bindings
/// forbid them, and a session for each call would hold the weights as many times. Each call uses all threads of the
/// session.
pub(crate) struct OnnxRuntime {
    session: Mutex<Session>,
    bindable: Bindable,
    version: &'static str,
    /// The execution providers, as text to follow the version.
    providers: String,
}

/// The loaded library of ONNX Runtime.
pub(crate) struct Library {
    pub(crate) path: PathBuf,
    /// The version that the library reports.
    pub(crate) version: String,
    environment: Environment,
}

/// Loads the library at `path`, unless it is loaded already.
///
/// # Errors
/// The file is not a library, not ONNX Runtime, or too old; or another library is loaded already.
pub(crate) fn load_library(path: &Path) -> Result<&'static Library, RunnerError> {
    let _guard = LOADING.lock();
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

/// Returns the version that the library at `path` reports. The bindings have loaded the library and found it usable.
fn version_of(path: &Path) -> Result<String, RunnerError> {
    let failed = |error: libloading::Error| RunnerError::new(error.to_string());
    // SAFETY: the library is loaded already, so this runs no code of it and only increments its reference count.
    let library = unsafe { libloading::Library::new(path) }.map_err(failed)?;
    // SAFETY: the function of this name takes nothing and returns a static structure (onnxruntime_c_api.h).
    let base = unsafe { library.get::<unsafe extern "C" fn() -> *const ort::sys::OrtApiBase>(b"OrtGetApiBase\0") };
    // SAFETY: as above; the bindings have called both functions before, and checked that neither result is null.
    let version = unsafe { CStr::from_ptr(((*base.map_err(failed)?()).GetVersionString)()) };
    Ok(version.to_string_lossy().into_owned())
}

impl OnnxRuntime {
    /// Loads a model.
    ///
    /// # Errors
    /// ONNX Runtime refuses the model or a library of operators; or a device or an execution provider is missing (kind `Unavailable`).
    pub(crate) fn load(
        source: &ModelSource,
        options: &ModelOptions,
        device: Option<&str>,
        library: &'static Library,
        operators: &[OperatorLibrary],
    ) -> Result<Self, RunnerError> {
        let providers = providers::choose(options, device, &providers::available()?)?;
        let session = catch_panic("ONNX Runtime", || {
            let mut builder = session_builder(options, &providers, &library.environment)?;
            for operators in operators {
                builder = with_operators(builder, operators)?;
            }
            read_model(builder, source).map_err(|message| {
                let error = RunnerError::new(format!("ONNX Runtime cannot load `{}`: {message}", source.path));
                match source.file.foreign_domain().filter(|_| operators.is_empty()) {
                    Some(domain) => error.with_hint(how_to_name_libraries(domain)),
                    None => error,
                }
            })
        })?;
        Ok(Self {
            bindable: Bindable::of(&session, &source.file.outputs),
            session: Mutex::new(session),
            version: &library.version,
            providers: providers::in_words(&providers),
        })
    }
}

fn session_builder(
    options: &ModelOptions,
    providers: &[ProviderChoice],
    environment: &Environment,
) -> Result<SessionBuilder, RunnerError> {
    let failed = |error: &dyn std::fmt::Display| RunnerError::new(format!("ONNX Runtime: {error}"));
    let mut builder = Session::builder(environment).map_err(|error| failed(&error))?;
    if let Some(threads) = options.intra_op_threads {
        builder = builder.with_intra_threads(threads).map_err(|error| failed(&error))?;
    }
    if let Some(threads) = options.inter_op_threads {
        builder = builder.with_inter_threads(threads).map_err(|error| failed(&error))?;
        builder = builder.with_parallel_execution(threads > 1).map_err(|error| failed(&error))?;
    }
    for provider in providers {
        builder = provider.register(builder)?;
    }
    Ok(builder)
}

/// Registers the operators of a library.
fn with_operators(builder: SessionBuilder, library: &OperatorLibrary) -> Result<SessionBuilder, RunnerError> {
    operator_libraries::open(library)?;
    builder.with_operator_library(&library.path).map_err(|error| {
        RunnerError::new(format!("the library `{}` of operators cannot be used: {error}", library.name))
    })
}

/// The hint for a model with operators that are neither ONNX's nor ONNX Runtime's.
fn how_to_name_libraries(domain: &str) -> String {
    let library = match domain {
        "ai.onnx.contrib" | "com.microsoft.extensions" => "onnxruntime_extensions",
        _ => "libs/operators.so",
    };
    format!(
        "the model uses operators of the domain `{domain}`: name the library that has them in the option libraries, as in `libraries = \
         [\"{library}\"]`; it is a file of the model, or an installed Python package"
    )
}

fn read_model(mut builder: SessionBuilder, source: &ModelSource) -> Result<Session, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
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

impl OnnxRuntime {
    /// The runtime's version and the execution providers of the model, for people.
    pub(crate) fn description(&self) -> String {
        format!("ONNX Runtime {}{}", self.version, self.providers)
    }

    /// Runs the model. Inputs have the dtype that [`ElementType::carton`](crate::element_type::ElementType::carton)
    /// gives for their declaration, and so have outputs, which are returned in the requested order. Optional inputs may be left out.
    ///
    /// # Errors
    /// ONNX Runtime has no such input, or reports an error; or no tensor can hold an output.
    pub(crate) fn run(
        &self,
        inputs: &[(&GraphValue, Given<'_>)],
        outputs: &[Requested<'_>],
        allocate: Allocate<'_>,
    ) -> Result<Vec<Returned>, RunnerError> {
        catch_panic("ONNX Runtime", || {
            let values = inputs
                .iter()
                .map(|(declared, given)| Input::new(declared, given))
                .collect::<Result<Vec<Input<'_>>, _>>()?;
            let predicted: Vec<Option<Vec<usize>>> =
                outputs.iter().map(|output| self.bindable.predict(output.value, inputs)).collect();
            let names = Names::new(inputs.iter().map(|(declared, _)| *declared), outputs)?;
            let mut bound: Vec<Option<Bound>> = outputs
                .iter()
                .zip(&predicted)
                .map(|(output, shape)| self.bindable.allocate(output.value, shape.as_deref()?, allocate))
                .collect();
            if bound.iter().any(Option::is_some) {
                let result = self.run_bound(&names, &values, outputs, &mut bound, allocate);
                if let Some(tensors) = result? {
                    return Ok(tensors);
                }
            }
            let results = self.run_once(&names, &values, outputs.iter().map(|_| None).collect())?;
            let tensors = outputs
                .iter()
                .zip(&results)
                .map(|(declared, value)| output::read(declared, value, allocate))
                .collect::<Result<Vec<Returned>, _>>()?;
            for ((output, shape), returned) in outputs.iter().zip(predicted).zip(&tensors) {
                if let (Some(shape), Returned::Tensor(tensor)) = (shape, returned) {
                    self.bindable.learn(output.value, &shape, tensor.shape());
                }
            }
            Ok(tensors)
        })
    }

    /// Runs the model with outputs written straight into the memory in `bound`. Returns `None` if that fails: it is not tried
    /// again for the outputs concerned, and the caller has to run the model without bound outputs.
    fn run_bound(
        &self,
        names: &Names,
        inputs: &[Input<'_>],
        outputs: &[Requested<'_>],
        bound: &mut [Option<Bound>],
        allocate: Allocate<'_>,
    ) -> Result<Option<Vec<Returned>>, RunnerError> {
        let written = bound
            .iter_mut()
            .map(|bound| bound.as_mut().map(Bound::value).transpose())
            .collect::<Result<Vec<Option<Value<'_>>>, _>>()?;
        let is_bound: Vec<bool> = written.iter().map(Option::is_some).collect();
        let give_up = |which: &dyn Fn(usize) -> bool| {
            for (position, output) in outputs.iter().enumerate().filter(|(position, _)| which(*position)) {
                self.bindable.give_up(output.value);
                debug_assert!(position < outputs.len());
            }
        };
        // A shape other than the predicted one is an error, and so is any other failure. The run without bound outputs
        // distinguishes them.
        let Ok(results) = self.run_once(names, inputs, written) else {
            give_up(&|position| is_bound.get(position) == Some(&true));
            return Ok(None);
        };
        let mut tensors: Vec<Option<Returned>> = Vec::with_capacity(outputs.len());
        for ((output, value), is_bound) in outputs.iter().zip(results).zip(&is_bound) {
            // The values over memory of the pool are dropped here, before that memory is read.
            tensors.push(if *is_bound { None } else { Some(output::read(output, &value, allocate)?) });
        }
        let untouched: Vec<bool> = bound.iter().map(|bound| bound.as_ref().is_some_and(Bound::is_untouched)).collect();
        if untouched.contains(&true) {
            give_up(&|position| untouched.get(position) == Some(&true));
            return Ok(None);
        }
        let bound = bound.iter_mut().map(|bound| bound.take().map(|bound| Returned::Tensor(bound.tensor.into())));
        Ok(tensors.into_iter().zip(bound).map(|(tensor, bound)| tensor.or(bound)).collect())
    }

    /// Runs the model once and returns its outputs. Where `outputs` holds a value, the runtime writes into that value, and it is
    /// returned.
    fn run_once<'a>(
        &self,
        names: &Names,
        inputs: &[Input<'_>],
        outputs: Vec<Option<Value<'a>>>,
    ) -> Result<Vec<Value<'a>>, RunnerError> {
        let input_values: Vec<*const OrtValue> = inputs.iter().map(Input::as_ptr).collect();
        let (input_names, output_names) = (names.inputs(), names.outputs());
        let session = self.session.lock();
        run_session(&session, &input_names, &input_values, &output_names, outputs)
    }
}

/// Runs a session that no other thread runs. Where `outputs` holds a value, the runtime writes into that value, and it is returned.
fn run_session<'a>(
    session: &Session,
    input_names: &[*const c_char],
    input_values: &[*const OrtValue],
    output_names: &[*const c_char],
    outputs: Vec<Option<Value<'a>>>,
) -> Result<Vec<Value<'a>>, RunnerError> {
    if input_names.len() != input_values.len() || output_names.len() != outputs.len() {
        return Err(RunnerError::new("names and values do not match"));
    }
    let mut output_values: Vec<*mut OrtValue> =
        outputs.iter().map(|value| value.as_ref().map_or(ptr::null_mut(), Value::as_ptr)).collect();
    // SAFETY: the session lives, and no two runs of it happen at once, as in the bindings. Every pointer is to something that lives until the
    // call is over, and the arrays have the stated lengths. Values over our own memory hold as many bytes as their shapes need, which the
    // runtime checks when they are made.
    let status = unsafe {
        (ort::api().Run)(
            session.inner().ptr().cast_mut(),
            ptr::null(),
            input_names.as_ptr(),
            input_values.as_ptr(),
            input_values.len(),
            output_names.as_ptr(),
            output_names.len(),
            output_values.as_mut_ptr(),
        )
    };
    // Values that the run made are owned from here on, even if the run failed.
    let results: Vec<Result<Value<'a>, RunnerError>> = outputs
        .into_iter()
        .zip(output_values)
        .map(|(given, value)| match given {
            Some(given) => Ok(given),
            // SAFETY: the run made this value, or left it null.
            None => unsafe { Value::of_run(value) },
        })
        .collect();
    check(status)?;
    results.into_iter().collect()
}

/// The names of a run's inputs and outputs as C strings.
struct Names {
    inputs: Vec<CString>,
    outputs: Vec<CString>,
}

impl Names {
    fn new<'a>(inputs: impl Iterator<Item = &'a GraphValue>, outputs: &[Requested<'_>]) -> Result<Self, RunnerError> {
        let name = |value: &GraphValue| {
            CString::new(value.name.as_str())
                .map_err(|_| RunnerError::new(format!("`{}` holds a NUL character", value.name.escape_debug())))
        };
        Ok(Self {
            inputs: inputs.map(name).collect::<Result<_, _>>()?,
            outputs: outputs.iter().map(|output| name(output.value)).collect::<Result<_, _>>()?,
        })
    }

    fn inputs(&self) -> Vec<*const c_char> {
        self.inputs.iter().map(|name| name.as_ptr()).collect()
    }

    fn outputs(&self) -> Vec<*const c_char> {
        self.outputs.iter().map(|name| name.as_ptr()).collect()
    }
}

/// Runs `work`, and turns a panic of the bindings into an error of the call.
fn catch_panic<T>(what: &str, work: impl FnOnce() -> Result<T, RunnerError>) -> Result<T, RunnerError> {
    // The state that a later call could see is behind the runtime's C interface, and no panic changes it halfway.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        Err(RunnerError {
            causes: vec![panic_message(payload.as_ref())],
            ..RunnerError::new(format!("{what} panicked"))
        })
    })
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "for no stated reason".to_owned())
}
